"""The training loss: what each map is asked for.

- Centres: the penalty-reduced focal loss of CornerNet/CenterNet (alpha 2, beta 4), per object; ignored cells are out.
- Position: Gaussian negative log-likelihood of the metric offset with the predicted deviation, its gradient re-weighted
  by the variance to the power `BETA` (Seitzer et al. 2022, beta-NLL), so that hard cells are not given up.
- Yaw: smooth L1 on (sin, cos) of four times the yaw.
- Held cube: as the centres. Scratch: cross-entropy, where it is asked.
- Distillation, where there is a teacher: squared error of its standardised features from a linear map of the student's.
"""
from __future__ import annotations

import torch
from torch.nn import functional

from policies.training.perception.targets import Targets

BETA = 0.5
YAW_WEIGHT = 1.0
POSITION_WEIGHT = 0.5
HELD_WEIGHT = 0.3


def centre_loss(logit: torch.Tensor, heat: torch.Tensor, keep: torch.Tensor) -> torch.Tensor:
    """logit, heat (target), keep (1 or 0): (N, rows, columns) -> scalar, per object of the batch."""
    positive = (heat >= 0.999) & (keep > 0)
    log_p, log_not_p = functional.logsigmoid(logit), functional.logsigmoid(-logit)
    p = torch.exp(log_p)
    gain = -((1 - p) ** 2 * log_p)[positive].sum()
    penalty = -(p**2 * log_not_p * (1 - heat) ** 4 * keep * ~positive).sum()
    return (gain + penalty) / positive.sum().clamp(min=1)


def position_loss(offset: torch.Tensor, target: torch.Tensor, log_std: torch.Tensor, weight: torch.Tensor):
    """offset, target (N, 2, rows, columns), log_std and weight (N, rows, columns) -> scalar."""
    log_std = log_std.clamp(-5.0, 3.0)
    variance = torch.exp(2 * log_std)
    squared = ((offset - target) ** 2).sum(dim=1)
    likelihood = 0.5 * squared / variance + 2 * log_std  # two coordinates with the same deviation
    return (likelihood * variance.detach() ** BETA * weight).sum() / weight.sum().clamp(min=1)


def yaw_loss(predicted: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """predicted, target (N, 2, rows, columns), weight (N, rows, columns) -> scalar."""
    each = functional.smooth_l1_loss(predicted, target, reduction="none", beta=0.2).sum(dim=1)
    return (each * weight).sum() / weight.sum().clamp(min=1)


def cross_entropy(logit: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """All of one shape -> scalar."""
    each = functional.binary_cross_entropy_with_logits(logit, target, reduction="none")
    return (each * weight).sum() / weight.sum().clamp(min=1)


def total_loss(outputs, asked: Targets) -> tuple[torch.Tensor, dict[str, float]]:
    """`outputs` of the network, float32 -> loss, its parts."""
    t = {name: torch.from_numpy(value) for name, value in vars(asked).items()}
    maps, weight = outputs.maps, t["weight"] * t["keep"]
    target = t["maps"]
    parts = {
        "centre": centre_loss(maps[:, 0], target[:, 0], t["keep"]),
        "position": POSITION_WEIGHT * position_loss(maps[:, 1:3], target[:, 1:3], maps[:, 5], weight),
        "yaw": YAW_WEIGHT * yaw_loss(maps[:, 3:5], target[:, 3:5], weight),
        "scratch": cross_entropy(outputs.scratch[:, 0], t["scratch"], t["scratch_weight"] * t["keep"]),
        "held": HELD_WEIGHT * centre_loss(outputs.held, t["held"], t["held_keep"]),
    }
    return sum(parts.values()), {name: float(value.detach()) for name, value in parts.items()}
