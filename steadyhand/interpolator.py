"""Way-points at the policy's rate -> a committed plan at the control period: spline, hand-over, stop tail.

Three fixed linear filters of the path, and no clamp; what comes out is judged by the gate:
1. *Uniform cubic B-spline* with the way-points as control points (de Boor 1978). C2, no overshoot; its velocity and
   acceleration are convex combinations of the way-points' first and second differences. It passes a way-point at
   (q[k-1] + 4 q[k] + q[k+1]) / 6, that is period^2 * acceleration / 6 away (0.4 mm at 1 m/s2 and 50 ms). Before the
   first way-point stands the commanded state that the chunk answers; behind the last one the polygon goes on straight,
   so that it is met exactly.
2. *Hand-over* from the plan under way within `blend_s`: the new path minus a quintic that starts as the difference of
   the two in position, velocity and acceleration and ends with all three zero (quintic Hermite basis). So commanded
   velocity and acceleration never step, and the new path's shape is kept. (Fading from old to new positions by a
   smoothstep instead has to catch up what was missed: from standstill it needs 2.8 times the path's own acceleration,
   this 1.4 to 1.9 times.)
3. *Stop tail* behind the last way-point: jerk-limited to rest (ruckig).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steadyhand import ur5
from steadyhand.braking import stop_tail
from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.plan import Plan, Published
from steadyhand.types import JointChunk, Reason, RobotState

# Rows: weights of four control points for 1, u, u^2, u^3.
_BASIS = np.array([[1, 4, 1, 0], [-3, 0, 3, 0], [3, -6, 3, 0], [-1, 3, -3, 1]]) / 6.0


class PlanRefused(SteadyhandError):
    """No plan can be made of a chunk; `reason` and `detail` are those of the verdict."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason.value}: {detail}")
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class InterpolatorConfig:
    """`period_s` is the control period, `blend_s` the window in which a new plan takes over."""

    period_s: float = ur5.SERVO_PERIOD_CB3_S
    blend_s: float = 0.176  # longer ones ring with the tilt correction of `policy_io` (unstable from 0.24 s)

    def __post_init__(self) -> None:
        if not 0.0005 <= self.period_s <= 0.02:
            raise ConfigError(f"interpolator.period_s={self.period_s!r}: give 0.0005 to 0.02 s")
        if not 4 * self.period_s <= self.blend_s <= 1.0:
            raise ConfigError(f"interpolator.blend_s={self.blend_s!r}: give 4 control periods to 1 s")


def build_plan(
    chunk: JointChunk,
    next_setpoint_s: float,
    current: Plan,
    next_index: int,
    limits: Limits = UR5_LIMITS,
    config: InterpolatorConfig = InterpolatorConfig(),
    answered: Published | RobotState | None = None,
) -> Plan:
    """The plan that a chunk asks for, its set-point 0 due at `next_setpoint_s` in place of `current[next_index]`.

    Way-points in the past shape the spline but are not returned to. `current` is the plan under way, or
    `plan.hold_plan` at standstill; `answered` the published state that the chunk answers (without it the polygon
    of way-points is taken to come in straight). The chunk must be finite and well shaped (`SafetyGate.check_chunk`).
    Raises PlanRefused when every way-point is past, or when the chunk ends faster than a joint may move.
    """
    start_s = next_setpoint_s - chunk.state_stamp_s  # of set-point 0, on the chunk's own time axis
    end_s = len(chunk.q_rad) * chunk.period_s
    if end_s <= start_s:
        raise PlanRefused(Reason.EXPIRED, f"last way-point was due {start_s - end_s:.3f} s ago")
    controls = _control_points(chunk, answered)
    if not np.isfinite(controls).all():
        raise PlanRefused(Reason.NOT_FINITE, "way-points or the commanded state they answer")
    end = tuple(x[0] for x in _spline(controls, chunk.period_s, np.array([end_s])))
    fast = np.abs(end[1]) > limits.qd_max_rad_s
    if fast.any():
        j = int(np.argmax(fast))
        detail = f"{ur5.JOINT_NAMES[j]} {end[1][j]:.3f} rad/s at the last way-point, limit {limits.qd_max_rad_s[j]:.3f}"
        raise PlanRefused(Reason.VELOCITY, detail)
    # row 0 is one period before set-point 0: where the new path wants the robot to be now
    now_s = start_s - config.period_s
    times_s = now_s + config.period_s * np.arange(int(np.ceil((end_s - now_s) / config.period_s - 1e-9)))
    first_s = now_s + config.period_s * len(times_s) - end_s  # of the first sample of the tail, behind the spline
    tail = stop_tail(*end, limits, config.period_s, first_s)
    path = [np.concatenate(pair) for pair in zip(_spline(controls, chunk.period_s, times_s), tail)]

    before = current.state_before(next_index)
    if not np.isfinite(before).all():
        raise PlanRefused(Reason.NOT_FINITE, "the plan under way")
    basis = _hand_over(config.blend_s, config.period_s)
    gap = np.stack([wanted[0] - commanded for wanted, commanded in zip(path, before)])
    count = max(len(path[0]) - 1, basis.shape[1])
    q, qd, qdd = (_extend(x[1:], count, hold=order == 0) for order, x in enumerate(path))
    for order, values in enumerate((q, qd, qdd)):
        values[: basis.shape[1]] -= basis[order] @ gap
    return Plan(
        period_s=config.period_s,
        start_s=next_setpoint_s,
        q_rad=q,
        qd_rad_s=qd,
        qdd_rad_s2=qdd,
        history_rad=current.history_at(next_index),
        qd_before_rad_s=before[1].copy(),
        qdd_before_rad_s2=before[2].copy(),
        trace_id=chunk.trace_id,
        source=chunk.source,
        state_seq=chunk.state_seq,
    )


