"""The three recordings that the noise is fitted to, read as arrays. Which columns, and whose data: see `noise.json`."""
from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError

GYRO_YAW = 7  # the Husky's IMU lies on its side: its y axis is the vehicle's vertical


@dataclass(frozen=True)
class Husky:
    """Odometry (N,) at 10 Hz, gyro (M,) at 30 Hz, GPS (K,) at 2.5 Hz, one clock from zero."""

    odom_t_s: np.ndarray
    v_m_s: np.ndarray
    w_rad_s: np.ndarray
    gyro_t_s: np.ndarray
    gyro_rad_s: np.ndarray
    gps_t_s: np.ndarray
    gps_xy_m: np.ndarray  # (K, 2)
    gps_variance_m2: np.ndarray

    @staticmethod
    def load(path: Path) -> Husky:
        """From the npz of the data set; ConfigError when it is absent or malformed."""
        try:
            with np.load(path) as file:
                odom, imu, gps = (np.asarray(file[name], dtype=float) for name in ("odom", "imu", "gps_local"))
            start = odom[0, 1]
            return Husky(
                odom[:, 1] - start, odom[:, 5], odom[:, 7], imu[:, 1] - start, imu[:, GYRO_YAW], gps[:, 1] - start,
                gps[:, 2:4], gps[:, 4],
            )
        except (OSError, ValueError, KeyError, IndexError) as error:
            raise ConfigError(f"Husky recording {path}: {error!r}") from error


@dataclass(frozen=True)
class Tricycle:
    """Steering (N,) absolute ticks, traction (N,) ticks unwrapped, tracked pose of the laser (N, 3) x, y, theta."""

    t_s: np.ndarray
    steer_ticks: np.ndarray
    traction_ticks: np.ndarray
    tracker: np.ndarray

    @staticmethod
    def load(path: Path) -> Tricycle:
        """From the CSV (gzip) of the data set; ConfigError when it is absent or malformed."""
        try:
            with gzip.open(path) as file:
                rows = np.genfromtxt(file, delimiter=",", skip_header=1)
            return Tricycle(
                rows[:, 0], np.where(rows[:, 1] > 4096, rows[:, 1] - 8192, rows[:, 1]), unwrap_u32(rows[:, 2]),
                rows[:, 6:9],
            )
        except (OSError, ValueError, IndexError) as error:
            raise ConfigError(f"tricycle recording {path}: {error!r}") from error


def unwrap_u32(counter: np.ndarray) -> np.ndarray:
    """(N,) a 32-bit counter that overflows, as ticks from zero."""
    step = (np.diff(counter) + 2**31) % 2**32 - 2**31
    return np.concatenate([[0.0], np.cumsum(step)])


@dataclass(frozen=True)
class Labyrinth:
    """Errors (N,) of measured ranges against ground truth, m, and wheel speeds beside true speeds (N-1,)."""

    range_error_m: np.ndarray
    wheel_m_s: np.ndarray
    true_m_s: np.ndarray

    @staticmethod
    def load(folder: Path) -> Labyrinth:
        """From the data set's three CSV files; ConfigError when one is absent or malformed."""
        try:
            ranges, truth, wheels = (
                np.genfromtxt(Path(folder) / name, delimiter=",", skip_header=1)
                for name in ("uwb_ranges.csv", "ground_truth_xy.csv", "wheel_odometry.csv")
            )
            distance = np.hypot(truth[:, 1] - ranges[:, 3], truth[:, 2] - ranges[:, 4])
            speed = np.hypot(*np.diff(truth[:, 1:3], axis=0).T) / np.diff(truth[:, 0])
            return Labyrinth(ranges[:, 1] - distance, (wheels[1:, 1] + wheels[1:, 2]) / 2, speed)
        except (OSError, ValueError, IndexError) as error:
            raise ConfigError(f"labyrinth recording {folder}: {error!r}") from error
