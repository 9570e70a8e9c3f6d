"""An AGV in this process, for tests of the AGV's guard: a point that drives along straight lines, of either kind.

It says nothing about real vehicles. It keeps the contract that every bridge keeps (`tests/contract/agv_contract.py`),
and faults are injected by setting its public fields.
"""
from __future__ import annotations

import math
from collections.abc import Mapping

from steadyhand.agv import AgvFeedback, AgvKind, DriveTo, TaskState, Velocity, check_command
from steadyhand.protocols import Arming, ArmingPhase

SPEED_M_S, ACCELERATION_M_S2 = 0.5, 0.5
SILENCE_S = 0.5  # a velocity older than this is zero
ARMING_S = 0.05


class FakeAgv:
    """Implements `agv.Agv`. Injectable: `reachable`, `silent` (no feedback), `e_stop`, `operating_mode`, `foreign`,
    `deaf` (takes no stop)."""

    name = "fake"

    def __init__(self, kind: AgvKind = AgvKind.ORDER, period_s: float = 0.02):
        self.kind, self.period_s = kind, period_s
        self.reachable, self.operating_mode = True, "AUTOMATIC"
        self.silent = self.foreign = self.deaf = self.e_stop = False
        self.stops = 0
        self._x_m, self._v_m_s, self._wanted_m_s = 0.0, 0.0, 0.0
        self._goal_x_m: float | None = None
        self._command_s = -math.inf
        self._task, self._task_state, self._detail = "", TaskState.NONE, ""
        self._paused = False
        self._arming, self._ready_s = Arming(ArmingPhase.IDLE), 0.0
        self._last_s: float | None = None
        self._feedback: AgvFeedback | None = None

    def open(self, now_s: float) -> None:
        """Begin time."""
        self._last_s = now_s

    def poll(self, now_s: float) -> None:
        """Drive on to now."""
        if self._last_s is None:
            return
        dt_s, self._last_s = min(now_s - self._last_s, 0.1), now_s
        if self._arming.phase is ArmingPhase.UNDER_WAY and now_s >= self._ready_s:
            troubles = self.troubles(now_s)
            phase = ArmingPhase.FAILED if troubles else ArmingPhase.READY
            self._arming = Arming(phase, "; ".join(troubles.values()))
        wanted = self._speed_wanted(now_s)
        step = ACCELERATION_M_S2 * dt_s
        self._v_m_s += min(step, max(-step, wanted - self._v_m_s))
        self._x_m += self._v_m_s * dt_s
        if self._task_state is TaskState.UNDER_WAY and self._goal_x_m is not None and self._left_m() <= 1e-3:
            self._v_m_s, self._task_state = 0.0, TaskState.ARRIVED
        if self.reachable and not self.silent:
            self._feedback = AgvFeedback(
                now_s, self._v_m_s != 0.0, (self._x_m, 0.0, 0.0), "hall", (self._v_m_s, 0.0, 0.0), now_s, self._paused,
                self.operating_mode, 80.0, self._task, self._task_state, self._detail,
            )  # fmt: skip

    def _left_m(self) -> float:
        return abs(self._goal_x_m - self._x_m)

    def _speed_wanted(self, now_s: float) -> float:
        if self.e_stop or self._paused:
            return 0.0
        if self.kind is AgvKind.VELOCITY:
            return self._wanted_m_s if now_s - self._command_s <= SILENCE_S else 0.0
        if self._task_state is not TaskState.UNDER_WAY:
            return 0.0
        speed = min(SPEED_M_S, math.sqrt(2 * ACCELERATION_M_S2 * self._left_m()))
        return math.copysign(speed, self._goal_x_m - self._x_m)

    def readable(self) -> list:
        """No sockets."""
        return []

    def feedback(self) -> AgvFeedback | None:
        """The newest measurement."""
        return self._feedback

    def troubles(self, now_s: float) -> Mapping[str, str]:
        """What was injected."""
        wrong = {}
        if not self.reachable:
            wrong["robot_unreachable"] = "injected"
        if self.e_stop:
            wrong["robot_safety:e_stop"] = "injected"
        if self.operating_mode != "AUTOMATIC":
            wrong["robot_mode:operating_mode"] = f"{self.operating_mode}, wanted AUTOMATIC"
        if self.foreign:
            wrong["agv_foreign"] = "injected"
        return wrong

    def begin_arming(self, token: int, now_s: float) -> None:
        """Ready after 50 ms."""
        self._paused, self._ready_s = False, now_s + ARMING_S
        self._arming = Arming(ArmingPhase.UNDER_WAY, "starting")

    def arming(self) -> Arming:
        """Where the arming stands."""
        return self._arming

    def go(self, command: DriveTo | Velocity, now_s: float) -> str:
        """Take a command."""
        refused = check_command(command, self.kind)
        if not refused and not self.reachable:
            refused = "not connected"
        if not refused and self._arming.phase is not ArmingPhase.READY:
            refused = "not armed"
        if refused:
            return refused
        if isinstance(command, Velocity):
            self._wanted_m_s, self._command_s = command.vx_m_s, now_s
            return ""
        if self._task_state in (TaskState.SENT, TaskState.UNDER_WAY):
            return f"task {self._task} is under way"
        self._task, self._goal_x_m = command.task_id, command.waypoints[-1].x_m
        self._task_state = TaskState.UNDER_WAY
        return ""

    def hold(self, now_s: float) -> str:
        """Come to rest, keep the task."""
        if not self.reachable:
            return "not connected"
        self._paused = True
        return ""

    def resume(self, now_s: float) -> str:
        """Go on."""
        if self._arming.phase is not ArmingPhase.READY:
            return "not armed"
        self._paused = False
        return ""

    def cancel(self, now_s: float) -> str:
        """Give the task up."""
        if self.kind is AgvKind.VELOCITY:
            return "this vehicle is driven by velocity: it has no task"
        if self._task_state not in (TaskState.SENT, TaskState.UNDER_WAY):
            return "no task is under way"
        self._goal_x_m, self._task_state = None, TaskState.STOPPED
        return ""

    def stop(self, now_s: float) -> None:
        """Come to rest and give the task up."""
        self.stops += 1
        self._arming = Arming(ArmingPhase.IDLE)
        if self.deaf or not self.reachable:
            return
        self._wanted_m_s, self._goal_x_m = 0.0, None
        if self._task_state in (TaskState.SENT, TaskState.UNDER_WAY):
            self._task_state = TaskState.STOPPED

    def close(self) -> None:
        """Nothing to let go of."""
