"""Where the commander wants the arm: a chain of minimum-jerk moves through configurations of the cell's workspace."""
from __future__ import annotations

import functools
import random
from collections.abc import Callable

import numpy as np

from steadyhand import cell, kinematics
from steadyhand.limits import UR5_LIMITS
from steadyhand_cli.dst.body import depth_m
from steadyhand_cli.dst.cell import ZONE_M

SPREAD_RAD = np.array([0.7, 0.35, 0.4, 0.5, 0.4, 0.9])
MARGIN_M = 0.05
OVER_SHARE, OVER_M, CLEAR_M = 0.08, 0.05, 0.1  # of goals over the vehicle's place; how deep; how far from it others
PEAK_VELOCITY, PEAK_ACCELERATION = 1.875, 5.774  # of a minimum-jerk move of unit length and time


@functools.lru_cache(maxsize=1)
def pool() -> np.ndarray:
    """(n, 6) configurations with the tool well within its box. The same in every run."""
    rng = np.random.default_rng(20240)
    q = cell.HOME_Q_RAD + rng.uniform(-1, 1, (1500, 6)) * SPREAD_RAD
    tool = kinematics.pose_base_link_tool(q)[:, :3, 3]
    low, high = UR5_LIMITS.tool_min_m + MARGIN_M, UR5_LIMITS.tool_max_m - MARGIN_M
    low[2] = 0.15  # the wrist needs room over the table
    return q[((tool > low) & (tool < high)).all(axis=1)]


@functools.lru_cache(maxsize=1)
def over_and_clear() -> tuple[np.ndarray, np.ndarray]:
    """Of the pool, those well in the place that arm and vehicle share, and those well out of it."""
    q = pool()
    depth = depth_m(q, ZONE_M)
    return q[depth > OVER_M], q[depth < -CLEAR_M]


Goal = Callable[[random.Random], np.ndarray]


def anywhere(rng: random.Random) -> np.ndarray:
    """A goal of the pool."""
    goals = pool()
    return goals[rng.randrange(len(goals))]


def over_vehicle(rng: random.Random) -> np.ndarray:
    """A goal in the place that arm and vehicle share."""
    goals = over_and_clear()[0]
    return goals[rng.randrange(len(goals))]


def clear_of_vehicle(rng: random.Random) -> np.ndarray:
    """A goal out of it."""
    goals = over_and_clear()[1]
    return goals[rng.randrange(len(goals))]


def beside_vehicle(rng: random.Random) -> np.ndarray:
    """Now and then over it."""
    return (over_vehicle if rng.random() < OVER_SHARE else clear_of_vehicle)(rng)


@functools.lru_cache(maxsize=1)
def low_over_tray() -> np.ndarray:
    """(6,), the tool pointing down low over the tray: the product's agent backs off upwards from there, then home."""
    centre = cell.TRAY.centre_m
    return kinematics.ik_near(kinematics.tool_down(centre[0], centre[1], 0.09, 0.0), cell.HOME_Q_RAD)


class Path:
    """Defined for all times from `start_s`; extends itself as far as it is asked for."""

    def __init__(
        self, start_s: float, q_rad: np.ndarray, qd_rad_s: np.ndarray, rng: random.Random, top_rad_s: float,
        goal_rad: np.ndarray | None = None, goal: Goal = anywhere,
    ):
        """From a commanded state on, from one `goal` to the next; to `goal_rad` and no further, when that is given."""
        self._rng, self._top, self.goal_rad, self._goal = rng, top_rad_s, goal_rad, goal
        self._moves: list[tuple[float, float, np.ndarray, np.ndarray, np.ndarray]] = []  # start, duration, q0, v0, q1
        self._extend(start_s, np.asarray(q_rad, dtype=float), np.asarray(qd_rad_s, dtype=float))

    def _extend(self, start_s: float, q0: np.ndarray, v0: np.ndarray) -> None:
        q1 = self._goal(self._rng) if self.goal_rad is None else self.goal_rad
        if self._top < 0.2:  # slow modes go a little way only
            q1 = q0 + 0.1 * (q1 - q0)
        speed = self._top * self._rng.uniform(0.4, 1.0)
        distance = float(np.abs(q1 - q0).max())
        duration_s = max(PEAK_VELOCITY * distance / speed, (PEAK_ACCELERATION * distance / 4.0) ** 0.5, 0.5)
        duration_s = max(duration_s, float(np.abs(v0).max()))
        self._moves.append((start_s, duration_s, q0, v0 * duration_s, q1))

    def waypoints(self, stamp_s: float, count: int, period_s: float) -> np.ndarray:
        """(count, 6) at stamp_s + (k + 1) period_s."""
        times_s = stamp_s + period_s * np.arange(1, count + 1)
        while self._moves[-1][0] + self._moves[-1][1] < times_s[-1]:
            start_s, duration_s, _, _, q1 = self._moves[-1]
            self._extend(start_s + duration_s, q1, np.zeros(6))
        while len(self._moves) > 1 and self._moves[1][0] < stamp_s:
            del self._moves[0]
        out = np.empty((count, 6))
        for start_s, duration_s, q0, v, q1 in self._moves:
            rows = times_s >= start_s
            s = np.clip((times_s[rows] - start_s) / duration_s, 0.0, 1.0)[:, None]
            d = q1 - q0
            out[rows] = q0 + s * (v + s * s * (10 * d - 6 * v + s * (8 * v - 15 * d + s * (6 * d - 3 * v))))
        return out
