"""Compares each term's analytic gradient with central differences and alarms when they disagree.

A gradient that is wrong by more than 15 % (the source documents' limit) is a term that does not do what its formula
says: a sign slipped in, a unit mistaken, a kink where an episode goes. The error is of a term's whole gradient with
respect to state, action or time, |numeric - analytic| over the greater of the two, where that is above `FLOOR`: a
vanishing gradient has no direction.
"""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from steadyhand_sim.envs.rewards.reward import Reward
from steadyhand_sim.envs.rewards.term import Term

LIMIT = 0.15
FLOOR = 1e-6
_STEP = 1e-5  # relative step of the differences; central differences err by its square


@dataclass(frozen=True)
class GradientAlarm:
    """One disagreement: term, with respect to what ("state", "action", "time"), and how large."""

    term: str
    variable: str
    error: float
    numeric: tuple[float, ...]
    analytic: tuple[float, ...]


@dataclass
class GradientMonitor:
    """`check` at states of an episode, all or every so many. `worst` holds the greatest error seen per term."""

    reward: Reward
    limit: float = LIMIT
    checked: int = 0
    worst: dict[str, float] = field(default_factory=dict)
    alarms: Counter = field(default_factory=Counter)

    def check(self, state: np.ndarray, action: np.ndarray, time_s: float) -> list[GradientAlarm]:
        """Alarms at this point."""
        state, action = np.asarray(state, dtype=float), np.asarray(action, dtype=float)
        found = []
        for term in self.reward.terms:
            for variable, numeric, analytic in _both(term, state, action, time_s):
                size = max(float(np.linalg.norm(numeric)), float(np.linalg.norm(analytic)))
                error = float(np.linalg.norm(numeric - analytic)) / size if size > FLOOR else 0.0
                if not (np.isfinite(numeric).all() and np.isfinite(analytic).all()):
                    error = np.inf
                self.worst[term.name] = max(self.worst.get(term.name, 0.0), error)
                if error > self.limit:
                    self.alarms[term.name] += 1
                    found.append(GradientAlarm(
                        term.name, variable, error, tuple(numeric.tolist()), tuple(analytic.tolist())
                    ))
        self.checked += 1
        return found


def _both(term: Term, state: np.ndarray, action: np.ndarray, time_s: float):
    """(variable, numeric, analytic) of a term, each gradient flat."""
    f, g = term.function, term.function.gradient(state, action, time_s)
    yield "state", _differences(lambda x: f.value(x, action, time_s), state), np.asarray(g.state, dtype=float)
    yield "action", _differences(lambda x: f.value(state, x, time_s), action), np.asarray(g.action, dtype=float)
    time = _differences(lambda x: f.value(state, action, float(x[0])), np.array([time_s]))
    yield "time", time, np.array([float(g.time)])


def _differences(function, at: np.ndarray) -> np.ndarray:
    """Central differences of a function of (n,) at a point."""
    gradient = np.empty(len(at))
    for i in range(len(at)):
        step = _STEP * max(1.0, abs(float(at[i])))
        above, below = at.copy(), at.copy()
        above[i] += step
        below[i] -= step
        gradient[i] = (function(above) - function(below)) / (above[i] - below[i])
    return gradient
