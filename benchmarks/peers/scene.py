"""The same observations for every client: the contract's canary, disturbed from a seed."""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

MODEL = Path(__file__).resolve().parents[2] / "policies" / "model_repository" / "pick_place" / "1"
_CONTINUOUS = 11  # the last three elements are 0 or 1: gripper and skill
_SPREAD = 0.01


def observations(n: int, seed: int, folder: Path = MODEL) -> np.ndarray:
    """(n, D) float32, no two alike, so that an answer tells which one it answers."""
    base = np.float32(json.loads((folder / "contract.json").read_text())["canary"]["observation"])
    rng = np.random.default_rng(seed)
    found = base + _SPREAD * rng.standard_normal((n, len(base)), dtype=np.float32)
    found[:, _CONTINUOUS:] = base[_CONTINUOUS:]
    return found
