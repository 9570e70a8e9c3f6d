"""Where the vehicle believes to be: extended Kalman filter over odometry, gyro, ranges to anchors and dock markers.

State: x, y, heading, gyro bias, scale of the wheels. The noise it assumes is the fitted one (`noise`), so its
covariance is to be believed; the tests hold it to that (normalised error squared). Ranges beyond the gate are refused and counted.
"""
from __future__ import annotations

import math

import numpy as np

from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import Readings
from steadyhand_sim.agv.vehicle_config import VehicleConfig

STANDING_M = 1e-4  # no wheel has rolled further in a period: the vehicle stands (2.5 mm/s)
GATE = 3.0  # standard deviations of a range's innovation
LOST_SCORE, TAKEN_SCORE = 15.0, 0.5  # a refused range adds 1, one that fits takes this: mostly refused is lost
FIRST_SIGMA_M, FIRST_SIGMA_RAD = 0.05, 0.03  # of a pose that somebody enters
SPEED_FILTER_S = 0.3  # a counter read at a jittered instant makes a poor speed of one period
# What the filter's straight steps and linear ranges miss: it is not exact even with perfect sensors.
MODEL_RANGE_M, MODEL_WAY_PER_SQRT_M, MODEL_TURN_PER_SQRT_M = 0.01, 0.005, 0.002


