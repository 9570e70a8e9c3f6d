"""What the UR5 environments share: the graph's loop from observation to set-points, and how an episode ends.

One step is one policy period. The observation is of the *commanded* arm (Cartesian formulation, as in the running
graph) or of the measured one (joint formulation); the step acts after the graph's latency, through `motion`. A task
says what is in the scene, what is perceived, what the gripper may do, and what ends an episode. Same seed, same
actions: bit-identical, whatever was run before.
"""
from __future__ import annotations

import math
from dataclasses import replace

import gymnasium
import numpy as np

from steadyhand import cell, kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand.limits import UR5_LIMITS
from steadyhand.policy_io import OBSERVATION_NAMES, PERIOD_S
from steadyhand_sim.envs import formulations, rewards
from steadyhand_sim.envs.arm_config import (
    INVALID_STREAK, JOINT_OBSERVATION_NAMES, NO_NOISE, OBSERVATION_LIMIT, OBSERVATIONS, ArmConfig,
)
from steadyhand_sim.envs.formulations import ACTION_NAMES, CARTESIAN, Arm, Unreachable
from steadyhand_sim.envs.motion import CYCLE_S, Answered, StepPlayer
from steadyhand_sim.envs.plant_parameters import PlantParameters
from steadyhand_sim.envs.training_world import TrainingWorld

NEAR_M = 0.08  # a tool covers 35 mm at most between an observation and the arrival of its vote
TRACKING_LAG_S = 0.02  # of the identified arm, command to motion; a plant's own dead time and lag come on top


