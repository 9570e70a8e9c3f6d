"""Plays policy chunks on a world as the guard does: interpolate, check, replace the plan under way, 8 ms set-points.

Interpolator and gate are the runtime's own; a chunk that the guard would refuse is refused here and counted.
"""
from __future__ import annotations

from collections import Counter

import numpy as np

from steadyhand import ur5
from steadyhand.interpolator import PlanRefused, build_plan
from steadyhand.plan import Published, hold_plan
from steadyhand.safety_gate import SafetyGate
from steadyhand.types import JointChunk
from steadyhand_sim.world import World

CYCLE_S = ur5.SERVO_PERIOD_CB3_S


class ChunkPlayer:
    """Time is counted in control cycles since reset; a state's stamp is `cycle * CYCLE_S`."""

    def __init__(self, world: World) -> None:
        self._world, self._gate = world, SafetyGate()
        self._substeps = round(CYCLE_S / world.physics_period_s)
        self.reset()

    def reset(self) -> None:
        """Stand at the world's start configuration."""
        self.cycle, self.refused, self.accepted = 0, Counter(), 0
        self.offered: list[tuple[Published, int, np.ndarray]] = []  # state answered, cycle of arrival, way-points
        self._plan = hold_plan(np.array(self._world.config.q_start_rad), CYCLE_S, 0.0)
        self._index = 0

    def commanded(self) -> Published:
        """The commanded state as the guard would publish it now."""
        q, qd, _ = self._plan.state_before(self._index)
        return Published(self.cycle * CYCLE_S, q, qd)

    def offer(self, waypoints_rad: np.ndarray, period_s: float, answered: Published) -> bool:
        """A chunk (N, 6) that answers a published state; whether it replaces the plan under way."""
        self.offered.append((answered, self.cycle, waypoints_rad))
        chunk = JointChunk(
            0, 0, answered.stamp_s, f"env-{self.cycle}", "policy", ur5.JOINT_NAMES, period_s, waypoints_rad
        )
        try:
            plan = build_plan(chunk, self.cycle * CYCLE_S, self._plan, self._index, answered=answered)
        except PlanRefused as refusal:
            self.refused[refusal.reason.value] += 1
            return False
        verdict = self._gate.check_plan(plan, self._plan.history_at(self._index))
        if not verdict.accepted:
            self.refused[verdict.reason] += 1
            return False
        self._plan, self._index = plan, 0
        self.accepted += 1
        return True

    def advance(self) -> None:
        """One control cycle: send the next set-point and let physics pass."""
        q, qd, _ = self._plan.setpoint(self._index)
        self._world.step(q, qd, self._substeps)
        self._index += 1
        self.cycle += 1
