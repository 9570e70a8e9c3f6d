"""`Steadyhand/UR5Insert-v0`: a square peg, held by friction, into a square socket.

The peg is two of the cell's cubes high, so that the fingers stay above the socket's rim. The clearance is 2.5 mm to
each side: fixtures of a cell like this are known to half a millimetre (touched off once), and the peg sits in the hand
to half a millimetre along the pads; both errors are drawn anew in every episode. Success: the peg stands on the
socket's floor, inside, upright, let go of, for `SETTLED_S`. A vote to open is granted by `steadyhand.skills`.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, skills
from steadyhand.policy_io import PERIOD_S, Target
from steadyhand.types import Skill
from steadyhand_sim import scene
from steadyhand_sim.envs.arm_config import ArmConfig, Perception
from steadyhand_sim.envs.arm_env import ArmEnv
from steadyhand_sim.envs.motion import CYCLE_S
from steadyhand_sim.envs.views import PEG_COLOUR, SOCKET_COLOUR

PEG_M = (cell.CUBE_SIZE_M, cell.CUBE_SIZE_M, 0.08)
GRASP_ABOVE_BOTTOM_M = 0.06  # the finger tips end 15 mm below the grasp point: 45 mm above the peg's lower face
CLEARANCE_M = 0.0025  # to each side
SOCKET_HEIGHT_M, SOCKET_WALL_M = 0.03, 0.012
SEAT_Z_M = GRASP_ABOVE_BOTTOM_M + 0.001  # of the tool when the peg stands
SETTLED_S, FALLING_S = 0.2, 0.8
_HAND_OFFSET_M = 0.0005  # of the peg in the hand, along the pads and up
_SOCKET_LOW, _SOCKET_HIGH = (0.45, -0.19, -0.6), (0.59, 0.01, 0.6)  # x, y, yaw: inside the tray
_START_XY_M, _START_YAW_RAD, _START_Z_M = 0.06, 0.5, (0.15, 0.21)
_SETTLE_CYCLES = 15  # of the fingers on the peg, before the episode begins
_KINEMATIC_SLACK_M = 0.004


@dataclass(frozen=True)
class Socket:
    """Where the socket stands: centre and yaw in `base_link`."""

    x_m: float
    y_m: float
    yaw_rad: float

    def walls(self) -> list[tuple[tuple[float, float, float], tuple[float, float, float]]]:
        """Centre and half extents of each wall, before the turn by the yaw; z from the table."""
        inside, t, h = PEG_M[0] / 2 + CLEARANCE_M, SOCKET_WALL_M / 2, SOCKET_HEIGHT_M / 2
        return [
            ((inside + t, 0.0, h), (t, inside + 2 * t, h)), ((-inside - t, 0.0, h), (t, inside + 2 * t, h)),
            ((0.0, inside + t, h), (inside, t, h)), ((0.0, -inside - t, h), (inside, t, h)),
        ]  # fmt: skip

    def placed(self, local: tuple[float, float, float]) -> tuple[float, float, float]:
        """A point of the socket's frame in `base_link`."""
        c, s = math.cos(self.yaw_rad), math.sin(self.yaw_rad)
        return self.x_m + c * local[0] - s * local[1], self.y_m + s * local[0] + c * local[1], local[2]


