"""The agent on the physical world with the guard's own interpolator and gate, in virtual time: slower than `fake_cell`,
but a chunk that the guard would refuse is refused here for the same reason."""
from __future__ import annotations

import numpy as np

from steadyhand.task import Inputs
from steadyhand.types import JointChunk, Mode, RobotState, Verdict
from steadyhand_sim import scene
from steadyhand_sim.envs.chunk_player import CYCLE_S, ChunkPlayer
from steadyhand_sim.world import World, WorldConfig
from tests.scenario.fake_cell import Cube, FakeCell

STATE_CYCLES = 2


class SimCell(FakeCell):
    """Same handles as FakeCell; cubes, fingers and motion are PyBullet's."""

    def __init__(self, count: int, seed: int, policy, **more):
        self.world = World(WorldConfig(), seed)
        self.world.reset(seed, count)
        self.world.set_gripper("pregrasp")
        self.player = ChunkPlayer(self.world)
        super().__init__([], seed, policy=policy, **more)
        self.now_s = self.still_since_s = self.next_image_s = 0.0

    def close(self) -> None:
        self.world.close()

    def state(self) -> RobotState:
        published = self.player.commanded()
        self.q, self.qd = published.q_commanded_rad, published.qd_commanded_rad_s
        at_rest = self.now_s - self.still_since_s >= 0.1
        width = self.world.gripper_width + self.rng.normal(0, 0.0003)
        return RobotState(
            self.now_s, self.seq, self.token, self.mode, self.world.q_rad, self.world.qd_rad_s, self.q, self.qd, width,
            self.commanded_m, at_rest, self.causes,
        )

    def _advance(self, dt: float) -> None:
        if self.commanded_m != getattr(self, "_told_m", None):
            self._told_m = self.commanded_m
            self.world.set_gripper("close" if self.commanded_m < 0.02 else self.commanded_m)
        for _ in range(STATE_CYCLES):
            self.player.advance()
            self.now_s = self.player.cycle * CYCLE_S
            if np.abs(self.world.qd_rad_s).max() > 0.01:
                self.still_since_s = self.now_s
        moving = np.abs(self.player.commanded().qd_commanded_rad_s).max() > 0.02
        if moving and self.plan_source == "policy" and self.now_s - self.plan_accepted_s > 0.1 + 1e-9:
            self.violations["command_source_silent"] += 1
            self.stop("command_source_silent")
        positions, quaternions = self.world.object_poses()
        yaws = scene.cube_yaw(quaternions)
        self.cubes = [Cube(p.copy(), float(yaw)) for p, yaw in zip(positions, yaws)]

    def _take_chunk(self, chunk: JointChunk) -> None:
        reason = "" if chunk.token == self.token and self.mode is Mode.ARMED_AUTO else "not_armed"
        if not reason:
            answered = next(p for seq, p in reversed(self._published) if seq == chunk.state_seq)
            before = self.player.refused.copy()
            if not self.player.offer(chunk.q_rad, chunk.period_s, answered):
                reason = next(iter(self.player.refused - before))
        self.verdicts.append(Verdict(chunk.trace_id, not reason, reason))
        if reason:
            self.violations[f"{chunk.source} {self.phases[-1]} {reason}"] += 1
        else:
            self.plan_source, self.plan_accepted_s = chunk.source, self.now_s

    def _decide(self, inputs: Inputs) -> None:
        self._published = [*getattr(self, "_published", [])[-20:], (self.seq, self.player.commanded())] \
            if inputs.policy_reply is None else self._published
        super()._decide(inputs)

    def _perceive(self) -> None:
        held = self.world.held_objects() if self.cubes else []
        for cube, h in zip(self.cubes, held):
            cube.held = bool(h)
        super()._perceive()


