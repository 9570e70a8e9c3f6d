"""Demonstrations of a run: taken in parallel, kept in the demonstration store in the order of their seeds, read back.

An episode that is in the store is not run again, so a run that was killed goes on where it was.
"""
from __future__ import annotations

from pathlib import Path

from policies.training.bc import Pairs
from policies.training.config import SEEDS_PER_RUN, RunConfig
from policies.training.curves import Progress
from policies.training.rollout.hosts import Described, Shown
from policies.training.rollout.pools import Pool
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.episode import JOINTS, Episode
from steadyhand.errors import ConfigError

AT_ONCE = 20
TRIES_PER_EPISODE = 3  # a demonstrator that fails two times of three demonstrates nothing


def gather(config: RunConfig, pool: Pool, folder: Path, wanted: int) -> Pairs:
    """The first `wanted` successful episodes from the run's first demonstration seed on (`folder`: of the store)."""
    d, about = config.demonstrations, pool.describe()
    with DemonstrationStore(folder) as store:
        shown = {e.seed: e for e in store.episodes()}
        first, tried = config.demonstration_seed(), len(shown)
        bar = Progress(f"{config.name} demonstrations", wanted, successes(shown))
        limit = min(TRIES_PER_EPISODE * wanted + AT_ONCE, SEEDS_PER_RUN)
        while successes(shown) < wanted:
            if tried >= limit:
                raise ConfigError(f"demonstrations: {successes(shown)} of {tried} episodes succeeded with "
                                  f"{d.disturbance}; lower it")
            seeds = list(range(first + tried, first + min(tried + AT_ONCE, limit)))
            for one in pool.demonstrate(d.expert, seeds, d.disturbance):
                episode = as_episode(one, about, config)
                store.append(episode)
                shown[episode.seed] = episode
                bar.add(int(episode.success))
            tried += len(seeds)
    good = [e for _, e in sorted(shown.items()) if e.success][:wanted]
    return Pairs(tuple(e.observation for e in good), tuple(e.action for e in good))


def successes(shown: dict[int, Episode]) -> int:
    """How many of them succeeded."""
    return sum(e.success for e in shown.values())


def as_episode(shown: Shown, about: Described, config: RunConfig) -> Episode:
    """The store's form of it. Its actions are what the expert wanted; what was executed differs by the disturbance."""
    name = config.environment.id.rpartition(":")[2]
    robot = name.rpartition("/")[2]
    joints = next((joints for prefix, joints in JOINTS.items() if robot.startswith(prefix)), ())
    return Episode(
        env_id=name, source="expert", seed=shown.seed, success=shown.success, rate_hz=about.rate_hz,
        observation_names=about.observation_names, action_names=about.action_names, joint_names=joints,
        stamp_s=shown.stamp_s, observation=shown.observation, action=shown.action, reward=shown.reward,
        origin=f"{config.demonstrations.expert}, {config.demonstrations.disturbance}",
    )
