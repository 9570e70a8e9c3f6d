"""Behaviour cloning: regression of the demonstrator's chunks on visited observations."""
from __future__ import annotations

import copy

import numpy as np
import torch

from steadyhand.errors import ConfigError
from policies.training.pick_place.expert import expert_plan
from policies.training.pick_place.network import ACCELERATION_LIMITS, PolicyNetwork


def statistics(observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and std (D,) of the visited observations; constant elements get std 1."""
    mean, std = observations.mean(axis=0), observations.std(axis=0)
    return mean, np.where(std < 1e-6, 1.0, std)


def jittered(observations: np.ndarray, settings: dict, rng: np.random.Generator) -> np.ndarray:
    """Disturbed copies (copies * N, D): beside the visited states, where a small error would lead."""
    copies = settings["jitter_copies"]
    if copies == 0:
        return observations[:0]
    o = np.repeat(observations, copies, axis=0).astype(float)
    n = len(o)
    o[:, 0:3] += settings["jitter_m"] * rng.standard_normal((n, 3)) * rng.random((n, 1))
    yaw = np.arctan2(o[:, 3], o[:, 4]) + 4 * settings["jitter_yaw_rad"] * rng.standard_normal(n) * rng.random(n)
    o[:, 3], o[:, 4] = np.sin(yaw), np.cos(yaw)
    o[:, 5:8] += settings["jitter_m_s"] * rng.standard_normal((n, 3)) * rng.random((n, 1))
    o[:, 8] += settings["jitter_yaw_rad_s"] * rng.standard_normal(n) * rng.random(n)
    o[:, 10] += settings["jitter_width_m"] * rng.standard_normal(n)
    return o.astype(np.float32)


def labels_of(observations: np.ndarray) -> torch.Tensor:
    """What `PolicyNetwork.plan` shall answer: the demonstrator's accelerations in units of the limits, and votes."""
    accelerations, votes = expert_plan(observations)
    plan = np.concatenate([accelerations / np.array(ACCELERATION_LIMITS), votes[:, :, None]], axis=2)
    return torch.as_tensor(plan, dtype=torch.float32)


def fit(
    network: PolicyNetwork,
    observations: np.ndarray,
    validation: np.ndarray,
    settings: dict,
    epochs: int,
    seed: int,
    on_epoch=lambda row: None,
) -> PolicyNetwork:
    """Train in place (AdamW, one-cycle rate, Huber loss); returns the network at its best validation loss."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    inputs, labels = torch.as_tensor(observations), labels_of(observations)
    check_in, check_out = torch.as_tensor(validation), labels_of(validation)
    batch, loss_function = settings["batch"], torch.nn.HuberLoss(delta=0.1)
    rate = settings["learning_rate"]
    optimiser = torch.optim.AdamW(network.parameters(), rate, weight_decay=settings["weight_decay"])
    steps = epochs * (len(inputs) // batch)
    if steps < 20:
        raise ConfigError(f"optimiser: {epochs} epochs of {len(inputs)} observations in batches of {batch} are {steps} "
                          "steps; give at least 20")
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.1)
    best = (np.inf, copy.deepcopy(network.state_dict()))
    for epoch in range(epochs):
        network.train()
        order, total = torch.as_tensor(rng.permutation(len(inputs))), 0.0
        for i in range(len(inputs) // batch):
            rows = order[i * batch:(i + 1) * batch]
            loss = loss_function(network.plan(inputs[rows]), labels[rows])
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            total += float(loss.detach())
        network.eval()
        with torch.no_grad():
            value = float(loss_function(network.plan(check_in), check_out))
        if not np.isfinite(value):
            raise ConfigError(f"optimiser: learning_rate={rate} gives a validation loss of {value} in epoch {epoch}; "
                              "lower it, and see that every observation is finite")
        on_epoch({"epoch": epoch, "train_loss": total / max(len(inputs) // batch, 1), "validation_loss": value,
                  "learning_rate": schedule.get_last_lr()[0], "samples": len(inputs)})
        if value < best[0]:
            best = (value, copy.deepcopy(network.state_dict()))
    network.load_state_dict(best[1])
    return network
