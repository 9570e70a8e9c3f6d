"""Random scenes for the perception model: what may stand in tray, box and gripper, and where the arm may be in the way.

The mixture covers what the running cell shows: arm at home, on its way, hovering over a cube, closed round one that
still stands, carrying one, closed on nothing; cubes apart, nudged together or touching; cubes in the box, on top of one
another, or knocked out of the tray.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import cell, kinematics
from steadyhand.errors import KinematicsError

STANDING_Z_M = cell.TABLE_Z_M + cell.CUBE_SIZE_M / 2
ARM_MODES = ("home", "anywhere", "hover", "grasp", "carry", "missed")
ARM_MODE_SHARES = (0.14, 0.18, 0.22, 0.15, 0.18, 0.13)
LAYOUTS = ("apart", "nudged", "touching")
LAYOUT_SHARES = (0.35, 0.20, 0.45)
WALL_GAP_M = 0.001
HELD_CUBE = 0  # number of the cube in the gripper, where there is one


@dataclass(frozen=True)
class TrainingScene:
    """Cubes (N) and the arm. `held` is the index of the cube in the gripper, -1 for none."""

    q_rad: np.ndarray  # (6,)
    gripper_width_m: float
    position_m: np.ndarray  # (N, 3)
    quaternion_xyzw: np.ndarray  # (N, 4)
    held: int
    arm_mode: str
    layout: str = "apart"


def yaw_of(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Heading (N,) of quaternions (N, 4)."""
    x, y, z, w = quaternion_xyzw.T
    return np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def tilt_of(quaternion_xyzw: np.ndarray) -> np.ndarray:
    """Angle (N,) between a cube's z axis and the vertical, rad."""
    x, y = quaternion_xyzw.T[:2]
    return np.arccos(np.clip(1 - 2 * (x * x + y * y), -1, 1))


def sample_scene(
    rng: np.random.Generator, n_tray: int | None = None, layout: str | None = None, mode: str | None = None
) -> TrainingScene:
    """One scene; `n_tray` fixes the number of cubes in the tray (else 0 to `cell.MAX_CUBES`, few of them 0)."""
    if n_tray is None:
        n_tray = int(rng.choice(cell.MAX_CUBES + 1, p=[0.04] + [0.12] * cell.MAX_CUBES))
    layout = layout or str(rng.choice(LAYOUTS, p=LAYOUT_SHARES))
    mode = mode or str(rng.choice(ARM_MODES, p=ARM_MODE_SHARES))
    if layout == "touching" and mode == "grasp":  # no room for the fingers
        mode = "hover"
    tray = _tray(rng, layout, n_tray)
    n_box = int(rng.integers(0, cell.MAX_CUBES - n_tray + 1)) if rng.random() < 0.7 else 0
    box = _scatter(rng, cell.BOX, n_box, 0.05, margin_m=0.028)
    poses = [(*pose[:2], STANDING_Z_M, pose[2], 0.0) for pose in tray]
    poses += [(*xy, STANDING_Z_M, rng.uniform(-np.pi, np.pi), 0.0) for xy in box]
    if n_box >= 2 and rng.random() < 0.3:  # one on top of another, as they fall
        x, y = box[0] + rng.uniform(-0.012, 0.012, 2)
        poses[-1] = (x, y, 3 * STANDING_Z_M, rng.uniform(-np.pi, np.pi), rng.choice([0.0, rng.uniform(0.1, 0.6)]))
    if n_tray and layout != "touching" and rng.random() < 0.08:  # knocked out of the tray
        x, y = rng.uniform([0.30, -0.36], [0.72, 0.40])
        apart = all(np.hypot(x - p[0], y - p[1]) > 0.06 for p in poses[1:])
        if apart and not any(r.contains((x, y), -0.035) for r in (cell.TRAY, cell.BOX)):
            poses[0] = (x, y, STANDING_Z_M, rng.uniform(-np.pi, np.pi), 0.0)
    held = HELD_CUBE if mode in ("grasp", "carry") and n_tray else -1
    target = poses[int(rng.integers(n_tray))] if n_tray and mode == "hover" else (poses[0] if held == 0 else None)
    tool, width = _tool(rng, mode, target, above_m=0.045 if layout == "touching" else 0.0)
    if mode == "carry" and held == 0:
        poses[0] = (*(tool[:3] + rng.normal(0, 0.002, 3)), tool[3], 0.0)
    elif mode == "carry":
        mode = "missed"  # nothing there to carry
    q = _reach(rng, tool)
    if q is None:  # out of reach: the arm stays at home, nothing is carried
        q, mode = cell.HOME_Q_RAD + rng.normal(0, 0.05, 6), "home"
        if held == 0 and poses[0][2] > STANDING_Z_M + 1e-6:
            poses.pop(0)
        held = -1
    array = np.array(poses).reshape(-1, 5)
    return TrainingScene(q, width, array[:, :3], _quaternions(array[:, 3], array[:, 4]), held, mode, layout)


