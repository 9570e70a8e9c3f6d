"""Where the arm goes when it loads the docked vehicle: from the tray, behind itself, over the deck, down to it."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError

ENTRY, DOCK, EXIT = [-0.66, -1.6, np.pi / 2], [-0.66, 0.0, np.pi / 2], [-0.66, 1.6, np.pi / 2]  # of the vehicle
OVER_Z_M, LOW_Z_M = 0.12, 0.03  # of the tool above the arm's base; the deck is 0.085 m under z = 0.015
PLACES_M = ((-0.62, 0.0), (-0.62, -0.1), (-0.62, 0.1))  # of loads on the deck: what is put there does not touch


def over(x_m: float, y_m: float, z_m: float, seed: np.ndarray) -> np.ndarray:
    """Joint angles with the tool pointing down there, fingers turned as at `seed`."""
    pose = kinematics.pose_base_link_tool(seed)
    return kinematics.ik_near(kinematics.tool_down(x_m, y_m, z_m, np.arctan2(pose[1, 0], pose[0, 0])), seed)


def pick(position_m: Sequence[float], yaw_rad: float) -> tuple[np.ndarray, np.ndarray]:
    """Above a cube in the tray, and at it."""
    x, y = position_m[:2]
    above = kinematics.ik_near(kinematics.tool_down(x, y, 0.15, yaw_rad), cell.HOME_Q_RAD)
    return above, kinematics.ik_near(kinematics.tool_down(x, y, 0.02, yaw_rad), above)


# Home, turned about the vertical until the tool is before the deck's edge, and higher than the interlock's zone.
BEHIND = cell.HOME_Q_RAD + np.array([np.pi - np.arctan2(0.2, 0.34), 0, 0, 0, 0, 0])


def deck(place: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Over a place of the deck, and down at it."""
    if not 0 <= place < len(PLACES_M):
        raise ConfigError(f"place {place}: the deck has {len(PLACES_M)}")
    above = over(*PLACES_M[place], OVER_Z_M, BEHIND)
    return above, over(*PLACES_M[place], LOW_Z_M, above)


OVER, LOW = deck()
