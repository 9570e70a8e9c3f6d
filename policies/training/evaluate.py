"""How good an actor is: held-out scenes, pseudo-real plants, tampered observations. Paired, with intervals."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from policies.training.config import EvaluationConfig
from policies.training.curves import Progress
from policies.training.rollout.actor import Actor
from policies.training.rollout.hosts import Outcome, Trial
from policies.training.rollout.pools import Pool
from policies.training.rollout.tamper import TAMPERS
from policies.training.statistics import bootstrap_low, mcnemar_p, rate


def held_out(actor: Actor, config: EvaluationConfig, pool: Pool, name: str = "evaluation") -> dict:
    """Deterministic and as explored, on the same scenes (a deterministic clone can stall at a fixed point)."""
    found = {}
    for kind in ("deterministic", "stochastic"):
        trials = [Trial(s, stochastic=kind == "stochastic") for s in seeds(config)]
        found[kind] = figures(_run(actor, trials, pool, f"{name} {kind}"))
    return found


def scenes(actor: Actor, config: EvaluationConfig, pool: Pool, name: str = "scenes") -> dict:
    """The actor as it is shipped (deterministic) on held-out scenes; `won` says which, so that arms can be paired."""
    outcomes = _run(actor, [Trial(s) for s in seeds(config)], pool, name)
    return figures(outcomes) | {"won": [int(o.success) for o in outcomes]}


def first(config: EvaluationConfig, n: int) -> EvaluationConfig:
    """The first n of the held-out scenes."""
    return replace(config, episodes=n)


def on_plants(actor: Actor, plants: list, seeds_each: int, first_seed: int, pool: Pool, name: str = "plants") -> dict:
    """`seeds_each` scenes on each plant, other scenes on every plant; the interval is over plants."""
    trials = [
        Trial(first_seed + p * seeds_each + e, plant, p) for p, plant in enumerate(plants) for e in range(seeds_each)
    ]
    outcomes = _run(actor, trials, pool, name)
    success = np.array([o.success for o in outcomes]).reshape(len(plants), seeds_each)
    low, high = bootstrap_low(success)
    return {"success": float(success.mean()), "low": low, "high": high, "plants": len(plants), "n": success.size,
            "by_plant": [round(float(r), 4) for r in success.mean(axis=1)], "failures": failures(outcomes)}


def tampered(actor: Actor, config: EvaluationConfig, pool: Pool) -> dict:
    """For each tampering: success, and how likely so many losses are if it did no harm (paired)."""
    clean = _run(actor, [Trial(s) for s in seeds(config)], pool, "clean")
    found = {"clean": figures(clean)}
    for name in TAMPERS:
        outcomes = _run(actor, [Trial(s, tamper=name) for s in seeds(config)], pool, name)
        p = mcnemar_p([o.success for o in clean], [o.success for o in outcomes])
        found[name] = figures(outcomes) | {"p": p}
    return found


def seeds(config: EvaluationConfig) -> range:
    """Held-out scenes."""
    return range(config.first_seed, config.first_seed + config.episodes)


def figures(outcomes: list[Outcome]) -> dict:
    """Success with its interval, how it failed, and how long it took."""
    return rate(np.array([o.success for o in outcomes])) | {
        "failures": failures(outcomes), "steps_p50": float(np.median([o.steps for o in outcomes])),
        "failed_seeds": [o.seed for o in outcomes if not o.success][:50],
    }


def failures(outcomes: list[Outcome]) -> dict[str, int]:
    """How often each kind of failure was the end."""
    names = [o.failure or "unnamed" for o in outcomes if not o.success]
    return {name: names.count(name) for name in sorted(set(names))}


def _run(actor: Actor, trials: list[Trial], pool: Pool, name: str) -> list[Outcome]:
    return pool.evaluate(actor, trials, Progress(name, len(trials)).add)