class ArmEnv(gymnasium.Env):
    """Base of the UR5 tasks. `info` holds success, failure, terms of the reward, refusals and the invalid streak."""

    metadata = {"render_modes": []}
    task = ""  # name in `rewards`
    extra_names: tuple[str, ...] = ()  # elements that a task adds to an observation

    def __init__(
        self, formulation: str = CARTESIAN, observations: str = "state", plant: PlantParameters | None = None,
        noise: bool = True, reward: str = "bounded", config: ArmConfig | None = None,
    ) -> None:
        """`plant` None: the identified arm; `reset(options={"plant": ...})` changes it from then on."""
        self.formulation = formulations.check_formulation(formulation)
        if observations not in OBSERVATIONS:
            raise ConfigError(f"observations={observations!r}: give one of {', '.join(OBSERVATIONS)}")
        self.observations, self.plant, self.noise = observations, plant or PlantParameters(), bool(noise)
        self.config = config or self.default_config()
        self.reward = rewards.make(self.task, reward, self.config.max_steps)
        self.action_names = ACTION_NAMES[formulation]
        self.action_space = gymnasium.spaces.Box(-1.0, 1.0, (len(self.action_names),), np.float32)
        own = OBSERVATION_NAMES if formulation == CARTESIAN else JOINT_OBSERVATION_NAMES
        self.observation_names = (*own, *self.extra_names)
        state = gymnasium.spaces.Box(-OBSERVATION_LIMIT, OBSERVATION_LIMIT, (len(self.observation_names),), np.float32)
        self._world: TrainingWorld | None = None
        self._view = None
        if observations == "state":
            self.observation_space = state
        else:
            from steadyhand_sim.envs.views import ArmView, proprioception

            self._proprioception = proprioception(self.observation_names)
            self._view = ArmView(self.task)
            self.observation_space = self._view.space(len(self._proprioception))
        self.state_names = self.observation_names if self._view is None else tuple(
            self.observation_names[i] for i in self._proprioception
        )

    @classmethod
    def default_config(cls) -> ArmConfig:
        """The task's own times and errors."""
        return ArmConfig()

    # -- Gymnasium ---------------------------------------------------------------------------------------------------
    def reset(self, *, seed: int | None = None, options: dict | None = None):
        """A new scene. Everything random in the episode follows from the seed."""
        super().reset(seed=seed)
        if options and "plant" in options:
            if not isinstance(options["plant"], PlantParameters):
                raise ConfigError(f"options['plant']={options['plant']!r}: give PlantParameters")
            self.plant = options["plant"]
        c, rng = self.config, self.np_random
        self._perception = c.perception if self.noise else NO_NOISE
        scene_seed = int(rng.integers(2**31))
        self._look_seed = int(rng.integers(2**31))
        self._latencies = rng.integers(c.latency_min_cycles, c.latency_max_cycles + 1, c.max_steps + 1).tolist()
        self._errors = rng.standard_normal((c.max_steps + 1, 3)).tolist()  # x, y of the target; width
        self._bias = rng.standard_normal(4)  # x, y, yaw; one for the task
        q_start = self._start_q_rad()
        if self._world is None:
            self._world = TrainingWorld(c.world, self.plant, c.rates)
        self._world.plant = self.plant
        self._world.config = replace(self._world.config, q_start_rad=tuple(q_start.tolist()))
        self._player = StepPlayer(self._world, c.certify)
        self._player.reset(q_start)
        self._load(scene_seed)
        self._pending: list[tuple] = []  # due cycle, number of the action, state answered, its two steps, its vote
        self._verdicts: list[bool | None] = []  # of each action: valid, invalid, or not there yet
        self._steps, self._closed_cycle = 0, None
        self._arm = Arm.at(q_start, np.zeros(ur5.DOF))
        self._start_task()
        self.reward.reset(self._reward_state(False))
        if self._view is not None:
            self._view.new_look(self._look_seed, c.look_split)
        return self._observe(), self._info("", False, {})

    def step(self, action: np.ndarray):
        """One policy period. ConfigError for a wrong shape; what is not finite or out of [-1, 1] counts as invalid."""
        action = np.asarray(action, dtype=float)
        if action.shape != self.action_space.shape:
            raise ConfigError(f"action: shape {action.shape}, expected {self.action_space.shape}")
        greatest = float(np.abs(action).max())
        finite = math.isfinite(greatest)
        self._take(action, finite, greatest)
        self._pass_period()
        self._steps += 1
        commanded = self._player.commanded()
        self._arm = Arm.at(commanded.q_rad, commanded.qd_rad_s)
        failure, success = self._judge()
        if not success and not failure:
            failure = self._lost_track() or ("invalid_actions" if self._invalid_streak() >= INVALID_STREAK else "")
        truncated = not success and not failure and self._steps >= self.config.max_steps
        if truncated:
            failure = "time"
        paid = action if finite else np.zeros_like(action)
        reward, terms = self.reward.step(self._reward_state(success), paid, self._steps * PERIOD_S)
        terminated = success or (failure != "" and not truncated)
        return self._observe(), reward, terminated, truncated, self._info(failure, success, terms)

    def close(self) -> None:
        """Free physics and renderer."""
        if self._world is not None:
            self._world.close()
            self._world = None
        if self._view is not None:
            self._view.close()

    # -- the graph's part --------------------------------------------------------------------------------------------
    def _take(self, action: np.ndarray, finite: bool, greatest: float) -> None:
        """An action on its way: the joint step that it means, from the state that it answers."""
        player = self._player
        self._verdicts.append(None)
        if not finite:
            self._refuse("not_finite")
        elif greatest > 1.0 + 1e-6:
            self._refuse("out_of_range")
        else:
            try:
                first, later = formulations.joint_step(self.formulation, action, self._arm)
            except Unreachable:
                self._refuse("kinematics")
                return
            answered = Answered(player.cycle, self._arm.q_rad, self._arm.qd_rad_s)
            due = player.cycle + self._latencies[self._steps]
            self._pending.append((due, self._steps, answered, first, later, float(action[-1])))

    def _refuse(self, reason: str) -> None:
        self._player.refused[reason] += 1
        self._verdicts[-1] = False

    def _invalid_streak(self) -> int:
        """Invalid actions in a row, the newest ones of which a verdict is known."""
        streak = 0
        for valid in reversed(self._verdicts):
            if valid:
                break
            streak += valid is False
        return streak

    def _pass_period(self) -> None:
        player, pending = self._player, self._pending
        self._world.detail(self._detail())
        end_s = (self._steps + 1) * PERIOD_S - 1e-9
        while player.cycle * CYCLE_S < end_s:
            while pending and pending[0][0] <= player.cycle:
                _, number, answered, first, later, vote = pending.pop(0)
                self._grip(vote)
                self._verdicts[number] = player.offer(first, later, answered)
            player.advance()

    def _lost_track(self) -> str:
        """The guard's check of commanded against measured, once a period: contact beyond its bound ends it."""
        q, qd = self._arm.q_rad.tolist(), self._arm.qd_rad_s.tolist()
        measured, _ = self._world.measured()
        lag = TRACKING_LAG_S + self.plant.dead_time_s + self.plant.lag_s
        slack = UR5_LIMITS.tracking_slack_s + lag / 2  # the lag is known to half of itself
        for told, rate, there in zip(q, qd, measured):
            if not abs(told - lag * rate - there) <= UR5_LIMITS.tracking_rad + slack * abs(rate):
                return "tracking"
        return ""

    def _near(self, position_m: tuple[float, float, float]) -> bool:
        """Whether a vote can be granted at all: the tool was near at the last observation. Spares most evaluations."""
        return math.dist(self._arm.pose[:3, 3].tolist(), position_m) < NEAR_M

    def _commanded_tool(self) -> tuple[np.ndarray, float]:
        """Position (3,) and speed of the commanded tool now, what a vote is judged by."""
        commanded = self._player.commanded()
        arm = Arm.at(commanded.q_rad, commanded.qd_rad_s)
        return arm.pose[:3, 3], arm.speed_m_s

    # -- observation -------------------------------------------------------------------------------------------------
    def _observe(self):
        (x, y, z), yaw = self._target()
        perception, errors = self._perception, self._errors[self._steps]
        if self._target_is_seen():
            x += perception.noise_m * errors[0]
            y += perception.noise_m * errors[1]
        width = self._world.gripper_width + perception.width_noise_m * errors[2]
        closed = float(self._closed_cycle is not None)
        arm, skill = self._arm, self._skill()
        if self.formulation == CARTESIAN:
            pose = arm.pose
            px, py, pz = pose[:3, 3].tolist()
            turn = 4.0 * (yaw - math.atan2(pose[1, 0], pose[0, 0]))
            vx, vy, vz, _, _, rate = arm.twist.tolist()
            values = [
                x - px, y - py, z - pz, math.sin(turn), math.cos(turn), vx, vy, vz, rate, pz, width, closed, *skill,
            ]
        else:
            q, qd = self._world.measured()
            lead = [10.0 * (c - m) for c, m in zip(arm.q_rad.tolist(), q)]
            tool = formulations.tool_features(q, yaw)
            values = [*q, *qd, *lead, x, y, z, math.sin(4 * yaw), math.cos(4 * yaw), width, closed, *tool]
        values.extend(self._extra())
        state = np.array(values, dtype=np.float32)
        state.clip(-OBSERVATION_LIMIT, OBSERVATION_LIMIT, out=state)
        if self._view is None:
            return state
        c, cycle = self.config, self._player.cycle
        image = self._view.draw(self._world, self._things(), cycle, self._look_seed, c.look_split)
        return {"image": image, "state": state[self._proprioception]}

    def _info(self, failure: str, success: bool, terms: dict[str, float]) -> dict:
        player = self._player
        return {
            "success": success, "is_success": success, "failure": failure, "terms": terms,
            "time_s": player.cycle * CYCLE_S, "invalid_streak": self._invalid_streak(),
            "invalid_total": self._verdicts.count(False),
            "refused": dict(player.refused), "accepted": player.accepted, "certified": player.certified,
        }

    # -- what a task says --------------------------------------------------------------------------------------------
    def _start_q_rad(self) -> np.ndarray:
        """Where the arm stands at first (6,)."""
        raise NotImplementedError

    def _load(self, scene_seed: int) -> None:
        """Reset the world and put into it what the task needs."""
        raise NotImplementedError

    def _start_task(self) -> None:
        """After the scene is there: what is perceived of it."""
        raise NotImplementedError

    def _target(self) -> tuple[tuple[float, float, float], float]:
        """Position and yaw as perceived, without the noise of one observation."""
        raise NotImplementedError

    def _target_is_seen(self) -> bool:
        """Whether the target is still measured, with noise, or known."""
        raise NotImplementedError

    def _skill(self) -> tuple[float, float]:
        """One-hot of pick and place."""
        raise NotImplementedError

    def _extra(self) -> tuple[float, ...]:
        """Elements that the task adds to the observation, as `extra_names`."""
        return ()

    def _detail(self) -> str:
        """How fine physics must run for the next period, as `TrainingWorld.detail`."""
        return "contact"

    def _things(self) -> list:
        """What a picture shows beside arm and cubes, as `views.TaskRenderer.show` takes it."""
        return []

    def _grip(self, vote: float) -> None:
        """A vote on the gripper, granted or not."""
        raise NotImplementedError

    def _judge(self) -> tuple[str, bool]:
        """Failure that ends the episode (or ""), and success."""
        raise NotImplementedError

    def _reward_state(self, success: bool) -> np.ndarray:
        """What the reward is a function of, by the task's `STATE_NAMES`."""
        raise NotImplementedError

    def _tool_pose_down(self, x: float, y: float, z: float, yaw: float) -> np.ndarray:
        """Joints (6,) with the tool pointing down there, on the branch of the cell's home."""
        return kinematics.ik_near(kinematics.tool_down(x, y, z, yaw), cell.HOME_Q_RAD, max_iterations=100)