def overlap(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two standing cubes (x, y, yaw) intersect: separating axes of two squares."""
    half, apart = cell.CUBE_SIZE_M / 2, b[:2] - a[:2]
    if np.hypot(*apart) >= 2 * half * np.sqrt(2):
        return False
    turn = b[2] - a[2]
    reach = half + half * (abs(np.cos(turn)) + abs(np.sin(turn)))
    axes = [(np.cos(yaw), np.sin(yaw)) for yaw in (a[2], a[2] + np.pi / 2, b[2], b[2] + np.pi / 2)]
    return all(abs(float(np.dot(axis, apart))) < reach - 1e-9 for axis in axes)


def _tray(rng: np.random.Generator, layout: str, n: int) -> np.ndarray:
    """Cubes (n, 3) x, y, yaw in the tray: as they are laid out, after a nudge, or touching one another."""
    if layout == "apart":
        return np.column_stack([_scatter(rng, cell.TRAY, n, cell.MIN_CUBE_SPACING_M, 0.024), _yaws(rng, n)])
    placed, tries = [], 0
    while len(placed) < n:
        tries += 1
        if tries % 300 == 0:
            placed = []
        touches = bool(placed) and layout == "touching" and rng.random() < 0.75
        candidate = _against(rng, placed[int(rng.integers(len(placed)))]) if touches else _free(rng)
        reach = cell.CUBE_SIZE_M / 2 * (abs(np.cos(candidate[2])) + abs(np.sin(candidate[2]))) + WALL_GAP_M
        if cell.TRAY.contains(candidate[:2], reach) and not any(overlap(candidate, other) for other in placed):
            placed.append(candidate)
    return np.array(placed).reshape(-1, 3)


def _free(rng: np.random.Generator) -> np.ndarray:
    low, high = [cell.TRAY.x_min_m, cell.TRAY.y_min_m], [cell.TRAY.x_max_m, cell.TRAY.y_max_m]
    return np.array([*rng.uniform(low, high), rng.uniform(-np.pi, np.pi)])


def _against(rng: np.random.Generator, host: np.ndarray) -> np.ndarray:
    """A cube against a face of another, face to face or with a corner; 0 to 2 mm between them."""
    half, turn = cell.CUBE_SIZE_M / 2, rng.choice([0.0, rng.uniform(-np.pi / 4, np.pi / 4)])
    side = host[2] + rng.integers(4) * np.pi / 2
    away = half + half * (abs(np.cos(turn)) + abs(np.sin(turn))) + rng.choice([1e-4, rng.uniform(0, 0.002)])
    outward, along = np.array([np.cos(side), np.sin(side)]), np.array([-np.sin(side), np.cos(side)])
    xy = host[:2] + away * outward + rng.uniform(-1.6, 1.6) * half * along
    return np.array([*xy, side + turn])


def _yaws(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-np.pi, np.pi, n)


def _scatter(rng: np.random.Generator, region: cell.Region, n: int, spacing_m: float, margin_m: float) -> np.ndarray:
    """(n, 2) points in a region, apart from one another; dense draws start over."""
    low = np.array([region.x_min_m, region.y_min_m]) + margin_m
    high = np.array([region.x_max_m, region.y_max_m]) - margin_m
    placed: list[np.ndarray] = []
    tries = 0
    while len(placed) < n:
        candidate = rng.uniform(low, high)
        if all(np.hypot(*(candidate - other)) >= spacing_m for other in placed):
            placed.append(candidate)
        tries += 1
        if tries % 300 == 0:
            placed = []
    return np.array(placed).reshape(-1, 2)


def _tool(rng: np.random.Generator, mode: str, target: tuple | None, above_m: float) -> tuple[np.ndarray, float]:
    """Tool (x, y, z, yaw) and gripper width; a hovering one is at least `above_m` over the grasp."""
    width = float(rng.choice([cell.GRIPPER_OPEN_M, cell.GRIPPER_PREGRASP_M, rng.uniform(0.0, cell.GRIPPER_OPEN_M)]))
    if mode == "hover" and target is not None:
        z = STANDING_Z_M + max(above_m, rng.choice([rng.uniform(0.0, 0.06), rng.uniform(0.0, 0.25)]))
        yaw = target[3] + rng.choice([0.0, np.pi / 2, -np.pi / 2]) + rng.normal(0, 0.15)
        spread = 0.004 + 0.15 * (z - STANDING_Z_M)
        return np.array([*(np.array(target[:2]) + rng.normal(0, spread, 2)), z, yaw]), max(width, 0.055)
    if mode == "grasp" and target is not None:
        yaw = target[3] + rng.normal(0, 0.03)
        xy = np.array(target[:2]) + rng.normal(0, 0.002, 2)
        return np.array([*xy, STANDING_Z_M + rng.uniform(-0.003, 0.006), yaw]), cell.CUBE_SIZE_M
    if mode in ("carry", "missed"):
        low, high = [0.34, -0.28, 0.03 + above_m if mode == "carry" else 0.09], [0.66, 0.44, 0.28]
        closed = cell.CUBE_SIZE_M if mode == "carry" else rng.choice([0.0, rng.uniform(0.0, cell.CUBE_SIZE_M)])
        return np.array([*rng.uniform(low, high), rng.uniform(-np.pi, np.pi)]), float(closed)
    if mode == "home":
        home = kinematics.pose_base_link_tool(cell.HOME_Q_RAD)[:3, 3]
        return np.array([*(home + rng.normal(0, 0.01, 3)), rng.normal(0, 0.1)]), width
    return np.array([*rng.uniform([0.28, -0.32, 0.08], [0.70, 0.46, 0.42]), rng.uniform(-np.pi, np.pi)]), width


def _reach(rng: np.random.Generator, tool: np.ndarray) -> np.ndarray | None:
    """Joints (6,) near home for a tool that points down, a little off the vertical; None when out of reach."""
    yaw = float(np.arctan2(np.sin(tool[3]), np.cos(tool[3])))
    wanted = kinematics.tool_down(*tool[:3], yaw)
    for turn in (0.0, 0.5, -0.5):
        seed = cell.HOME_Q_RAD + np.array([np.arctan2(tool[1], tool[0]) - 0.53, 0, 0, 0, 0, turn * yaw])
        try:
            q = kinematics.ik_near(wanted, seed, tolerance=1e-4)
        except KinematicsError:
            continue
        if np.abs(q - cell.HOME_Q_RAD).max() < 3.5:
            return q + rng.normal(0, 0.0015, 6)
    return None


def _quaternions(yaw: np.ndarray, tilt: np.ndarray) -> np.ndarray:
    """xyzw (N, 4) of a tilt about x, then a turn about the vertical."""
    cy, sy, ct, st = np.cos(yaw / 2), np.sin(yaw / 2), np.cos(tilt / 2), np.sin(tilt / 2)
    return np.stack([cy * st, sy * st, sy * ct, cy * ct], axis=1)