def _control_points(chunk: JointChunk, answered: Published | RobotState | None) -> np.ndarray:
    """(N + 3, 6): row k belongs to time (k - 1) * period behind the state's stamp."""
    q = np.asarray(chunk.q_rad, dtype=float)
    first = q[1] - q[0] if len(q) > 1 else np.zeros_like(q[0])
    start, step = q[0] - first, first
    if answered is not None:
        start, step = answered.q_commanded_rad, answered.qd_commanded_rad_s * chunk.period_s
    last = q[-1] - (q[-2] if len(q) > 1 else start)
    return np.vstack([start - step, start, q, q[-1] + last])


def _spline(controls: np.ndarray, h: float, times_s: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, qd, qdd) at times in [0, (len(controls) - 3) * h]."""
    segment = np.clip(np.floor(times_s / h + 1e-9).astype(int), 0, len(controls) - 4)
    u = (times_s / h - segment)[:, None]
    c = np.einsum("ij,njd->ind", _BASIS, controls[segment[:, None] + np.arange(4)])
    return (
        c[0] + u * (c[1] + u * (c[2] + u * c[3])),
        (c[1] + u * (2 * c[2] + u * 3 * c[3])) / h,
        (2 * c[2] + u * 6 * c[3]) / h**2,
    )


@lru_cache(maxsize=8)
def _hand_over(blend_s: float, period_s: float) -> np.ndarray:
    """(3, K, 3): [order of derivative, cycle 1..K, initial difference of q, qd, qdd], zero at cycle K."""
    count = int(np.ceil(blend_s / period_s))
    length = count * period_s
    # the quintics with unit value, slope or curvature at 0 and nothing at 1
    polynomials = [
        np.polynomial.Polynomial([1, 0, 0, -10, 15, -6]),
        np.polynomial.Polynomial([0, 1, 0, -6, 8, -3]) * length,
        np.polynomial.Polynomial([0, 0, 0.5, -1.5, 1.5, -0.5]) * length**2,
    ]
    u = np.arange(1, count + 1) / count
    out = np.stack([np.stack([p.deriv(n)(u) / length**n for p in polynomials], axis=1) for n in range(3)])
    out[:, -1] = 0.0  # exactly
    return out


def _extend(values: np.ndarray, count: int, hold: bool) -> np.ndarray:
    """A copy with at least `count` rows; missing ones repeat the last (`hold`) or are zero."""
    missing = max(0, count - len(values))
    fill = values[-1:] if hold else np.zeros_like(values[-1:])
    return np.concatenate([values, np.repeat(fill, missing, axis=0)])
