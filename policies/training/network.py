"""The actor's network in torch: to be fitted, and to be exported with its normalisation and its bounds inside."""
from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import nn

from policies.training.rollout.actor import Actor

FINE_LAYER_SCALE = 0.01  # of the last layer at the start: the first mean actions are near nothing


def initial_actor(
    mean: np.ndarray, std: np.ndarray, clip: float, hidden: tuple[int, ...], action_std: float,
    low: np.ndarray, high: np.ndarray, seed: int,
) -> Actor:
    """An untrained actor: orthogonal weights, as usual for tanh (Saxe et al. 2014)."""
    generator = torch.Generator().manual_seed(seed)
    weights, biases, width = [], [], len(mean)
    for i, size in enumerate((*hidden, len(low))):
        w = torch.empty(size, width)
        nn.init.orthogonal_(w, FINE_LAYER_SCALE if i == len(hidden) else np.sqrt(2.0), generator=generator)
        weights.append(w.numpy())
        biases.append(np.zeros(size, np.float32))
        width = size
    as_f4 = lambda x: np.asarray(x, np.float32)
    spread = np.full(len(low), action_std, np.float32)
    return Actor(as_f4(mean), as_f4(std), clip, tuple(weights), tuple(biases), spread, as_f4(low), as_f4(high))


class ActorNetwork(nn.Module):
    """(B, D) raw observation -> (B, *action_shape) action within its bounds."""

    def __init__(self, actor: Actor, action_shape: tuple[int, ...] | None = None) -> None:
        super().__init__()
        self._shape = tuple(action_shape or (len(actor.low),))
        self.clip = actor.clip
        for name in ("mean", "std", "low", "high"):
            self.register_buffer(name, torch.as_tensor(getattr(actor, name)).clone())
        layers: list[nn.Module] = []
        for i, (w, b) in enumerate(zip(actor.weights, actor.biases)):
            linear = nn.Linear(w.shape[1], w.shape[0])
            with torch.no_grad():
                linear.weight.copy_(torch.as_tensor(w))
                linear.bias.copy_(torch.as_tensor(b))
            layers += [linear] if i == len(actor.weights) - 1 else [linear, nn.Tanh()]
        self.body = nn.Sequential(*layers)

    def raw(self, observation: torch.Tensor) -> torch.Tensor:
        """(B, A) before the bounds; what is fitted."""
        return self.body(((observation - self.mean) / self.std).clamp(-self.clip, self.clip))

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        bounded = torch.minimum(torch.maximum(self.raw(observation), self.low), self.high)
        return bounded.reshape(-1, *self._shape)

    def actor(self, like: Actor) -> Actor:
        """The weights as they are now; the rest as in `like`."""
        linear = [m for m in self.body if isinstance(m, nn.Linear)]
        arrays = lambda name: tuple(getattr(m, name).detach().numpy().copy() for m in linear)
        return replace(like, weights=arrays("weight"), biases=arrays("bias"))