class Localisation:
    """`start` once, then `move` each period and `range_fix` or `pose_fix` as they come."""

    def __init__(self, config: VehicleConfig, noise: NoiseParameters) -> None:
        self._c, self._n = config, noise
        self.state = np.zeros(5)
        self.covariance = np.diag([1e4, 1e4, 10.0, noise.gyro_bias_rad_s**2 + 1e-12, noise.scale_error**2 + 1e-12])
        self.initialised = False
        self.standing = True
        self.refused = 0
        self._misfit = 0.0
        self._ticks: tuple[int, int] | None = None
        self.speed_m_s, self.rotation_rad_s = 0.0, 0.0

    def start(self, x_m: float, y_m: float, heading_rad: float) -> None:
        """Somebody says where it stands. What was learnt of gyro and wheels stays."""
        self.state[:3] = x_m, y_m, math.remainder(heading_rad, math.tau)
        self.covariance[:3, :] = 0.0
        self.covariance[:, :3] = 0.0
        self.covariance[:3, :3] = np.diag([FIRST_SIGMA_M**2, FIRST_SIGMA_M**2, FIRST_SIGMA_RAD**2])
        self.initialised, self._misfit = True, 0.0

    @property
    def lost(self) -> bool:
        """Whether so many ranges are refused that the pose cannot be right; a new pose ends it."""
        return self._misfit >= LOST_SCORE

    def pose(self) -> tuple[float, float, float]:
        """Estimated x, y, heading."""
        return float(self.state[0]), float(self.state[1]), float(self.state[2])

    def pose_covariance(self) -> np.ndarray:
        """(3, 3) of `pose`; what the instant of the encoders' reading adds is in it, though it does not accumulate."""
        found = self.covariance[:3, :3].copy()
        along = np.array([math.cos(self.state[2]), math.sin(self.state[2])])
        found[:2, :2] += (self.speed_m_s * self._n.encoder_jitter_s) ** 2 * np.outer(along, along)
        return found

    def deviation_m(self) -> float:
        """Radius that holds the true position in 95 % of cases, at least."""
        return 2.45 * math.sqrt(float(np.linalg.eigvalsh(self.pose_covariance()[:2, :2])[-1]))

    def move(self, readings: Readings) -> None:
        """One period of odometry and gyro."""
        former, self._ticks = self._ticks, (readings.left_ticks, readings.right_ticks)
        if former is None:
            return
        dt = self._c.period_s
        self.standing = max(abs(a - b) for a, b in zip(self._ticks, former)) <= STANDING_M * self._c.ticks_per_m
        rolled = (self._ticks[0] + self._ticks[1] - former[0] - former[1]) / 2 / self._c.ticks_per_m
        x, y, heading, bias, scale = self.state
        way, turn = rolled * (1 + scale), (readings.gyro_rad_s - bias) * dt
        self.speed_m_s += (way / dt - self.speed_m_s) * dt / SPEED_FILTER_S
        self.rotation_rad_s = readings.gyro_rad_s - bias
        if self._ticks == former:  # standing: what the gyro says is its bias
            self.speed_m_s = self.rotation_rad_s = 0.0
            self._correct(np.array([0, 0, 0, 1.0, 0]), readings.gyro_rad_s - bias, self._gyro_variance())
            return
        middle = heading + turn / 2
        c, s = math.cos(middle), math.sin(middle)
        self.state[:3] = x + way * c, y + way * s, math.remainder(heading + turn, math.tau)
        f = np.eye(5)
        f[0, 2], f[1, 2] = -way * s, way * c
        f[0, 3], f[1, 3], f[2, 3] = way * s * dt / 2, -way * c * dt / 2, -dt
        f[0, 4], f[1, 4] = rolled * c, rolled * s
        q_way = (self._n.slip_per_sqrt_m**2 + MODEL_WAY_PER_SQRT_M**2) * abs(rolled)
        q_turn = self._gyro_variance() * dt**2 + MODEL_TURN_PER_SQRT_M**2 * abs(rolled)
        self.covariance = f @ self.covariance @ f.T
        along = np.array([c, s])
        across = np.array([-s, c]) * way / 2
        self.covariance[:2, :2] += q_way * np.outer(along, along) + q_turn * np.outer(across, across)
        self.covariance[2, 2] += q_turn
        self.covariance[:2, 2] += q_turn * across
        self.covariance[2, :2] += q_turn * across

    def _gyro_variance(self) -> float:
        return self._n.gyro_white_rad_s**2 / (self._n.gyro_hz * self._c.period_s) + 1e-12

    def range_fix(self, anchor_xy_m: tuple[float, float], range_m: float) -> bool:
        """A range to an anchor; False when it does not fit (or comes from too near) and is refused."""
        dx, dy = self.state[0] - anchor_xy_m[0], self.state[1] - anchor_xy_m[1]
        distance = math.hypot(dx, dy)
        if not self.initialised or distance < 0.3 or not math.isfinite(range_m):
            return False
        h = np.array([dx / distance, dy / distance, 0.0, 0.0, 0.0])
        innovation = range_m - self._n.range_bias_m - distance
        variance = self._n.range_sigma_m**2 + (self.speed_m_s * self._n.encoder_jitter_s) ** 2 + MODEL_RANGE_M**2
        if innovation**2 > GATE**2 * (h @ self.covariance @ h + variance):
            self.refused += 1
            self._misfit += 1.0
            return False
        if not self.lost:
            self._misfit = max(0.0, self._misfit - TAKEN_SCORE)
        self._correct(h, innovation, variance)
        return True

    def pose_fix(self, pose: tuple[float, float, float], sigma_m: float, sigma_rad: float) -> None:
        """A marker's measurement of the whole pose."""
        if not self.initialised:
            return
        for axis, sigma in ((0, sigma_m), (1, sigma_m), (2, sigma_rad)):
            h = np.zeros(5)
            h[axis] = 1.0
            error = pose[axis] - self.state[axis]
            self._correct(h, math.remainder(error, math.tau) if axis == 2 else error, sigma**2)

    def _correct(self, h: np.ndarray, innovation: float, variance: float) -> None:
        ph = self.covariance @ h
        gain = ph / (h @ ph + variance)
        self.state += gain * innovation
        self.state[2] = math.remainder(self.state[2], math.tau)
        self.covariance -= np.outer(gain, ph)
        self.covariance = (self.covariance + self.covariance.T) / 2
