"""`Steadyhand/UR5PickPlace-v0`: pick one cube from the tray and place it in the box, at the policy's rate.

One step is one policy period: the observation is `steadyhand.policy_io.observation` of the *commanded* joints and of an
*estimated* target (bias per episode, noise per step); the action is a chunk (HORIZON, ACTION_DIM), turned into joint
way-points by `policy_io.joint_waypoints` and played through the runtime's interpolator and gate after the latency that
the running graph has. Votes are granted by `steadyhand.skills`. Ground truth decides success only, and is in `info`.

Same seed, same actions: bit-identical.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import gymnasium
import numpy as np

from steadyhand import cell, kinematics, policy_io, skills
from steadyhand.errors import ConfigError, KinematicsError
from steadyhand.policy_io import ACTION_DIM, HORIZON, OBSERVATION_DIM, PERIOD_S, Target
from steadyhand.plan import Published
from steadyhand.types import Skill
from steadyhand_sim import scene
from steadyhand_sim.envs.chunk_player import CYCLE_S, ChunkPlayer
from steadyhand_sim.snapshot import Snapshot
from steadyhand_sim.world import World, WorldConfig

_OBSERVATION_LIMIT = 10.0
_GRASP_Z_M = cell.CUBE_SIZE_M / 2
_HAND_OVER_SPEED_M_S = 0.03  # the executor starts PLACE from rest; half of the episodes do so too
_KNOCKED_M = 0.03
_CLOSING_S = 0.8  # fingers need 0.2 s from the pre-grasp opening to a cube, 0.4 s to nothing


@dataclass(frozen=True)
class EnvConfig:
    """What varies. Standard deviations are of normal distributions, in metres and radians."""

    world: WorldConfig = WorldConfig()
    cubes_min: int = 1
    cubes_max: int = 5
    latency_min_s: float = 0.02  # state -> chunk in force, as in the running graph
    latency_max_s: float = 0.06
    target_bias_m: float = 0.003
    target_noise_m: float = 0.001
    yaw_bias_rad: float = 0.03
    width_noise_m: float = 0.0003
    start_away_share: float = 0.4  # episodes that do not start at home
    time_limit_s: float = 16.0

    def __post_init__(self) -> None:
        if not 1 <= self.cubes_min <= self.cubes_max <= cell.MAX_CUBES:
            raise ConfigError(
                f"cubes_min={self.cubes_min}, cubes_max={self.cubes_max}: give 1 to {cell.MAX_CUBES}, ascending"
            )
        if not 0.0 <= self.latency_min_s <= self.latency_max_s <= 0.5:
            raise ConfigError(
                f"latency_min_s={self.latency_min_s}, latency_max_s={self.latency_max_s}: give 0 to 0.5 s, ascending"
            )
        for name in ("target_bias_m", "target_noise_m", "yaw_bias_rad", "width_noise_m", "start_away_share"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ConfigError(f"{name}={getattr(self, name)}: give 0 to 1")
        if not 1.0 <= self.time_limit_s <= 120.0:
            raise ConfigError(f"time_limit_s={self.time_limit_s}: give 1 to 120")


class PickPlaceEnv(gymnasium.Env):
    """Reward 1 for the cube in the box, else 0. `info` holds skill, success, failure, refusals and phase times."""

    metadata = {"render_modes": []}

    def __init__(self, config: EnvConfig | None = None) -> None:
        self.config = config or EnvConfig()
        box, limit = gymnasium.spaces.Box, _OBSERVATION_LIMIT
        self.observation_space = box(-limit, limit, (OBSERVATION_DIM,), np.float32)
        self.action_space = box(-1.0, 1.0, (HORIZON, ACTION_DIM), np.float32)
        self._world: World | None = None

    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """A new scene. Everything random in the episode follows from the seed."""
        super().reset(seed=seed)
        c, rng = self.config, self.np_random
        scene_seed = int(rng.integers(2**31))
        n_cubes = int(rng.integers(c.cubes_min, c.cubes_max + 1))
        if self._world is None:
            self._world = World(c.world, scene_seed)
        self._world.config = replace(c.world, q_start_rad=tuple(self._start_q_rad()))
        self._world.reset(scene_seed, n_cubes)
        self._world.set_gripper("pregrasp")
        self._player = self._new_player()
        self._pending: list[tuple[int, Published, np.ndarray]] = []  # due cycle, state answered, actions
        self._next_s = 0.0
        self._closed, self._grasp_z_m = False, _GRASP_Z_M
        self._index = int(rng.integers(n_cubes))
        positions, quaternions = self._world.object_poses()
        self._cube_start_m = positions[self._index].copy()
        yaw = float(scene.cube_yaw(quaternions[self._index])[0]) + c.yaw_bias_rad * rng.standard_normal()
        self._bias_m = np.array([*(c.target_bias_m * rng.standard_normal(2)), 0.0])
        self._target = Target(Skill.PICK, np.array([*self._cube_start_m[:2], _GRASP_Z_M]) + self._bias_m, yaw)
        self._release = skills.release_target(int(rng.integers(9)))
        self._from_rest = bool(rng.random() < 0.5)
        self._times_s: dict[str, float] = {}
        self._observed = self._observe()
        return self._observed.copy(), self._info("")

    def step(self, action: np.ndarray):
        """One policy period with a chunk (HORIZON, ACTION_DIM); raises ConfigError unless finite and of this shape."""
        actions = np.asarray(action, dtype=float)
        if actions.shape != (HORIZON, ACTION_DIM) or not np.isfinite(actions).all():
            raise ConfigError(f"action: shape {actions.shape}, expected {(HORIZON, ACTION_DIM)}, finite")
        player, c = self._player, self.config
        latency = int(np.ceil(self.np_random.uniform(c.latency_min_s, c.latency_max_s) / CYCLE_S))
        self._pending.append((player.cycle + latency, player.commanded(), actions))
        self._next_s += PERIOD_S
        while player.cycle * CYCLE_S < self._next_s - 1e-9:
            self._deliver()
            player.advance()
        failure = self._change_skill()
        success = failure == "" and self._times_s.get("place") is not None
        truncated = not success and failure == "" and player.cycle * CYCLE_S >= c.time_limit_s
        if truncated:
            failure = "time"
        if success and not self._in_box():
            success, failure = False, "not_in_box"
        self._observed = self._observe()
        terminated = success or (failure != "" and not truncated)
        return self._observed.copy(), float(success), terminated, truncated, self._info(failure, success)

    def snapshot(self, look_seed: int, look_split: str = "test") -> Snapshot:
        """What a camera would draw now, numbered by the controller's cycle."""
        return self._world.snapshot(self._player.cycle, look_seed, look_split)

    def offered_chunks(self) -> list[tuple[Published, int, np.ndarray]]:
        """Every chunk of the episode: state answered, control cycle of its arrival, joint way-points (HORIZON, 6)."""
        return list(self._player.offered)

    def close(self) -> None:
        """Free the physics client."""
        if self._world is not None:
            self._world.close()
            self._world = None

    def _new_player(self) -> ChunkPlayer:
        return ChunkPlayer(self._world)

    # -- the graph's part --------------------------------------------------------------------------------------------
    def _deliver(self) -> None:
        """Replies that have arrived: the vote is granted or not, the way-points offered to the guard's part."""
        while self._pending and self._pending[0][0] <= self._player.cycle:
            _, answered, actions = self._pending.pop(0)
            self._grip(float(actions[0, -1]))
            try:
                waypoints = policy_io.joint_waypoints(actions, answered.q_commanded_rad)
            except KinematicsError:
                self._player.refused["kinematics"] += 1
                continue
            self._player.offer(waypoints, PERIOD_S, answered)

    def _grip(self, vote: float) -> None:
        tool, speed = self._tool()
        if not self._closed and skills.grant_close(vote, self._target, tool, speed):
            self._closed, self._grasp_z_m = True, float(tool[2])
            self._world.set_gripper("close")
            self._times_s["close"] = self._time_s()
        elif self._closed and skills.grant_open(vote, self._target, tool, speed):
            self._closed = False
            self._world.set_gripper("pregrasp")
            self._times_s["open"] = self._time_s()

    def _change_skill(self) -> str:
        """PICK -> PLACE -> done, by what the runtime can measure. Returns the failure that ends the episode."""
        tool, speed = self._tool()
        width = self._world.gripper_width
        if self._target.skill is Skill.PICK:
            if not self._closed and self._knocked():
                return "knocked"
            waited_s = self._time_s() - self._times_s["close"] if self._closed else 0.0
            if waited_s > _CLOSING_S and not skills.grasp_verified(width, True):
                return "grasp_empty"
            if skills.pick_done(width, self._closed, float(tool[2]), self._grasp_z_m):
                if not self._from_rest or speed < _HAND_OVER_SPEED_M_S:
                    self._target = self._release
                    self._bias_m = np.zeros(3)  # where to release is known, not perceived
                    self._times_s["pick"] = self._time_s()
            return ""
        if self._closed and not skills.grasp_verified(width, True):
            return "dropped"
        if skills.place_done(width, self._closed, float(tool[2])):
            self._times_s["place"] = self._time_s()
        return ""

    def _observe(self) -> np.ndarray:
        state = self._player.commanded()
        noise = np.zeros(3)
        if self._target.skill is Skill.PICK and not self._closed:
            noise[:2] = self.config.target_noise_m * self.np_random.standard_normal(2)
        target = replace(self._target, position_m=self._target.position_m + noise)
        width = self._world.gripper_width + self.config.width_noise_m * self.np_random.standard_normal()
        return self._sensed(target, state, float(width))

    def _sensed(self, target: Target, state: Published, width_m: float) -> np.ndarray:
        """The observation, by what is known of the arm: what it was told."""
        return policy_io.observation(target, state.q_commanded_rad, state.qd_commanded_rad_s, width_m, self._closed)

    def _tool(self) -> tuple[np.ndarray, float]:
        """Position (3,) and speed of the commanded tool."""
        state = self._player.commanded()
        velocity = kinematics.jacobian(state.q_commanded_rad)[:3] @ state.qd_commanded_rad_s
        return kinematics.pose_base_link_tool(state.q_commanded_rad)[:3, 3], float(np.linalg.norm(velocity))

    # -- ground truth ------------------------------------------------------------------------------------------------
    def _knocked(self) -> bool:
        return bool(np.linalg.norm(self._world.object_poses()[0][self._index] - self._cube_start_m) > _KNOCKED_M)

    def _in_box(self) -> bool:
        position = self._world.object_poses()[0][self._index]
        return cell.BOX.contains(position[:2]) and bool(position[2] < cell.BOX.wall_height_m)

    def _info(self, failure: str, success: bool = False) -> dict:
        return {
            "skill": self._target.skill.value, "is_success": success, "failure": failure, "time_s": self._time_s(),
            "times_s": dict(self._times_s), "refused": dict(self._player.refused), "accepted": self._player.accepted,
            "target_position_m": self._target.position_m.copy(), "target_yaw_rad": self._target.yaw_rad,
        }

    def _time_s(self) -> float:
        return self._player.cycle * CYCLE_S

    def _start_q_rad(self) -> np.ndarray:
        """Home, or somewhere above tray and box, fingers turned up to an eighth of a turn."""
        rng = self.np_random
        away = rng.random() < self.config.start_away_share
        x, y, z, yaw = rng.uniform((0.36, -0.22, 0.20, -0.6), (0.60, 0.36, 0.34, 0.6))
        if not away:
            return cell.HOME_Q_RAD
        return kinematics.ik_near(kinematics.tool_down(x, y, z, yaw), cell.HOME_Q_RAD, max_iterations=100)
