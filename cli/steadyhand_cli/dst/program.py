"""State model of the controller program, rule for rule `steadyhand.script`, a few microseconds a cycle.

The text itself runs in the interpreter at a hundredth of the speed; `tests/contract/test_dst_program.py` holds this
model to it over random register traces.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.protocols import ALIVE, Command, ProgramState
from steadyhand_firmware_bridge.urscript import HEARTBEAT_MAX, ProgramConfig


@dataclass
class Inputs:
    """Input registers: they keep their values, whoever wrote them."""

    heartbeat: int = 0
    token: int = 0
    command: int = 0
    sequence: int = 0
    q_rad: np.ndarray | None = None


def _as_rendered(value: float) -> float:
    return float(f"{value:.9f}")


class Program:
    """One upload. `tick` is one control cycle: it reads the inputs and says which goal `servoj` got, if any."""

    def __init__(self, token: int, steptime_s: float, config: ProgramConfig = ProgramConfig()):
        self.token, self.steptime_s, self.config = token, steptime_s, config
        self.state = ProgramState.NONE
        self.sequence = self.longest_silence = 0
        self.goal_rad: np.ndarray | None = None  # of servoj, once servoing
        self.ended = False
        self._timeout_s = _as_rendered(config.heartbeat_timeout_s)
        self._first_timeout_s = _as_rendered(config.first_heartbeat_timeout_s)
        self._tolerance_rad = _as_rendered(config.first_setpoint_tolerance_rad)
        self._step_rad = _as_rendered(config.step_max_rad)
        self._begun = False
        self._heartbeat = self._silent = self._waited = 0

    @property
    def alive(self) -> bool:
        """Whether it runs and obeys."""
        return not self.ended and self.state in ALIVE

    def tick(self, inputs: Inputs, target_rad: np.ndarray) -> None:
        """One cycle. `target_rad` is the controller's own target, which the first set-point must be near to."""
        if self.ended:
            return
        if not self._begun:
            self._begun, self._heartbeat = True, inputs.heartbeat
        elif self.state is ProgramState.NONE:
            self._wait(inputs)
        else:
            self._turn(inputs, target_rad)

    def _wait(self, inputs: Inputs) -> None:
        self._waited += 1
        if self._new_heartbeats(inputs) > 0 and inputs.token == self.token:
            self.state = ProgramState.READY
        elif self._waited * self.steptime_s > self._first_timeout_s:
            self._end(ProgramState.STOPPED_NO_HEARTBEAT)

    def _turn(self, inputs: Inputs, target_rad: np.ndarray) -> None:
        if inputs.token != self.token:
            return self._end(ProgramState.STOPPED_TOKEN)
        beats = self._new_heartbeats(inputs)
        if beats > self.config.heartbeat_jump_max:
            return self._end(ProgramState.STOPPED_RESUMED)
        if beats > 0:
            self._silent = 0
        else:
            self._silent += 1
            self.longest_silence = max(self.longest_silence, self._silent)
            if (self._silent + 0.5) * self.steptime_s > self._timeout_s:
                return self._end(ProgramState.STOPPED_HEARTBEAT)
        if inputs.command == Command.HALT:
            return self._end(ProgramState.HALTED)
        if inputs.command == Command.SERVO:
            return self._servo(inputs, beats, target_rad) if beats > 0 else None
        if inputs.command != Command.HOLD:
            return self._end(ProgramState.STOPPED_COMMAND)
        return None

    def _servo(self, inputs: Inputs, beats: int, target_rad: np.ndarray) -> None:
        servoing = self.goal_rad is not None
        distance = self._step_rad * beats if servoing else self._tolerance_rad
        step = inputs.q_rad - (self.goal_rad if servoing else target_rad)
        if not ((step <= distance) & (step >= -distance)).all():  # a comparison with NaN is false
            return self._end(ProgramState.STOPPED_SETPOINT)
        self.goal_rad, self.sequence = inputs.q_rad, inputs.sequence
        self.state = ProgramState.SERVOING
        return None

    def _end(self, state: ProgramState) -> None:
        self.state, self.ended, self.goal_rad = state, True, None

    def _new_heartbeats(self, inputs: Inputs) -> int:
        now = inputs.heartbeat
        if now < 1 or now > HEARTBEAT_MAX:
            return 0
        counted = now - self._heartbeat
        if counted < 0:
            counted += HEARTBEAT_MAX
        self._heartbeat = now
        return counted

    def served(self, inputs: Inputs) -> None:
        """Cycles have passed that each found a new heartbeat and a set-point within reach: the last is in `inputs`."""
        self._heartbeat, self._silent = inputs.heartbeat, 0
        self.goal_rad, self.sequence = inputs.q_rad, inputs.sequence

