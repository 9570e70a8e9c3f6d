"""The network: normalisation, saturating features, a small perceptron, integration. All inside the exported graph.

The perceptron answers bounded *accelerations*; the graph integrates them from the commanded velocity that it sees. So a
chunk always continues the motion under way and its acceleration is bounded by construction, and what is learned is
not swamped by repeating the velocity (regressing steps directly stalled: an error of 2 % of a step is a third of the
change of velocity that one period may bring).
"""
from __future__ import annotations

import numpy as np
import torch
from torch import nn

from steadyhand import policy_io

_AT = {name: i for i, name in enumerate(policy_io.OBSERVATION_NAMES)}
# (observation element, centre, scale): tanh((x - centre) / scale) resolves millimetres near the target and the heights
# and widths at which the motion changes, which normalisation by a spread of 0.2 m flattens.
_SATURATING = [
    *((f"target_minus_tool_{axis}", 0.0, scale) for axis in "xyz" for scale in (0.008, 0.04)),
    *((f"tool_v{axis}", 0.0, 0.06) for axis in "xyz"),
    ("tool_yaw_rate", 0.0, 0.3), ("sin_4_yaw_error", 0.0, 0.4),
    ("tool_z", 0.075, 0.015), ("tool_z", 0.115, 0.015), ("tool_z", 0.17, 0.02), ("tool_z", 0.23, 0.02),
    ("gripper_width", 0.047, 0.003),
]
# m/s2, rad/s2: a little above the demonstrator's, so that tanh reaches them
ACCELERATION_LIMITS = (1.05, 1.05, 1.05, 3.2)
_DISTANCE_SCALES_M = (0.01, 0.03, 0.1)


class PolicyNetwork(nn.Module):
    """(B, OBSERVATION_DIM) raw observation -> (B, HORIZON, ACTION_DIM) actions in [-1, 1]."""

    def __init__(self, hidden: tuple[int, ...], mean: np.ndarray, std: np.ndarray) -> None:
        super().__init__()
        self.register_buffer("mean", torch.as_tensor(mean, dtype=torch.float32))
        self.register_buffer("std", torch.as_tensor(std, dtype=torch.float32))
        self.register_buffer("index", torch.tensor([_AT[name] for name, _, _ in _SATURATING]))
        self.register_buffer("centre", torch.tensor([c for _, c, _ in _SATURATING], dtype=torch.float32))
        self.register_buffer("scale", torch.tensor([s for _, _, s in _SATURATING], dtype=torch.float32))
        period, horizon = policy_io.PERIOD_S, policy_io.HORIZON
        self.register_buffer("acceleration", torch.tensor(ACCELERATION_LIMITS))
        # mean velocity of step k = v0 + period * (a_0 + ... + a_(k-1) + a_k / 2)
        self.register_buffer("sum", torch.tril(torch.ones(horizon, horizon), -1) + 0.5 * torch.eye(horizon))
        steps = [policy_io.STEP_M] * 3 + [policy_io.STEP_YAW_RAD]
        self.register_buffer("per_step", torch.tensor([period / s for s in steps]))
        layers, width = [], policy_io.OBSERVATION_DIM + len(_SATURATING) + len(_DISTANCE_SCALES_M) + 2
        for size in hidden:
            layers += [nn.Linear(width, size), nn.ELU()]
            width = size
        layers.append(nn.Linear(width, policy_io.HORIZON * policy_io.ACTION_DIM))
        self.body = nn.Sequential(*layers)

    def forward(self, observation: torch.Tensor) -> torch.Tensor:
        """Actions within [-1, 1]: bounded inside the graph, so a reply out of range means damage and is refused."""
        plan = self.plan(observation)
        change = torch.einsum("kj,bja->bka", self.sum, plan[:, :, :4] * self.acceleration)
        start = observation[:, None, 5:9]
        steps = (start + change * policy_io.PERIOD_S) * self.per_step
        return torch.cat([steps, plan[:, :, 4:]], dim=2).clamp(-1.0, 1.0)

    def plan(self, observation: torch.Tensor) -> torch.Tensor:
        """(B, HORIZON, 5): accelerations in units of `ACCELERATION_LIMITS`, and the vote; what is fitted."""
        near = torch.tanh((observation[:, self.index] - self.centre) / self.scale)
        lateral = observation[:, 0:2]
        distance = torch.sqrt((lateral * lateral).sum(dim=1, keepdim=True) + 1e-8)
        far = [torch.tanh(distance / s) for s in _DISTANCE_SCALES_M]
        features = torch.cat([(observation - self.mean) / self.std, near, *far, lateral / (distance + 0.005)], dim=1)
        raw = self.body(features).reshape(-1, policy_io.HORIZON, policy_io.ACTION_DIM)
        # no tanh on the vote: it is almost always -1, saturates there and never learns to ask
        return torch.cat([torch.tanh(raw[:, :, :4]), raw[:, :, 4:]], dim=2)
