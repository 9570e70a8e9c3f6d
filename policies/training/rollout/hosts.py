"""A host: the environments of one process, and the four things asked of it: collect, restore, evaluate, demonstrate.

Everything random follows from what is passed: the run's seed, the environment's number, the episode's number, the
update's number. A host keeps nothing that a `Cursor` could not bring back.
"""
from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from policies.training.config import TRAINING_SEEDS_FROM, DisturbanceConfig, RandomisationConfig
from policies.training.plants import draw_plant
from policies.training.rollout.actor import Actor
from policies.training.rollout.disturbance import Disturbance
from policies.training.rollout.fragment import SUCCESS_UNKNOWN, Cursor, Fragment
from policies.training.rollout.tamper import tamper_of
from policies.training.store.rollouts import rate_of
from steadyhand.errors import ConfigError, SteadyhandError


@dataclass(frozen=True)
class HostSpec:
    """What a host builds, in any process and on any machine."""

    id: str
    keywords: dict
    seed: int
    randomisation: RandomisationConfig | None = None


@dataclass(frozen=True)
class Trial:
    """One episode to be judged. `plant`: another arm than the identified one; `plant_index` is its number in a set."""

    seed: int
    plant: Any = None
    plant_index: int = -1
    tamper: str = ""
    stochastic: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of it."""

    seed: int
    plant_index: int
    success: bool
    failure: str
    steps: int
    reward: float


@dataclass(frozen=True)
class Described:
    """An environment from outside: observation elements D, shape of an action, its flat bounds (A,), names, rate."""

    observation_dim: int
    action_shape: tuple[int, ...]
    low: np.ndarray
    high: np.ndarray
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    rate_hz: float


@dataclass(frozen=True)
class Shown:
    """An episode of the demonstrator: what it saw and what it wanted (the executed action was disturbed). T steps."""

    seed: int
    success: bool
    failure: str
    stamp_s: np.ndarray  # (T,) float64, before the action
    observation: np.ndarray  # (T, D) float32
    action: np.ndarray  # (T, A) float32, flat
    reward: np.ndarray  # (T,) float32


def make_env(spec: HostSpec):
    """The environment, by its registered name, or by "module:name" where registering is the module's own affair."""
    import gymnasium

    if spec.id.startswith("Steadyhand/"):
        importlib.import_module("steadyhand_sim.envs")
    try:
        env = gymnasium.make(spec.id, disable_env_checker=True, **spec.keywords)
    except (gymnasium.error.Error, TypeError) as error:
        raise ConfigError(f"environment {spec.id} with {spec.keywords}: {error}") from error
    for name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, name), gymnasium.spaces.Box):
            raise ConfigError(f"environment {spec.id}: its {name} is a {type(getattr(env, name)).__name__}; these "
                              "networks read and write vectors: give observations: state")
    return env


def training_seed(seed: int, environment: int, episode: int) -> int:
    """Seed of an episode that a policy is tuned on: never one of a configured range."""
    drawn = int(np.random.SeedSequence([seed, environment, episode]).generate_state(1)[0])
    return TRAINING_SEEDS_FROM + drawn % TRAINING_SEEDS_FROM


def succeeded(info: dict) -> bool:
    """Whether an episode that is over succeeded."""
    for name in ("success", "is_success"):
        if name in info:
            return bool(info[name])
    raise ConfigError("environment: info of the last step holds no `success`")


class _Running:
    """One environment that episodes of the tuning run in, and where it stands."""

    def __init__(self, spec: HostSpec, number: int) -> None:
        self.env, self._spec, self.number = make_env(spec), spec, number
        self.episode, self.fresh = 0, True
        self.observation = self._begin()

    def _begin(self) -> np.ndarray:
        seed = training_seed(self._spec.seed, self.number, self.episode)
        options = {}
        if self._spec.randomisation is not None:
            options["plant"] = draw_plant(self._spec.randomisation, np.random.default_rng([seed, 11]))
        self.fresh = True
        return flat(self.env.reset(seed=seed, options=options)[0])

    def step(self, action: np.ndarray) -> tuple[float, bool, bool, int, np.ndarray]:
        """Reward, terminated, truncated, success, the observation after it; then the next
        episode begins if this one is over."""
        space = self.env.action_space
        bounded = np.clip(action.reshape(space.shape), space.low, space.high)
        observation, reward, terminated, truncated, info = self.env.step(bounded)
        self.observation, self.fresh = flat(observation), False
        if not (terminated or truncated):
            return float(reward), False, False, SUCCESS_UNKNOWN, self.observation
        last, won = self.observation, int(succeeded(info))
        self.episode += 1
        self.observation = self._begin()
        return float(reward), bool(terminated), bool(truncated and not terminated), won, last

    def restore(self, cursor: Cursor) -> np.ndarray:
        """Stand where the cursor says, by replaying its episode."""
        self.episode = cursor.episode
        self.observation = self._begin()
        for action in cursor.actions:
            self.step(action)
        if self.episode != cursor.episode:
            raise SteadyhandError(
                f"environment {self.number}: episode {cursor.episode} ended during its replay; the environment is not "
                "bit-exact from its seed, or its code has changed since the samples were taken"
            )
        return self.observation

    def collect(self, actor: Actor, iteration: int, steps: int) -> Fragment:
        rng = np.random.default_rng([self._spec.seed, self.number, iteration, 1])
        d, a = len(actor.mean), len(actor.low)
        observation, after = np.empty((steps, d), np.float32), np.empty((steps, d), np.float32)
        action = np.empty((steps, a), np.float32)
        reward, success = np.empty(steps, np.float32), np.empty(steps, np.int32)
        starts, terminated, truncated = (np.empty(steps, bool) for _ in range(3))
        for k in range(steps):
            observation[k], starts[k] = self.observation, self.fresh
            action[k] = actor.sample(self.observation, rng)
            reward[k], terminated[k], truncated[k], success[k], after[k] = self.step(action[k])
        return Fragment(
            self.number, iteration, observation, action, reward, after, starts, terminated, truncated, success
        )


