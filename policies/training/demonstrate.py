"""Demonstrations of a run: taken in parallel, kept in the demonstration store in the order of their seeds, read back.

An episode that is in the store is not run again, so a run that was killed goes on where it was.
"""
from __future__ import annotations

import numpy as np

from policies.training.bc import Pairs
from policies.training.config import SEEDS_PER_RUN, RunConfig
from policies.training.curves import Progress
from policies.training.rollout.hosts import Described, Shown
from policies.training.rollout.pools import Pool
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.episode import Episode
from steadyhand.errors import ConfigError

AT_ONCE = 20
TRIES_PER_EPISODE = 3  # a demonstrator that fails two times of three demonstrates nothing


def gather(config: RunConfig, pool: Pool, store: DemonstrationStore, wanted: int) -> Pairs:
    """The first `wanted` successful episodes from the run's first demonstration seed on."""
    d, about = config.demonstrations, pool.describe()
    shown = {e.seed: e for e in store.episodes()}
    first, tried = config.demonstration_seed(), len(shown)
    bar = Progress(f"{config.name} demonstrations", wanted, sum(e.success for e in shown.values()))
    limit = min(TRIES_PER_EPISODE * wanted + AT_ONCE, SEEDS_PER_RUN)
    while sum(e.success for e in shown.values()) < wanted:
        if tried >= limit:
            found = sum(e.success for e in shown.values())
            raise ConfigError(f"demonstrations: {found} of {tried} episodes succeeded with noise={d.noise}; lower it")
        seeds = list(range(first + tried, first + min(tried + AT_ONCE, limit)))
        for episode in pool.demonstrate(d.expert, seeds, d.noise, d.noise_hold):
            kept = as_episode(episode, about, config)
            store.append(kept)
            shown[kept.seed] = kept
            bar.add(int(kept.success))
        tried += len(seeds)
    good = [e for _, e in sorted(shown.items()) if e.success][:wanted]
    return Pairs(tuple(e.observation for e in good), tuple(e.action for e in good))


def as_episode(shown: Shown, about: Described, config: RunConfig) -> Episode:
    """The store's form of it."""
    steps = len(shown.reward)
    episode = Episode(
        observation=shown.observation, action=shown.action, reward=shown.reward,
        stamp_s=np.arange(steps) / about.rate_hz, success=shown.success, seed=shown.seed, source="expert",
        env_id=config.environment.id, rate_hz=about.rate_hz, observation_names=about.observation_names,
        action_names=about.action_names, joint_names=(),
    )
    episode.validate()
    return episode
