"""Joint states of somebody else's driver: by name into the order of the arm, on the guard's clock, or refused. Pure.

A message is taken whole or not at all; what is refused is counted by reason, and the newest reason is kept in words.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LOOSE_Q_RAD = 2 * math.pi + 0.1  # beyond it the joints are most likely in degrees
NEW_SESSION_S = 1.0  # after so long without one, a stamp from before is a driver that was started anew
CLOCK_DRIFT = 6e-4  # of the driver's clock against ours; a clock that is being set slews at most 500 ppm


@dataclass(frozen=True)
class JointSample:
    """One `sensor_msgs/JointState` as it came. `arrival_s` is our monotonic clock, `stamp_s` the driver's."""

    arrival_s: float
    stamp_s: float
    names: Sequence[str]
    position: Sequence[float]
    velocity: Sequence[float]


@dataclass(frozen=True)
class JointReading:
    """Measured joints (6,) in the arm's order. `measured_s` is when, on our clock; `stamp_s` the driver's own."""

    measured_s: float
    stamp_s: float
    q_rad: np.ndarray
    qd_rad_s: np.ndarray


class JointReader:
    """Reads samples one after the other.

    Two clocks are mapped by the least delay seen, so a message that was held up counts as old as it is, not as fresh as
    its arrival. A delay that never varies cannot be told from an offset of the clocks.
    """

    def __init__(self, joint_names: Sequence[str]):
        self._wanted = tuple(joint_names)
        self.refused: dict[str, int] = {}
        self.why = ""  # of the last refusal, for people
        self._offset_s = math.inf
        self._last: JointReading | None = None
        self._arrival_s = -math.inf

    def take(self, sample: JointSample) -> JointReading | None:
        """The reading, or None when the sample is refused or belongs to other joints."""
        names = list(sample.names)
        absent = [n for n in self._wanted if n not in names]
        if len(absent) == len(self._wanted):
            return self._refuse("other_joints", f"no joint of this arm among {names[:3]}; wanted {self._wanted[0]} ...")
        if absent:
            return self._refuse("incomplete", f"{absent[0]} is missing")
        if len(set(names)) != len(names):
            return self._refuse("repeated", "a joint is named twice")
        if len(sample.position) != len(names) or len(sample.velocity) != len(names):
            given = f"{len(names)} names, {len(sample.position)} positions, {len(sample.velocity)} velocities"
            return self._refuse("lengths", given)
        order = [names.index(n) for n in self._wanted]
        q_rad = np.array([sample.position[i] for i in order], dtype=float)
        qd_rad_s = np.array([sample.velocity[i] for i in order], dtype=float)
        if not (np.isfinite(q_rad).all() and np.isfinite(qd_rad_s).all()):
            return self._refuse("not_finite", "a position or velocity is not a number")
        if np.abs(q_rad).max() > LOOSE_Q_RAD:
            return self._refuse("range", f"a position of {np.abs(q_rad).max():.1f}, wanted radians")
        return self._stamped(sample, q_rad, qd_rad_s)

    def _stamped(self, sample: JointSample, q_rad: np.ndarray, qd_rad_s: np.ndarray) -> JointReading | None:
        if not math.isfinite(sample.stamp_s) or sample.stamp_s <= 0.0:
            return self._refuse("unstamped", f"stamp {sample.stamp_s!r}")
        since_s = sample.arrival_s - self._arrival_s
        if since_s > NEW_SESSION_S:
            self._last, self._offset_s = None, math.inf
        elif sample.stamp_s <= self._last.stamp_s:
            return self._refuse("out_of_order", "its stamp is not newer than the one before")
        delay_s = sample.arrival_s - sample.stamp_s
        self._offset_s = min(delay_s, self._offset_s + CLOCK_DRIFT * min(since_s, NEW_SESSION_S))
        self._arrival_s = sample.arrival_s
        measured_s = min(sample.arrival_s, sample.stamp_s + self._offset_s)
        self._last = JointReading(measured_s, sample.stamp_s, q_rad, qd_rad_s)
        return self._last

    def _refuse(self, reason: str, why: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1
        if reason != "other_joints" or not self.why:
            self.why = why
        return None
