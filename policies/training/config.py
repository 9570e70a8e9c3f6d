"""One YAML file per run: every number that matters stands in it, with its unit in the name and its range here.

`read(RunConfig, path)` refuses what is unknown, mistyped or out of range. Seeds of demonstrations, validation and
evaluation are disjoint ranges below `TRAINING_SEEDS_FROM`; the episodes that a policy is tuned on draw theirs above it,
so that no test scene is ever trained on or selected by.
"""
from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, replace
from typing import Literal

from steadyhand.errors import ConfigError
from policies.training.schema import ranged

TRAINING_SEEDS_FROM = 2**30
SEEDS_PER_RUN = 100_000  # a run's own seed moves the range of its demonstrations by so many
Formulation = Literal["cartesian_delta", "joint_delta"]


@dataclass(frozen=True)
class EnvironmentConfig:
    """`id` as registered, or "module:id". What is left out is not passed on, so that any environment can be trained."""

    id: str
    formulation: Formulation | None = None
    observations: Literal["state", "image"] | None = None
    noise: bool | None = None

    def keywords(self) -> dict:
        """Keyword arguments of `gymnasium.make`."""
        return {k: v for k, v in asdict(self).items() if k != "id" and v is not None}


@dataclass(frozen=True)
class RandomisationConfig:
    """Plants drawn anew for each episode around the identified one: a factor on each named parameter, or a range for
    what the identified plant does not have (backlash, bias). `nominal_share` of the episodes keep it as it is."""

    factors: dict[str, tuple[float, float]]
    ranges: dict[str, tuple[float, float]]
    nominal_share: float = ranged(0.0, 1.0, 0.1)

    def __post_init__(self) -> None:
        for kind in ("factors", "ranges"):
            for name, (low, high) in getattr(self, kind).items():
                if not low <= high:
                    raise ConfigError(f"{kind}.{name}: {low} to {high} is empty; give low <= high")
        for name in self.factors.keys() & self.ranges.keys():
            raise ConfigError(f"factors.{name} and ranges.{name}: give one of them")
        for name, (low, _) in self.factors.items():
            if low < 0:
                raise ConfigError(f"factors.{name}: {low}, expected 0 or more")


@dataclass(frozen=True)
class DisturbanceConfig:
    """What a demonstrator's executed actions are disturbed by, in action units; the label is its own (DART, Laskey et
    al. 2017). Correlated noise, and pushes: one begins in a share of the free steps, rises and falls as half a sine
    (the gate refuses sudden ones), to a height drawn for each element."""

    noise: float = ranged(0.0, 1.0, 0.0)  # std
    hold: float = ranged(0.0, 0.999, 0.8)  # correlation from step to step
    push: float = ranged(0.0, 1.0, 0.0)  # std of the height
    push_chance: float = ranged(0.0, 1.0, 0.05)
    push_steps: int = ranged(2, 100, 8)


@dataclass(frozen=True)
class DemonstrationsConfig:
    """Episodes of the scripted expert; only successful ones teach. `episodes` of those; more are tried if need be."""

    episodes: int = ranged(1, 10_000)
    first_seed: int = ranged(0, 500_000_000)
    disturbance: DisturbanceConfig = DisturbanceConfig()
    expert: str = "steadyhand_sim.envs.experts:expert"  # called with the environment's id and formulation


@dataclass(frozen=True)
class NetworkConfig:
    """Two perceptrons of this shape, actor and critic, tanh; normalised observations are clipped to +-`clip`."""

    hidden: tuple[int, ...] = ranged(4, 1024, (128, 128))
    clip: float = ranged(1.0, 100.0, 10.0)

    def __post_init__(self) -> None:
        if not 1 <= len(self.hidden) <= 4:
            raise ConfigError(f"hidden: {len(self.hidden)} layers, expected 1 to 4")


