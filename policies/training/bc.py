"""Behaviour cloning: regression of the actor's mean on the demonstrator's actions. Whole episodes are held back to see
when it begins to learn them by heart; the weights at their best are the result."""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from policies.training.config import CloningConfig
from policies.training.network import ActorNetwork
from policies.training.rollout.actor import Actor
from steadyhand.errors import ConfigError

STD_MIN = 0.02  # m, rad, 1: what hardly varied when demonstrated (a tool that always pointed down) must not explode


@dataclass(frozen=True)
class Pairs:
    """What the demonstrator saw and wanted, episode by episode: (T, D) and (T, A) float32 each."""

    observations: tuple[np.ndarray, ...]
    actions: tuple[np.ndarray, ...]

    def __post_init__(self) -> None:
        if len(self.observations) != len(self.actions) or not self.observations:
            raise ConfigError(f"demonstrations: {len(self.observations)} episodes, {len(self.actions)} of actions")
        for i, (o, a) in enumerate(zip(self.observations, self.actions)):
            if len(o) != len(a) or len(o) == 0:
                raise ConfigError(f"demonstrations: episode {i} has {len(o)} observations and {len(a)} actions")
            if not (np.isfinite(o).all() and np.isfinite(a).all()):
                raise ConfigError(f"demonstrations: episode {i} is not finite")

    def first(self, n: int) -> Pairs:
        """The first n episodes."""
        if n > len(self.observations):
            raise ConfigError(f"cloning: {n} episodes of {len(self.observations)} demonstrated; demonstrate more")
        return Pairs(self.observations[:n], self.actions[:n])

    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and std (D,) of all observations; elements that never varied get std 1."""
        o = np.concatenate(self.observations).astype(float)
        mean, std = o.mean(axis=0), o.std(axis=0)
        return mean.astype(np.float32), np.where(std < 1e-6, 1.0, np.maximum(std, STD_MIN)).astype(np.float32)


def clone(
    actor: Actor, pairs: Pairs, config: CloningConfig, seed: int, on_epoch: Callable[[dict], None] = lambda row: None,
    blind: tuple[int, ...] = (),
) -> Actor:
    """`actor` with its mean fitted to the pairs; same inputs and seed, same weights. It gives no weight to the elements
    `blind` of an observation: fine-tuning finds them at zero and may use them."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    held = held_back(len(pairs.observations), config.validation_share, rng)
    taught = _tensors(pairs, ~held)
    checked = _tensors(pairs, held) if held.any() else taught
    network, look_away = ActorNetwork(actor), list(blind)
    _forget(network, look_away)
    optimiser = torch.optim.AdamW(network.body.parameters(), config.learning_rate, weight_decay=config.weight_decay)
    batches = max(1, len(taught[0]) // config.batch)
    best, kept, step, steps = math.inf, actor, 0, batches * config.epochs
    for epoch in range(config.epochs):
        order, total = torch.as_tensor(rng.permutation(len(taught[0]))), 0.0
        for i in range(batches):
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * 0.5 * (1 + math.cos(math.pi * step / steps))
            rows = order[i * config.batch:(i + 1) * config.batch]
            loss = _error(network, taught[0][rows], taught[1][rows], config.huber)
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.body.parameters(), 1.0)
            optimiser.step()
            _forget(network, look_away)
            total, step = total + float(loss.detach()), step + 1
        with torch.no_grad():
            value = float(_error(network, *checked, config.huber))
        if not math.isfinite(value):
            raise ConfigError(f"cloning: learning_rate={config.learning_rate} gives a loss of {value} in epoch {epoch}")
        on_epoch({"epoch": epoch, "train_loss": total / batches, "validation_loss": value})
        if value < best:
            best, kept = value, network.actor(actor)
    return kept


def held_back(episodes: int, share: float, rng: np.random.Generator) -> np.ndarray:
    """Which episodes (N,) bool only check: at least one, unless there is only one."""
    held = np.zeros(episodes, bool)
    if episodes > 1:
        held[rng.permutation(episodes)[:max(1, round(share * episodes))]] = True
    return held


def blind_elements(names: tuple[str, ...], prefixes: tuple[str, ...]) -> tuple[int, ...]:
    """Indices of the observation's elements whose names begin so. ConfigError for a prefix of none."""
    for prefix in prefixes:
        if not any(name.startswith(prefix) for name in names):
            raise ConfigError(f"cloning.blind: no element begins with {prefix!r}; there are {', '.join(names)}")
    return tuple(i for i, name in enumerate(names) if name.startswith(tuple(prefixes)))


def _forget(network: ActorNetwork, elements: list[int]) -> None:
    if elements:
        with torch.no_grad():
            network.body[0].weight[:, elements] = 0.0


def _error(network: ActorNetwork, observation: torch.Tensor, action: torch.Tensor, huber: float) -> torch.Tensor:
    """Mean over steps and elements: squared, or, but for the last element (a vote has two sides and no median),
    squared up to `huber` and in proportion beyond (Huber 1964), so that the small steps of an approach count too."""
    wrong = network.raw(observation) - action
    if huber == 0.0:
        return (wrong**2).mean()
    size = wrong[:, :-1].abs()
    motion = torch.where(size < huber, size**2 / (2 * huber), size - huber / 2)
    return torch.cat([motion, wrong[:, -1:] ** 2], dim=1).mean()


def _tensors(pairs: Pairs, chosen: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    rows = np.flatnonzero(chosen)
    return (torch.as_tensor(np.concatenate([pairs.observations[i] for i in rows])),
            torch.as_tensor(np.concatenate([pairs.actions[i] for i in rows])))
