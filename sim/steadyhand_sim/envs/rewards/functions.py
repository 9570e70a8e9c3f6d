"""Smooth, bounded functions that rewards are made of, each with its analytic gradient. Shapes: `term.Function`."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand_sim.envs.rewards.term import Gradient


@dataclass(frozen=True)
class Linear:
    """`weight` times one element of the state."""

    index: int
    weight: float

    def value(self, state, action, time_s) -> float:
        return self.weight * float(state[self.index])

    def gradient(self, state, action, time_s) -> Gradient:
        g = Gradient.zero(len(state), len(action))
        g.state[self.index] = self.weight
        return g


@dataclass(frozen=True)
class Near:
    """weight / (1 + sum (x_i / scale_i)^2): 1 at the origin of some elements, falling with the distance from it."""

    indices: tuple[int, ...]
    scales: tuple[float, ...]
    weight: float

    def _q(self, state) -> float:
        return 1.0 + sum((float(state[i]) / s) ** 2 for i, s in zip(self.indices, self.scales))

    def value(self, state, action, time_s) -> float:
        return self.weight / self._q(state)

    def gradient(self, state, action, time_s) -> Gradient:
        g, q = Gradient.zero(len(state), len(action)), self._q(state)
        for i, s in zip(self.indices, self.scales):
            g.state[i] = -2.0 * self.weight * float(state[i]) / s**2 / q**2
        return g


@dataclass(frozen=True)
class Reached:
    """weight * flag * tanh(x / scale)^2: grows with an element while a flag of the state is set."""

    index: int
    scale: float
    flag: int
    weight: float

    def value(self, state, action, time_s) -> float:
        return self.weight * float(state[self.flag]) * math.tanh(float(state[self.index]) / self.scale) ** 2

    def gradient(self, state, action, time_s) -> Gradient:
        g = Gradient.zero(len(state), len(action))
        t = math.tanh(float(state[self.index]) / self.scale)
        g.state[self.index] = self.weight * float(state[self.flag]) * 2.0 * t * (1.0 - t * t) / self.scale
        g.state[self.flag] = self.weight * t * t
        return g


@dataclass(frozen=True)
class Saturating:
    """-weight * x^2 / (x^2 + scale^2): a cost of one element that cannot exceed `weight`."""

    index: int
    scale: float
    weight: float

    def value(self, state, action, time_s) -> float:
        x2 = float(state[self.index]) ** 2
        return -self.weight * x2 / (x2 + self.scale**2)

    def gradient(self, state, action, time_s) -> Gradient:
        g, x = Gradient.zero(len(state), len(action)), float(state[self.index])
        g.state[self.index] = -self.weight * 2.0 * x * self.scale**2 / (x * x + self.scale**2) ** 2
        return g


@dataclass(frozen=True)
class Effort:
    """-weight * mean of the squared actions, the last `omit` elements (votes) left out. At most `weight` in [-1, 1]."""

    weight: float
    omit: int = 0

    def value(self, state, action, time_s) -> float:
        motion = np.asarray(action[: len(action) - self.omit], dtype=float)
        return -self.weight * min(1.0, float(motion @ motion) / len(motion))

    def gradient(self, state, action, time_s) -> Gradient:
        g, count = Gradient.zero(len(state), len(action)), len(action) - self.omit
        motion = np.asarray(action[:count], dtype=float)
        if motion @ motion < count:
            g.action[:count] = -2.0 * self.weight * motion / count
        return g


@dataclass(frozen=True)
class Haste:
    """-weight * t / limit: as a potential, it costs `weight` over an episode that runs to its limit."""

    weight: float
    limit_s: float

    def value(self, state, action, time_s) -> float:
        return -self.weight * time_s / self.limit_s

    def gradient(self, state, action, time_s) -> Gradient:
        g = Gradient.zero(len(state), len(action))
        return Gradient(g.state, g.action, -self.weight / self.limit_s)


@dataclass(frozen=True)
class Distance:
    """-weight * sqrt(sum x_i^2 + eps^2): the plain error of some elements, unbounded (for control arms)."""

    indices: tuple[int, ...]
    weight: float
    eps: float = 1e-3

    def _length(self, state) -> float:
        return math.sqrt(sum(float(state[i]) ** 2 for i in self.indices) + self.eps**2)

    def value(self, state, action, time_s) -> float:
        return -self.weight * self._length(state)

    def gradient(self, state, action, time_s) -> Gradient:
        g, length = Gradient.zero(len(state), len(action)), self._length(state)
        for i in self.indices:
            g.state[i] = -self.weight * float(state[i]) / length
        return g


@dataclass(frozen=True)
class Square:
    """-weight * x^2 of one element, unbounded (for control arms)."""

    index: int
    weight: float

    def value(self, state, action, time_s) -> float:
        return -self.weight * float(state[self.index]) ** 2

    def gradient(self, state, action, time_s) -> Gradient:
        g = Gradient.zero(len(state), len(action))
        g.state[self.index] = -2.0 * self.weight * float(state[self.index])
        return g
