"""What a skill may do with the gripper, and when it has succeeded: one rule for executor, simulator and scoring.

The policy votes on the gripper at every step; a vote only *asks*. These pure functions grant it, from what the guard
reports (commanded tool pose and speed, measured width), never from ground truth. A refusal names its reason, so that
"asked but never granted" is seen in a trace.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import cell
from steadyhand.policy_io import Target
from steadyhand.types import Skill

# Closing. The fingers open to 62 mm beside neighbours, the cube is 40 mm: 11 mm to each side across the fingers. An
# error along the pads costs friction area, not contact. 12 mm of estimated distance is what still closes on the cube.
CLOSE_XY_M = 0.012
CLOSE_Z_M = 0.010  # a quarter of the cube: pads still meet its middle, tips stay off the table
# Releasing: the box leaves 50 mm to the walls at the outer places; a cube dropped 30 mm off still lies inside.
OPEN_XY_M = 0.025
OPEN_Z_M = 0.020
SLOW_M_S = 0.08  # commanded tool speed at which a 0.3 s finger motion moves the grasp by less than the pads' half width

# Measured width while commanded closed: 40 mm cube, +-2 mm sensor, up to 4 mm of padding and tilt on either side. An
# empty gripper closes below 10 mm; two cubes or a jammed finger stay above.
GRASP_WIDTH_MIN_M, GRASP_WIDTH_MAX_M = 0.030, 0.046
RELEASED_WIDTH_M = 0.050  # measured opening at which a 40 mm cube is free
LIFT_M = 0.10  # clear of walls (20 mm) and of neighbours (40 mm), with the cube's own half height

# Tool heights, above the table. Carrying: box wall 80 mm + half a cube + 40 mm. Release: the cube's lower face passes
# above cubes already lying in the box (40 mm + 10 mm).
CARRY_Z_M = cell.BOX.wall_height_m + cell.CUBE_SIZE_M / 2 + 0.04
RELEASE_Z_M = 0.07
RETREAT_Z_M = 0.20  # tool above this after a release: place has ended

_PLACE_PITCH_M = 0.06  # 40 mm cubes with a finger's width between them
_PLACE_ORDER = ((0, 0), (1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1))


@dataclass(frozen=True)
class Grant:
    """Answer to a gripper vote; `reason` is empty when granted, else names what is missing with value and limit."""

    granted: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.granted


def grant_close(vote: float, target: Target, tool_position_m: np.ndarray, tool_speed_m_s: float) -> Grant:
    """Whether the fingers may close. `vote` > 0 asks; position (3,) and speed are the commanded tool's."""
    if not vote > 0.0:
        return Grant(False, "not asked")
    if target.skill is not Skill.PICK:
        return Grant(False, f"close belongs to pick, skill is {target.skill.value}")
    return _near(target, tool_position_m, tool_speed_m_s, CLOSE_XY_M, CLOSE_Z_M)


def grant_open(vote: float, target: Target, tool_position_m: np.ndarray, tool_speed_m_s: float) -> Grant:
    """Whether the fingers may open while they hold something. `vote` < 0 asks."""
    if not vote < 0.0:
        return Grant(False, "not asked")
    if target.skill is not Skill.PLACE:
        return Grant(False, f"open belongs to place, skill is {target.skill.value}")
    return _near(target, tool_position_m, tool_speed_m_s, OPEN_XY_M, OPEN_Z_M)


def grasp_verified(gripper_width_m: float, commanded_closed: bool) -> bool:
    """Whether the measured width says that a cube is between the pads."""
    return commanded_closed and GRASP_WIDTH_MIN_M < gripper_width_m < GRASP_WIDTH_MAX_M


def released(gripper_width_m: float, commanded_closed: bool) -> bool:
    """Whether the measured width says that the fingers let go."""
    return not commanded_closed and gripper_width_m > RELEASED_WIDTH_M


def pick_done(gripper_width_m: float, commanded_closed: bool, tool_z_m: float, grasp_z_m: float) -> bool:
    """A verified grasp, lifted `LIFT_M` above the height at which it was closed."""
    return grasp_verified(gripper_width_m, commanded_closed) and tool_z_m - grasp_z_m >= LIFT_M


def place_done(gripper_width_m: float, commanded_closed: bool, tool_z_m: float) -> bool:
    """Fingers open and the tool retreated above the box."""
    return released(gripper_width_m, commanded_closed) and tool_z_m >= RETREAT_Z_M


def release_target(placed: int) -> Target:
    """Release point of the `placed`-th cube (0-based): a grid of nine places in the box, used again from the start."""
    if placed < 0:
        raise ValueError(f"placed = {placed}: give the number of cubes already in the box, 0 or more")
    column, row = _PLACE_ORDER[placed % len(_PLACE_ORDER)]
    xy = cell.BOX.centre_m + _PLACE_PITCH_M * np.array([column, row])
    return Target(Skill.PLACE, np.array([*xy, RELEASE_Z_M]), 0.0)


def _near(target: Target, tool_m: np.ndarray, speed_m_s: float, xy_limit_m: float, z_limit_m: float) -> Grant:
    """Within limits and slow; comparisons are written so that NaN refuses."""
    offset = np.asarray(tool_m, dtype=float) - target.position_m
    xy, z = math.hypot(offset[0], offset[1]), abs(offset[2])
    if not xy <= xy_limit_m:
        return Grant(False, f"xy {xy * 1e3:.1f} mm from the target, limit {xy_limit_m * 1e3:.0f}")
    if not z <= z_limit_m:
        return Grant(False, f"z {z * 1e3:.1f} mm from the target, limit {z_limit_m * 1e3:.0f}")
    if not speed_m_s <= SLOW_M_S:
        return Grant(False, f"speed {speed_m_s:.3f} m/s, limit {SLOW_M_S}")
    return Grant(True)
