"""Grey patterns for table and tray floor, from a family's name and a seed. Multiplied with the surface's colour.

Which families a split may use is written in the training's `splits.toml`: a test look never shows a training pattern.
"""
from __future__ import annotations

import numpy as np

from steadyhand.errors import ConfigError

SIZE_PX = 64


def _checks(rng: np.random.Generator) -> np.ndarray:
    row, column = np.mgrid[:SIZE_PX, :SIZE_PX] // int(rng.integers(2, 9))
    return (row + column) % 2


def _stripes(rng: np.random.Generator) -> np.ndarray:
    row, column = np.mgrid[:SIZE_PX, :SIZE_PX]
    angle, period = rng.uniform(0, np.pi), rng.uniform(3, 12)
    return 0.5 + 0.5 * np.sin(2 * np.pi * (row * np.cos(angle) + column * np.sin(angle)) / period)


def _clouds(rng: np.random.Generator) -> np.ndarray:
    """Noise of several scales, smooth."""
    total = np.zeros((SIZE_PX, SIZE_PX))
    for cells in (8, 16, 32):
        coarse = rng.random((cells + 1, cells + 1))
        at = np.linspace(0, cells, SIZE_PX, endpoint=False)
        k, f = at.astype(int), (at % 1)
        rows = coarse[k] * (1 - f)[:, None] + coarse[k + 1] * f[:, None]
        total += (rows[:, k] * (1 - f) + rows[:, k + 1] * f) * 8 / cells
    return total / total.max()


def _tiles(rng: np.random.Generator) -> np.ndarray:
    """Squares of random grey."""
    cells = int(rng.integers(6, 25))
    at = np.arange(SIZE_PX) * cells // SIZE_PX
    return rng.random((cells, cells))[at][:, at]


def _dots(rng: np.random.Generator) -> np.ndarray:
    row, column = np.mgrid[:SIZE_PX, :SIZE_PX]
    period, radius = int(rng.integers(5, 13)), rng.uniform(1.2, 3)
    return np.hypot(row % period - period / 2, column % period - period / 2) > radius


def _grain(rng: np.random.Generator) -> np.ndarray:
    """Wood: wavy rings."""
    row, column = np.mgrid[:SIZE_PX, :SIZE_PX]
    wave = rng.uniform(2, 6) * np.sin(2 * np.pi * column / rng.uniform(30, 90) + rng.uniform(0, 6))
    return 0.5 + 0.5 * np.sin(2 * np.pi * (row + wave) / rng.uniform(3, 8))


def _rings(rng: np.random.Generator) -> np.ndarray:
    row, column = np.mgrid[:SIZE_PX, :SIZE_PX]
    centre = rng.uniform(0, SIZE_PX, 2)
    return 0.5 + 0.5 * np.sin(2 * np.pi * np.hypot(row - centre[0], column - centre[1]) / rng.uniform(4, 12))


FAMILIES = {
    "checks": _checks, "stripes": _stripes, "clouds": _clouds, "tiles": _tiles, "dots": _dots, "grain": _grain,
    "rings": _rings,
}


def texture(family: str, seed: int) -> np.ndarray:
    """(SIZE_PX, SIZE_PX) float 0..1, its contrast from the seed too. Raises ConfigError for an unknown family."""
    if family not in FAMILIES:
        raise ConfigError(f"texture family {family!r}: give one of {', '.join(FAMILIES)}")
    rng = np.random.default_rng([seed, 11])
    return 1.0 - rng.uniform(0.1, 0.5) * (1.0 - FAMILIES[family](rng))
