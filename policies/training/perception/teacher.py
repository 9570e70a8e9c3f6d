"""Distillation: a student's features, through a linear map, are to tell the features of a wider teacher.

The teacher looks at each training image once, as a plain sensor gives it; the student sees the same image in other
light and noise. So the student learns what does not change. The teacher's features are kept in a file, row by image.
"""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch
from torch import nn

from policies.training.perception.store import ImageSet
from steadyhand.errors import ConfigError

WEIGHT = 0.5


class Distillation(nn.Module):
    """The linear map, and the teacher's features to meet, standardised."""

    def __init__(self, features: Path, student_features: int) -> None:
        super().__init__()
        if not features.exists():
            raise ConfigError(f"{features}: not there; train the teacher first (policies.training.perception.ablation)")
        self._wanted = np.load(features, mmap_mode="r")
        few = np.asarray(self._wanted[:2000], np.float32)
        self._mean, self._std = few.mean(axis=0), few.std(axis=0) + 1e-3
        self.map = nn.Linear(student_features, self._wanted.shape[1])

    def loss(self, student: torch.Tensor, numbers: np.ndarray, shown: torch.Tensor) -> torch.Tensor:
        """Mean squared error over the images (N,) that are `shown`."""
        wanted = (np.asarray(self._wanted[numbers], np.float32) - self._mean) / self._std
        error = ((self.map(student) - torch.from_numpy(wanted)) ** 2).mean(dim=1)
        return WEIGHT * (error * shown).sum() / shown.sum().clamp(min=1)


def write_features(network, images: ImageSet, count: int, path: Path, stop) -> bool:
    """The teacher's features of the first `count` images; whether all are there. Continues an interrupted run."""
    rows, width = path.with_suffix(".partial.npy"), network.feature_count
    state = path.with_suffix(".partial.json")
    done = json.loads(state.read_text())["done"] if state.exists() and rows.exists() else 0
    file = np.lib.format.open_memmap(rows, "r+" if done else "w+", np.float16, (count, width))
    network.eval()
    while done < count and not stop:
        numbers = range(done, min(done + 25, count))
        with torch.no_grad():
            seen = network(torch.from_numpy(np.stack([images.sensed(k) for k in numbers])))
        file[numbers.start : numbers.stop] = seen.features.numpy()
        file.flush()
        done = numbers.stop
        state.write_text(json.dumps({"done": done}))
    if done < count:
        return False
    rows.rename(path)
    state.unlink()
    return True
