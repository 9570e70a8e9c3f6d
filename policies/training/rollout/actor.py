"""A trained policy without its training: normalisation, tanh perceptron, exploration. Numpy only; a file of 100 kB.

The same arrays drive exploration, validation, evaluation and export, so a committed file re-evaluates any figure.
"""
from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from policies.training.store.files import write_whole
from steadyhand.errors import ConfigError


@dataclass(frozen=True)
class Actor:
    """Gaussian policy: mean = perceptron of the clipped normalised observation, std a constant per action element.

    mean, std: (D,) of observations; weights: layers of (out, in), biases (out,); action_std, low, high: (A,).
    All float32. `about` says where it comes from.
    """

    mean: np.ndarray
    std: np.ndarray
    clip: float
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    action_std: np.ndarray
    low: np.ndarray
    high: np.ndarray
    about: dict = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        width = len(self.mean)
        if len(self.weights) != len(self.biases) or not self.weights:
            raise ConfigError(f"actor: {len(self.weights)} weights and {len(self.biases)} biases; give as many of each")
        for i, (w, b) in enumerate(zip(self.weights, self.biases)):
            if w.ndim != 2 or w.shape[1] != width or b.shape != (w.shape[0],):
                raise ConfigError(f"actor: layer {i} has weights {w.shape} and biases {b.shape} after width {width}")
            width = w.shape[0]
        for name in ("action_std", "low", "high"):
            if getattr(self, name).shape != (width,):
                raise ConfigError(f"actor: {name} has shape {getattr(self, name).shape}, expected ({width},)")
        if self.std.shape != self.mean.shape or not (self.std > 0).all():
            raise ConfigError(f"actor: std has shape {self.std.shape}, expected {self.mean.shape}, all above 0")
        for name, array in self.arrays().items():
            if not np.isfinite(array).all():
                raise ConfigError(f"actor: {name} is not finite")

    def raw(self, observation: np.ndarray) -> np.ndarray:
        """Mean action (..., A) before the bounds, of an observation (..., D)."""
        x = np.clip((observation - self.mean) / self.std, -self.clip, self.clip).astype(np.float32, copy=False)
        for w, b in zip(self.weights[:-1], self.biases[:-1]):
            x = np.tanh(x @ w.T + b)
        return x @ self.weights[-1].T + self.biases[-1]

    def act(self, observation: np.ndarray) -> np.ndarray:
        """What is done: the mean action within the bounds."""
        return np.clip(self.raw(observation), self.low, self.high)

    def sample(self, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """What is tried: (A,) float32, not yet within the bounds (the density is that of the unbounded action)."""
        noise = rng.standard_normal(len(self.low), dtype=np.float32)
        return self.raw(observation) + self.action_std * noise

    def described(self, **about) -> Actor:
        """The same with more said about it."""
        return replace(self, about={**self.about, **about})

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that decides an action, by name."""
        layers = {f"weight{i}": w for i, w in enumerate(self.weights)}
        layers |= {f"bias{i}": b for i, b in enumerate(self.biases)}
        return {"mean": self.mean, "std": self.std, "clip": np.float32(self.clip), "action_std": self.action_std,
                "low": self.low, "high": self.high, **layers}

    def sha256(self) -> str:
        """Hash of the arrays: of what the actor does, not of the file's packing."""
        digest = hashlib.sha256()
        for name, array in sorted(self.arrays().items()):
            array = np.ascontiguousarray(array, dtype="<f4")
            digest.update(f"{name}{array.shape}".encode() + array.tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the file whole or not at all."""
        path.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()
        np.savez(content, about=np.array(json.dumps(self.about, sort_keys=True)), **self.arrays())
        write_whole(path, [content.getvalue()])

    @staticmethod
    def load(path: Path) -> Actor:
        """The actor in a file. Raises ConfigError when it is absent, damaged, not finite or misshapen."""
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {k: file[k] for k in file.files}
            about = json.loads(str(arrays.pop("about")))
            layers = sum(k.startswith("weight") for k in arrays)
            return Actor(
                arrays["mean"], arrays["std"], float(arrays["clip"]),
                tuple(arrays[f"weight{i}"] for i in range(layers)), tuple(arrays[f"bias{i}"] for i in range(layers)),
                arrays["action_std"], arrays["low"], arrays["high"], about,
            )
        except (OSError, ValueError, TypeError, AttributeError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise ConfigError(f"checkpoint {path}: {error!r}; train it, or fetch it from the repository") from error
        except ConfigError as error:
            raise ConfigError(f"checkpoint {path}: {error}") from None
