"""The network: normalisation, a small perceptron, tanh. All of it is inside the exported graph."""
from __future__ import annotations

import numpy as np
import torch
from torch import nn

from steadyhand import policy_io


class PolicyNetwork(nn.Module):
    """(B, OBSERVATION_DIM) raw observation -> (B, HORIZON, ACTION_DIM) actions in [-1, 1]."""

    def __init__(self, hidden: tuple[int, ...], mean: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))
        layers, width = [], policy_io.OBSERVATION_DIM
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ELU()]
            width = size
        layers.append(nn.Linear(width, policy_io.HORIZON * policy_io.ACTION_DIM))
        self.body = nn.Sequential(*layers)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """tanh bounds the actions inside the graph, so that a reply out of range means damage and is refused."""
        flat = torch.tanh(self.body((observation - self.mean) / self.std))
        return flat.reshape(-1, policy_io.HORIZON, policy_io.ACTION_DIM)
