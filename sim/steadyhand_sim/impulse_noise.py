"""Impulse noise of the simulated sensors, coupled to steps of the motor currents. Off unless asked for, from a seed.

At each control step a joint's chance to disturb a channel is its current's step over the running mean of its steps,
over `every_steps`: switching motors disturb, and on average each channel of a moving joint is hit once in
`every_steps` steps of motion. A joint whose current stands still disturbs nothing. Channels that belong to no joint are
driven by the mean of all. An impulse is one reading's, normal with `sigmas` times the channel's `sigma`, its ordinary
change between readings.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.impulse_channels import CHANNELS

STEP_MIN_A = 0.01  # a smaller step is none: currents of an arm at rest
MEAN_STEPS = 500  # time constant of the running mean, in steps of motion


@dataclass(frozen=True)
class ImpulseNoiseConfig:
    """How often and how hard."""

    sigmas: float = described(5.0, "standard deviation of an impulse, in the channel's sigma; 0: none", "", 0.0, 1000.0)
    every_steps: float = described(100.0, "control steps from one impulse of a channel to the next, on average", "",
                                   1.0, 1e6)

    def __post_init__(self) -> None:
        check_ranges(self)


class ImpulseNoise:
    """`sigma` (6 k + m,): k groups of one channel per joint, then m channels that belong to none."""

    def __init__(self, sigma: np.ndarray, seed: int, config: ImpulseNoiseConfig = ImpulseNoiseConfig()):
        self.config = config
        self._sigma = np.asarray(sigma, dtype=float)
        if self._sigma.ndim != 1 or not (np.isfinite(self._sigma) & (self._sigma >= 0)).all():
            raise ConfigError(f"sigma = {sigma}: give finite numbers of 0 or more, one per channel")
        self._rng = np.random.default_rng([seed, 11])
        self._last_a: np.ndarray | None = None
        self._mean_a, self._steps = np.zeros(ur5.DOF), np.zeros(ur5.DOF)

    @staticmethod
    def of_joints(seed: int, config: ImpulseNoiseConfig = ImpulseNoiseConfig()) -> ImpulseNoise:
        """For the joints' positions (6) and velocities (6), with the sigma of a real UR5's."""
        return ImpulseNoise(np.concatenate([CHANNELS[k].noise_std for k in ("position", "velocity")]), seed, config)

    def draw(self, current_a: np.ndarray) -> np.ndarray:
        """What to add to the channels' readings of this control step; `current_a`: motor currents (6,)."""
        current_a = np.array(current_a, dtype=float)
        step_a = np.abs(current_a - (current_a if self._last_a is None else self._last_a))
        self._last_a = current_a
        moves = step_a >= STEP_MIN_A
        self._steps += moves
        # the plain mean at first, so that the start is no burst
        weight = moves / np.clip(self._steps, 1, MEAN_STEPS)
        self._mean_a += weight * (step_a - self._mean_a)
        chance = np.where(moves, step_a / np.maximum(self._mean_a, STEP_MIN_A), 0.0) / self.config.every_steps
        groups, rest = divmod(len(self._sigma), ur5.DOF)
        chance = np.concatenate([np.tile(chance, groups), np.full(rest, chance.mean())])
        hit = self._rng.random(len(self._sigma)) < chance
        return hit * self.config.sigmas * self._sigma * self._rng.standard_normal(len(self._sigma))
