"""Why a vehicle freezes: a lane, a place where people cross, and a learner that sees them imperfectly.

The smallest decision process that has the trap. The vehicle stands before the crossing and may wait or go; a person
comes and goes there; the scanner misses a person now and then. With R for arriving and -C for a collision, going when
the lane looks free pays if p < R / (R + C), p being the chance that somebody is there unseen. The +10/-50 of the source
documents asks for p < 1/6, which a scanner that misses one person in four does not reach: the best that a learner can
do is to stand for ever, and so it learns. With R = 1 and C = 1/2 (`tasks.HIT`) going pays up to p = 2/3: the learner
waits while it sees somebody and goes when the lane looks free. Collisions are then the business of what prevents them
(protective field, guard, scanner), which a reward cannot buy.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError

WAIT, GO = 0, 1
DISCOUNT, LEAST_RATE = 0.9, 0.02


@dataclass(frozen=True)
class Crossing:
    """`cells` before the crossing (the last one is where it is entered), chances per step."""

    cells: int = 4
    comes: float = 0.15
    leaves: float = 0.15
    seen: float = 0.75  # a person who is there is seen
    ghost: float = 0.02  # one is seen who is not there
    max_steps: int = 25
    arrival: float = 10.0
    collision: float = -50.0

    def __post_init__(self) -> None:
        for name in ("comes", "leaves", "seen", "ghost"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"crossing {name}={getattr(self, name)}: give 0 to 1")
        if self.cells < 1 or self.max_steps < 1 or not self.collision <= 0.0 < self.arrival:
            raise ConfigError(f"crossing {self}: give cells and steps of 1 or more, collision <= 0 < arrival")

    @property
    def unseen_share(self) -> float:
        """Chance that a person is there when none is seen, in the long run."""
        there = self.comes / (self.comes + self.leaves)
        missed = there * (1.0 - self.seen)
        return missed / (missed + (1.0 - there) * (1.0 - self.ghost))

    @property
    def going_pays(self) -> float:
        """Expected reward of entering a lane that looks free; standing for ever pays 0."""
        p = self.unseen_share
        return (1.0 - p) * self.arrival + p * self.collision


@dataclass(frozen=True)
class Outcome:
    """Shares of test episodes."""

    arrived: float
    hit: float
    frozen: float


def learn(crossing: Crossing, seed: int, episodes: int = 2000, explore: float = 0.3) -> np.ndarray:
    """Tabular Q-learning (Watkins 1989) with falling exploration; values (cells, 2, 2) of cell, seen, action."""
    rng, q = np.random.default_rng(seed), np.zeros((crossing.cells, 2, 2))
    visits = np.zeros_like(q)
    for episode in range(episodes):
        chance = explore * (1.0 - episode / episodes)

        def act(cell: int, seen: int, chance: float = chance) -> int:
            return int(rng.integers(2)) if rng.random() < chance else int(np.argmax(q[cell, seen]))

        for cell, seen, action, reward, after in _episode(crossing, rng, act):
            best, at = 0.0 if after is None else q[after].max(), (cell, seen, action)
            visits[at] += 1
            q[at] += max(LEAST_RATE, 1.0 / visits[at]) * (reward + DISCOUNT * best - q[at])
    return q


def evaluate(crossing: Crossing, q: np.ndarray, seed: int, episodes: int = 1000) -> Outcome:
    """The greedy policy of learned values."""
    rng, counts = np.random.default_rng([seed, 1]), {"arrived": 0, "hit": 0}
    for _ in range(episodes):
        for *_, reward, _ in _episode(crossing, rng, lambda cell, seen: int(np.argmax(q[cell, seen]))):
            pass
        counts["arrived"] += reward > 0.0
        counts["hit"] += reward < 0.0
    arrived, hit = counts["arrived"] / episodes, counts["hit"] / episodes
    return Outcome(arrived, hit, 1.0 - arrived - hit)


def _episode(c: Crossing, rng: np.random.Generator, act):
    """(cell, seen, action, reward, (cell, seen) after or None at the end) of each step."""

    def look() -> int:
        return int(rng.random() < (c.seen if there else c.ghost))

    there = rng.random() < c.comes / (c.comes + c.leaves)
    cell, seen = 0, look()
    for step in range(c.max_steps):
        action = act(cell, seen)
        enters = action == GO and cell == c.cells - 1
        reward = 0.0 if not enters else c.collision if there else c.arrival
        there = (rng.random() >= c.leaves) if there else (rng.random() < c.comes)
        after = cell + (action == GO)
        before, seen_before = cell, seen
        if enters or step == c.max_steps - 1:
            yield before, seen_before, action, reward, None
            return
        cell, seen = after, look()
        yield before, seen_before, action, reward, (cell, seen)
