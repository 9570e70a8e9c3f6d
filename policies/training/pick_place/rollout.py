"""Episodes in the environment: demonstrations, DAgger and evaluation use the same function."""
from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from steadyhand_policies.contract import wilson
from steadyhand import policy_io
from policies.training.pick_place.expert import expert_actions


@dataclass(frozen=True)
class Actor:
    """Who drives: the demonstrator (`model` None) or an exported model; a disturbance on the executed action."""

    model: Path | None = None
    noise: float = 0.0
    noise_hold: float = 0.9


@dataclass(frozen=True)
class Episode:
    """What one episode left behind. T steps."""

    seed: int
    success: bool
    failure: str
    times_s: dict
    duration_s: float
    refused: dict
    accepted: int
    observations: np.ndarray  # (T, OBSERVATION_DIM)
    chunks: dict = field(repr=False)  # arrays of `PickPlaceEnv.offered_chunks`


def run_episodes(actor: Actor, seeds: list[int], env_changes: dict | None = None, workers: int = 1) -> list[Episode]:
    """One episode per seed, in the order of the seeds."""
    if workers <= 1:
        return _run_share(actor, seeds, env_changes)
    context = multiprocessing.get_context("spawn")
    shares = [seeds[i::workers] for i in range(workers)]
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        parts = list(pool.map(_run_share, [actor] * workers, shares, [env_changes] * workers))
    return sorted((e for part in parts for e in part), key=lambda e: seeds.index(e.seed))


def _run_share(actor: Actor, seeds: list[int], env_changes: dict | None) -> list[Episode]:
    from steadyhand_sim.envs.pick_place import EnvConfig, PickPlaceEnv

    env = PickPlaceEnv(EnvConfig(**(env_changes or {})))
    act = actor_function(actor)
    try:
        return [run_one(env, act, actor, seed) for seed in seeds]
    finally:
        env.close()


def run_one(env, act, actor: Actor, seed: int) -> Episode:
    """One episode of an environment, driven by `act` (observation -> actions), of `actor`'s disturbance."""
    rng = np.random.default_rng([seed, 7])
    observation, info = env.reset(seed=seed)
    observations, disturbance, over = [], np.zeros(4), False
    while not over:
        observations.append(observation)
        action = act(observation)
        if actor.noise > 0:
            fresh = np.sqrt(1 - actor.noise_hold**2) * actor.noise * rng.standard_normal(4)
            disturbance = actor.noise_hold * disturbance + fresh
            action = action.copy()
            # a constant velocity error would be a step of velocity: it grows over the chunk's first half
            growth = np.minimum(1.0, np.arange(1, policy_io.HORIZON + 1) / (policy_io.HORIZON / 2))[:, None]
            action[:, :4] = np.clip(action[:, :4] + growth * disturbance, -1.0, 1.0)
        observation, _, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    offered = env.offered_chunks()
    chunks = {
        "stamp_s": np.array([a.stamp_s for a, _, _ in offered]),
        "arrival_cycle": np.array([c for _, c, _ in offered]),
        "q_commanded_rad": np.array([a.q_commanded_rad for a, _, _ in offered]),
        "qd_commanded_rad_s": np.array([a.qd_commanded_rad_s for a, _, _ in offered]),
        "q_rad": np.array([w for _, _, w in offered]),
    }
    return Episode(seed, info["is_success"], info["failure"], info["times_s"], info["time_s"], info["refused"],
                   info["accepted"], np.array(observations), chunks)


def actor_function(actor: Actor):
    """Observation -> chunk (HORIZON, ACTION_DIM), of the demonstrator or of the exported model."""
    if actor.model is None:
        return lambda observation: expert_actions(observation[None])[0]
    from steadyhand_policies.local_onnx import open_session

    session = open_session(actor.model)
    return lambda observation: session.run(None, {"observation": observation[None]})[0][0].astype(float)


def summary(episodes: list[Episode]) -> dict:
    """Success per skill and overall with intervals, failures, refusals, times."""
    n, picked = len(episodes), [e for e in episodes if "pick" in e.times_s]
    placed = sum(e.success for e in episodes)
    failures, refused = {}, {}
    for e in episodes:
        if e.failure:
            failures[e.failure] = failures.get(e.failure, 0) + 1
        for reason, count in e.refused.items():
            refused[reason] = refused.get(reason, 0) + count
    chunks = sum(e.accepted for e in episodes) + sum(refused.values())
    return {
        "n": n,
        "pick": {"successes": len(picked), "n": n, "wilson": wilson(len(picked), n)},
        "place": {"successes": placed, "n": len(picked), "wilson": wilson(placed, len(picked))},
        "pick_and_place": {"successes": placed, "n": n, "wilson": wilson(placed, n)},
        "failures": failures,
        "failed_seeds": [e.seed for e in episodes if not e.success],
        "chunks": chunks, "chunks_refused": refused, "refused_share": sum(refused.values()) / max(chunks, 1),
        "duration_s_p50": float(np.median([e.duration_s for e in episodes])) if episodes else 0.0,
    }
