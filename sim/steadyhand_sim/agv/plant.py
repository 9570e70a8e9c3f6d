"""Where the vehicle truly is: the kinematic plant (cheap, many vehicles), and the sensors that both plants share.

Wheels roll at the commanded speed, as a velocity-controlled drive does within its acceleration. Between wheel and floor
they slip: the way over ground differs from the rolled way by a constant scale and by noise that grows with the root of
the way, as fitted to recordings (`noise`).
"""
from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.vehicle_config import VehicleConfig


@dataclass(frozen=True)
class Readings:
    """What the vehicle's own sensors say after a period: wheel counters (ticks) and the mean yaw rate of the period."""

    left_ticks: int
    right_ticks: int
    gyro_rad_s: float


class Plant(Protocol):
    """A body that moves. Truth is for sensors and scoring only."""

    def step(self, speed_m_s: float, rotation_rad_s: float, load_kg: float) -> None:
        """Pass one control period with the wheels at these speeds, as far as drive and floor let them."""

    def pose(self) -> tuple[float, float, float]:
        """True x, y (m), heading (rad)."""

    def twist(self) -> tuple[float, float]:
        """True speed (m/s) and rotation (rad/s)."""

    def rolled_m(self) -> tuple[float, float]:
        """Way that the left and the right wheel have rolled."""

    def put(self, x_m: float, y_m: float, heading_rad: float) -> None:
        """Stand here, at rest."""

    def close(self) -> None:
        """Free what it holds."""


class KinematicPlant:
    """Differential drive on a plane with wheel slip; no dynamics but the drive's acceleration."""

    def __init__(self, config: VehicleConfig, noise: NoiseParameters, rng: np.random.Generator) -> None:
        self._c, self._n, self._rng = config, noise, rng
        self._scale = 1.0 + noise.scale_error * float(rng.normal())
        self._x = self._y = self._heading = 0.0
        self._v = self._w = 0.0
        self._rolled = [0.0, 0.0]

    def step(self, speed_m_s: float, rotation_rad_s: float, load_kg: float) -> None:
        dt = self._c.period_s
        reach = self._c.emergency_m_s2 * dt  # what the wheels' grip allows at most
        self._v += min(reach, max(-reach, speed_m_s - self._v))
        self._w += min(4.0 * reach / self._c.track_m, max(-4.0 * reach / self._c.track_m, rotation_rad_s - self._w))
        rolled, turned = self._v * dt, self._w * dt
        self._rolled[0] += rolled - turned * self._c.track_m / 2
        self._rolled[1] += rolled + turned * self._c.track_m / 2
        root = math.sqrt(abs(rolled))
        way = rolled * self._scale + root * self._n.slip_per_sqrt_m * float(self._rng.normal())
        turn = turned + root * self._n.heading_per_sqrt_m * float(self._rng.normal())
        middle = self._heading + turn / 2
        self._x += way * math.cos(middle)
        self._y += way * math.sin(middle)
        self._heading = math.remainder(self._heading + turn, math.tau)

    def pose(self) -> tuple[float, float, float]:
        return self._x, self._y, self._heading

    def twist(self) -> tuple[float, float]:
        return self._v, self._w

    def rolled_m(self) -> tuple[float, float]:
        return self._rolled[0], self._rolled[1]

    def put(self, x_m: float, y_m: float, heading_rad: float) -> None:
        self._x, self._y, self._heading, self._v, self._w = x_m, y_m, math.remainder(heading_rad, math.tau), 0.0, 0.0

    def close(self) -> None:
        """Holds nothing."""


class Sensors:
    """Encoders, gyro, ranges and the dock's marker of one vehicle, with the fitted noise. Truth in, readings out."""

    DOCK_SIGMA_M, DOCK_SIGMA_RAD = 0.003, 0.004  # of the marker camera; invented: no recording of one was at hand

    def __init__(self, plant: Plant, config: VehicleConfig, noise: NoiseParameters, rng: np.random.Generator) -> None:
        self._plant, self._c, self._n, self._rng = plant, config, noise, rng
        self._bias = noise.gyro_bias_rad_s * float(rng.normal())
        self._heading = plant.pose()[2]

    def read(self) -> Readings:
        """Once a period, after the plant's step."""
        heading, (speed, rotation) = self._plant.pose()[2], self._plant.twist()
        turned, self._heading = math.remainder(heading - self._heading, math.tau), heading
        late_s = self._n.encoder_jitter_s * float(self._rng.normal())
        left, right = self._plant.rolled_m()
        half = rotation * self._c.track_m / 2
        white = self._n.gyro_white_rad_s / math.sqrt(self._n.gyro_hz * self._c.period_s)
        return Readings(
            round((left + (speed - half) * late_s) * self._c.ticks_per_m),
            round((right + (speed + half) * late_s) * self._c.ticks_per_m),
            turned / self._c.period_s + self._bias + white * float(self._rng.normal()),
        )

    def moved(self) -> None:
        """The vehicle has been put elsewhere: no turn of the gyro."""
        self._heading = self._plant.pose()[2]

    def range_m(self, anchor_xy_m: tuple[float, float]) -> float:
        """A measured distance to an anchor."""
        x, y, _ = self._plant.pose()
        found = math.hypot(anchor_xy_m[0] - x, anchor_xy_m[1] - y) + self._n.range_bias_m
        if self._rng.random() < self._n.range_outlier_share:
            found += float(self._rng.exponential(self._n.range_outlier_m))
        return max(0.0, found + self._n.range_sigma_m * float(self._rng.normal()))

    def dock_pose(self) -> tuple[float, float, float]:
        """The vehicle's pose as the marker of a dock in view gives it."""
        x, y, heading = self._plant.pose()
        noise = self._rng.normal(size=3) * (self.DOCK_SIGMA_M, self.DOCK_SIGMA_M, self.DOCK_SIGMA_RAD)
        return x + noise[0], y + noise[1], math.remainder(heading + noise[2], math.tau)
