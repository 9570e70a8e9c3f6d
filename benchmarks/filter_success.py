"""`filter_success`: the shipped policy with and without the filters, under impulse noise (PyBullet, paired scenes).

Arms, each on the same scenes: `told` reads what the arm was told, as the running graph does; `measured` reads the
sensors; `filtered` through the filters; and for each `--level SIGMAS/EVERY` a `noisy` one with impulses on joints and
target, normal with so many times the channel's sigma, once in so many steps of motion, and a `noisy_filtered` one. The
first level is that of the source documents, the second one at which noise matters. `filtered` against `measured` is
what the filters' delay costs, `noisy_filtered` against `noisy` what they are worth. Trials are kept one by one: an
interrupted run goes on.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from policies.training.pick_place import rollout
from policies.training.pick_place.rollout import Actor
from steadyhand.errors import ConfigError
from steadyhand.impulse_filter import DELAY_SAMPLES
from steadyhand_policies import repository

FIRST_SEED = 90_000  # scenes of no training, validation or evaluation
QUIET = ("told", "measured", "filtered")
LEVELS = ("5/100", "20/10")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=int, default=200, help="scenes, each tried by every arm")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--level", action="append", default=[], metavar="SIGMAS/EVERY", help=f"default: {LEVELS}")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no scene after so long")
    parser.add_argument("--fresh", action="store_true", help="throw away what is kept")


def arms_of(levels: list[str]) -> list[str]:
    """Names of the arms."""
    return [*QUIET, *(f"{name} {level}" for level in levels for name in ("noisy", "noisy_filtered"))]


def environment(arm: str):
    """The environment of an arm. ConfigError for a level that is none."""
    from steadyhand_sim.envs.pick_place import PickPlaceEnv
    from steadyhand_sim.envs.sensed import ImpulseNoiseConfig, SensedPickPlaceEnv, Senses

    name, _, level = arm.partition(" ")
    if name == "told":
        return PickPlaceEnv()
    if not level:
        return SensedPickPlaceEnv(senses=Senses(filtered=name == "filtered"))
    try:
        sigmas, every = map(float, level.split("/"))
    except ValueError:
        raise ConfigError(f"--level {level!r}: give SIGMAS/EVERY, such as {LEVELS[0]}") from None
    return SensedPickPlaceEnv(senses=Senses(ImpulseNoiseConfig(sigmas, every), name == "noisy_filtered"))


def paired(outcomes: dict[str, dict[int, bool]], a: str, b: str) -> dict:
    """Scenes that only one of two arms mastered."""
    both = outcomes[a].keys() & outcomes[b].keys()
    return {
        "first_only": sum(outcomes[a][s] and not outcomes[b][s] for s in both),
        "second_only": sum(outcomes[b][s] and not outcomes[a][s] for s in both), "scenes": len(both),
    }


def of_arm(lines: list[dict]) -> dict:
    """Success with its interval, and how it was had."""
    n, k = len(lines), sum(line["success"] for line in lines)
    low, high = common.wilson(k, n)
    failures = [line["failure"] for line in lines if line["failure"]]
    return {
        "success": round(k / max(n, 1), 4), "low": round(low, 4), "high": round(high, 4), "n": n,
        "duration_s_p50": round(float(np.median([line["duration_s"] for line in lines] or [0.0])), 3),
        "refused_share": round(sum(x["refused"] for x in lines) / max(1, sum(x["chunks"] for x in lines)), 4),
        "failures": {f: failures.count(f) for f in sorted(set(failures))},
    }


def summary(lines: list[dict], levels: list[str]) -> dict:
    """Every arm, and the pairs that answer the questions."""
    of = {arm: [line for line in lines if line["arm"] == arm] for arm in arms_of(levels)}
    outcomes = {arm: {line["seed"]: line["success"] for line in mine} for arm, mine in of.items()}
    pairs = [("measured", "filtered"), *((f"noisy {level}", f"noisy_filtered {level}") for level in levels)]
    return {arm: of_arm(mine) for arm, mine in of.items()} | {
        "pairs": {f"{a}, {b}": paired(outcomes, a, b) for a, b in pairs}
    }


def run(args: argparse.Namespace) -> Path:
    from benchmarks import filter_success as itself
    from steadyhand_sim import impulse_noise
    from steadyhand_sim.envs import sensed

    levels = args.level or list(LEVELS)
    kept = _kept.Kept("filter_success_trials", _kept.identity(itself, rollout, sensed, impulse_noise), args.fresh)
    done = {(line["arm"], line["seed"]) for line in kept.lines}
    actor, end_s = Actor(repository.policy_files().model), time.monotonic() + 60 * args.minutes
    act, seeds = rollout.actor_function(actor), range(args.first_seed, args.first_seed + args.episodes)
    envs = {}
    try:
        envs |= {arm: environment(arm) for arm in arms_of(levels)}
        for seed in seeds:
            if time.monotonic() > end_s:
                break
            for arm in envs:
                if (arm, seed) not in done:
                    e = rollout.run_one(envs[arm], act, actor, seed)
                    kept.add({
                        "arm": arm, "seed": seed, "success": e.success, "failure": e.failure,
                        "duration_s": round(e.duration_s, 3), "refused": sum(e.refused.values()),
                        "chunks": e.accepted + sum(e.refused.values()),
                    })
    finally:
        for env in envs.values():
            env.close()
    lines = [line for line in kept.lines if line["seed"] in seeds and line["arm"] in envs]
    found = summary(lines, levels)
    for name, figures in found.items():
        print(f"{name}: {figures}")
    metrics = found | {
        "levels": ", ".join(levels), "first_seed": args.first_seed, "filter_delay_samples": DELAY_SAMPLES,
        "median_window": 5,
    }
    return common.write("filter_success", len(lines), "no timing is measured", "SCHED_OTHER", metrics)
