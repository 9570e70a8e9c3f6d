"""What goes out follows the chunk that was accepted: the right joints, at the right time (I9).

Between two way-points the guard's path may differ from the straight line by what a uniform cubic B-spline differs from
its control polygon: (1/6 + 1/8) of the second difference. Hand-over and tail are left out, and one period of time is
allowed: a set-point is planned for the grid, and a cycle may be late.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steadyhand.guard_protocol import Chunk

STRIDE = 8  # every so many set-points one is compared
HAND_OVER_S = 0.2
BEND = 1 / 6 + 1 / 8
SLACK_RAD = 1e-3


class Followed:
    """`accepted` a chunk, then `add` set-points by their sequence numbers; `cut` when nothing is followed any more."""

    def __init__(self, period_s: float, report: Callable[[str, float, str], None]):
        self.period_s, self._report = period_s, report
        self.cut()

    def cut(self) -> None:
        """A stop, or an arming: no chunk is being followed."""
        self._chunk: Chunk | None = None

    def accepted(self, chunk: Chunk, next_seq: int, next_s: float) -> None:
        """From the set-point `next_seq` on, due at `next_s`, `chunk` (finite, well shaped) is followed."""
        self._chunk, self._q = chunk, np.asarray(chunk.q_rad, dtype=float)
        self._first_seq, self._first_s = next_seq, next_s - chunk.state_stamp_s
        self._bend = np.zeros_like(self._q)
        self._bend[1:-1] = np.abs(np.diff(self._q, 2, axis=0))

    def add(self, first_seq: int, times_s: np.ndarray, q_rad: np.ndarray) -> None:
        """Set-points (n, 6) with sequence numbers from `first_seq`, sent at (n,) times."""
        if self._chunk is None:
            return
        rows = np.arange(-first_seq % STRIDE, len(q_rad), STRIDE)
        at_s = self._first_s + self.period_s * (first_seq + rows - self._first_seq)
        h, count = self._chunk.period_s, len(self._q)
        inside = (at_s >= self._first_s + HAND_OVER_S) & (at_s >= 2 * h) & (at_s <= count * h)
        if not inside.any():
            return
        rows, place = rows[inside], at_s[inside] / h - 1.0
        i = np.minimum(place.astype(int), count - 2)
        step = self._q[i + 1] - self._q[i]
        off = np.abs(self._q[i] + (place - i)[:, None] * step - q_rad[rows])
        bend = np.maximum(self._bend[i], self._bend[i + 1])
        over = ~(off <= BEND * bend + np.abs(step) * (self.period_s / h) + SLACK_RAD)
        if over.any():
            k, joint = np.argwhere(over)[0]
            detail = f"joint {joint} is {off[k, joint]:.4f} rad off the accepted chunk {self._chunk.trace_id}"
            self._report("I9", float(times_s[rows[k]]), detail)
