"""Sliding median of poses, for detections of a tray that stands still: one wild image of five changes nothing."""
from __future__ import annotations

import math
from collections import deque

import numpy as np

QUARTER_TURN_RAD = math.pi / 2


def wrap_quarter_turn(yaw_rad: float) -> float:
    """The same orientation of a cube, in (-pi/4, pi/4]."""
    wrapped = math.remainder(yaw_rad, QUARTER_TURN_RAD)
    return wrapped if wrapped > -QUARTER_TURN_RAD / 2 else wrapped + QUARTER_TURN_RAD


class PoseMedian:
    """Median over a window of (x, y, z, yaw modulo a quarter turn).

    Its delay on a moving pose is (window - 1) / 2 samples; before the window is full, the median of what is there.
    """

    def __init__(self, window: int = 5):
        if window < 1 or window % 2 == 0:
            raise ValueError(f"window = {window}: give an odd number of samples")
        self._samples: deque[np.ndarray] = deque(maxlen=window)

    def add(self, position_m: np.ndarray, yaw_rad: float) -> tuple[np.ndarray, float]:
        """Take one sample; return (position (3,), yaw) of the window. ValueError for what is not finite."""
        sample = np.array([*position_m, yaw_rad], dtype=float)
        if sample.shape != (4,) or not np.isfinite(sample).all():
            raise ValueError(f"pose sample {sample.tolist()}: give four finite numbers")
        self._samples.append(sample)
        window = np.stack(self._samples)
        middle = np.median(window[:, :3], axis=0)
        around = window[-1, 3]  # angles are compared as turns away from the newest, so the seam lies far from all
        turns = [math.remainder(yaw - around, QUARTER_TURN_RAD) for yaw in window[:, 3]]
        return middle, wrap_quarter_turn(around + float(np.median(turns)))
