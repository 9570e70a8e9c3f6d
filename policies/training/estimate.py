"""How many core-hours a run takes, from what its parts take on this machine: environment steps, updates, cloning."""
from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np
import torch

from policies.training.bc import Pairs, clone
from policies.training.config import CloningConfig, RunConfig, WorkersConfig
from policies.training.network import initial_actor
from policies.training.ppo.learner import Learner
from policies.training.rollout.actor import Actor
from policies.training.rollout.fragment import Fragment
from policies.training.rollout.hosts import HostSpec, Trial
from policies.training.rollout.pools import open_pool

PROBE_STEPS, PROBE_EPISODES, PROBE_SEED = 300, 4, 999_000_000


@dataclass(frozen=True)
class Costs:
    """CPU seconds: of an environment step with its actor, of a sample in an update, of a pair in a cloning epoch; and
    the steps of an episode."""

    step_s: float
    sample_s: float
    pair_s: float
    episode_steps: float


def measure(config: RunConfig) -> Costs:
    """One core, alone as it may be: a short probe of each part."""
    torch.set_num_threads(1)
    spec = HostSpec(config.environment.id, config.environment.keywords(), config.seed, config.randomisation)
    with open_pool(spec, 1, WorkersConfig("serial")) as pool:
        about = pool.describe()
        d = about.observation_dim
        actor = initial_actor(np.zeros(d), np.ones(d), config.network.clip, config.network.hidden, 0.2, about.low,
                              about.high, 0)
        pool.collect(actor, 0, 20, (0,))  # loads and warms up
        start_s = time.process_time()
        (fragment,) = pool.collect(actor, 1, PROBE_STEPS, (0,))
        step_s = (time.process_time() - start_s) / PROBE_STEPS
        trials = [Trial(PROBE_SEED + k) for k in range(PROBE_EPISODES)]
        episode_steps = float(np.mean([o.steps for o in pool.evaluate(actor, trials)]))
    return Costs(step_s, _update_s(config, actor, fragment), _clone_s(config, actor, fragment), episode_steps)


def core_hours(config: RunConfig, costs: Costs) -> dict[str, float]:
    """Per part of a run. An episode is taken to last as long as an untrained actor's: at most the time limit."""
    tried = 1.7 if config.demonstrations.disturbance.push > 0 else 1.1  # episodes of the demonstrator for a good one
    episodes = max([config.demonstrations.episodes, *config.cloning.curve]) * tried
    epochs = sum(n * costs.episode_steps for n in {config.demonstrations.episodes, *config.cloning.curve})
    parts = {
        "demonstrations": episodes * costs.episode_steps * costs.step_s,
        "cloning": epochs * config.cloning.epochs * costs.pair_s,
        "evaluation": 2 * (2 if config.ppo else 1) * config.evaluation.episodes * costs.episode_steps * costs.step_s,
    }
    if config.ppo is not None:
        updates = config.ppo.steps / (config.ppo.environments * config.ppo.fragment_steps)
        checks = 2 + updates / config.validation.every_updates
        parts["steps"] = config.ppo.steps * costs.step_s
        parts["updates"] = config.ppo.steps * costs.sample_s
        parts["validation"] = checks * config.validation.episodes * costs.episode_steps * costs.step_s
    return {name: seconds / 3600 for name, seconds in parts.items()}


def tell(runs) -> int:
    """Print the core-hours of each run and of all; each configuration is measured once."""
    known: dict[str, float] = {}
    total = 0.0
    for run in runs:
        stem = run.path.stem
        if stem not in known:
            config = run.config()
            parts = core_hours(config, costs := measure(config))
            known[stem] = sum(parts.values())
            by_part = ", ".join(f"{k} {v:.2f}" for k, v in parts.items())
            print(f"{stem}: {known[stem]:.2f} core-hours a seed ({by_part}); {1 / costs.step_s:.0f} steps/s, "
                  f"{1e6 * costs.sample_s:.0f} us a sample in an update", flush=True)
        total += known[stem]
    print(f"all {len(runs)} runs: {total:.1f} core-hours")
    return 0


def _update_s(config: RunConfig, actor: Actor, fragment: Fragment) -> float:
    if config.ppo is None:
        return 0.0
    ppo = replace(config.ppo, environments=1, fragment_steps=PROBE_STEPS, batch=PROBE_STEPS // 2, target_kl=10.0)
    learner = Learner(ppo, actor, 0)
    learner.update([fragment], 0, False)
    start_s = time.process_time()
    learner.update([fragment], 1, False)
    return (time.process_time() - start_s) / PROBE_STEPS


def _clone_s(config: RunConfig, actor: Actor, fragment: Fragment) -> float:
    pairs = Pairs((fragment.observation,) * 2, (np.clip(fragment.action, -1, 1),) * 2)
    settings = CloningConfig(epochs=5, batch=min(config.cloning.batch, PROBE_STEPS))
    start_s = time.process_time()
    clone(actor, pairs, settings, 0)
    return (time.process_time() - start_s) / (5 * PROBE_STEPS)
