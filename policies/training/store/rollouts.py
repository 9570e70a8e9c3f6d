"""Episodes from an environment: whoever acts, expert or policy, is recorded in the same way.

    env = gymnasium.make("Steadyhand/UR5Grasp-v0", formulation="joint_delta")
    actor = expert("Steadyhand/UR5Grasp-v0", "joint_delta")
    with DemonstrationStore(folder) as store:
        for episode in rollouts(env, actor.act, range(50), source="expert", origin="scripted expert"):
            if episode.success:
                store.append(episode)

The environment says what its columns are (`observation_names`, `action_names`); picture observations are those of
`steadyhand_sim.envs.views`. Same environment, same actor, same seeds: the same episodes, bit by bit.
"""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from policies.training.store.episode import JOINTS, Episode
from steadyhand import policy_io
from steadyhand.errors import ConfigError

RATES_HZ = {"UR5": 1.0 / policy_io.PERIOD_S, "AGV": 5.0}  # by the beginning of an environment's name

Act = Callable[[object, dict], np.ndarray]


def rollouts(env, act: Act, seeds: Iterable[int], source: str, origin: str = "", task: str = "") -> Iterator[Episode]:
    """One episode per seed, successful or not, each validated. Raises BadEpisode, ConfigError."""
    for seed in seeds:
        yield rollout(env, act, seed, source, origin, task)


def rollout(env, act: Act, seed: int, source: str, origin: str = "", task: str = "") -> Episode:
    """Drive one episode to its end and record it."""
    seen, info = env.reset(seed=seed)
    observations, images, actions, rewards, stamps_s, over = [], [], [], [], [], False
    rate_hz = rate_of(env)
    while not over:
        state, image = _split(seen)
        observations.append(state)
        images.append(image)
        stamps_s.append(info.get("time_s", len(stamps_s) / rate_hz))
        action = np.asarray(act(seen, info), dtype=np.float32)
        actions.append(action)
        seen, reward, terminated, truncated, info = env.step(action)
        rewards.append(reward)
        over = terminated or truncated
    name = env_id_of(env)
    episode = Episode(
        name, source, int(seed), bool(info["success"]), rate_hz, state_names(env), tuple(env.unwrapped.action_names),
        _of_robot(JOINTS, name, ()), np.array(stamps_s, dtype=np.float64), np.array(observations, dtype=np.float32),
        np.array(actions, dtype=np.float32), np.array(rewards, dtype=np.float32),
        {} if images[0] is None else {"image": np.array(images, dtype=np.uint8)}, task, origin,
    )  # fmt: skip
    episode.validate()
    return episode


def env_id_of(env) -> str:
    """Name under which the environment was made. Raises ConfigError when it was not made by name."""
    if env.spec is None:
        raise ConfigError("env: make it by name (gymnasium.make), so that its episodes can say where they come from")
    return env.spec.id


def rate_of(env) -> float:
    """Steps per second, as the environment says itself or by its kind."""
    rate_hz = getattr(env.unwrapped, "rate_hz", None) or _of_robot(RATES_HZ, env_id_of(env), None)
    if rate_hz is None:
        raise ConfigError(f"env {env_id_of(env)!r}: it has no `rate_hz`")
    return float(rate_hz)


def state_names(env) -> tuple[str, ...]:
    """Names of the numbers in an observation; beside a picture only those that the robot knows of itself."""
    plain = env.unwrapped
    return tuple(getattr(plain, "state_names", plain.observation_names))


def _split(seen) -> tuple[np.ndarray, np.ndarray | None]:
    if isinstance(seen, dict):
        return seen["state"], seen["image"]
    return seen, None


def _of_robot(table: dict, env_id: str, otherwise):
    robot = env_id.rpartition("/")[2]
    return next((value for prefix, value in table.items() if robot.startswith(prefix)), otherwise)
