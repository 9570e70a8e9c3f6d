"""Ground truth: where each cube is. Pure functions of poses; nothing here reaches the runtime."""
from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from steadyhand import cell

REST_SPEED_M_S = 0.02
HELD_Z_M = cell.TABLE_Z_M + cell.CUBE_SIZE_M  # a centre above this, outside the box, is in the air


@dataclass(frozen=True)
class Score:
    """Counts of cubes. `in_box` cubes lie inside the walls, their lower face below the walls' top, at rest, let go."""

    n_cubes: int
    in_box: int
    in_tray: int
    dropped: int  # at rest on the table (or below it), neither in tray nor box
    in_motion: int  # held, falling, or still moving
    places: tuple[str, ...]  # per cube: "box", "tray", "dropped", "moving"

    def as_dict(self) -> dict:
        """Plain types for JSON."""
        return {**asdict(self), "places": list(self.places)}


def _place(position_m: np.ndarray, speed_m_s: float) -> str:
    inside_box = cell.BOX.contains(position_m[:2]) and position_m[2] < cell.BOX.wall_height_m + cell.CUBE_SIZE_M / 2
    if speed_m_s > REST_SPEED_M_S:
        return "moving"
    if inside_box:
        return "box"
    if position_m[2] > HELD_Z_M:
        return "moving"
    return "tray" if cell.TRAY.contains(position_m[:2]) else "dropped"


def score(position_m: np.ndarray, velocity_m_s: np.ndarray, held: np.ndarray | None = None) -> Score:
    """Score of cubes at (N, 3) with velocities (N, 3); `held` (N,) marks cubes touched by a finger: never placed."""
    speeds = np.linalg.norm(np.atleast_2d(velocity_m_s), axis=1) if len(position_m) else []
    held = np.zeros(len(position_m), dtype=bool) if held is None else held
    places = tuple("moving" if h else _place(p, v) for p, v, h in zip(position_m, speeds, held))
    return Score(
        n_cubes=len(places), in_box=places.count("box"), in_tray=places.count("tray"),
        dropped=places.count("dropped"), in_motion=places.count("moving"), places=places,
    )
