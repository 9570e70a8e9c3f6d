"""Dead reckoning of the recorded tricycle, calibrated on its own tracker. Only the fit and its test use it."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from steadyhand_sim.agv.recordings import Tricycle

LASER_X_M = 1.5  # the tracker gives the laser's pose, this far before the rear axle
STEER_RAD_PER_TICK = 2 * math.pi / 8192
WINDOW_S = 2.0


@dataclass(frozen=True)
class Windows:
    """Per window of the recording: way (N,), and the error of the odometry at its end in the vehicle's start frame."""

    distance_m: np.ndarray
    turned_rad: np.ndarray
    along_m: np.ndarray
    across_m: np.ndarray
    heading_rad: np.ndarray


def _relative(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Pose b (3,) in the frame of pose a (3,)."""
    c, s = math.cos(a[2]), math.sin(a[2])
    dx, dy = b[0] - a[0], b[1] - a[1]
    return np.array([c * dx + s * dy, -s * dx + c * dy, math.remainder(b[2] - a[2], math.tau)])


def _axle(laser: np.ndarray) -> np.ndarray:
    return np.array([laser[0] - LASER_X_M * math.cos(laser[2]), laser[1] - LASER_X_M * math.sin(laser[2]), laser[2]])


def windows(log: Tricycle, parameters: np.ndarray, window_s: float = WINDOW_S) -> Windows:
    """Odometry with `parameters` (metres per tick, steer gain, steer offset rad, axle distance m) over each window."""
    metres_per_tick, gain, offset, length_m = parameters
    steer = gain * STEER_RAD_PER_TICK * (log.steer_ticks[1:] + log.steer_ticks[:-1]) / 2 + offset
    way = np.diff(log.traction_ticks) * metres_per_tick  # of the driven, steered front wheel
    turn, forward = way * np.sin(steer) / length_m, way * np.cos(steer)
    heading = np.concatenate([[0.0], np.cumsum(turn)])
    middle = (heading[1:] + heading[:-1]) / 2
    x = np.concatenate([[0.0], np.cumsum(forward * np.cos(middle))])
    y = np.concatenate([[0.0], np.cumsum(forward * np.sin(middle))])
    pose = np.column_stack([x, y, heading])
    travelled = np.concatenate([[0.0], np.cumsum(np.abs(forward))])
    found = []
    edges = np.searchsorted(log.t_s, np.arange(log.t_s[0], log.t_s[-1], window_s))
    for a, b in zip(edges[:-1], edges[1:]):
        true = _relative(_axle(log.tracker[a]), _axle(log.tracker[b]))
        error = _relative(pose[a], pose[b]) - true
        turned = math.remainder(error[2], math.tau)
        found.append((travelled[b] - travelled[a], abs(true[2]), error[0], error[1], turned))
    return Windows(*np.array(found).T)


def calibrate(log: Tricycle) -> np.ndarray:
    """(4,) parameters that fit the tracker best over windows, started from the recording's own first guess."""
    first = np.array([2.3e-6, 1.0, 0.0, 1.4])

    def residual(scaled: np.ndarray) -> np.ndarray:
        w = windows(log, scaled * np.array([1e-6, 1.0, 1.0, 1.0]))
        return np.concatenate([w.along_m, w.across_m, w.heading_rad])

    found = least_squares(residual, first * np.array([1e6, 1, 1, 1]), loss="soft_l1", f_scale=0.02)
    return found.x * np.array([1e-6, 1.0, 1.0, 1.0])
