"""`Steadyhand/UR5Grasp-v0`: grasp one cube from the tray by friction, lift it 10 cm and hold it for a second.

Success is of physics: both pads touch the cube, its centre is `LIFT_M` above where it lay, for `HOLD_S` on end.
Nothing binds the cube to the fingers but friction. Votes to close are granted by `steadyhand.skills`, as in the running
graph; a pick never opens again, so closing on nothing ends the episode.
"""
from __future__ import annotations

import math

import numpy as np

from steadyhand import cell, skills
from steadyhand.policy_io import PERIOD_S, Target
from steadyhand.types import Skill
from steadyhand_sim import scene
from steadyhand_sim.envs.arm_env import ArmEnv
from steadyhand_sim.envs.motion import CYCLE_S

LIFT_M, HOLD_S = 0.10, 1.0
KNOCKED_M = 0.03
NEAR_Z_M = 0.12  # of the tool: fingers that end 15 mm lower cannot reach a cube of 40 mm within a period
CLOSING_S = 0.8  # fingers need 0.2 s from the pre-grasp opening to a cube, 0.4 s to nothing
_GRASP_Z_M = cell.CUBE_SIZE_M / 2
_START_LOW, _START_HIGH = (0.36, -0.22, 0.18, -0.6), (0.60, 0.20, 0.32, 0.6)  # x, y, z of the tool; yaw


class UR5GraspEnv(ArmEnv):
    """One cube (`options={"cubes": n}` adds others beside it)."""

    task = "grasp"

    def _start_q_rad(self) -> np.ndarray:
        return self._tool_pose_down(*self.np_random.uniform(_START_LOW, _START_HIGH).tolist())

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        self._n_cubes = int((options or {}).get("cubes", 1))
        return super().reset(seed=seed, options=options)

    def _load(self, scene_seed: int) -> None:
        self._world.reset(scene_seed, self._n_cubes)
        self._world.set_gripper("pregrasp")

    def _start_task(self) -> None:
        positions, quaternions = self._world.object_poses()
        self._start_m = positions[0].tolist()
        self._yaw = float(scene.cube_yaw(quaternions[:1])[0])
        bias, p = self._bias.tolist(), self._perception
        self._perceived_yaw = self._yaw + p.yaw_bias_rad * bias[2]
        x, y, _ = self._start_m
        self._perceived = (x + p.bias_m * bias[0], y + p.bias_m * bias[1], _GRASP_Z_M)
        self._wanted = Target(Skill.PICK, np.array(self._perceived), self._perceived_yaw)
        self._held_s, self._touched, self._lifted_m = 0.0, False, 0.0
        self._cube = tuple(self._start_m)

    def _target(self):
        return self._perceived, self._perceived_yaw

    def _target_is_seen(self) -> bool:
        return self._closed_cycle is None  # afterwards the hand hides it

    def _skill(self) -> tuple[float, float]:
        return 1.0, 0.0

    def _detail(self) -> str:
        if self._closed_cycle is not None:
            return "contact"
        return "near" if self._arm.pose[2, 3] < NEAR_Z_M else "free"

    def _grip(self, vote: float) -> None:
        if self._closed_cycle is None and vote > 0.0 and self._near(self._perceived):
            tool_m, speed_m_s = self._commanded_tool()
            if skills.grant_close(vote, self._wanted, tool_m, speed_m_s):
                self._closed_cycle = self._player.cycle
                self._world.set_gripper("close")

    def _judge(self) -> tuple[str, bool]:
        world = self._world
        x, y, z = self._cube = world.cube_position(0)
        self._lifted_m = z - self._start_m[2]
        if self._closed_cycle is None:
            moved = math.dist((x, y, z), self._start_m)
            return ("knocked" if moved > KNOCKED_M else ""), False
        self._touched = world.pads_touching(world.cube_body(0)) == 2
        if self._touched and self._lifted_m >= LIFT_M:
            self._held_s += PERIOD_S
            return "", self._held_s >= HOLD_S - 1e-9
        self._held_s = 0.0
        waited_s = (self._player.cycle - self._closed_cycle) * CYCLE_S
        if waited_s > CLOSING_S and not skills.grasp_verified(world.gripper_width, True):
            return "grasp_empty", False
        return "", False

    def _reward_state(self, success: bool) -> np.ndarray:
        pose, (x, y, z) = self._arm.pose, self._cube
        turn = self._yaw - math.atan2(pose[1, 0], pose[0, 0])
        yaw_error = math.remainder(turn, math.pi / 2)
        rates = self._arm.qd_rad_s
        return np.array([
            x - pose[0, 3], y - pose[1, 3], z - pose[2, 3], yaw_error, float(np.sqrt(rates @ rates)),
            float(self._touched), self._lifted_m, float(success),
        ])  # fmt: skip
