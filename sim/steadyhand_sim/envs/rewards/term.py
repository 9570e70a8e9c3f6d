"""One term of a reward: an explicit function of (state, action, time) with its analytic gradient.

Functions are smooth wherever an episode can go: a gradient exists and can be checked by differences (`monitor`);
flags of the state (success, held) are taken as numbers between 0 and 1.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class Gradient:
    """Partial derivatives of a term's value."""

    state: np.ndarray  # (n,)
    action: np.ndarray  # (m,)
    time: float

    @staticmethod
    def zero(n_state: int, n_action: int) -> Gradient:
        """Of a constant."""
        return Gradient(np.zeros(n_state), np.zeros(n_action), 0.0)


class Function(Protocol):
    """Value and gradient; `state` (n,), `action` (m,), `time_s` since the episode's start."""

    def value(self, state: np.ndarray, action: np.ndarray, time_s: float) -> float: ...

    def gradient(self, state: np.ndarray, action: np.ndarray, time_s: float) -> Gradient: ...


@dataclass(frozen=True)
class Term:
    """How a function pays. `budget` is what the term can move an episode's return by, at most, in either direction.

    outcome    pays its value at each step; the environment's episode ends with the step at which it is not zero
    potential  pays the change of its value, so a closed way pays nothing and an episode pays end minus start
    cost       pays its value, at most 0, at each step; the budget is spread over the longest episode
    free       pays its value at each step, unbounded: for control arms that show what goes wrong, never for training
    """

    name: str
    kind: str
    function: Function
    budget: float


KINDS = ("outcome", "potential", "cost", "free")
