"""A small analytic environment for tests of training: a point mass that has to stop at a target in the plane.

Bit-exact from its seed like the real ones, a few microseconds a step, and hard enough that a clone of few
demonstrations fails now and then. `Test/Reach-v0` registers itself; the demonstrator is `expert`.
"""
from __future__ import annotations

import gymnasium
import numpy as np

ID = "tests.support.reach:Test/Reach-v0"
STEP, DRAG, NEAR, SLOW, HOLD, LIMIT = 0.08, 0.9, 0.06, 0.06, 3, 40


class ReachEnv(gymnasium.Env):
    """Observation: position (2), velocity (2), target (2), m and m a step. Action: acceleration (2) in [-1, 1]."""

    metadata = {"render_modes": []}
    observation_names = ("x", "y", "vx", "vy", "target_x", "target_y")
    action_names = ("ax", "ay")
    rate_hz = 20.0

    def __init__(self, formulation: str | None = None) -> None:
        self.formulation, self.plant = formulation, 1.0
        self.observation_space = gymnasium.spaces.Box(-10.0, 10.0, (6,), np.float32)
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._x, self._v = self.np_random.uniform(-1, 1, 2), np.zeros(2)
        self._target, self._steps, self._held = self.np_random.uniform(-1, 1, 2), 0, 0
        if options and "plant" in options:  # kept from then on, as the arm's environments do
            self.plant = float(options["plant"])
        return self._observe(), {}

    def step(self, action):
        before = self._potential()
        self._v = DRAG * self._v + self.plant * STEP * np.asarray(action, float)
        self._x = self._x + self._v + 0.002 * self.np_random.standard_normal(2)
        self._steps += 1
        there = np.linalg.norm(self._x - self._target) < NEAR and np.linalg.norm(self._v) < SLOW
        self._held = self._held + 1 if there else 0
        success = self._held >= HOLD
        reward = 0.98 * self._potential() - before + 5.0 * success
        truncated = not success and self._steps >= LIMIT
        info = {"success": bool(success), "failure": "time" if truncated else ""}
        return self._observe(), float(reward), bool(success), truncated, info

    def _potential(self) -> float:
        return -float(np.tanh(np.linalg.norm(self._x - self._target)))

    def _observe(self) -> np.ndarray:
        return np.concatenate([self._x, self._v, self._target]).astype(np.float32)


class _Expert:
    def act(self, observation, info) -> np.ndarray:
        error, velocity = observation[4:6] - observation[0:2], observation[2:4]
        return np.clip((0.25 * error - 0.9 * velocity) / STEP, -1.0, 1.0).astype(np.float32)


def expert(env_id: str, formulation: str = ""):
    """A damped spring towards the target."""
    return _Expert()


if "Test/Reach-v0" not in gymnasium.registry:
    gymnasium.register("Test/Reach-v0", entry_point="tests.support.reach:ReachEnv")
