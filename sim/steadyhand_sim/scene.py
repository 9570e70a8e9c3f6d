"""The scene as data: fixed boxes (table, tray, box) and sampled cubes. One source for physics, camera and scoring."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import cell
from steadyhand.errors import ConfigError

TABLE_HALF_EXTENTS_M = (0.65, 0.75, 0.05)
TABLE_CENTRE_XY_M = (0.35, 0.0)


@dataclass(frozen=True)
class FixedBox:
    """An immovable box; `collides` False for painted floors."""

    role: str  # "table", "tray", "box", "tray_floor", "box_floor"
    centre_m: tuple[float, float, float]
    half_extents_m: tuple[float, float, float]
    collides: bool = True


@dataclass(frozen=True)
class Cubes:
    """Cube poses in `base_link`."""

    position_m: np.ndarray  # (N, 3) centres
    quaternion_xyzw: np.ndarray  # (N, 4)

    def __len__(self) -> int:
        return len(self.position_m)


def _walls(role: str, region: cell.Region) -> list[FixedBox]:
    t, h = region.wall_thickness_m / 2, region.wall_height_m / 2
    cx, cy = region.centre_m
    half_x, half_y = (region.x_max_m - region.x_min_m) / 2, (region.y_max_m - region.y_min_m) / 2
    z = cell.TABLE_Z_M + h
    return [
        FixedBox(role, (region.x_min_m - t, cy, z), (t, half_y + 2 * t, h)),
        FixedBox(role, (region.x_max_m + t, cy, z), (t, half_y + 2 * t, h)),
        FixedBox(role, (cx, region.y_min_m - t, z), (half_x, t, h)),
        FixedBox(role, (cx, region.y_max_m + t, z), (half_x, t, h)),
        FixedBox(f"{role}_floor", (cx, cy, cell.TABLE_Z_M + 0.0005), (half_x, half_y, 0.0005), collides=False),
    ]


def fixed_boxes() -> list[FixedBox]:
    """Table (top at z = 0), tray and box with walls and painted floors."""
    table = FixedBox(
        "table", (*TABLE_CENTRE_XY_M, cell.TABLE_Z_M - TABLE_HALF_EXTENTS_M[2]), TABLE_HALF_EXTENTS_M
    )
    return [table, *_walls("tray", cell.TRAY), *_walls("box", cell.BOX)]


def yaw_quaternion(yaw_rad: np.ndarray) -> np.ndarray:
    """Quaternions xyzw (N, 4) of turns about the vertical (N,)."""
    half = np.atleast_1d(yaw_rad) / 2
    return np.stack([0 * half, 0 * half, np.sin(half), np.cos(half)], axis=1)


def quaternion_yaw(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Yaw (N,) of quaternions xyzw (N, 4): the heading of the body's x axis."""
    x, y, z, w = np.atleast_2d(quaternion_xyzw).T
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def cube_yaw(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Yaw (N,) of upright cubes, in (-pi/4, pi/4]: a cube is the same after a quarter turn."""
    yaw = quaternion_yaw(quaternion_xyzw)
    return -((-yaw + np.pi / 4) % (np.pi / 2) - np.pi / 4)


def sample_cubes(rng: np.random.Generator, n_cubes: int) -> Cubes:
    """Cubes at random poses in the tray, `cell.MIN_CUBE_SPACING_M` apart and `cell.SPAWN_MARGIN_M` from the walls.

    Raises ConfigError for a number that is out of range.
    """
    if not 0 <= n_cubes <= cell.MAX_CUBES:
        raise ConfigError(f"n_cubes={n_cubes}: give 0 to {cell.MAX_CUBES}")
    tray, margin = cell.TRAY, cell.SPAWN_MARGIN_M
    low = np.array([tray.x_min_m + margin, tray.y_min_m + margin])
    high = np.array([tray.x_max_m - margin, tray.y_max_m - margin])
    for _ in range(10_000):  # random sequential placement jams now and then near 8 cubes: start over
        placed: list[np.ndarray] = []
        for candidate in rng.uniform(low, high, size=(40 * max(n_cubes, 1), 2)):
            if len(placed) == n_cubes:
                break
            if all(np.hypot(*(candidate - other)) >= cell.MIN_CUBE_SPACING_M for other in placed):
                placed.append(candidate)
        if len(placed) == n_cubes:
            xy = np.array(placed).reshape(-1, 2)
            z = np.full((n_cubes, 1), cell.TABLE_Z_M + cell.CUBE_SIZE_M / 2)
            return Cubes(np.hstack([xy, z]), yaw_quaternion(rng.uniform(-np.pi / 4, np.pi / 4, n_cubes)))
    raise ConfigError(f"n_cubes={n_cubes}: no room in the tray at spacing {cell.MIN_CUBE_SPACING_M} m")
