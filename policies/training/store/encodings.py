"""Recorded motion in the two formulations of the UR5's environments: what a policy would have seen, and have done.

Names, order, units and scales are those of `steadyhand_sim.envs` (`arm_env`, `formulations`), written down here because
a recording is turned into episodes where no simulator is; a test keeps the two in step. Row k is the arm at step k;
an action leads from row k to row k + 1 of the commanded motion.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics, policy_io, ur5
from steadyhand.intervention import CLOSED_M, Demonstration
from steadyhand.policy_io import Target

STEP_Q_RAD = 0.06  # action +-1 of a joint, rad in a policy period
LEAD_SCALE = 10.0  # of commanded minus measured joints in the observation
STEMS = tuple(name.removesuffix("_joint") for name in ur5.JOINT_NAMES)


@dataclass(frozen=True)
class ArmRows:
    """A recording's rows; K of them."""

    stamp_s: np.ndarray  # (K,)
    q_rad: np.ndarray  # (K, 6) measured, as the next
    qd_rad_s: np.ndarray
    q_commanded_rad: np.ndarray
    qd_commanded_rad_s: np.ndarray
    width_m: np.ndarray  # (K,) measured opening of the fingers
    opening_m: np.ndarray  # (K,) commanded opening

    @property
    def closed(self) -> np.ndarray:
        """(K,) whether the fingers are told to close."""
        return self.opening_m < CLOSED_M

    def part(self, start: int, stop: int) -> ArmRows:
        """Rows [start, stop)."""
        return ArmRows(*(getattr(self, name)[start:stop] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Encoding:
    """One formulation. `observe` gives (K, n), `act` (K - 1, m) from rows and the Cartesian demonstration of them."""

    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    observe: Callable[[ArmRows, Target], np.ndarray]
    act: Callable[[ArmRows, Demonstration], np.ndarray]


def _observe_cartesian(rows: ArmRows, target: Target) -> np.ndarray:
    return np.array([
        policy_io.observation(target, q, qd, float(width), bool(closed))
        for q, qd, width, closed in zip(rows.q_commanded_rad, rows.qd_commanded_rad_s, rows.width_m, rows.closed)
    ])  # fmt: skip


def _observe_joints(rows: ArmRows, target: Target) -> np.ndarray:
    turn, pose = 4.0 * target.yaw_rad, kinematics.pose_base_link_tool(rows.q_rad)
    seen = np.array([*target.position_m, np.sin(turn), np.cos(turn)])
    yaw = np.arctan2(pose[:, 1, 0], pose[:, 0, 0])
    quarter = np.pi / 2
    nearest = yaw + (target.yaw_rad - yaw) - quarter * np.round((target.yaw_rad - yaw) / quarter)
    return np.column_stack([
        rows.q_rad, rows.qd_rad_s, LEAD_SCALE * (rows.q_commanded_rad - rows.q_rad),
        np.tile(seen, (len(rows.stamp_s), 1)), rows.width_m, rows.closed,
        pose[:, :3, 3], yaw, pose[:, :2, 2], nearest,
    ])  # fmt: skip


def _act_joints(rows: ArmRows, demonstration: Demonstration) -> np.ndarray:
    return np.column_stack([np.diff(rows.q_commanded_rad, axis=0) / STEP_Q_RAD, demonstration.actions[:, -1]])


ENCODINGS = {
    "cartesian_delta": Encoding(
        policy_io.OBSERVATION_NAMES, policy_io.ACTION_NAMES, _observe_cartesian, lambda rows, shown: shown.actions
    ),
    "joint_delta": Encoding(
        (
            *(f"q_{stem}" for stem in STEMS), *(f"qd_{stem}" for stem in STEMS),
            *(f"command_minus_q_{stem}" for stem in STEMS),
            "target_x", "target_y", "target_z", "target_sin_4_yaw", "target_cos_4_yaw",
            "gripper_width", "gripper_commanded_closed",
            "tool_x", "tool_y", "tool_z", "tool_yaw", "tool_tilt_x", "tool_tilt_y", "target_yaw",
        ),
        (*(f"d_{stem}" for stem in STEMS), "grip"), _observe_joints, _act_joints,
    ),
}  # fmt: skip
