"""A reward: named terms, what they may add up to, and what each paid at a step."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_sim.envs.rewards.term import KINDS, Term

PROCESS_SHARE = 0.1  # of success, all process terms together, over any episode


class Reward:
    """`reset` with the first state, then `step` after each one.

    Outcome terms pay for what the episode achieved. Process terms (potential, cost) help on the way; together they
    can move an episode's return by a tenth of the success at most, so nothing but success is worth a success. Raises
    ConfigError when budgets say otherwise, unless the reward is `unbounded`, a control arm.
    """

    def __init__(
        self, name: str, state_names: Sequence[str], terms: Sequence[Term], max_steps: int, unbounded: bool = False
    ) -> None:
        self.name, self.state_names, self.terms = name, tuple(state_names), tuple(terms)
        self.max_steps, self.unbounded = max_steps, unbounded
        for term in self.terms:
            if term.kind not in KINDS:
                raise ConfigError(f"reward {name}: term {term.name!r} has kind {term.kind!r}; give one of {KINDS}")
            if term.kind == "free" and not unbounded:
                raise ConfigError(f"reward {name}: term {term.name!r} is unbounded; only control arms may have such")
        if len({t.name for t in self.terms}) != len(self.terms):
            raise ConfigError(f"reward {name}: two terms of one name")
        if not unbounded and not self.process_bound <= PROCESS_SHARE * self.success_value + 1e-12:
            raise ConfigError(
                f"reward {name}: process terms may add up to {self.process_bound:g}, at most "
                f"{PROCESS_SHARE * self.success_value:g} (a tenth of the success) is allowed"
            )
        self._before: dict[str, float] = {}

    @property
    def success_value(self) -> float:
        """What a success pays."""
        return sum(t.budget for t in self.terms if t.kind == "outcome" and t.budget > 0.0)

    @property
    def process_bound(self) -> float:
        """What the process terms can add up to over any episode, in absolute value."""
        return sum(t.budget for t in self.terms if t.kind in ("potential", "cost"))

    def reset(self, state: np.ndarray) -> None:
        """The episode begins here."""
        nothing = np.zeros(1)
        self._before = {
            t.name: t.function.value(state, nothing, 0.0) for t in self.terms if t.kind == "potential"
        }  # potentials are of state and time: no action has been taken yet

    def step(self, state: np.ndarray, action: np.ndarray, time_s: float) -> tuple[float, dict[str, float]]:
        """Reward of the step that led to `state` (n,) by `action` (m,) at `time_s`, and what each term paid."""
        paid = {}
        for term in self.terms:
            value = term.function.value(state, action, time_s)
            if term.kind == "potential":
                paid[term.name], self._before[term.name] = value - self._before[term.name], value
            elif term.kind == "cost":
                paid[term.name] = value / self.max_steps
            else:
                paid[term.name] = value
        return sum(paid.values()), paid

    def process_paid(self, paid: dict[str, float]) -> float:
        """The process terms' share of what a step paid."""
        return sum(paid[t.name] for t in self.terms if t.kind in ("potential", "cost"))