class UR5InsertEnv(ArmEnv):
    """Adds to the observation how far the measured tool is from the commanded one: what is felt of a contact."""

    task = "insert"
    extra_names = ("deflection_x", "deflection_y", "deflection_z")  # m, base_link, times 20

    @classmethod
    def default_config(cls) -> ArmConfig:
        return ArmConfig(perception=Perception(0.0005, 0.0002, 0.01, 0.0003), time_limit_s=10.0)

    def _start_q_rad(self) -> np.ndarray:
        rng = self.np_random
        self.socket = Socket(*rng.uniform(_SOCKET_LOW, _SOCKET_HIGH).tolist())
        reach = (_START_XY_M, _START_XY_M, _START_YAW_RAD)
        dx, dy, dyaw = rng.uniform([-v for v in reach], reach).tolist()
        self._in_hand = rng.standard_normal(2) * (_HAND_OFFSET_M if self.noise else 0.0)
        z = float(rng.uniform(*_START_Z_M))
        self._start = (self.socket.x_m + dx, self.socket.y_m + dy, z, self.socket.yaw_rad + dyaw)
        return self._tool_pose_down(*self._start)

    def _load(self, scene_seed: int) -> None:
        world = self._world
        world.reset(scene_seed, 0)
        self._load_socket(world.client)
        self._load_peg(world.client)
        world.preset_gripper(PEG_M[0])
        still = [0.0] * 6
        for _ in range(_SETTLE_CYCLES):
            world.cycle(list(world.config.q_start_rad), still)

    def _load_socket(self, p) -> None:
        turn = scene.yaw_quaternion(np.array([self.socket.yaw_rad]))[0].tolist()
        for centre, half in self.socket.walls():
            shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=half)
            body = p.createMultiBody(0, shape, -1, self.socket.placed(centre), turn)
            p.changeDynamics(body, -1, lateralFriction=self.config.world.table_friction)

    def _load_peg(self, p) -> None:
        x, y, z, yaw = self._start
        along, up = self._in_hand.tolist()
        x, y = x + along * math.sin(yaw), y - along * math.cos(yaw)  # the pads lie across the tool's x axis
        z += PEG_M[2] / 2 - GRASP_ABOVE_BOTTOM_M + up
        shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[v / 2 for v in PEG_M])
        turn = scene.yaw_quaternion(np.array([yaw]))[0].tolist()
        self._peg = p.createMultiBody(2 * self.config.world.cube_mass_kg, shape, -1, (x, y, z), turn)
        friction = self.config.world.cube_friction
        p.changeDynamics(self._peg, -1, lateralFriction=friction, spinningFriction=0.002)

    def _start_task(self) -> None:
        bias, p = self._bias.tolist(), self._perception
        x, y = self.socket.x_m + p.bias_m * bias[0], self.socket.y_m + p.bias_m * bias[1]
        self._perceived = (x, y, SEAT_Z_M)
        self._perceived_yaw = self.socket.yaw_rad + p.yaw_bias_rad * bias[2]
        self._wanted = Target(Skill.PLACE, np.array(self._perceived), self._perceived_yaw)
        self._closed_cycle, self._opened_cycle, self._settled_s = 0, None, 0.0
        self._seen = self._peg_state()

    def _target(self):
        return self._perceived, self._perceived_yaw

    def _target_is_seen(self) -> bool:
        return self._opened_cycle is None

    def _skill(self) -> tuple[float, float]:
        return 0.0, 1.0

    def _extra(self) -> tuple[float, ...]:
        return tuple(20.0 * d for d in self._deflection_m())

    def _deflection_m(self) -> list[float]:
        """Measured minus commanded tool position, to first order."""
        q, _ = self._world.measured()
        return (self._arm.jacobian[:3] @ (np.array(q) - self._arm.q_rad)).tolist()

    def _grip(self, vote: float) -> None:
        if self._opened_cycle is None and vote < 0.0 and self._near(self._perceived):
            tool_m, speed_m_s = self._commanded_tool()
            if skills.grant_open(vote, self._wanted, tool_m, speed_m_s):
                self._opened_cycle, self._closed_cycle = self._player.cycle, None
                self._world.set_gripper("pregrasp")

    def _peg_state(self) -> tuple[float, float, float, float]:
        """Ground truth: centre of the lower face (x, y in the socket's frame, height), lean (rad)."""
        p = self._world.client
        (x, y, z), quaternion = p.getBasePositionAndOrientation(self._peg)
        r = p.getMatrixFromQuaternion(quaternion)
        half = PEG_M[2] / 2
        x, y, z = x - r[2] * half, y - r[5] * half, z - r[8] * half
        c, s = math.cos(self.socket.yaw_rad), math.sin(self.socket.yaw_rad)
        dx, dy = x - self.socket.x_m, y - self.socket.y_m
        return c * dx + s * dy, c * dy - s * dx, z, math.acos(min(1.0, max(-1.0, r[8])))

    def _judge(self) -> tuple[str, bool]:
        x, y, z, lean = self._seen = self._peg_state()
        if self._opened_cycle is None:
            held = skills.grasp_verified(self._world.gripper_width, True)
            return ("" if held else "dropped"), False
        inside = max(abs(x), abs(y)) <= CLEARANCE_M + 0.0015
        if inside and z <= _KINEMATIC_SLACK_M and lean <= 0.09:
            self._settled_s += PERIOD_S
            return "", self._settled_s >= SETTLED_S - 1e-9 and skills.released(self._world.gripper_width, False)
        self._settled_s = 0.0
        waited_s = (self._player.cycle - self._opened_cycle) * CYCLE_S
        return ("not_seated" if waited_s > FALLING_S else ""), False

    def _reward_state(self, success: bool) -> np.ndarray:
        x, y, z, _ = self._seen
        pose = self._arm.pose
        turn = self.socket.yaw_rad - math.atan2(pose[1, 0], pose[0, 0])
        rates = self._arm.qd_rad_s
        return np.array([
            x, y, z, math.remainder(turn, math.pi / 2), float(np.sqrt(rates @ rates)),
            math.sqrt(sum(d * d for d in self._deflection_m())), float(success),
        ])  # fmt: skip

    def _things(self) -> list:
        turn = tuple(scene.yaw_quaternion(np.array([self.socket.yaw_rad]))[0].tolist())
        walls = [(self.socket.placed(centre), half, turn, SOCKET_COLOUR) for centre, half in self.socket.walls()]
        position, quaternion = self._world.client.getBasePositionAndOrientation(self._peg)
        return [*walls, (position, tuple(v / 2 for v in PEG_M), quaternion, PEG_COLOUR)]
