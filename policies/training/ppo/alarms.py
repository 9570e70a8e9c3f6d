"""What no sane update shows, as data: who sees it decides nothing.

- entropy: the learned deviation fell far below its ceiling; the policy stopped trying (collapse).
- spread: the mean action hardly depends on the state any more (the freezing policy).
- divergence: one update moved the policy further than KL `kl_max`.
- not_finite: a loss or a weight is NaN or infinite.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from policies.training.config import AlarmsConfig


@dataclass(frozen=True)
class Vitals:
    """Of one update: entropy per action element and what the ceiling allows (nats), KL, spread of the mean action as a
    share of the cloned actor's, and whether every loss and weight is finite."""

    entropy: float
    entropy_ceiling: float
    kl: float
    spread: float
    finite: bool


@dataclass(frozen=True)
class Alarm:
    """What was seen, and what would have been in order."""

    name: str
    value: float
    limit: float

    def __str__(self) -> str:
        return f"{self.name}: {self.value:.4g}, limit {self.limit:.4g}"


def alarms(vitals: Vitals, config: AlarmsConfig) -> list[Alarm]:
    """Every alarm of one update. A value that is no number is out of order, whatever the limit."""
    if not vitals.finite:
        return [Alarm("not_finite", math.nan, math.nan)]
    lowest = vitals.entropy_ceiling - config.entropy_drop_nats
    found = []
    if not vitals.entropy >= lowest:
        found.append(Alarm("entropy", vitals.entropy, lowest))
    if not vitals.kl <= config.kl_max:
        found.append(Alarm("divergence", vitals.kl, config.kl_max))
    if not vitals.spread >= config.spread_min:
        found.append(Alarm("spread", vitals.spread, config.spread_min))
    return found


@dataclass(frozen=True)
class Watch:
    """For how many updates in a row each alarm has stood."""

    standing: tuple[tuple[str, int], ...] = ()

    def after(self, found: list[Alarm]) -> Watch:
        """One update later."""
        before = dict(self.standing)
        return Watch(tuple(sorted((a.name, before.get(a.name, 0) + 1) for a in found)))

    def due(self, patience: int) -> str:
        """The alarm that has stood too long, or "". What is not finite has no patience."""
        for name, count in self.standing:
            if name == "not_finite" or count >= patience:
                return name
        return ""
