"""Joint and IMU channels without impulses and ripple: spikes repaired, then a convolution with a kernel of three. Pure.

The kernel is (w, 1 - 2 w, w). Its gain at a frequency f of samples at f_s is 1 - 2 w (1 - cos(2 pi f / f_s)); w = 1/4
takes out the Nyquist frequency, near which the velocity of a UR5 ripples (58 Hz of 62.5: gain 0.01; 5 Hz: 0.98).
What comes out is `DELAY_SAMPLES` old, and says how old in seconds. Whoever must react at once takes the raw reading:
the guard does.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from steadyhand import impulse
from steadyhand.errors import ConfigError
from steadyhand.impulse import ImpulseConfig, ImpulseDetector, Judged
from steadyhand.impulse_channels import CHANNELS

DELAY_SAMPLES = impulse.DELAY_SAMPLES + 1


@dataclass(frozen=True)
class Filtered:
    """One filtered reading (C,), and how long ago it was read."""

    stamp_s: float
    values: np.ndarray
    spikes: np.ndarray  # bool: repaired in this reading
    delay_s: float


class ImpulseFilter:
    """Feed readings in order of time to `update`."""

    def __init__(self, config: ImpulseConfig, side_weight: float = 0.25):
        if not 0.0 <= side_weight <= 1 / 3:
            raise ConfigError(f"side_weight = {side_weight}: give 0 (no smoothing) to 1/3 (mean of three)")
        self.detector = ImpulseDetector(config)
        self._kernel = np.array([side_weight, 1 - 2 * side_weight, side_weight])
        self._window: deque[Judged] = deque(maxlen=3)
        self._restarts = 0

    def update(self, stamp_s: float, values: np.ndarray) -> Filtered | None:
        """One reading (C,); None until `DELAY_SAMPLES` + 4 are there, and for what the detector refuses."""
        judged = self.detector.update(stamp_s, values)
        if self.detector.restarts != self._restarts:
            self._restarts = self.detector.restarts
            self._window.clear()
        if judged is None:
            return None
        self._window.append(judged)
        if len(self._window) < 3:
            return None
        middle = self._window[1]
        values = self._kernel @ np.stack([j.repaired for j in self._window])
        return Filtered(middle.stamp_s, values, middle.spikes, stamp_s - middle.stamp_s)


class JointFilter:
    """Filters of a UR5's positions and velocities; what is old is carried forward to now by the filtered velocity."""

    def __init__(self, side_weight: float = 0.25):
        self.position = ImpulseFilter(CHANNELS["position"], side_weight)
        self.velocity = ImpulseFilter(CHANNELS["velocity"], side_weight)

    def update(self, stamp_s: float, q_rad: np.ndarray, qd_rad_s: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """One reading (6,), (6,): position now and velocity, as old as the filter is; None as `ImpulseFilter`."""
        q, qd = self.position.update(stamp_s, q_rad), self.velocity.update(stamp_s, qd_rad_s)
        if q is None or qd is None:
            return None
        return q.values + q.delay_s * qd.values, qd.values
