"""A fragment: consecutive steps of one environment between two updates of the policy. And where it left off.

Whole episodes are not cut at a fragment's end: the next fragment goes on with them. The place is a `Cursor` (which
episode, and the actions since its start): the environment is bit-exact, so replaying them restores it after a kill.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.training.store.samples import SampleField, SampleSchema
from steadyhand.errors import ConfigError

SUCCESS_UNKNOWN = -1
_COLUMNS = ("observation", "action", "reward", "next_observation", "starts", "terminated", "truncated", "success")


@dataclass(frozen=True)
class Fragment:
    """n steps, D observation elements, A action elements (flat)."""

    environment: int
    iteration: int
    observation: np.ndarray  # (n, D) float32, before the step
    action: np.ndarray  # (n, A) float32 as sampled, before the bounds
    reward: np.ndarray  # (n,) float32
    next_observation: np.ndarray  # (n, D) float32, after the step, of the same episode also when that is over
    starts: np.ndarray  # (n,) bool: the step is the first of an episode
    terminated: np.ndarray  # (n,) bool
    truncated: np.ndarray  # (n,) bool; never both
    success: np.ndarray  # (n,) int32: 1 or 0 where an episode ended, SUCCESS_UNKNOWN elsewhere

    def __post_init__(self) -> None:
        where, n = f"fragment {self.iteration} of environment {self.environment}", len(self.observation)
        for name in _COLUMNS:
            if len(getattr(self, name)) != n or n == 0:
                raise ConfigError(f"{where}: {name} has {len(getattr(self, name))} rows, observation {n}")
        for name in ("observation", "action", "reward", "next_observation"):
            if not np.isfinite(getattr(self, name)).all():
                raise ConfigError(f"{where}: {name} is not finite")

    def columns(self) -> dict[str, np.ndarray]:
        """Every field with n rows, as the sample store takes it."""
        n = len(self.reward)
        numbers = {k: np.full(n, getattr(self, k), np.int32) for k in ("environment", "iteration")}
        return numbers | {name: getattr(self, name) for name in _COLUMNS}

    @staticmethod
    def of(columns: dict[str, np.ndarray]) -> Fragment:
        """Inverse of `columns`."""
        numbers = {k: int(columns[k][0]) for k in ("environment", "iteration")}
        return Fragment(**numbers, **{name: np.asarray(columns[name]) for name in _COLUMNS})

    def over(self) -> bool:
        """Whether its last step ended an episode."""
        return bool(self.terminated[-1] or self.truncated[-1])


@dataclass(frozen=True)
class Cursor:
    """Where an environment stands: its episode's number, and what was done since that began (k, A), as sampled."""

    environment: int
    episode: int
    actions: np.ndarray

    def after(self, fragment: Fragment) -> Cursor:
        """Where it stands once the fragment is over."""
        if fragment.environment != self.environment:
            raise ConfigError(f"cursor of environment {self.environment}: fragment of {fragment.environment}")
        ends = np.flatnonzero(fragment.terminated | fragment.truncated)
        if len(ends) == 0:
            return Cursor(self.environment, self.episode, np.concatenate([self.actions, fragment.action]))
        return Cursor(self.environment, self.episode + len(ends), fragment.action[ends[-1] + 1:])


def beginning(environment: int, action_dim: int) -> Cursor:
    """Before the first step."""
    return Cursor(environment, 0, np.zeros((0, action_dim), np.float32))


def schema(observation_dim: int, action_dim: int) -> SampleSchema:
    """How the sample store keeps fragments: one batch each."""
    wide = {"observation": observation_dim, "next_observation": observation_dim, "action": action_dim}
    kind = {"environment": "int32", "iteration": "int32", "success": "int32"}
    kind |= dict.fromkeys(("starts", "terminated", "truncated"), "bool")
    names = ("environment", "iteration", *_COLUMNS)
    return SampleSchema(tuple(
        SampleField(name, kind.get(name, "float32"), (wide[name],) if name in wide else ()) for name in names
    ))
