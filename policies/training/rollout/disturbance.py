"""The disturbance of a demonstrator's executed actions: so that going back to its way is demonstrated too."""
from __future__ import annotations

import numpy as np

from policies.training.config import DisturbanceConfig


class Disturbance:
    """Of one episode; `step` gives what is added to an action, of that shape."""

    def __init__(self, config: DisturbanceConfig, seed: int) -> None:
        self._config, self._rng = config, np.random.default_rng([seed, 7])
        self._noise: np.ndarray | float = 0.0
        self._height: np.ndarray | float = 0.0
        self._left = 0  # steps of the push under way

    def step(self, shape: tuple[int, ...]) -> np.ndarray | float:
        """One step's, in action units."""
        c, rng = self._config, self._rng
        if c.noise > 0:
            self._noise = c.hold * self._noise + np.sqrt(1 - c.hold**2) * c.noise * rng.standard_normal(shape)
        if c.push > 0 and self._left == 0 and rng.random() < c.push_chance:
            self._height, self._left = c.push * rng.standard_normal(shape), c.push_steps
        if self._left == 0:
            return self._noise
        risen = np.sin(np.pi * (self._left - 0.5) / c.push_steps)
        self._left -= 1
        return self._noise + risen * self._height
