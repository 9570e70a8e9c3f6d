"""A committed plan: set-points at the control period that start right after the last commanded one and end at rest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

HISTORY = 3  # set-points before the first: a third difference (jerk) needs three


@dataclass(frozen=True)
class Plan:
    """Set-point i is sent at `start_s + i * period_s`; after the last one, which is at rest, the pose is held."""

    period_s: float
    start_s: float
    q_rad: np.ndarray  # (N, 6)
    qd_rad_s: np.ndarray  # (N, 6)
    qdd_rad_s2: np.ndarray  # (N, 6)
    history_rad: np.ndarray  # (3, 6) the set-points commanded before set-point 0
    qd_before_rad_s: np.ndarray  # (6,) at the last of them
    qdd_before_rad_s2: np.ndarray  # (6,)
    trace_id: str = ""
    source: str = ""
    state_seq: int = -1

    def __post_init__(self) -> None:
        for name in ("q_rad", "qd_rad_s", "qdd_rad_s2", "history_rad", "qd_before_rad_s", "qdd_before_rad_s2"):
            getattr(self, name).setflags(write=False)

    def __len__(self) -> int:
        return len(self.q_rad)

    def setpoint(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(q, qd, qdd) of set-point `index` >= 0; past the end the pose is held."""
        i = min(index, len(self) - 1)
        return self.q_rad[i], self.qd_rad_s[i], self.qdd_rad_s2[i]

    def left_s(self, index: int) -> float:
        """Time from set-point `index` to the plan's rest."""
        return max(0, len(self) - 1 - index) * self.period_s

    def history_at(self, index: int) -> np.ndarray:
        """The (3, 6) set-points that precede set-point `index`."""
        rows = np.minimum(np.arange(index, index + HISTORY), HISTORY + len(self) - 1)
        return np.concatenate([self.history_rad, self.q_rad])[rows]

    def state_before(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(q, qd, qdd) of the set-point sent last when `index` is next."""
        if index > 0:
            return self.setpoint(index - 1)
        return self.history_rad[-1], self.qd_before_rad_s, self.qdd_before_rad_s2

    def rest_of(self, index: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(q, qd, qdd), each (count, 6), from set-point `index` on, the end held."""
        rows = np.minimum(np.arange(index, index + count), len(self) - 1)
        return self.q_rad[rows], self.qd_rad_s[rows], self.qdd_rad_s2[rows]


@dataclass(frozen=True)
class Published:
    """What a published state said about the commanded motion: what a chunk that answers it starts from."""

    stamp_s: float
    q_commanded_rad: np.ndarray  # (6,)
    qd_commanded_rad_s: np.ndarray  # (6,)


def hold_plan(q_rad: np.ndarray, period_s: float, start_s: float, trace_id: str = "") -> Plan:
    """The plan of standing at `q_rad` (6,): what is in force after arming and what every motion starts from."""
    q = np.asarray(q_rad, dtype=float)
    rest, still = np.zeros((1, q.size)), np.zeros(q.size)
    history = np.repeat(q[None], HISTORY, axis=0)
    return Plan(period_s, start_s, q[None].copy(), rest, rest.copy(), history, still, still.copy(), trace_id, "hold")
