"""A robot in this process, for tests of the guard: kinematic, with the controller program's reactions to silence.

It says nothing about real hardware or about the emulated controller. It obeys the same contract as the UR5 driver
(`tests/contract`), and faults can be injected by setting its public fields.
"""
from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from steadyhand import cell, ur5
from steadyhand.errors import RobotError
from steadyhand.payload import Payload
from steadyhand.protocols import ALIVE, ActResult, Arming, ArmingPhase, Command, Feedback, ProgramState
from steadyhand_firmware_bridge.ur5_fields import gripper_opening, gripper_outputs

HEARTBEAT_LIMIT_S = 0.040
STOPJ_RAD_S2 = 8.0
LAG_S = 0.020  # measured follows target by this first-order lag
ARMING_S = 0.050


class FakeRobot:
    """Implements `protocols.Robot`. Injectable: `reachable`, `silent` (no feedback), modes, `freedrive`, `local`."""

    name = "fake"
    joint_names = ur5.JOINT_NAMES

    def __init__(self, period_s: float = 0.008, q_rad: np.ndarray = cell.HOME_Q_RAD):
        self.period_s = period_s
        self.reachable, self.silent, self.robot_mode, self.safety_mode = True, False, 7, 1
        self.freedrive = self.local = False
        self.stops = 0  # stop_program calls
        self.gripper_writes = 0
        self.payload_kg, self.payload_cog_m = 1.0, (0.0, 0.0, 0.05)  # as the installation has it
        self.payload_obeys = True  # false: orders are not answered
        self.width_m: float | None = None  # measured, when it is not what the outputs ask for
        self._payload_order, self._payload_kept = 0, None
        self.sent: list[tuple[Command, int, int, np.ndarray]] = []  # the last package of each period
        self._q = np.array(q_rad, dtype=float)
        self._target, self._target_speed = self._q.copy(), np.zeros(ur5.DOF)
        self._qd = np.zeros(ur5.DOF)
        self._state, self._token, self._seq, self._outputs = ProgramState.NONE, 0, 0, 0
        self._package: tuple[Command, int, int, np.ndarray] | None = None
        self._package_s = -np.inf
        self._next_s: float | None = None
        self._feedback: Feedback | None = None
        self._arming = Arming(ArmingPhase.IDLE)
        self._arming_token, self._armed_at_s = 0, 0.0
        self._act_result: ActResult | None = None

    def open(self, now_s: float) -> None:
        """Begin time."""
        self._next_s = now_s

    def service(self, now_s: float) -> None:
        """Run the controller's cycles up to now (at most 50 at once, like a process that was held up)."""
        if self._next_s is None:
            return
        self._next_s = max(self._next_s, now_s - 50 * self.period_s)
        while self._next_s <= now_s:
            self._cycle(self._next_s)
            self._next_s += self.period_s

    def _cycle(self, now_s: float) -> None:
        if self._arming.phase is ArmingPhase.UNDER_WAY and now_s >= self._armed_at_s:
            if self.robot_mode != 7 or self.safety_mode != 1:
                self._arming = Arming(ArmingPhase.FAILED, f"robot mode {self.robot_mode}, safety {self.safety_mode}")
            elif self._package is not None and self._package[1] == self._arming_token:
                self._state, self._token = ProgramState.READY, self._arming_token
                self._arming = Arming(ArmingPhase.READY)
        if self.safety_mode != 1:  # the robot's own stop: at once, whatever the program wants
            self._target_speed = np.zeros(ur5.DOF)
        elif self._state in ALIVE:
            self._run_program(now_s)
        else:
            step = STOPJ_RAD_S2 * self.period_s  # stopj
            self._target_speed = self._target_speed - np.clip(self._target_speed, -step, step)
        self._target = self._target + self._target_speed * self.period_s
        before = self._q
        self._q = self._q + (self._target - self._q) * (1.0 - np.exp(-self.period_s / LAG_S))
        self._qd = (self._q - before) / self.period_s
        if not self.silent and self.reachable:
            self._feedback = self._measure(now_s)

    def _run_program(self, now_s: float) -> None:
        command, token, seq, q = self._package
        if now_s - self._package_s > HEARTBEAT_LIMIT_S:
            self._state = ProgramState.STOPPED_HEARTBEAT
        elif token != self._token:
            self._state = ProgramState.STOPPED_TOKEN
        elif command is Command.HALT:
            self._state = ProgramState.HALTED
        elif command is Command.SERVO:
            self._state, self._seq = ProgramState.SERVOING, seq
            self._target_speed = (q - self._target) / self.period_s
        else:
            self._target_speed = np.zeros(ur5.DOF)

    def _measure(self, now_s: float) -> Feedback:
        opening = gripper_opening(self._outputs)
        return Feedback(
            now_s, now_s, self._q.copy(), self._qd.copy(), self._target.copy(), self._target_speed.copy(),
            self.robot_mode, self.safety_mode, self._state in ALIVE, int(self._state), self._token, self._seq, 0,
            opening if self.width_m is None else self.width_m, opening, self.freedrive,
            self.payload_kg, self.payload_cog_m, self._payload_order,
        )  # fmt: skip

    def readable(self) -> list:
        """No sockets."""
        return []

    def feedback(self) -> Feedback | None:
        """The newest measurement."""
        return self._feedback

    def troubles(self) -> Mapping[str, str]:
        """`robot_unreachable` and `robot_local` when so injected."""
        wrong = {} if self.reachable else {"robot_unreachable": "injected"}
        return wrong | ({"robot_local": "injected"} if self.local else {})

    def begin_arming(self, token: int, now_s: float) -> None:
        """Ready after 50 ms of packages with this token."""
        self._state, self._payload_order = ProgramState.NONE, 0
        if self._payload_kept is not None:
            self.payload_kg, self.payload_cog_m = self._payload_kept.mass_kg, self._payload_kept.cog_m
        self._arming_token, self._armed_at_s = token, now_s + ARMING_S
        starting, failed = Arming(ArmingPhase.UNDER_WAY, "starting"), Arming(ArmingPhase.FAILED, "unreachable")
        self._arming = starting if self.reachable else failed

    def arming(self) -> Arming:
        """Where the arming stands."""
        return self._arming

    def send(self, command: Command, token: int, seq: int, q_rad: np.ndarray) -> bool:
        """Keep the package for the next cycle."""
        if not self.reachable or not np.isfinite(q_rad).all():
            return False
        self._package = (command, token, seq, np.array(q_rad, dtype=float))
        self._package_s = self._next_s if self._next_s is not None else -np.inf
        self.sent.append(self._package)
        return True

    def stop_program(self, now_s: float) -> None:
        """End the program."""
        self.stops += 1
        if self._arming.phase is ArmingPhase.UNDER_WAY:
            self._arming = Arming(ArmingPhase.FAILED, "stopped")
        if self._state in ALIVE:
            self._state = ProgramState.NONE

    def command_gripper(self, width_m: float) -> bool:
        """At the wanted opening at once."""
        if not self.reachable:
            return False
        self.gripper_writes += 1
        self._outputs = gripper_outputs(width_m)
        return True

    def keep_payload(self, payload: Payload | None) -> None:
        """In force from the next arming on."""
        self._payload_kept = payload

    def command_payload(self, order: int, payload: Payload) -> bool:
        """Done at once; refused while the target moves."""
        if not self.reachable:
            return False
        if self.payload_obeys:
            moving = np.abs(self._target_speed).max() > 0.01
            self._payload_order = -order if moving else order
            if not moving:
                self.payload_kg, self.payload_cog_m = payload.mass_kg, payload.cog_m
        return True

    def begin_act(self, act: str, now_s: float) -> None:
        """Ends at once: the modes change as a controller's would."""
        if act not in ("power-on", "brake-release", "unlock", "power-off"):
            raise RobotError(f"act {act[:40]!r} is none of this robot's")
        if act == "unlock":
            self.safety_mode = 1 if self.safety_mode == 3 else self.safety_mode
        else:
            self.robot_mode = {"power-on": 5, "brake-release": 7, "power-off": 3}[act]
        self._act_result = ActResult(act, True, "done")

    def act_result(self) -> ActResult | None:
        """How it ended, once."""
        result, self._act_result = self._act_result, None
        return result

    def close(self) -> None:
        """Nothing to let go of."""
