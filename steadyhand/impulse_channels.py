"""Impulse detectors of a UR5's channels: noise and thresholds as `python -m benchmarks spikes` finds them.

From recordings of a real UR5 in ordinary motion (NTNU 2013; up to 1.1 rad/s), never from the fast run that the figures
are of. `noise_std`: standard deviation of the differences of adjacent samples; threshold: 1 % false alarms, also where
only every second or third sample is kept, so that the same motion is two or three times as fast.
"""
from __future__ import annotations

from steadyhand.impulse import ImpulseConfig

CHANNELS = {
    # joints at 125 Hz: rad, rad/s, A
    "position": ImpulseConfig((0.00415, 0.00298, 0.00404, 0.00375, 0.00341, 0.00416), 0.13),
    "velocity": ImpulseConfig((0.00762, 0.00659, 0.00704, 0.022, 0.0115, 0.035), 1.07),
    "current": ImpulseConfig((0.256, 0.292, 0.216, 0.18, 0.085, 0.216), 1.28),
    # IMU at the tool, 250 Hz: m/s2, rad/s
    "acceleration": ImpulseConfig((0.521, 0.407, 0.313), 1.0),
    "rate": ImpulseConfig((0.00519, 0.00776, 0.0179), 1.25),
}
