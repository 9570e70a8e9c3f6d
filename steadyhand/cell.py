"""Geometry of the cell, in `base_link` (metres, radians). One source for simulator, planner, gate and scoring."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Region:
    """An axis-aligned rectangle on the table: interior of the tray or of the box."""

    x_min_m: float
    x_max_m: float
    y_min_m: float
    y_max_m: float
    wall_height_m: float
    wall_thickness_m: float

    @property
    def centre_m(self) -> np.ndarray:
        """(2,) centre."""
        return np.array([(self.x_min_m + self.x_max_m) / 2, (self.y_min_m + self.y_max_m) / 2])

    def contains(self, xy_m: np.ndarray, margin_m: float = 0.0) -> bool:
        """Whether a point lies inside, `margin_m` away from the walls."""
        x, y = float(xy_m[0]), float(xy_m[1])
        return (
            self.x_min_m + margin_m <= x <= self.x_max_m - margin_m
            and self.y_min_m + margin_m <= y <= self.y_max_m - margin_m
        )


TABLE_Z_M = 0.0  # table top; the robot's base stands on it
CUBE_SIZE_M = 0.04
MAX_CUBES = 8
MIN_CUBE_SPACING_M = 0.085  # centre to centre: room for an opened finger between neighbours
SPAWN_MARGIN_M = 0.05  # cube centre to tray wall: room for a finger at pre-grasp opening

TRAY = Region(0.38, 0.66, -0.26, 0.08, wall_height_m=0.02, wall_thickness_m=0.006)
BOX = Region(0.36, 0.58, 0.20, 0.42, wall_height_m=0.08, wall_thickness_m=0.006)

# Joint configuration with the tool pointing down beside the tray, clear of the camera's view of it.
HOME_Q_RAD = np.array([0.2514, -1.8176, 1.6743, -1.4275, -1.5708, -1.3194])  # tool at (0.34, 0.20, 0.34), yaw 0

GRIPPER_OPEN_M = 0.085  # greatest opening between the pads
GRIPPER_PREGRASP_M = 0.062  # opening used next to neighbours
