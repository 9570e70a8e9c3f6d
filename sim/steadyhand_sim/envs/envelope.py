"""What the gate would say of a plan, where that can be told in a few dozen floating-point operations.

`SafetyGate.check_plan` costs a millisecond a plan, as much as everything else of a training step. Most plans of a
training run are plainly good: gentle, tool pointing down, inside the working volume, elbow up. The envelope certifies
such plans. Plans that leave the limits of velocity, acceleration or jerk are refused by the gate's own arithmetic on
the set-points that are there anyway. Whatever is neither goes to the gate itself. Both claims are tested
(tests/property/test_env_envelope.py): what is certified the gate admits, what is refused here it refuses.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from steadyhand import ur5
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.types import Reason

_A2, _A3 = float(ur5.DH_A_M[1]), float(ur5.DH_A_M[2])
_D1, _D4, _D5 = float(ur5.DH_D_M[0]), float(ur5.DH_D_M[3]), float(ur5.DH_D_M[4])
_D6 = float(ur5.DH_D_M[5]) + ur5.TOOL_LENGTH_M
_SLACK = 0.999  # of the limits: the gate's own rounding
_BEYOND = 1.001 / _SLACK
_ORDER = (Reason.VELOCITY, Reason.ACCELERATION, Reason.JERK)
_TAIL_ROWS = np.array([[0.5], [1.0]])


@dataclass(frozen=True)
class Envelope:
    """Posture region. Its freedom from collision does not follow from the numbers; a property test samples it."""

    x_m: tuple[float, float] = (0.28, 0.70)
    y_m: tuple[float, float] = (-0.33, 0.45)
    z_m: tuple[float, float] = (0.016, 0.45)  # 1 mm inside the gate's box: the path between set-points
    reach_m: tuple[float, float] = (0.32, 0.76)  # of the tool from the base's axis
    tilt_rad: float = 0.12
    shoulder_lift_rad: tuple[float, float] = (-2.6, -0.6)
    elbow_rad: tuple[float, float] = (0.5, 2.5)  # elbow up
    wrist_2_rad: tuple[float, float] = (-1.8, -1.35)
    turn_rad: float = 6.2  # any joint

    def holds(self, q_rad: np.ndarray) -> bool:
        """Whether every configuration (N, 6) lies inside."""
        x, y, z, down = tool_positions(q_rad)
        values = np.concatenate([np.array([x, y, z, np.hypot(x, y), down]), q_rad.T])
        low, high = self._bounds
        return bool((values.min(axis=1) >= low).all() and (values.max(axis=1) <= high).all())  # NaN is outside

    @cached_property
    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lowest and highest of x, y, z, reach, downward part of the tool axis, and the six joints."""
        turn = (-self.turn_rad, self.turn_rad)
        pairs = (
            self.x_m, self.y_m, self.z_m, self.reach_m, (np.cos(self.tilt_rad), np.inf), turn, self.shoulder_lift_rad,
            self.elbow_rad, turn, self.wrist_2_rad, turn,
        )  # fmt: skip
        return np.array(pairs).T


def tool_positions(q_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """x, y, z of the tool in `base_link` and how far it points down (1: straight down), each (N,), for (N, 6).

    The DH chain of `kinematics` multiplied out: joints 2 to 4 turn about parallel axes, so that in the vertical plane
    of the pan angle lie a radius and a height, and the wrist adds an offset across that plane.
    """
    a2 = q_rad[:, 1]
    a23 = a2 + q_rad[:, 2]
    angles = np.stack([q_rad[:, 0], a2, a23, a23 + q_rad[:, 3], q_rad[:, 4]])
    s1, s2, s23, s234, s5 = np.sin(angles)
    c1, c2, c23, c234, c5 = np.cos(angles)
    radius = _A2 * c2 + _A3 * c23 + _D5 * s234 - _D6 * s5 * c234
    across = _D4 + _D6 * c5
    down = s5 * s234
    height = _D1 + _A2 * s2 + _A3 * s23 - _D5 * c234 - _D6 * down
    return -(c1 * radius + s1 * across), c1 * across - s1 * radius, height, down


class Certificate:
    """Judges plans that `motion` makes: set-points and their differences, then straight on to rest."""

    def __init__(self, limits: Limits = UR5_LIMITS, envelope: Envelope = Envelope()) -> None:
        self._limits, self.envelope = limits, envelope
        self._bounds: dict[int, np.ndarray] = {}
        self._stop_rate = 1.0 / limits.stop_qdd_rad_s2
        self._stop_least_s = limits.stop_qdd_rad_s2 / limits.stop_qddd_rad_s3

    def refuses(self, differences: np.ndarray) -> str:
        """Why the gate refuses a plan for certain, by the (3 N, 6) differences of `covers`; empty when it may not."""
        n = len(differences) // 3
        over = np.abs(differences) > self._bound(n) * _BEYOND
        if not over.any():
            return ""
        row = int(over.any(axis=1).argmax())  # velocity before acceleration before jerk, as the gate looks at them
        return Reason.CONTINUITY.value if row % n == 0 else _ORDER[row // n].value

    def _bound(self, n: int) -> np.ndarray:
        """Limits of the differences of n set-points, with the slack."""
        bound = self._bounds.get(n)
        if bound is None:
            limits = self._limits
            bound = self._bounds[n] = _SLACK * np.repeat(
                [limits.qd_max_rad_s, limits.qdd_max_rad_s2, limits.qddd_max_rad_s3], n, axis=0
            )
        return bound

    def covers(self, q_rad: np.ndarray, differences: np.ndarray, q_end_rad: np.ndarray, qd_end_rad_s: np.ndarray,
               period_s: float) -> bool:  # fmt: skip
        """Whether the gate admits a plan for certain.

        `q_rad` (N, 6) set-points, `differences` (3 N, 6) their velocities, accelerations and jerks as the gate forms
        them; then the joints stop from `q_end_rad` and `qd_end_rad_s` (6,), which lie behind the last set-point and
        have no acceleration, on a straight line in joint space.
        """
        n = len(q_rad)
        if not (np.abs(differences) <= self._bound(n)).all():  # NaN is not covered
            return False
        # a jerk-limited stop takes v / a + a / j at most and v T / 2 of way, the slowest joint setting T for all
        stop_s = float((np.abs(qd_end_rad_s) * self._stop_rate + self._stop_least_s).max())
        if (n + 2) * period_s + stop_s > self._limits.max_stop_s:  # then running out is itself the admitted stop
            return False
        tail = q_end_rad + _TAIL_ROWS * (qd_end_rad_s * (stop_s / 2))
        return self.envelope.holds(np.concatenate([q_rad, tail]))
