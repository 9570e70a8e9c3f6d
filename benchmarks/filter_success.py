"""`filter_success`: the shipped policy with and without the filters, under impulse noise (PyBullet, paired scenes).

Arms, each on the same scenes: `told` reads what the arm was told, as the running graph does; `measured` reads the
sensors; `filtered` through the filters; `noisy` has impulses on joints and target, normal with `--sigmas` times the
channel's sigma, once in `--every` steps of motion; `noisy_filtered` both. `filtered` against `measured` is what the
filters' delay costs, `noisy_filtered` against `noisy` what they are worth. Trials are kept one by one: an interrupted
run goes on.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from policies.training import rollout
from policies.training.rollout import Actor
from steadyhand.impulse_filter import DELAY_SAMPLES
from steadyhand_policies import repository

FIRST_SEED = 90_000  # scenes of no training, validation or evaluation
ARMS = ("told", "measured", "filtered", "noisy", "noisy_filtered")
PAIRS = (("measured", "filtered"), ("noisy", "noisy_filtered"), ("measured", "noisy"), ("measured", "noisy_filtered"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=int, default=200, help="scenes, each tried by every arm")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--sigmas", type=float, default=5.0)
    parser.add_argument("--every", type=float, default=100.0)
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no scene after so long")
    parser.add_argument("--fresh", action="store_true", help="throw away what is kept")


def environments(sigmas: float, every: float) -> dict:
    """Arm -> environment."""
    from steadyhand_sim.envs import sensed
    from steadyhand_sim.envs.pick_place import PickPlaceEnv

    noise = sensed.ImpulseNoiseConfig(sigmas, every)
    senses = {
        "measured": sensed.Senses(), "filtered": sensed.Senses(filtered=True), "noisy": sensed.Senses(noise),
        "noisy_filtered": sensed.Senses(noise, filtered=True),
    }
    return {"told": PickPlaceEnv()} | {arm: sensed.SensedPickPlaceEnv(senses=s) for arm, s in senses.items()}


def paired(outcomes: dict[str, dict[int, bool]], a: str, b: str) -> dict:
    """Scenes that only one of two arms mastered."""
    both = outcomes[a].keys() & outcomes[b].keys()
    return {
        f"{a}_only": sum(outcomes[a][s] and not outcomes[b][s] for s in both),
        f"{b}_only": sum(outcomes[b][s] and not outcomes[a][s] for s in both), "scenes": len(both),
    }


def summary(lines: list[dict]) -> dict:
    """Success per arm with its interval, failures, and the pairs."""
    metrics, outcomes = {}, {}
    for arm in ARMS:
        mine = [line for line in lines if line["arm"] == arm]
        outcomes[arm] = {line["seed"]: line["success"] for line in mine}
        n, k = len(mine), sum(outcomes[arm].values())
        low, high = common.wilson(k, n)
        failures = [line["failure"] for line in mine if line["failure"]]
        metrics[arm] = {
            "success": round(k / max(n, 1), 4), "low": round(low, 4), "high": round(high, 4), "n": n,
            "duration_s_p50": round(float(np.median([line["duration_s"] for line in mine] or [0.0])), 3),
            "refused_share": round(sum(x["refused"] for x in mine) / max(1, sum(x["chunks"] for x in mine)), 4),
            "failures": {f: failures.count(f) for f in sorted(set(failures))},
        }
    return metrics | {"pairs": {f"{a}_against_{b}": paired(outcomes, a, b) for a, b in PAIRS}}


def run(args: argparse.Namespace) -> Path:
    from benchmarks import filter_success as itself
    from steadyhand_sim import impulse_noise
    from steadyhand_sim.envs import sensed

    mark = _kept.identity(itself, rollout, sensed, impulse_noise) + f"/{args.sigmas:g}/{args.every:g}"
    kept = _kept.Kept("filter_success_trials", mark, args.fresh)
    done = {(line["arm"], line["seed"]) for line in kept.lines}
    model, end_s = Actor(repository.policy_files().model), time.monotonic() + 60 * args.minutes
    act = rollout.actor_function(model)
    envs = environments(args.sigmas, args.every)
    try:
        for seed in range(args.first_seed, args.first_seed + args.episodes):
            if time.monotonic() > end_s:
                break
            for arm in ARMS:
                if (arm, seed) not in done:
                    e = rollout.run_one(envs[arm], act, model, seed)
                    kept.add({
                        "arm": arm, "seed": seed, "success": e.success, "failure": e.failure,
                        "duration_s": round(e.duration_s, 3), "refused": sum(e.refused.values()),
                        "chunks": e.accepted + sum(e.refused.values()),
                    })
    finally:
        for env in envs.values():
            env.close()
    wanted = range(args.first_seed, args.first_seed + args.episodes)
    lines = [line for line in kept.lines if line["seed"] in wanted]
    metrics = summary(lines) | {
        "sigmas": args.sigmas, "every_steps": args.every, "first_seed": args.first_seed,
        "filter_delay_samples": DELAY_SAMPLES, "median_window": 5,
    }
    for arm in ARMS:
        print(f"{arm}: {metrics[arm]}")
    return common.write("filter_success", len(lines), "no timing is measured", "SCHED_OTHER", metrics)
