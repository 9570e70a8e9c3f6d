"""Set-points as they go out, by themselves: finite, range, speed, acceleration, jerk, tool box, not into itself.

Numbers are copies of docs/limits.md, not of the gate's objects; the forward kinematics is written out here again.
"""
from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from steadyhand_cli.dst.body import A_M, ALPHA, D_M, TOOL_M, overlap

Q_MAX_RAD = np.array([2 * math.pi, 2 * math.pi, math.pi, 2 * math.pi, 2 * math.pi, 2 * math.pi])
QD_MAX = np.full(6, math.pi)
QDD_MAX = np.array([8.0, 8.0, 10.0, 16.0, 16.0, 16.0])
QDDD_MAX = np.array([1000.0, 1000.0, 1250.0, 2000.0, 2000.0, 2000.0])
TOOL_MIN_M, TOOL_MAX_M = np.array([0.15, -0.55, 0.015]), np.array([0.85, 0.60, 0.80])
SLACK = 1e-6  # of rounding: a difference of third order divides rounding errors by the cube of the period
TOOL_STRIDE, BODY_STRIDE = 8, 3  # set-points between two whose tool is looked at; of those, between two bodies
STOPPED = ("STOPPED", "REST_UNKNOWN")
RECOVERING_RAD_S = 0.1


def _limits(qd_max: np.ndarray) -> tuple[tuple[str, np.ndarray], ...]:
    named = ("velocity", qd_max), ("acceleration", QDD_MAX), ("jerk", QDDD_MAX)
    return tuple((name, limit * (1 + SLACK)) for name, limit in named)


LIMITS, SLOW_LIMITS = _limits(QD_MAX), _limits(np.full(6, RECOVERING_RAD_S))
_ALL = np.concatenate([Q_MAX_RAD, *(limit for _, limit in LIMITS)])


def tool_position_m(q_rad: np.ndarray) -> np.ndarray:
    """(n, 3) in base_link of (n, 6): Denavit-Hartenberg, from the tool back to the base."""
    n = len(q_rad)
    x, y, z = np.zeros(n), np.zeros(n), np.full(n, TOOL_M)
    for j in range(5, -1, -1):
        c, s = np.cos(q_rad[:, j]), np.sin(q_rad[:, j])
        if ALPHA[j]:  # Rx(+-90 deg)
            y, z = -ALPHA[j] * z, ALPHA[j] * y
        x = x + A_M[j]
        x, y = c * x - s * y, s * x + c * y
        z = z + D_M[j]
    return np.stack([-x, -y, z], axis=1)  # the controller's base is half a turn away


class SetpointChecker:
    """`add` one set-point per cycle, `cut` where the stream of them is interrupted."""

    def __init__(self, period_s: float, report: Callable[[str, float, str], None]):
        self.period_s, self._report = period_s, report
        self.moving = 0  # set-points, armed, of more than 0.01 rad/s: robot hours are counted in these
        self.cut()

    def cut(self) -> None:
        """The stream of set-points is interrupted: nothing is known about what comes next."""
        self._q = self._v = self._a = None  # the newest, as far as known
        self._until_tool = self._until_body = 0
        self.speed_rad_s = self.speed_sum_rad_s = 0.0

    def rest_at(self, q_rad: np.ndarray) -> None:
        """The next set-point continues standing at (6,)."""
        self._q, self._v, self._a = q_rad, np.zeros(6), np.zeros(6)

    @property
    def speed_known(self) -> bool:
        """Whether the newest set-point followed another."""
        return self._v is not None

    def add(self, now_s: float, q_rad: np.ndarray, mode: str) -> None:
        """One set-point (6,): `add_block` of one, at a third of its cost when all is well."""
        if self._a is None or self._until_tool == 0 or mode == "RECOVERING":
            return self.add_block(np.array([now_s]), q_rad[None], mode)
        v = (q_rad - self._q) / self.period_s
        a = (v - self._v) / self.period_s
        size = np.abs(np.concatenate((q_rad, v, a, (a - self._a) / self.period_s)))
        if not (size <= _ALL).all():  # a comparison with NaN is false
            return self.add_block(np.array([now_s]), q_rad[None], mode)
        self._q, self._v, self._a = q_rad, v, a
        self._until_tool -= 1
        self._note(size[None, 6:12], mode)
        return None

    def add_block(self, times_s: np.ndarray, q_rad: np.ndarray, mode: str) -> None:
        """Set-points (n, 6) of consecutive cycles."""
        if not np.isfinite(q_rad).all():
            return self._report("I4", float(times_s[0]), "a set-point is not finite")
        outside = np.abs(q_rad) > Q_MAX_RAD
        if mode != "RECOVERING" and outside.any():
            i = int(outside.any(axis=1).argmax())
            self._report("I4", float(times_s[i]), "a set-point is outside the joints' range")
        v = self._difference(self._q, q_rad)
        a = self._difference(self._v, v)
        j = self._difference(self._a, a)
        for (name, limit), values in zip(SLOW_LIMITS if mode == "RECOVERING" else LIMITS, (v, a, j)):
            over = np.abs(values) > limit
            if over.any():
                i, joint = np.argwhere(over)[0]
                detail = f"{name} of joint {joint}: {values[i, joint]:.2f}, limit {limit[joint]:.6g}"
                self._report("I4", float(times_s[i - len(values)]), detail)
        self._q, self._v, self._a = q_rad[-1], _last(v), _last(a)
        if mode != "RECOVERING":
            self._tool(times_s, q_rad)
        self._note(np.abs(v) if len(v) else np.zeros((1, 6)), mode)
        return None

    def _difference(self, last: np.ndarray | None, values: np.ndarray) -> np.ndarray:
        """Per second, of values that follow `last`; one fewer when that is not known."""
        before = values[:-1] if last is None else np.concatenate([last[None], values[:-1]])
        return (values[len(values) - len(before):] - before) / self.period_s

    def _note(self, speeds: np.ndarray, mode: str) -> None:
        greatest = speeds.max(axis=1)
        if mode not in STOPPED:
            self.moving += int((greatest > 0.01).sum())
        self.speed_rad_s, self.speed_sum_rad_s = float(greatest[-1]), float(speeds[-1].sum())

    def _tool(self, times_s: np.ndarray, q_rad: np.ndarray) -> None:
        if self._until_tool < len(q_rad):
            rows = np.arange(self._until_tool, len(q_rad), TOOL_STRIDE)
            self._until_tool = int(rows[-1]) + TOOL_STRIDE - len(q_rad)
            tool = tool_position_m(q_rad[rows])
            outside = ((tool < TOOL_MIN_M - 1e-9) | (tool > TOOL_MAX_M + 1e-9)).any(axis=1)
            if outside.any():
                i = int(outside.argmax())
                where = np.round(tool[i], 3).tolist()
                self._report("I4", float(times_s[rows[i]]), f"the tool is at {where} m, outside its box")
            looks, rows = len(rows), rows[self._until_body:: BODY_STRIDE]
            self._until_body = (self._until_body - looks) % BODY_STRIDE
            limbs = overlap(q_rad[rows])
            if any(limbs):
                i = next(i for i, found in enumerate(limbs) if found)
                self._report("I4", float(times_s[rows[i]]), f"{limbs[i]} overlap")
        else:
            self._until_tool -= len(q_rad)


def _last(rows: np.ndarray) -> np.ndarray | None:
    return rows[-1] if len(rows) else None
