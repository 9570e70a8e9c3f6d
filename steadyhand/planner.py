"""Task -> ordered sub-goals with numeric post-conditions: which object, from which side, and where to put it."""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, kinematics, skills, ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import KinematicsError
from steadyhand.policy_io import Target, tool_yaw
from steadyhand.types import Estimate, ObjectEstimate, Skill

TASKS = ("clear_tray",)
RELEASE_POINTS = 9
FINGER_THICKNESS_M, FINGER_WIDTH_M = 0.012, 0.022  # of the cell's gripper; the fingers open along the tool's x axis
QUARTER_TURN_RAD = math.pi / 2
ABOVE_Z_M = 0.20  # reach is checked here and at the grasp: between them the tool moves straight down


@dataclass(frozen=True)
class PlannerConfig:
    """What counts as an object to pick, and how much room a finger wants."""

    presence_min: float = described(0.5, "probability above which an object counts", "", 0.0, 1.0)
    position_std_max_m: float = described(0.012, "an object less certain than this is not picked", "m", 0.001, 0.1)
    opening_m: float = described(cell.GRIPPER_PREGRASP_M, "opening before a grasp", "m", 0.045, cell.GRIPPER_OPEN_M)
    clearance_wanted_m: float = described(0.006, "finger clearance below which the other yaw is tried", "m", 0.0, 0.05)
    grasp_z_m: float = described(cell.CUBE_SIZE_M / 2, "tool height of a grasp", "m", 0.01, 0.1)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class PickPlan:
    """Sub-goal "object in the gripper"; `skills.pick_done` is its post-condition."""

    object_id: int
    target: Target
    turned: bool  # fingers a quarter turn away from the nearest orientation
    clearance_m: float


@dataclass(frozen=True)
class PlacePlan:
    """Sub-goal "object in the box"; `skills.released` over the box is its post-condition."""

    point: int
    target: Target


def in_tray(estimate: Estimate, config: PlannerConfig) -> list[ObjectEstimate]:
    """Objects that are still to be picked: seen, certain enough, not in the box, within the tray's walls."""
    return [
        o for o in estimate.objects
        if o.presence >= config.presence_min
        and not o.in_box
        and o.position_std_m <= config.position_std_max_m
        and cell.TRAY.contains(o.position_m, margin_m=-0.01)
    ]


def plan_pick(
    objects: list[ObjectEstimate], tool_position_m: np.ndarray, config: PlannerConfig,
    prefer: int | None = None, avoid: frozenset[int] = frozenset(), turn: bool = False,
) -> tuple[PickPlan | None, list[int]]:
    """The next object and how to take it: (plan, ids out of reach). None when nothing remains that can be reached.

    Least cluttered and nearest first; `prefer` comes before all others, `avoid` after all others. `turn` swaps the
    orientation that would be chosen.
    """
    unreachable: list[int] = []
    plans: list[tuple[tuple, PickPlan]] = []
    for o in objects:
        try:
            plan = _plan_one(o, [other for other in objects if other is not o], config, turn and o.object_id == prefer)
        except KinematicsError:
            unreachable.append(o.object_id)
            continue
        distance_m = float(np.linalg.norm(o.position_m[:2] - tool_position_m[:2]))
        cost = distance_m - 10.0 * min(plan.clearance_m, 2 * config.clearance_wanted_m)
        plans.append(((o.object_id in avoid, o.object_id != prefer, cost), plan))
    return (min(plans, key=lambda p: p[0])[1] if plans else None), unreachable


def plan_place(estimate: Estimate | None, used: set[int]) -> PlacePlan:
    """The first release point neither used nor seen occupied; when none is left, the first not seen occupied."""
    taken = [o.position_m[:2] for o in (estimate.objects if estimate else ()) if o.in_box]
    targets = {point: skills.release_target(point) for point in range(RELEASE_POINTS)}
    free = [
        p for p, t in targets.items()
        if all(np.linalg.norm(t.position_m[:2] - xy) > cell.CUBE_SIZE_M for xy in taken)
    ]
    unused = [p for p in free if p not in used] or free or sorted(targets)
    return PlacePlan(unused[0], targets[unused[0]])


