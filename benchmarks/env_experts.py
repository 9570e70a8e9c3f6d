"""`env_experts`: how often the scripted expert and a random policy succeed in each environment and formulation.

Every episode is kept as it ends: an interrupted run goes on. The seeds are those of no training or evaluation.
"""
from __future__ import annotations

import argparse
import time
from pathlib import Path

import gymnasium
import numpy as np

from benchmarks import _kept, common

FIRST_SEED = 700_000
ARMS = ("expert", "random")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--episodes", type=int, default=250, help="of each environment, formulation and arm")
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    parser.add_argument("--only", default="", help="part of an environment's name")
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no episode after so long")
    parser.add_argument("--fresh", action="store_true", help="throw away what is kept")


def settings() -> list[tuple[str, dict]]:
    """Environment and its keyword arguments."""
    from steadyhand_sim.envs import DOCK_ID, GRASP_ID, INSERT_ID
    from steadyhand_sim.envs.formulations import CARTESIAN, JOINT

    arm = [(env, {"formulation": f}) for env in (GRASP_ID, INSERT_ID) for f in (CARTESIAN, JOINT)]
    return [*arm, (DOCK_ID, {})]


def title(env_id: str, kwargs: dict) -> str:
    """Name of a setting in the results."""
    return " ".join([env_id.removeprefix("Steadyhand/"), *kwargs.values()])


def episode(env, act, seed: int) -> dict:
    """One episode: outcome, steps, return, what the gate refused."""
    observation, info = env.reset(seed=seed)
    env.action_space.seed(seed)
    total, steps, over = 0.0, 0, False
    while not over:
        observation, reward, terminated, truncated, info = env.step(act(observation, info))
        total, steps, over = total + reward, steps + 1, terminated or truncated
    return {
        "success": bool(info["success"]), "failure": info["failure"], "steps": steps, "return": round(total, 5),
        "time_s": round(info["time_s"], 3), "refused": sum(info["refused"].values()),
    }


def of_arm(lines: list[dict]) -> dict:
    """Success with its interval, and how it was had."""
    n, k = len(lines), sum(line["success"] for line in lines)
    low, high = common.wilson(k, n)
    failures = [line["failure"] for line in lines if line["failure"]]
    return {
        "success": round(k / max(n, 1), 4), "low": round(low, 4), "high": round(high, 4), "n": n,
        "steps_p50": float(np.median([line["steps"] for line in lines] or [0.0])),
        "return_max": max((line["return"] for line in lines), default=0.0),
        "refused_per_step": round(sum(x["refused"] for x in lines) / max(1, sum(x["steps"] for x in lines)), 4),
        "failures": {f: failures.count(f) for f in sorted(set(failures))},
    }


def run(args: argparse.Namespace) -> Path:
    from benchmarks import env_experts as itself
    from steadyhand_sim.envs import agv_dock, arm_env, formulations, motion, training_world, ur5_grasp, ur5_insert
    from steadyhand_sim.envs.experts import arm, dock, expert

    code = (agv_dock, arm_env, formulations, motion, training_world, ur5_grasp, ur5_insert, arm, dock)
    kept = _kept.Kept("env_experts_episodes", _kept.identity(itself, *code), args.fresh)
    done = {(line["setting"], line["arm"], line["seed"]) for line in kept.lines}
    end_s = time.monotonic() + 60 * args.minutes
    seeds = range(args.first_seed, args.first_seed + args.episodes)
    chosen = [s for s in settings() if args.only.lower() in title(*s).lower()]
    for env_id, kwargs in chosen:
        name, env = title(env_id, kwargs), gymnasium.make(env_id, **kwargs)
        actor = expert(env_id, **kwargs)
        acts = {"expert": actor.act, "random": lambda observation, info, env=env: env.action_space.sample()}
        try:
            for seed in seeds:
                for who in ARMS:
                    if (name, who, seed) not in done and time.monotonic() < end_s:
                        kept.add({"setting": name, "arm": who, "seed": seed, **episode(env, acts[who], seed)})
        finally:
            env.close()
    lines = [line for line in kept.lines if line["seed"] in seeds]
    by_setting = {
        title(*s): {who: of_arm([x for x in lines if (x["setting"], x["arm"]) == (title(*s), who)]) for who in ARMS}
        for s in chosen
    }
    for name, found in by_setting.items():
        print(name, *(f"\n  {who}: {figures}" for who, figures in found.items()))
    worst = min(by_setting.values(), key=lambda found: found["expert"]["success"])["expert"]
    metrics = {
        "settings": len(by_setting), "episodes_each": min(f[who]["n"] for f in by_setting.values() for who in ARMS),
        "expert_worst": worst["success"], "expert_worst_low": worst["low"],
        "random_best": max(found["random"]["success"] for found in by_setting.values()), "by_setting": by_setting,
    }
    return common.write("env_experts", len(lines), "no timing is measured", "SCHED_OTHER", metrics)