@dataclass(frozen=True)
class CloningConfig:
    """Regression of the actor's mean on demonstrated actions (AdamW, cosine rate)."""

    epochs: int = ranged(1, 5000, 200)
    batch: int = ranged(8, 8192, 256)
    learning_rate: float = ranged(1e-6, 1e-1, 1e-3)
    weight_decay: float = ranged(0.0, 1.0, 1e-5)
    validation_share: float = ranged(0.02, 0.5, 0.1)  # of the episodes; at least one
    huber: float = ranged(0.0, 10.0, 0.0)  # errors count squared up to here, in proportion beyond; 0: squared
    blind: tuple[str, ...] = ()  # beginnings of names: elements of an observation that the clone does not look at
    curve: tuple[int, ...] = ranged(1, 10_000, ())  # clone from the first so many episodes too, for a learning curve


@dataclass(frozen=True)
class PpoConfig:
    """Proximal policy optimisation (Schulman et al. 2017) as in stable-baselines3, from a cloned actor."""

    steps: int = ranged(1, 1_000_000_000)
    environments: int = ranged(1, 64, 2)
    fragment_steps: int = ranged(8, 65_536, 1024)  # of each environment, per update
    batch: int = ranged(8, 65_536, 256)
    passes: int = ranged(1, 50, 6)  # over a sample
    learning_rate: float = ranged(1e-7, 1e-1, 1e-4)
    clip: float = ranged(0.01, 1.0, 0.15)
    target_kl: float = ranged(1e-4, 10.0, 0.03)  # no further batch once the estimate is above 1.5 times this
    gamma: float = ranged(0.5, 1.0, 0.98)
    gae_lambda: float = ranged(0.0, 1.0, 0.95)
    entropy_coefficient: float = ranged(-1.0, 1.0, 0.0)
    value_coefficient: float = ranged(0.0, 10.0, 0.5)
    gradient_norm: float = ranged(1e-3, 100.0, 0.5)
    warm_up_steps: int = ranged(0, 10_000_000, 12_000)  # the actor is frozen while the critic learns to judge it

    def __post_init__(self) -> None:
        if self.environments * self.fragment_steps < 2 * self.batch:
            raise ConfigError(
                f"batch: {self.batch} of {self.environments} x {self.fragment_steps} steps; give at most half of them"
            )


@dataclass(frozen=True)
class ExplorationConfig:
    """Standard deviation of the actions: a ceiling that falls linearly until `anneal_until` of the steps; below it the
    deviation is learned."""

    std_start: float = ranged(1e-3, 2.0, 0.2)
    std_end: float = ranged(1e-3, 2.0, 0.1)
    anneal_until: float = ranged(0.0, 1.0, 0.7)

    def __post_init__(self) -> None:
        if self.std_end > self.std_start:
            raise ConfigError(f"std_end: {self.std_end}, expected at most std_start={self.std_start}")


@dataclass(frozen=True)
class AlarmsConfig:
    """What a sane update stays within. After `patience` updates in alarm in a row training rolls back."""

    entropy_drop_nats: float = ranged(0.05, 10.0, 0.7)  # per action element below what the ceiling's would be
    kl_max: float = ranged(1e-3, 1000.0, 0.2)  # mean exact divergence of one update
    spread_min: float = ranged(0.0, 1.0, 0.2)  # of the mean action over states, as a share of the cloned actor's
    patience: int = ranged(1, 1000, 3)
    entropy_boost: float = ranged(0.0, 1.0, 0.005)  # added to the entropy coefficient after an entropy alarm


@dataclass(frozen=True)
class ValidationConfig:
    """The clean set: fixed scenes on the identified plant, never trained on, never reported as a result."""

    first_seed: int = ranged(0, 1_000_000_000)
    every_updates: int = ranged(1, 100_000, 20)
    episodes: int = ranged(1, 10_000, 100)
    p_value: float = ranged(1e-6, 0.5, 0.01)  # worse than the best by a paired test at this level: roll back
    rollbacks_max: int = ranged(0, 100, 3)  # one more ends the training; the best checkpoint is its result
    rate_factor: float = ranged(0.05, 1.0, 0.5)  # on the learning rate, at a roll-back


