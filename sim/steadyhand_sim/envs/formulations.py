"""What an action means: two formulations, each a pure function from action and commanded motion to a joint step.

An action is the motion *wanted* in one policy period; the last element votes on the gripper. The commanded velocity
follows it within an acceleration that the gate admits whatever else is under way (the hand-over needs up to twice the
plan's own acceleration). This is part of the action's meaning, as it is in the shipped policy's network; what is
wanted beyond reach or workspace is still refused by the gate, never clamped.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand.policy_io import PERIOD_S, STEP_M, STEP_YAW_RAD

CARTESIAN, JOINT = "cartesian_delta", "joint_delta"
STEP_Q_RAD = 0.06  # action +-1 of a joint = 1.2 rad/s
ACCELERATION_M_S2, YAW_ACCELERATION_RAD_S2 = 0.8, 2.4  # below the shipped network's: no smooth chunk
START_M_S2, FULL_AT_M_S = 0.35, 0.15  # less from rest, where the hand-over needs twice the acceleration
JOINT_ACCELERATION_RAD_S2 = np.array([2.4, 2.4, 3.0, 4.8, 4.8, 4.8])  # 0.3 of the gate's limits
_TILT_GAIN = 0.5  # share of the tool's tilt that one step takes back
_STEP_LIMIT_RAD = 0.2  # of a joint in a period: more is a singularity
ACTION_NAMES = {
    CARTESIAN: ("dx", "dy", "dz", "dyaw", "grip"),
    JOINT: (*(f"d_{name.removesuffix('_joint')}" for name in ur5.JOINT_NAMES), "grip"),
}


class Unreachable(Exception):
    """No joint step makes the motion: the arm is at a singularity."""


@dataclass(frozen=True)
class Arm:
    """The commanded arm, with what every part of a step needs of it."""

    q_rad: np.ndarray  # (6,)
    qd_rad_s: np.ndarray  # (6,)
    pose: np.ndarray  # (4, 4) of the tool in base_link
    jacobian: np.ndarray  # (6, 6)
    twist: np.ndarray  # (6,) of the tool

    @staticmethod
    def at(q_rad: np.ndarray, qd_rad_s: np.ndarray) -> Arm:
        """From joints. One evaluation of the chain serves pose and Jacobian."""
        pose, jacobian = kinematics._tool_and_jacobian(q_rad)  # its public faces evaluate the chain twice
        return Arm(q_rad, qd_rad_s, pose, jacobian, jacobian @ qd_rad_s)

    @property
    def speed_m_s(self) -> float:
        """Of the tool."""
        vx, vy, vz = self.twist[:3].tolist()
        return math.sqrt(vx * vx + vy * vy + vz * vz)


def tool_features(q_rad: list[float], target_yaw_rad: float) -> tuple[float, ...]:
    """What the joint formulation observes of the tool of these joints (6,): x, y, z, yaw, tilt x and y; and the
    target's yaw, of the four at which a cube looks the same that nearest to the tool's."""
    pose = kinematics._tool_and_jacobian(q_rad)[0]
    (xx, _, zx, px), (xy, _, zy, py), (_, _, _, pz) = pose[:3].tolist()
    yaw = math.atan2(xy, xx)
    return px, py, pz, yaw, zx, zy, yaw + math.remainder(target_yaw_rad - yaw, math.pi / 2)


def check_formulation(name: str) -> str:
    """The name, or ConfigError."""
    if name not in ACTION_NAMES:
        raise ConfigError(f"formulation={name!r}: give {CARTESIAN!r} or {JOINT!r}")
    return name


def joint_step(formulation: str, action: np.ndarray, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
    """Joint way (6,) of the first period and of each later one. Raises Unreachable."""
    return _from_cartesian(action, arm) if formulation == CARTESIAN else _from_joints(action, arm)


def _from_cartesian(action: np.ndarray, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
    """The tool keeps pointing down; velocities change by the acceleration, in a straight line of velocity space."""
    twist = arm.twist.tolist()
    wanted = [float(a) * STEP_M / PERIOD_S for a in action[:3]]
    change = [w - v for w, v in zip(wanted, twist)]
    size = math.sqrt(sum(c * c for c in change))
    acceleration = START_M_S2 + (ACCELERATION_M_S2 - START_M_S2) * min(1.0, arm.speed_m_s / FULL_AT_M_S)
    turn = float(action[3]) * STEP_YAW_RAD / PERIOD_S - twist[5]
    tilt_x, tilt_y = -float(arm.pose[1, 2]), float(arm.pose[0, 2])  # rotation that brings the tool's axis to -z
    columns = []
    for periods in (1, 2):
        room = periods * acceleration * PERIOD_S
        share = room / size if size > room else 1.0
        turn_room = periods * YAW_ACCELERATION_RAD_S2 * PERIOD_S
        rate = twist[5] + max(-turn_room, min(turn_room, turn))
        columns.append([
            *((v + share * c) * PERIOD_S for v, c in zip(twist, change)),
            _TILT_GAIN * tilt_x, _TILT_GAIN * tilt_y, rate * PERIOD_S,
        ])
    columns[1][3] = columns[1][4] = 0.0
    try:
        steps = np.linalg.solve(arm.jacobian, np.array(columns).T)
    except np.linalg.LinAlgError as error:
        raise Unreachable(str(error)) from error
    if not np.abs(steps).max() <= _STEP_LIMIT_RAD:
        raise Unreachable(f"step of {np.abs(steps).max():.3g} rad in {PERIOD_S} s")
    return steps[:, 0], steps[:, 1]


def _from_joints(action: np.ndarray, arm: Arm) -> tuple[np.ndarray, np.ndarray]:
    """One factor for all joints, so that the direction of the change is kept."""
    under_way = arm.qd_rad_s * PERIOD_S
    change = np.asarray(action[:6], dtype=float) * STEP_Q_RAD - under_way
    over = float((np.abs(change) / (JOINT_ACCELERATION_RAD_S2 * PERIOD_S**2)).max())
    return under_way + change * min(1.0, 1.0 / max(over, 1e-12)), under_way + change * min(1.0, 2.0 / max(over, 1e-12))
