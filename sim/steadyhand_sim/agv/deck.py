"""The load tray on the vehicle's deck: where it is, and what lies in it. Pure geometry, metres."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand_sim.agv.vehicle_config import VehicleConfig

FLOOR_Z_M = -0.75  # the hall's floor under the table's top, which is z = 0
TRAY_HALF_X_M, TRAY_HALF_Y_M = 0.30, 0.22  # inside of the rim, along and across the vehicle
RIM_HEIGHT_M, RIM_THICKNESS_M = 0.03, 0.01
HEIGHT_SLACK_M = 0.05  # above the deck, up to which a thing lies in the tray and not over it


@dataclass(frozen=True)
class Rim:
    """One wall of the tray in the vehicle's frame (x forward, from above the axle's middle), z from the deck."""

    x_m: float
    y_m: float
    half_x_m: float
    half_y_m: float


def rims() -> tuple[Rim, ...]:
    """The four walls."""
    t = RIM_THICKNESS_M / 2
    along, across = TRAY_HALF_X_M + t, TRAY_HALF_Y_M + t
    return (
        Rim(along, 0.0, t, across + t), Rim(-along, 0.0, t, across + t),
        Rim(0.0, across, along - t, t), Rim(0.0, -across, along - t, t),
    )  # fmt: skip


def boxes(config: VehicleConfig) -> list[tuple[tuple[float, float, float], tuple[float, float, float]]]:
    """The vehicle's outline for a camera: centre (ahead, aside, height in `base_link`) and half extents of each box."""
    body_half_m = (config.height_m - config.wheel_radius_m) / 2
    top_m = FLOOR_Z_M + config.height_m
    body = ((0.0, 0.0, top_m - body_half_m), (config.length_m / 2, config.width_m / 2, body_half_m))
    rim_half_m = RIM_HEIGHT_M / 2
    return [body, *(((r.x_m, r.y_m, top_m + rim_half_m), (r.half_x_m, r.half_y_m, rim_half_m)) for r in rims())]


def lies_in(position_m: np.ndarray, pose_m_rad: tuple[float, float, float], deck_z_m: float) -> np.ndarray:
    """(N,) whether things at (N, 3) are in the tray of a vehicle at x, y, heading."""
    x, y, heading = pose_m_rad
    offset = np.asarray(position_m, dtype=float).reshape(-1, 3) - (x, y, deck_z_m)
    ahead = offset[:, 0] * np.cos(heading) + offset[:, 1] * np.sin(heading)
    aside = offset[:, 1] * np.cos(heading) - offset[:, 0] * np.sin(heading)
    inside = (np.abs(ahead) < TRAY_HALF_X_M) & (np.abs(aside) < TRAY_HALF_Y_M)
    return inside & (offset[:, 2] > 0.0) & (offset[:, 2] < HEIGHT_SLACK_M)