@dataclass(frozen=True)
class EvaluationConfig:
    """Held-out scenes, read by the final evaluation only."""

    first_seed: int = ranged(0, 1_000_000_000)
    episodes: int = ranged(1, 100_000, 500)


@dataclass(frozen=True)
class WorkersConfig:
    """Where episodes run. The results do not depend on it."""

    transport: Literal["serial", "processes", "ray"] = "processes"
    count: int = ranged(1, 256, 2)
    address: str | None = None  # of a Ray cluster; none starts one on this machine
    timeout_s: float = ranged(1.0, 86_400.0, 900.0)  # for one answer of a worker


@dataclass(frozen=True)
class RunConfig:
    """A run: demonstrations, cloning, and, if `ppo` is there, fine-tuning."""

    name: str
    seed: int = ranged(0, 1000)
    environment: EnvironmentConfig
    demonstrations: DemonstrationsConfig
    evaluation: EvaluationConfig
    network: NetworkConfig = NetworkConfig()
    cloning: CloningConfig = CloningConfig()
    ppo: PpoConfig | None = None
    exploration: ExplorationConfig = ExplorationConfig()
    alarms: AlarmsConfig = AlarmsConfig()
    validation: ValidationConfig | None = None
    randomisation: RandomisationConfig | None = None
    workers: WorkersConfig = WorkersConfig()

    def __post_init__(self) -> None:
        if not self.name.replace("_", "").isalnum() or not self.name.isascii():
            raise ConfigError(f"name: {self.name!r}, expected letters, digits and underscores")
        if self.ppo is not None and self.validation is None:
            raise ConfigError("validation: missing; fine-tuning needs it to choose its best checkpoint")
        self._check_seeds()

    def demonstration_seed(self) -> int:
        """Where this run's demonstrations begin."""
        return self.demonstrations.first_seed + SEEDS_PER_RUN * self.seed

    def _check_seeds(self) -> None:
        parts = {
            "demonstrations": (self.demonstration_seed(), SEEDS_PER_RUN),
            "evaluation": (self.evaluation.first_seed, self.evaluation.episodes),
        }
        if self.validation is not None:
            parts["validation"] = (self.validation.first_seed, self.validation.episodes)
        taken = sorted((first, first + n, name) for name, (first, n) in parts.items())
        for (_, end, name), (first, _, other) in zip(taken, taken[1:]):
            if first < end:
                raise ConfigError(f"{other}.first_seed: {first} lies among the seeds of {name}, which end at {end}")
        if taken[-1][1] > TRAINING_SEEDS_FROM:
            raise ConfigError(f"{taken[-1][2]}.first_seed: its seeds reach beyond {TRAINING_SEEDS_FROM}")


def identity(config: RunConfig) -> str:
    """SHA-256 of what decides a run's result: everything but where its episodes run."""
    parts = asdict(config)
    del parts["workers"]
    return hashlib.sha256(repr(sorted(parts.items())).encode()).hexdigest()


def shrunk(config: RunConfig) -> RunConfig:
    """The same run made as small as its parts allow: to see that everything in it works, not what comes of it."""
    few = 4
    d, v = config.demonstrations, config.validation
    ppo = config.ppo
    if ppo is not None:
        steps = 64
        ppo = replace(ppo, fragment_steps=steps, batch=32, steps=3 * steps * ppo.environments,
                      warm_up_steps=min(ppo.warm_up_steps, steps * ppo.environments))
    return replace(
        config, demonstrations=replace(d, episodes=min(d.episodes, few)), ppo=ppo,
        cloning=replace(config.cloning, epochs=min(config.cloning.epochs, 5), batch=32,
                        curve=config.cloning.curve and (2,)),
        validation=v and replace(v, every_updates=1, episodes=few),
        evaluation=replace(config.evaluation, episodes=few),
    )