class EnvHost:
    """The environments numbered `environments`, and one more for judging and for demonstrations."""

    def __init__(self, spec: HostSpec, environments: tuple[int, ...]) -> None:
        self._spec, self._numbers = spec, environments
        self._running: dict[int, _Running] = {}
        self._judge = self._plant = None

    def describe(self) -> Described:
        """What the environment takes and gives."""
        env = self._judging()
        own, n, space = env.unwrapped, int(np.prod(env.observation_space.shape)), env.action_space
        low, high = (np.asarray(b, np.float32).ravel() for b in (space.low, space.high))
        observation_names = tuple(getattr(own, "observation_names", ())) or tuple(f"observation_{i}" for i in range(n))
        action_names = tuple(getattr(own, "action_names", ())) or tuple(f"action_{i}" for i in range(len(low)))
        return Described(n, space.shape, low, high, observation_names, action_names, rate_of(env))

    def collect(self, actor: Actor, iteration: int, steps: int, environments: tuple[int, ...]) -> list[Fragment]:
        """A fragment of each environment named that is this host's."""
        return [self._at(i).collect(actor, iteration, steps) for i in self._numbers if i in environments]

    def restore(self, cursors: list[Cursor]) -> list[tuple[int, np.ndarray]]:
        """Put this host's environments where the cursors say; what each observes there."""
        return [(c.environment, self._at(c.environment).restore(c)) for c in cursors if c.environment in self._numbers]

    def evaluate(self, actor: Actor, trials: list[Trial]) -> list[Outcome]:
        """Each trial from its own seed, in order."""
        return [self._try(actor, t) for t in trials]

    def demonstrate(self, expert: str, seeds: list[int], disturbance: DisturbanceConfig) -> list[Shown]:
        """Episodes of the scripted demonstrator `expert` ("module:factory"), the executed action disturbed."""
        module, _, factory = expert.partition(":")
        try:
            make = getattr(importlib.import_module(module), factory)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"demonstrations.expert: {expert!r}: {error}; give module:factory") from error
        formulation = self._spec.keywords.get("formulation")
        act = make(self._spec.id, *(() if formulation is None else (formulation,)))
        return [self._show(act, seed, disturbance) for seed in seeds]

    def close(self) -> None:
        """Free the simulators."""
        for env in [*(r.env for r in self._running.values()), self._judge]:
            if env is not None:
                env.close()
        self._running, self._judge = {}, None

    def _at(self, number: int) -> _Running:
        if number not in self._running:
            self._running[number] = _Running(self._spec, number)
        return self._running[number]

    def _judging(self):
        if self._judge is None:
            self._judge = make_env(self._spec)
            self._plant = getattr(self._judge.unwrapped, "plant", None)
        return self._judge

    def _try(self, actor: Actor, trial: Trial) -> Outcome:
        env, rng = self._judging(), np.random.default_rng([trial.seed, 13])
        tamper = tamper_of(trial.tamper, actor, trial.seed)
        # said each time: an environment keeps the plant of the episode before
        plant = self._plant if trial.plant is None else trial.plant
        observation, info = env.reset(seed=trial.seed, options={} if plant is None else {"plant": plant})
        over, steps, total = False, 0, 0.0
        while not over:
            seen = tamper(flat(observation))
            action = actor.sample(seen, rng) if trial.stochastic else actor.raw(seen)
            action = np.clip(action, actor.low, actor.high)
            observation, reward, terminated, truncated, info = env.step(action.reshape(env.action_space.shape))
            over, steps, total = terminated or truncated, steps + 1, total + float(reward)
        return Outcome(trial.seed, trial.plant_index, succeeded(info), str(info.get("failure", "")), steps, total)

    def _show(self, expert, seed: int, disturbance: DisturbanceConfig) -> Shown:
        env, disturbed = self._judging(), Disturbance(disturbance, seed)
        observation, info = env.reset(seed=seed, options={} if self._plant is None else {"plant": self._plant})
        space, over, rate_hz = env.action_space, False, rate_of(env)
        if hasattr(expert, "reset"):
            expert.reset()
        seen, wanted, rewards, stamps_s = [], [], [], []
        while not over:
            stamps_s.append(info.get("time_s", len(stamps_s) / rate_hz))
            action = np.asarray(expert.act(observation, info), np.float32).reshape(space.shape)
            seen.append(flat(observation))
            wanted.append(action.ravel())
            executed = np.clip(action + disturbed.step(space.shape), space.low, space.high).astype(np.float32)
            observation, reward, terminated, truncated, info = env.step(executed)
            rewards.append(reward)
            over = terminated or truncated
        return Shown(seed, succeeded(info), str(info.get("failure", "")), np.array(stamps_s, np.float64),
                     np.array(seen, np.float32), np.array(wanted, np.float32), np.array(rewards, np.float32))


def flat(observation: np.ndarray) -> np.ndarray:
    """(D,) float32."""
    return np.asarray(observation, np.float32).ravel()
