"""Kalman filter of the joints: position and velocity from encoder readings, with the innovation that tells of faults.

Constant-velocity model per joint with discrete white acceleration noise (Bar-Shalom, Li and Kirubarajan 2001, 6.3.2):
the state of six joints is (q, qd); noise and transition are made for each step, so that steps may differ.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from filterpy.kalman import KalmanFilter
from scipy.stats import chi2

from steadyhand import ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import ProtocolError

GATE_CHI2 = float(chi2.ppf(0.9999, 2 * ur5.DOF))  # one false alarm in ten thousand samples


@dataclass(frozen=True)
class JointEstimatorConfig:
    """Noise of the model and of the sensors (UR5 recordings: encoder steps of 1e-5 rad, velocity ripple 0.02 rad/s)."""

    acceleration_std_rad_s2: float = described(1.5, "white acceleration of the model", "rad/s2", 0.01, 100.0)
    position_std_rad: float = described(1e-4, "encoder noise", "rad", 1e-7, 0.1)
    velocity_std_rad_s: float = described(0.03, "noise of the velocity signal", "rad/s", 1e-5, 10.0)
    max_step_s: float = described(0.2, "a longer gap starts the filter anew", "s", 0.001, 10.0)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class JointEstimate:
    """State after one measurement; `nis` is the normalised innovation squared (12 degrees of freedom)."""

    q_rad: np.ndarray
    qd_rad_s: np.ndarray
    nis: float
    restarted: bool


class JointEstimator:
    """Feed measurements in order of time to `update`."""

    def __init__(self, config: JointEstimatorConfig = JointEstimatorConfig()):
        self.config = config
        self.rejected = 0  # measurements refused: not finite, or not later than the last
        self._filter: KalmanFilter | None = None
        self._stamp_s = 0.0

    def update(self, stamp_s: float, q_rad: np.ndarray, qd_rad_s: np.ndarray) -> JointEstimate | None:
        """One measurement (6,), (6,). None, counted, when it is not finite or not later than the last one."""
        z = np.concatenate([q_rad, qd_rad_s]).astype(float)
        if z.shape != (2 * ur5.DOF,):
            raise ProtocolError(f"joint measurement has {len(z)} values: expected {ur5.DOF} positions and velocities")
        if not np.isfinite(z).all() or not np.isfinite(stamp_s):
            self.rejected += 1
            return None
        step_s = stamp_s - self._stamp_s
        if self._filter is not None and step_s <= 0:
            self.rejected += 1
            return None
        self._stamp_s = stamp_s
        if self._filter is None or step_s > self.config.max_step_s:
            self._filter = self._new(z)
            return JointEstimate(z[: ur5.DOF].copy(), z[ur5.DOF:].copy(), 0.0, True)
        f = self._filter
        f.F = _transition(step_s)
        f.Q = _process_noise(step_s, self.config.acceleration_std_rad_s2)
        f.predict()
        f.update(z)
        nis = float(f.y.T @ np.linalg.solve(f.S, f.y))
        return JointEstimate(f.x[: ur5.DOF].copy(), f.x[ur5.DOF:].copy(), nis, False)

    def _new(self, z: np.ndarray) -> KalmanFilter:
        f = KalmanFilter(dim_x=2 * ur5.DOF, dim_z=2 * ur5.DOF)
        f.x = z.copy()
        f.H = np.eye(2 * ur5.DOF)
        c = self.config
        f.R = np.diag([c.position_std_rad**2] * ur5.DOF + [c.velocity_std_rad_s**2] * ur5.DOF)
        f.P = f.R.copy()
        return f


def _transition(step_s: float) -> np.ndarray:
    transition = np.eye(2 * ur5.DOF)
    transition[: ur5.DOF, ur5.DOF:] = step_s * np.eye(ur5.DOF)
    return transition


def _process_noise(step_s: float, acceleration_std: float) -> np.ndarray:
    # Q = s^2 [[dt^4/4, dt^3/2], [dt^3/2, dt^2]] (piecewise constant acceleration)
    block = np.array([[step_s**4 / 4, step_s**3 / 2], [step_s**3 / 2, step_s**2]]) * acceleration_std**2
    return np.kron(block, np.eye(ur5.DOF))
