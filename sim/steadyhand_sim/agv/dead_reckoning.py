"""Recorded wheels and gyro through the vehicle's own estimator, and how far two tracks of one drive are apart. Pure."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand_sim.agv.localisation import Localisation
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import Readings
from steadyhand_sim.agv.vehicle_config import VehicleConfig

WINDOW_S, MIN_WAY_M = 20.0, 2.0  # errors are told over windows in which it moved


@dataclass(frozen=True)
class Track:
    """What a source says of the vehicle's way: times (N,), poses (N, 3) x, y (m) and heading (rad)."""

    time_s: np.ndarray
    poses: np.ndarray

    def at(self, time_s: np.ndarray) -> np.ndarray:
        """(M, 3) by linear interpolation, headings unwrapped."""
        columns = (self.poses[:, 0], self.poses[:, 1], np.unwrap(self.poses[:, 2]))
        return np.stack([np.interp(time_s, self.time_s, c) for c in columns], axis=1)


def through_estimator(
    time_s: np.ndarray, speeds: np.ndarray, gyro: tuple[np.ndarray, np.ndarray] | None = None,
    noise: NoiseParameters | None = None,
) -> tuple[Track, np.ndarray]:
    """Dead reckoning by `Localisation`: the track that it estimates, and its covariance (3, 3) at the end.

    `speeds` (N, 2): speed and yaw rate at `time_s`. The recorded wheels are not the simulated vehicle's: their speed
    becomes counts of its own.
    """
    config = VehicleConfig()
    filter_ = Localisation(config, noise or NoiseParameters.load())
    filter_.start(0.0, 0.0, 0.0)
    times = np.arange(time_s[0], time_s[-1], config.period_s)
    gyro_s, rate = gyro if gyro is not None else (time_s, speeds[:, 1])
    speed, turn = (np.interp(times, time_s, speeds[:, i]) for i in (0, 1))
    wheels = np.stack([speed - turn * config.track_m / 2, speed + turn * config.track_m / 2], axis=1)
    ticks = np.round(np.cumsum(wheels, axis=0) * config.period_s * config.ticks_per_m).astype(int)
    poses = []
    for (left, right), rate_rad_s in zip(ticks.tolist(), np.interp(times, gyro_s, rate).tolist()):
        filter_.move(Readings(left, right, rate_rad_s))
        poses.append(filter_.pose())
    return Track(times, np.array(poses).reshape(-1, 3)), filter_.pose_covariance()


def window_errors(estimate: Track, reference: Track) -> dict:
    """Over windows of `WINDOW_S`: how far the distances from start to end differ, and how much the headings' change."""
    start_s, end_s = estimate.time_s[0], estimate.time_s[-1]
    at = np.arange(start_s, end_s - WINDOW_S + 1e-9, WINDOW_S)
    own, other = ([track.at(at), track.at(at + WINDOW_S)] for track in (estimate, reference))
    way = [np.hypot(*(b[:, :2] - a[:, :2]).T) for a, b in (own, other)]
    moved = way[0] > MIN_WAY_M
    distance = (way[0] - way[1])[moved]
    heading = ((own[1] - own[0]) - (other[1] - other[0]))[moved, 2]
    if not moved.any():
        return {"windows": 0}
    return {
        "windows": int(moved.sum()), "window_s": WINDOW_S, "distance_rms_m": _rms(distance),
        "distance_max_m": float(np.abs(distance).max()), "heading_rms_rad": _rms(heading),
        "heading_max_rad": float(np.abs(heading).max()),
    }  # fmt: skip


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt((values**2).mean()))
