"""Sliding median over stamped samples: one wild sample of five changes nothing. Angles are compared as angles.

The median of a window is as old as its middle sample: on a moving signal it is `delay_samples` late, and says by how
many seconds. A sample that is not later than the last one is refused and counted: what arrives twice would outvote the
others, what arrives late would be taken for now.
"""
from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError, ProtocolError

QUARTER_TURN_RAD = math.pi / 2


def wrap(angle: float, period: float) -> float:
    """The same angle in (-period / 2, period / 2]."""
    wrapped = math.remainder(angle, period)
    return wrapped if wrapped > -period / 2 else wrapped + period


def wrap_quarter_turn(yaw_rad: float) -> float:
    """The same orientation of a cube, in (-pi/4, pi/4]."""
    return wrap(yaw_rad, QUARTER_TURN_RAD)


@dataclass(frozen=True)
class Median:
    """Median of each channel (C,) and how much older than the newest sample its window's middle is."""

    values: np.ndarray
    delay_s: float


class SlidingMedian:
    """Median of the last `window` samples (an odd number) of C channels; before it is full, of what is there.

    `periods`: per channel 0 for a number, else the period of an angle. The window's angles are taken as turns away from
    the newest, so that the seam lies far from all; they must lie within half a period of one another to have a median.
    """

    def __init__(self, window: int, periods: Sequence[float]):
        if window < 1 or window % 2 == 0:
            raise ConfigError(f"window = {window}: give an odd number of samples")
        if not len(periods) or not all(math.isfinite(p) and p >= 0 for p in periods):
            raise ConfigError(f"periods = {list(periods)}: give 0 or a period above 0 for each channel")
        self.rejected: Counter[str] = Counter()  # duplicate, out_of_order, not_finite
        self.latest: Median | None = None
        self._periods = tuple(float(p) for p in periods)
        self._samples: deque[tuple[float, np.ndarray]] = deque(maxlen=window)

    @property
    def delay_samples(self) -> int:
        """Delay with a full window."""
        return self._samples.maxlen // 2

    def add(self, stamp_s: float, values: Sequence[float]) -> Median | None:
        """One sample (C,). The window's median, or None where it is refused and counted.

        Raises ProtocolError for another number of channels.
        """
        sample = np.array(values, dtype=float)
        if sample.shape != (len(self._periods),):
            raise ProtocolError(f"sample has shape {sample.shape}: expected {(len(self._periods),)}")
        reason = self._refusal(stamp_s, sample)
        if reason:
            self.rejected[reason] += 1
            return None
        self._samples.append((stamp_s, sample))
        window = np.stack([s for _, s in self._samples])
        middle = np.median(window, axis=0)
        for channel, period in enumerate(self._periods):
            if period:
                around = window[-1, channel]
                turns = [math.remainder(v - around, period) for v in window[:, channel]]
                middle[channel] = wrap(around + float(np.median(turns)), period)
        middle_at = len(self._samples) - 1 - len(self._samples) // 2
        self.latest = Median(middle, stamp_s - self._samples[middle_at][0])
        return self.latest

    def _refusal(self, stamp_s: float, sample: np.ndarray) -> str:
        if not (math.isfinite(stamp_s) and np.isfinite(sample).all()):
            return "not_finite"
        if self._samples and stamp_s <= self._samples[-1][0]:
            return "duplicate" if stamp_s == self._samples[-1][0] else "out_of_order"
        return ""


class PoseMedian(SlidingMedian):
    """Median of (x, y, z, yaw modulo a quarter turn), for detections of a tray that stands still."""

    def __init__(self, window: int = 5):
        super().__init__(window, (0.0, 0.0, 0.0, QUARTER_TURN_RAD))