def q_above(target: Target, z_m: float) -> np.ndarray:
    """Configuration (6,) with the tool above a target at its yaw, on the branch of the home configuration."""
    x, y = target.position_m[:2]
    q = ik_down(x, y, z_m, target.yaw_rad)
    _check_limits(q)
    return q


def finger_clearance_m(o: ObjectEstimate, yaw_rad: float, others: list[ObjectEstimate], opening_m: float) -> float:
    """Smallest distance from the opened fingers to other cubes and to the tray's walls; negative when they overlap."""
    along, across = np.array([math.cos(yaw_rad), math.sin(yaw_rad)]), np.array([-math.sin(yaw_rad), math.cos(yaw_rad)])
    outline = [
        o.position_m[:2] + side * (opening_m / 2 + a * FINGER_THICKNESS_M) * along + b * FINGER_WIDTH_M / 2 * across
        for side in (-1, 1) for a in (0.0, 0.5, 1.0) for b in (-1.0, 0.0, 1.0)
    ]
    walls = min(
        min(p[0] - cell.TRAY.x_min_m, cell.TRAY.x_max_m - p[0], p[1] - cell.TRAY.y_min_m, cell.TRAY.y_max_m - p[1])
        for p in outline
    )
    return min([walls, *(_distance_to_cube(p, other) for other in others for p in outline)])


def _distance_to_cube(point_m: np.ndarray, cube: ObjectEstimate) -> float:
    """Signed distance from a point (2,) to a cube's outline."""
    c, s = math.cos(cube.yaw_rad), math.sin(cube.yaw_rad)
    d = point_m - cube.position_m[:2]
    q = np.abs([c * d[0] + s * d[1], -s * d[0] + c * d[1]]) - cell.CUBE_SIZE_M / 2
    return float(np.linalg.norm(np.maximum(q, 0.0)) + min(max(q[0], q[1]), 0.0))


def _plan_one(o: ObjectEstimate, others: list[ObjectEstimate], config: PlannerConfig, swap: bool) -> PickPlan:
    near = math.remainder(o.yaw_rad, QUARTER_TURN_RAD)  # home yaw is 0: at most an eighth of a turn away
    far = near + (QUARTER_TURN_RAD if near <= 0 else -QUARTER_TURN_RAD)
    room = {yaw: finger_clearance_m(o, yaw, others, config.opening_m) for yaw in (near, far)}
    turned = room[near] < config.clearance_wanted_m and room[far] > room[near] + 0.002
    turned ^= swap
    yaw = far if turned else near
    position = np.array([*o.position_m[:2], config.grasp_z_m])
    target = Target(Skill.PICK, position, yaw)
    above = q_above(target, ABOVE_Z_M)
    _check_limits(kinematics.ik_near(kinematics.tool_down(*position, yaw), above))
    return PickPlan(o.object_id, target, turned, room[yaw])


def ik_down(x_m: float, y_m: float, z_m: float, yaw_rad: float) -> np.ndarray:
    """Tool down at a point, from home: the wrist is turned first, so that a quarter turn stays on the same branch."""
    seed = np.array(cell.HOME_Q_RAD)
    turn = math.remainder(yaw_rad - tool_yaw(kinematics.pose_base_link_tool(seed)), 2 * math.pi)
    seed[5] += turn if _wrist_sign() > 0 else -turn
    return kinematics.ik_near(kinematics.tool_down(x_m, y_m, z_m, yaw_rad), seed)


def _wrist_sign() -> float:
    """Sign of d(yaw)/d(wrist 3) with the tool pointing down."""
    return float(kinematics.jacobian(cell.HOME_Q_RAD)[5, 5])


def _check_limits(q_rad: np.ndarray, margin_rad: float = 0.05) -> None:
    if np.any(q_rad < ur5.Q_MIN_RAD + margin_rad) or np.any(q_rad > ur5.Q_MAX_RAD - margin_rad):
        raise KinematicsError(f"configuration {np.round(q_rad, 3).tolist()} rad is outside the joint limits")
