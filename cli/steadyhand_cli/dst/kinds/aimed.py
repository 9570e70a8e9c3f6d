"""Senders who see everything and aim at one rule: the arm against itself, more jerk than allowed."""
from __future__ import annotations

import functools
import random
from dataclasses import replace

import numpy as np

from steadyhand import cell, ur5
from steadyhand.guard_protocol import Chunk, State
from steadyhand.interpolator import PlanRefused, build_plan
from steadyhand.plan import Published
from steadyhand.types import JointChunk
from steadyhand_cli.dst import body, setpoints
from steadyhand_cli.dst.actors import LONG, LONG_PERIOD_S
from steadyhand_cli.dst.paths import PEAK_ACCELERATION, PEAK_VELOCITY
from steadyhand_cli.dst.world import World

SPREAD_RAD = np.array([0.6, 0.9, 1.2, 2.4, 2.4, 1.0])
FAST_RAD_S, GENTLE_RAD_S2 = 2.2, 5.0
TRIES, SHAKEN, SHAKEN_PERIOD_S = 120, 8, 0.02


def _in_box(q_rad: np.ndarray) -> np.ndarray:
    tool = setpoints.tool_position_m(q_rad)
    return ((tool > setpoints.TOOL_MIN_M + 0.01) & (tool < setpoints.TOOL_MAX_M - 0.01)).all(axis=1)


@functools.lru_cache(maxsize=1)
def _folded() -> np.ndarray:
    """(n, 6) within the tool's box, the arm inside itself. The same in every run."""
    rng = np.random.default_rng(4)
    q = cell.HOME_Q_RAD + rng.uniform(-1, 1, (20000, 6)) * SPREAD_RAD
    q = q[_in_box(q) & (np.abs(q) < setpoints.Q_MAX_RAD - 0.1).all(axis=1)]
    return q[[bool(limbs) for limbs in body.overlap(q)]][:400]


def into_itself(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    """To where the arm overlaps itself, the tool in its box all the way, and nobody sends anything else meanwhile."""
    s = np.linspace(0.0, 1.0, LONG)[:, None]
    q0, qd0 = np.array(world.host.states[-1].q_commanded_rad), np.array(world.host.states[-1].qd_commanded_rad_s)
    for goal in rng.sample(list(_folded()), 24):
        distance = np.abs(goal - q0).max()
        duration_s = max(PEAK_VELOCITY * distance / FAST_RAD_S, (PEAK_ACCELERATION * distance / GENTLE_RAD_S2) ** 0.5)
        period_s = min(max(duration_s / LONG, SHAKEN_PERIOD_S), LONG_PERIOD_S)
        coast = qd0 * period_s * LONG * s * (1 - s) ** 3 * (1 + 3 * s)
        q = q0 + s**3 * (10 - 15 * s + 6 * s * s) * (goal - q0) + coast
        if _in_box(q).all():
            break
    world.agent.path = None
    world.agent.wake_at(world.clock.now_s + period_s * LONG + 0.3)
    return replace(chunk, q_rad=q.tolist(), period_s=period_s)


def shaken(chunk: Chunk, world: World, rng: random.Random) -> Chunk:
    """Three strokes of one joint: more jerk than allowed, less than twice that, and every other limit kept."""
    guard, state, period_s = world.host.guard, world.host.states[-1], world.clock.period_s
    base = world.agent.path.waypoints(state.stamp_s, SHAKEN, SHAKEN_PERIOD_S)
    q, greatest = base, 0.0
    for _ in range(TRIES if guard.motion.plan is not None else 0):
        tried, j, first = base.copy(), rng.randrange(ur5.DOF), rng.randint(1, SHAKEN - 4)
        strokes = np.zeros(SHAKEN)
        strokes[first: first + 3] = np.array([1, -1, 1]) * [rng.uniform(1.0, 1.5) for _ in range(3)]
        tried[:, j] += rng.choice([-1, 1]) * setpoints.QDD_MAX[j] * SHAKEN_PERIOD_S**2 * strokes.cumsum().cumsum()
        shares = _shares(world, state, tried, period_s)
        if shares is not None and max(shares[:2]) < 1.0 and greatest < shares[2] < 2.0:
            q, greatest = tried, shares[2]
    return replace(chunk, q_rad=q.tolist(), period_s=SHAKEN_PERIOD_S)


def _shares(world: World, state: State, q_rad: np.ndarray, period_s: float) -> list[float] | None:
    """Greatest speed, acceleration and jerk of the plan that this chunk would become, as shares of the limits."""
    motion = world.host.guard.motion
    chunk = JointChunk(
        state.token, state.seq, state.stamp_s, "", "planner", ur5.JOINT_NAMES, SHAKEN_PERIOD_S, q_rad
    )
    answered = Published(state.stamp_s, np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s))
    try:
        plan = build_plan(chunk, world.host._next_cycle_s, motion.plan, motion.index, answered=answered)
    except PlanRefused:
        return None
    values, shares = np.concatenate([plan.history_rad, plan.q_rad]), []
    for limit in (setpoints.QD_MAX, setpoints.QDD_MAX, setpoints.QDDD_MAX):
        values = np.diff(values, axis=0) / period_s
        shares.append(float((np.abs(values) / limit).max()))
    return shares
