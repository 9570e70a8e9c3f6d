"""Many episodes at once in command space: the commanded tool alone, without physics, for coverage.

The observation depends on commanded motion, so this costs microseconds a step where the full environment costs ten
milliseconds. Fingers close to the cube's width when asked; nothing can be knocked over. Demonstrations and evaluation
use the full environment; this only shows the learner more states, its own included (DAgger), all labelled by the
demonstrator.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, skills
from steadyhand.policy_io import OBSERVATION_DIM, PERIOD_S, STEP_M, STEP_YAW_RAD

_FINGER_STEP_M = 0.15 * PERIOD_S  # closing speed of the gripper
_STEPS = 150


@dataclass(frozen=True)
class Visit:
    """What a batch of episodes saw."""

    observations: np.ndarray  # (M, D) float32
    done: np.ndarray  # (N,) picked, placed and retreated


def run(act: Callable[[np.ndarray], np.ndarray], n: int, noise: float, seed: int) -> Visit:
    """`n` episodes driven by `act`: (N, D) -> (N, HORIZON, ACTION_DIM), disturbed by `noise` in action units."""
    rng = np.random.default_rng(seed)
    low, high = np.array([cell.TRAY.x_min_m, cell.TRAY.y_min_m]), np.array([cell.TRAY.x_max_m, cell.TRAY.y_max_m])
    cube = np.column_stack([rng.uniform(low + 0.03, high - 0.03, (n, 2)), np.full(n, cell.CUBE_SIZE_M / 2)])
    release = np.column_stack([cell.BOX.centre_m + rng.uniform(-0.09, 0.09, (n, 2)), np.full(n, skills.RELEASE_Z_M)])
    tool = rng.uniform((0.34, -0.22, 0.16), (0.62, 0.36, 0.36), (n, 3))
    yaw_error = rng.uniform(-np.pi / 4, np.pi / 4, n)
    velocity, yaw_rate = np.zeros((n, 3)), np.zeros(n)
    width, closed, pick = np.full(n, cell.GRIPPER_PREGRASP_M), np.zeros(n), np.ones(n)
    hand_over_m, amplitude = rng.uniform(0.10, 0.15, n), noise * rng.random((n, 1))
    done, seen = np.zeros(n, dtype=bool), []
    for _ in range(_STEPS):
        target = np.where(pick[:, None] > 0, cube, release)
        error = target - tool
        o = np.column_stack([
            error, np.sin(4 * yaw_error), np.cos(4 * yaw_error), velocity, yaw_rate, tool[:, 2], width, closed,
            pick, 1 - pick,
        ]).astype(np.float32)
        seen.append(o[~done])
        actions = np.asarray(act(o), dtype=float)
        vote, speed = actions[:, 0, 4], np.linalg.norm(velocity, axis=1)
        lateral, height = np.hypot(error[:, 0], error[:, 1]), np.abs(error[:, 2])
        slow = speed <= skills.SLOW_M_S
        close = (pick > 0) & (vote > 0) & (lateral <= skills.CLOSE_XY_M) & (height <= skills.CLOSE_Z_M) & slow
        let_go = (pick < 1) & (vote < 0) & (lateral <= skills.OPEN_XY_M) & (height <= skills.OPEN_Z_M) & slow
        closed = np.where(close, 1.0, np.where(let_go, 0.0, closed))
        width = np.where(closed > 0, np.maximum(width - _FINGER_STEP_M, 0.0398),
                         np.minimum(width + _FINGER_STEP_M, cell.GRIPPER_PREGRASP_M))
        step = actions[:, :2, :4] + amplitude[:, None] * rng.standard_normal((n, 1, 4))
        tool, yaw_error = tool + step[:, 0, :3] * STEP_M, yaw_error - step[:, 0, 3] * STEP_YAW_RAD
        velocity = step[:, :, :3].mean(axis=1) * STEP_M / PERIOD_S
        yaw_rate = step[:, :, 3].mean(axis=1) * STEP_YAW_RAD / PERIOD_S
        held = (pick > 0) & (closed > 0) & (width < skills.GRASP_WIDTH_MAX_M)
        lifted = held & (tool[:, 2] - cube[:, 2] >= hand_over_m)
        pick = np.where(lifted, 0.0, pick)
        yaw_error = np.where(lifted, rng.uniform(-np.pi / 4, np.pi / 4, n), yaw_error)
        done |= (pick < 1) & (closed < 1) & (tool[:, 2] >= skills.RETREAT_Z_M)
    observations = np.concatenate(seen)
    assert observations.shape[1] == OBSERVATION_DIM
    return Visit(observations, done)
