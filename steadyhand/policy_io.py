"""The manipulation policy's observation and action, in one place for training, simulation and the running graph.

Cartesian-delta formulation with relative observation. The policy runs at `PERIOD_S`; a reply is a chunk of `HORIZON`
steps. Step k moves the commanded tool target by (dx, dy, dz, dyaw) and votes on the gripper; the vote only *asks* for
a transition (close, open), which the executor grants.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics
from steadyhand.types import Skill

PERIOD_S = 0.05
HORIZON = 8
STEP_M = 0.02  # action +-1 = 20 mm a period = 0.4 m/s
STEP_YAW_RAD = 0.10

ACTION_NAMES = ("dx", "dy", "dz", "dyaw", "grip")
OBSERVATION_NAMES = (
    "target_minus_tool_x", "target_minus_tool_y", "target_minus_tool_z",  # m, base_link
    "sin_4_yaw_error", "cos_4_yaw_error",  # target minus tool; a cube is the same after a quarter turn
    "tool_vx", "tool_vy", "tool_vz",  # m/s, of the commanded tool
    "tool_yaw_rate",  # rad/s, of the commanded tool
    "tool_z",  # m above the table
    "gripper_width",  # m, measured
    "gripper_commanded_closed",  # 0 or 1
    "skill_pick", "skill_place",  # one-hot
)
OBSERVATION_DIM, ACTION_DIM = len(OBSERVATION_NAMES), len(ACTION_NAMES)


@dataclass(frozen=True)
class Target:
    """Where the skill shall end: the object's centre for PICK, the release point for PLACE (`base_link`)."""

    skill: Skill
    position_m: np.ndarray  # (3,)
    yaw_rad: float


def tool_yaw(pose_base_link_tool: np.ndarray) -> float:
    """Yaw of a tool that points down, as in `kinematics.tool_down`."""
    return float(np.arctan2(pose_base_link_tool[1, 0], pose_base_link_tool[0, 0]))


def observation(
    target: Target,
    q_commanded_rad: np.ndarray,
    qd_commanded_rad_s: np.ndarray,
    gripper_width_m: float,
    gripper_closed: bool,
) -> np.ndarray:
    """Observation vector (OBSERVATION_DIM,) float32, in the order of OBSERVATION_NAMES, unnormalised."""
    pose = kinematics.pose_base_link_tool(q_commanded_rad)
    velocity = kinematics.jacobian(q_commanded_rad) @ qd_commanded_rad_s
    yaw_error = 4.0 * (target.yaw_rad - tool_yaw(pose))
    return np.array(
        [
            *(target.position_m - pose[:3, 3]),
            np.sin(yaw_error), np.cos(yaw_error),
            *velocity[:3], velocity[5],
            pose[2, 3],
            gripper_width_m,
            float(gripper_closed),
            float(target.skill is Skill.PICK), float(target.skill is Skill.PLACE),
        ],
        dtype=np.float32,
    )


def tool_waypoints(actions: np.ndarray, pose_start_base_link_tool: np.ndarray) -> np.ndarray:
    """Tool poses (H, 4, 4) that a chunk of actions (H, ACTION_DIM) asks for, from the commanded pose it answers."""
    position = pose_start_base_link_tool[:3, 3] + np.cumsum(actions[:, :3] * STEP_M, axis=0)
    yaw = tool_yaw(pose_start_base_link_tool) + np.cumsum(actions[:, 3] * STEP_YAW_RAD)
    return np.stack([kinematics.tool_down(*p, y) for p, y in zip(position, yaw)])


def joint_waypoints(actions: np.ndarray, q_start_rad: np.ndarray) -> np.ndarray:
    """Joint way-points (H, 6) of a chunk, on the branch of `q_start_rad`; raises KinematicsError out of reach."""
    waypoints, q = [], np.asarray(q_start_rad, dtype=float)
    for pose in tool_waypoints(actions, kinematics.pose_base_link_tool(q)):
        q = kinematics.ik_near(pose, q)
        waypoints.append(q)
    return np.stack(waypoints)
