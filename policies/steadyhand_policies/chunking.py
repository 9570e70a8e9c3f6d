"""Overlapping chunks: the next one is asked for while the last is executed, so motion never waits for an inference.

A chunk of H steps answers the state at time 0; it arrives after a delay d, and its step k is due at (k + 1) periods.
So floor(d / period) steps are over on arrival, and the rest must last until the next chunk takes over, one period and
one more delay later. `bridges` says whether it does; d comes from the latency tracker.

At the hand-over the new chunk's step and the old chunk's step for the same moment ask for two velocities; their
difference is the *seam*. It is watched here, in units of the action; what the arm sees of it is bounded by the guard,
which hands over without a step in position, velocity or acceleration and refuses what breaks a limit.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError


@dataclass(frozen=True)
class ChunkConfig:
    """`votes` are the last columns of an action that are no motion. `seam_max`: beyond, a seam is counted as over."""

    period_s: float
    horizon: int
    votes: int = 1
    reserve_steps: int = 1  # kept in hand, for a reply that is slower than reckoned
    seam_max: float = 0.5  # of the action's range: 10 mm a period = 0.2 m/s in the Cartesian formulation

    def __post_init__(self) -> None:
        if not 0.002 <= self.period_s <= 1.0:
            raise ConfigError(f"chunk period_s = {self.period_s}: give 0.002 to 1 s")
        if not 1 <= self.horizon <= 1000:
            raise ConfigError(f"chunk horizon = {self.horizon}: give 1 to 1000 steps")
        if not 0 <= self.reserve_steps < self.horizon:
            raise ConfigError(f"chunk reserve_steps = {self.reserve_steps}: give 0 to {self.horizon - 1}")
        if not 0.0 < self.seam_max <= 2.0:
            raise ConfigError(f"chunk seam_max = {self.seam_max}: give above 0, at most 2")


def steps_over(delay_s: float, config: ChunkConfig) -> int:
    """Steps of a chunk that are over when it arrives `delay_s` after the state it answers; at most all."""
    if not delay_s > 0.0:
        return 0
    return config.horizon if math.isinf(delay_s) else min(config.horizon, int(delay_s / config.period_s + 1e-9))


def bridges(delay_s: float, config: ChunkConfig) -> bool:
    """Whether what is left of a chunk on arrival lasts until the next one takes over."""
    lasts_s = (config.horizon - config.reserve_steps) * config.period_s
    return delay_s + config.period_s <= lasts_s + 1e-9


@dataclass(frozen=True)
class Seam:
    """`step` is the largest difference of the two motions, `at` the step of the new chunk that takes over."""

    step: float
    at: int


class SeamWatch:
    """Measures the seam of each chunk against the one before. `asked_s`: when the state that it answers was taken."""

    def __init__(self, config: ChunkConfig) -> None:
        self.config = config
        self.largest, self.over, self.count = 0.0, 0, 0
        self._before: tuple[np.ndarray, float] | None = None

    def take(self, actions: np.ndarray, asked_s: float, delay_s: float) -> Seam | None:
        """The seam at which this chunk takes over `delay_s` after its state; None when the old one is over by then."""
        before, self._before = self._before, (actions, asked_s)
        if before is None:
            return None
        old, old_asked_s = before
        at = steps_over(delay_s, self.config)
        same = at + round((asked_s - old_asked_s) / self.config.period_s)  # the old chunk's step for that moment
        if at >= len(actions) or not at < same < len(old):
            return None
        motion = slice(0, actions.shape[1] - self.config.votes)
        step = float(np.abs(actions[at, motion] - old[same, motion]).max())
        self.count += 1
        self.over += step > self.config.seam_max
        self.largest = max(self.largest, step)
        return Seam(step, at)

    def clear(self) -> None:
        """A new motion begins: what comes is not compared with what was."""
        self._before = None
