"""The pick-and-place environment with a policy that reads sensors: measured joints, with impulse noise, with filters.

For the question whether the filters are worth their delay. The arm's own control stays on what it was told, as in the
running graph; only the observation is of the sensors.
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from steadyhand import policy_io
from steadyhand.impulse_channels import CHANNELS
from steadyhand.impulse_filter import JointFilter
from steadyhand.median_filter import QUARTER_TURN_RAD, SlidingMedian
from steadyhand.plan import Published
from steadyhand.policy_io import Target
from steadyhand.types import Skill
from steadyhand_sim.currents import motor_currents
from steadyhand_sim.envs.chunk_player import CYCLE_S, ChunkPlayer
from steadyhand_sim.envs.pick_place import EnvConfig, PickPlaceEnv
from steadyhand_sim.impulse_noise import ImpulseNoise, ImpulseNoiseConfig
from steadyhand_sim.world import World

JOINTS = ("position", "velocity")


@dataclass(frozen=True)
class Senses:
    """`noise` None: sensors without impulses. `filtered`: impulse filter on the joints, median of 5 on the target."""

    noise: ImpulseNoiseConfig | None = None
    filtered: bool = False


class SensingPlayer(ChunkPlayer):
    """Reads the joints after every control cycle, through noise and filter. Cycle k is at k * CYCLE_S."""

    def __init__(self, world: World, senses: Senses, sigma: np.ndarray, seed: int) -> None:
        self._noise = None if senses.noise is None else ImpulseNoise(sigma, seed, senses.noise)
        self._filter = JointFilter() if senses.filtered else None
        super().__init__(world)

    def reset(self) -> None:
        super().reset()
        self.q_rad, self.qd_rad_s = self._world.q_rad.copy(), self._world.qd_rad_s.copy()
        self.on_target = np.zeros(4)  # x, y, z, yaw: impulse of the last cycle

    def advance(self) -> None:
        super().advance()
        world, on_joints = self._world, np.zeros(12)
        if self._noise is not None:
            drawn = self._noise.draw(motor_currents(world.torque_nm, world.qd_rad_s))
            on_joints, self.on_target = drawn[:12], drawn[12:]
        read = world.q_rad + on_joints[:6], world.qd_rad_s + on_joints[6:]
        if self._filter is not None:  # until its window is full, where the arm stood: it begins at rest
            read = self._filter.update(self.cycle * CYCLE_S, *read) or (self.q_rad, self.qd_rad_s)
        self.q_rad, self.qd_rad_s = read


class SensedPickPlaceEnv(PickPlaceEnv):
    """`PickPlaceEnv` whose observation is of measured joints and of a target that impulses hit too."""

    def __init__(self, config: EnvConfig = EnvConfig(), senses: Senses = Senses()) -> None:
        super().__init__(config)
        self.senses = senses

    def _new_player(self) -> SensingPlayer:
        c = self.config
        seed = int(np.random.default_rng([self._world.seed, 13]).integers(2**31))
        on_target = [c.target_bias_m, c.target_bias_m, 0.0, c.yaw_bias_rad]
        sigma = np.concatenate([*(CHANNELS[k].noise_std for k in JOINTS), on_target])
        self._median = SlidingMedian(5, (0.0, 0.0, 0.0, QUARTER_TURN_RAD))
        return SensingPlayer(self._world, self.senses, sigma, seed)

    def _sensed(self, target: Target, state: Published, width_m: float) -> np.ndarray:
        player = self._player
        if target.skill is Skill.PICK and not self._closed:  # afterwards the target is known, not seen
            seen = np.array([*target.position_m, target.yaw_rad]) + player.on_target
            if self.senses.filtered:
                median = self._median.add(state.stamp_s, seen)
                seen = seen if median is None else median.values
            target = replace(target, position_m=seen[:3], yaw_rad=float(seen[3]))
        return policy_io.observation(target, player.q_rad, player.qd_rad_s, width_m, self._closed)
