"""Judges the controller's end of the line, cycle by cycle: what a program obeys, and what moves without one.

Numbers are copies of firmware_bridge/urscript/PROTOCOL.md at 125 Hz, not of the program's own configuration.
"""
from __future__ import annotations

from collections.abc import Callable

import numpy as np

from steadyhand.protocols import Command
from steadyhand_cli.dst.program import Inputs

HEARTBEAT_TICKS = 5  # 40 ms at 125 Hz: silence, and heartbeats between two cycles of the program
HEARTBEAT_MAX = 2**30 - 1
STEP_RAD = 1.25 * np.pi * 0.008  # of one joint in one heartbeat
FIRST_STEP_RAD = 0.01
ORPHAN_TICKS = 60  # 3.1 rad/s at 8 rad/s2 takes 0.4 s
REST_QD_RAD_S = 0.01
ROUNDING = 1e-6


class ControllerChecker:
    """`tick` for each cycle that the controller ran, `block` for many at once."""

    def __init__(self, report: Callable[[str, float, str], None]):
        self._report = report
        self._silent = -1  # cycles without a new heartbeat; -1: it did not obey in the last one
        self._orphan = 0
        self._heartbeat = 0  # of the last cycle in which the program obeyed
        self._goal_rad: np.ndarray | None = None

    def tick(
        self, now_s: float, arrived: bool, inputs: Inputs, obeys: int | None, goal_rad: np.ndarray | None,
        target_rad: np.ndarray, target_speed_rad_s: float,
    ) -> None:
        """A heartbeat arrived; the registers; token and goal of the program that obeys (None: none); the target."""
        if obeys is None:
            self._silent = -1  # when it obeys again, its first cycle may find what came meanwhile
            self._orphan = self._orphan + 1 if target_speed_rad_s > REST_QD_RAD_S else 0
            if self._orphan == ORPHAN_TICKS:
                self._report("I1", now_s, "the controller's target still moves 0.48 s after its program ended")
            return
        resumed, self._orphan = self._silent < 0, 0
        self._silent = 0 if arrived or resumed else self._silent + 1
        if self._silent == HEARTBEAT_TICKS:
            self._report("I1", now_s, "the program obeys 40 ms after the last heartbeat")
        if inputs.token != obeys:
            self._report("I3", now_s, f"the program of token {obeys} obeys token {inputs.token}")
        if inputs.command not in (Command.HOLD, Command.SERVO):
            self._report("I1", now_s, f"the program goes on after command {inputs.command}")
        beats = self._beats(inputs.heartbeat)
        if not resumed:
            if not 0 <= beats <= HEARTBEAT_TICKS:
                self._report("I1", now_s, f"the program obeys although {beats} heartbeats passed since its last cycle")
            self._judge_goal(now_s, beats, goal_rad, target_rad)
        self._goal_rad = goal_rad

    def block(self, heartbeat: int, goal_rad: np.ndarray) -> None:
        """Cycles that each found a new heartbeat and a set-point; these were the last."""
        self._heartbeat, self._goal_rad, self._silent, self._orphan = heartbeat, goal_rad, 0, 0

    def _beats(self, heartbeat: int) -> int:
        """Heartbeats since the last cycle in which it obeyed; 0 for a number that is none."""
        if not 1 <= heartbeat <= HEARTBEAT_MAX:
            return 0
        beats, self._heartbeat = heartbeat - self._heartbeat, heartbeat
        return beats

    def _judge_goal(self, now_s: float, beats: int, goal_rad: np.ndarray | None, target_rad: np.ndarray) -> None:
        if goal_rad is None:
            return
        first = self._goal_rad is None
        before, limit_rad = (target_rad, FIRST_STEP_RAD) if first else (self._goal_rad, STEP_RAD * beats)
        step_rad = np.abs(goal_rad - before).max()
        if not step_rad <= limit_rad + ROUNDING:
            self._report("I4", now_s, f"the program obeys a step of {step_rad:.4f} rad, limit {limit_rad:.4f}")
