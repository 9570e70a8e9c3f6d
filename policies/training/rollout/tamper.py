"""Tampered observations. A policy that does as well with them has not been reading them: its score leaks from elsewhere
(a fixed scene, an environment that helps). Success must fall with every one of these."""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from policies.training.rollout.actor import Actor

Tamper = Callable[[np.ndarray], np.ndarray]
DELAY_STEPS = 20


def _shuffled(actor: Actor, rng: np.random.Generator) -> Tamper:
    """The elements of the vector change places, the same way through an episode."""
    order = rng.permutation(len(actor.mean))
    return lambda o: o[order]


def _mirrored(actor: Actor, rng: np.random.Generator) -> Tamper:
    """Every element lies on the other side of its mean."""
    return lambda o: 2 * actor.mean - o


def _noisy(actor: Actor, rng: np.random.Generator) -> Tamper:
    """Noise as large as the whole variation that the demonstrations showed."""
    return lambda o: (o + actor.std * rng.standard_normal(len(o))).astype(np.float32)


def _frozen(actor: Actor, rng: np.random.Generator) -> Tamper:
    """The first observation of the episode for ever."""
    seen: list[np.ndarray] = []

    def tamper(o: np.ndarray) -> np.ndarray:
        seen.append(o)
        return seen[0]

    return tamper


def _delayed(actor: Actor, rng: np.random.Generator) -> Tamper:
    """What was true `DELAY_STEPS` ago."""
    seen: list[np.ndarray] = []

    def tamper(o: np.ndarray) -> np.ndarray:
        seen.append(o)
        return seen[max(0, len(seen) - 1 - DELAY_STEPS)]

    return tamper


TAMPERS = {"shuffled": _shuffled, "mirrored": _mirrored, "noisy": _noisy, "frozen": _frozen, "delayed": _delayed}


def tamper_of(name: str, actor: Actor, seed: int) -> Tamper:
    """A fresh tampering of one episode; "" leaves observations alone."""
    return TAMPERS[name](actor, np.random.default_rng([seed, 17])) if name else lambda o: o
