"""The modelled arm and controller behind the guard's `protocols.Robot`, with a faulty line in both directions.

Time is counted in controller cycles ("ticks"): tick k runs `PHASE_S` after guard cycle k. A package that is sent in
guard cycle k reaches the registers before tick k, a measurement of tick k the guard before cycle k + 1, unless a fault
of the line says otherwise. The line is a byte stream: a stall ends in a burst.
"""
from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from steadyhand import ur5
from steadyhand.protocols import ALIVE, Arming, ArmingPhase, Command, Feedback, ProgramState
from steadyhand_cli.dst import plant as plants
from steadyhand_cli.dst.clock import START_S, Clock
from steadyhand_cli.dst.program import Inputs, Program
from steadyhand_firmware_bridge.ur5_fields import gripper_opening, gripper_outputs
from steadyhand_firmware_bridge.urscript import HEARTBEAT_MAX, next_heartbeat

PHASE_S, TRANSPORT_S = 0.003, 0.0005
RUNNING, NORMAL, REDUCED = 7, 1, 2
ARMING_TIMEOUT_S = 5.0


@dataclass
class Line:
    """Faults of one direction; each is counted when it first meets a package."""

    stall_until: int = -1  # tick
    drop_until: int = -1
    duplicate: int = 0  # packages still to be treated so
    swap: int = 0
    corrupt: int = 0
    hit: set[str] = field(default_factory=set)  # modes that met a package in this cycle
    pending: set[str] = field(default_factory=set)  # injected, not counted yet

    def forget(self) -> None:
        """Faults that have met no package are over."""
        self.duplicate = self.swap = self.corrupt = 0
        self.pending.clear()

    def clear(self, tick: int) -> bool:
        """Whether nothing is wrong with it."""
        return tick > max(self.stall_until, self.drop_until) and not (self.duplicate or self.swap or self.corrupt)


class SimRobot:
    """Implements `protocols.Robot` without sockets. Faults are set through its public fields."""

    name = "simulated"
    joint_names = ur5.JOINT_NAMES

    def __init__(self, clock: Clock, q_rad: np.ndarray, rng: random.Random):
        self.clock, self.period_s, self.rng = clock, clock.period_s, rng
        self.plant = plants.Plant(q_rad, self.period_s)
        self.robot_mode, self.safety_mode = RUNNING, NORMAL
        self.freedrive = self.local = False
        self.up, self.down = Line(), Line()
        self.cut_until = self.refuse_until = self.frozen_until = self.repeat_until = -1  # ticks
        self.nan_feedback = 0
        self.paused = False
        self.arming_trouble = ""  # "", "slow", "fails", "foreign"
        self.tick_count = 0
        self.program: Program | None = None
        self.inputs = Inputs(q_rad=np.zeros(ur5.DOF))
        self.arrived_tick = -1  # tick that last found a new heartbeat
        self.outputs = 0  # digital, of the gripper
        self.sent: tuple | None = None  # what this cycle's `send` was given
        self._in_flight: list[tuple] = []
        self._down: deque[Feedback] = deque()
        self._feedback: Feedback | None = None
        self._heartbeat = 0
        self._stop_tick: int | None = None
        self._own_stop_tick: int | None = None
        self._arming, self._arming_token = Arming(ArmingPhase.IDLE), 0
        self._upload_tick: int | None = None
        self._deadline_s = 0.0

    # --- protocols.Robot -------------------------------------------------------------------------------------------
    def open(self, now_s: float) -> None:
        """A session of a new guard: nothing is known, nothing is under way."""
        self._feedback, self._arming, self._upload_tick = None, Arming(ArmingPhase.IDLE), None
        self._down.clear()

    def close(self) -> None:
        """The line of a guard that has gone."""
        self._down.clear()

    def readable(self) -> list:
        """No sockets."""
        return []

    def service(self, now_s: float) -> None:
        """Take the newest measurement that has arrived; advance the arming."""
        while self._down and self._down[0].stamp_s <= now_s:
            self._feedback = self._down.popleft()
        if self._arming.phase is ArmingPhase.UNDER_WAY:
            self._advance_arming(now_s)

    def feedback(self) -> Feedback | None:
        """The newest measurement."""
        return self._feedback

    @property
    def connected(self) -> bool:
        """Whether the session stands."""
        return self.tick_count > self.cut_until

    def troubles(self) -> dict[str, str]:
        """`robot_unreachable` while the session is cut, `robot_local` while the pendant has control."""
        if not self.connected:
            return {"robot_unreachable": "session cut"}
        return {"robot_local": "the pendant has control"} if self.local else {}

    def arming(self) -> Arming:
        """Where the arming stands."""
        return self._arming

    def begin_arming(self, token: int, now_s: float) -> None:
        """Checks, end of the program before, upload: 30 to 250 ms, then the program's own start."""
        slow = 700 if self.arming_trouble == "slow" else 0
        self._arming_token, self._deadline_s = token, now_s + ARMING_TIMEOUT_S
        self._upload_tick = self.tick_count + self.rng.randint(4, 30) + slow
        self._arming = Arming(ArmingPhase.UNDER_WAY, "checks")

    def _advance_arming(self, now_s: float) -> None:
        feedback = self._feedback
        if now_s > self._deadline_s:
            self._arming = Arming(ArmingPhase.FAILED, "not done in time")
        elif not self.connected or feedback is None:
            self._arming = Arming(ArmingPhase.FAILED, "session lost")
        elif self._upload_tick is not None:
            return
        elif feedback.program_token == self._arming_token:
            if feedback.program_state in ALIVE and feedback.program_running:
                self._arming = Arming(ArmingPhase.READY)
            elif feedback.program_state != ProgramState.NONE:
                self._arming = Arming(ArmingPhase.FAILED, f"program state {feedback.program_state}")

    def send(self, command: Command, token: int, seq: int, q_rad: np.ndarray) -> bool:
        """One package on the line."""
        self._heartbeat = next_heartbeat(self._heartbeat)
        if not self.connected or self.tick_count <= self.refuse_until or not np.isfinite(q_rad).all():
            self.sent = None
            return False
        self.sent = (command, token, seq, q_rad)
        self._in_flight.append((self._heartbeat, token, int(command), seq & 0x3FFFFFFF, q_rad))
        return True

    def stop_program(self, now_s: float) -> None:
        """The dashboard's stop, a cycle or three later; what is still to be uploaded is not."""
        self._upload_tick = None
        if self._arming.phase is ArmingPhase.UNDER_WAY:
            self._arming = Arming(ArmingPhase.FAILED, "stopped")
        self._stop_tick = self.tick_count + self.rng.randint(1, 3)

    def command_gripper(self, width_m: float) -> bool:
        """Write the outputs."""
        if not self.connected:
            return False
        self.outputs = gripper_outputs(width_m)
        return True

    @property
    def obeys(self) -> bool:
        """Whether a program that is alive moves the arm."""
        return not self.paused and not self.own_stop

    @property
    def own_stop(self) -> bool:
        """Whether the robot's own safety, or a hand at the arm, keeps programs from moving it."""
        return self.safety_mode not in (NORMAL, REDUCED) or self.robot_mode != RUNNING or self.freedrive

    # --- the controller --------------------------------------------------------------------------------------------
    def tick(self) -> None:
        """One control cycle of the controller."""
        k = self.tick_count
        self.tick_count += 1
        if k <= self.frozen_until:  # the line's buffers fill meanwhile
            return
        self._receive(k)
        before = self.plant.x.copy() if self.plant.stuck.any() else None
        if self._stop_tick is not None and k >= self._stop_tick:
            self._stop_tick = None
            self._end_program()
        if self._upload_tick is not None and k >= self._upload_tick:
            self._upload()
        program = self.program
        if self.own_stop:
            if self._own_stop_tick is None:  # that the program has ended is told a little later
                self._own_stop_tick = k + self.rng.randint(0, 4)
            if k >= self._own_stop_tick:
                self._end_program()
            self.plant.coast(plants.SAFETY_STOP_RAD_S2)
        else:
            if self._own_stop_tick is not None:
                self._own_stop_tick = None
                self._end_program()
            if program is not None and not self.paused:
                program.tick(self.inputs, self.plant.x[plants.TARGET])
            if program is not None and program.goal_rad is not None and not self.paused:
                self.plant.run(program.goal_rad[None])
            else:
                self.plant.coast(plants.STOPJ_RAD_S2)
        if before is not None:
            self.plant.hold_stuck(before)
        self._measure(k, self.plant.x[:4].copy())

    def _end_program(self) -> None:
        if self.program is not None:  # ended from outside: its registers keep their values
            self.program.ended, self.program.goal_rad = True, None

    def _upload(self) -> None:
        self._upload_tick = None
        self._end_program()
        if self.arming_trouble == "fails" or self.own_stop or self.local:
            self._arming = Arming(ArmingPhase.FAILED, "the dashboard refuses")
            return
        token = self._arming_token if self.arming_trouble != "foreign" else self._arming_token ^ 1
        self.program, self.paused = Program(token, self.period_s), False

    def _receive(self, k: int) -> None:
        line = self.up
        if k <= line.stall_until:
            if self._in_flight:
                line.hit.add("delay")
            return
        packages, self._in_flight = self._in_flight, []
        if k <= line.drop_until and packages:
            line.hit |= {"drop", "partition"}
            return
        if line.swap and len(packages) >= 2:
            line.swap -= 1
            line.hit.add("reorder")
            packages[-1], packages[-2] = packages[-2], packages[-1]
        for package in packages:
            if line.corrupt:
                line.corrupt -= 1
                line.hit.add("corrupt")
                package = self._spoil(package)
            if line.duplicate:
                line.duplicate -= 1
                line.hit.add("duplicate")
                self._in_flight.append(package)
            if package[0] != self.inputs.heartbeat:
                self.arrived_tick = k
            self.inputs = Inputs(*package)

    def _spoil(self, package: tuple) -> tuple:
        heartbeat, token, command, seq, q = package
        what = self.rng.randrange(5)
        if what == 0:
            token ^= 1 << self.rng.randrange(31)
        elif what == 1:
            command = self.rng.choice([3, 255, -1])
        elif what == 2:
            heartbeat ^= 1 << self.rng.randrange(4, 30)
        else:
            q = q.copy()
            q[self.rng.randrange(ur5.DOF)] = float("nan") if what == 3 else self.rng.choice([-2.0, 0.0, 7.0])
        return heartbeat, token, command, seq, q

    def _measure(self, k: int, x: np.ndarray) -> None:
        line = self.down
        if k <= line.drop_until:
            line.hit |= {"drop", "partition"}
            return
        if not self.connected:
            return
        stalled = k <= line.stall_until
        if stalled:
            line.hit.add("delay")
        stamp_s = self.arrival_s(line.stall_until if stalled else k)
        if k <= self.repeat_until:
            if self._feedback is not None:
                self._down.append(self._sample(self._feedback.controller_stamp_s, stamp_s, x))
            return
        sample = self._sample(k * self.period_s, stamp_s, x)
        if self.nan_feedback:
            self.nan_feedback -= 1
            sample.q_rad[self.rng.randrange(ur5.DOF)] = float("nan")
        self._down.append(sample)
        if line.duplicate:
            line.duplicate -= 1
            line.hit.add("duplicate")
            self._down.append(sample)
        if line.swap and len(self._down) >= 2:
            line.swap -= 1
            line.hit.add("reorder")
            self._down[-1], self._down[-2] = self._down[-2], self._down[-1]

    def arrival_s(self, tick: int) -> float:
        """When the measurement of a tick reaches the guard."""
        return START_S + tick * self.period_s + (PHASE_S + TRANSPORT_S)

    def _sample(self, controller_s: float, stamp_s: float, x: np.ndarray) -> Feedback:
        program = self.program
        opening = gripper_opening(self.outputs)
        running = program is not None and not program.ended and not self.paused
        state, token, seq, longest = 0, 0, 0, 0
        if program is not None:
            state, token, seq, longest = int(program.state), program.token, program.sequence, program.longest_silence
        return Feedback(
            stamp_s, controller_s,
            x[plants.MEASURED], x[plants.MEASURED_SPEED], x[plants.TARGET], x[plants.TARGET_SPEED],
            self.robot_mode, self.safety_mode, running, state, token, seq, longest, opening, opening, self.freedrive,
        )  # fmt: skip

    # --- blocks ----------------------------------------------------------------------------------------------------
    @property
    def undisturbed(self) -> bool:
        """Whether cycles to come differ in nothing but set-points: then `serve` may stand for them."""
        k, program = self.tick_count, self.program
        return (
            k > max(self.cut_until, self.refuse_until, self.frozen_until, self.repeat_until)
            and self.up.clear(k) and self.down.clear(k)
            and self.obeys and self.safety_mode == NORMAL and not self.local and not self.nan_feedback
            and self._stop_tick is None and self._upload_tick is None and not self._in_flight
            and program is not None and program.state is ProgramState.SERVOING and not program.ended
            and self.arrived_tick == k - 1 and self.inputs.command == Command.SERVO and len(self._down) == 1
            and not self.plant.stuck.any() and self._arming.phase is ArmingPhase.READY
        )  # fmt: skip

    def try_block(self, q_rad: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Plant states (n, 4, 6) for one set-point a cycle, and the plant's memory before, for `undo`."""
        before = self.plant.x.copy()
        return self.plant.run(q_rad), before

    def undo(self, before: np.ndarray) -> None:
        """Take a tried block back."""
        self.plant.x[:] = before

    def shorten(self, states: np.ndarray, q_rad: np.ndarray) -> None:
        """Keep the beginning of a tried block only: its states and set-points."""
        self.plant.x[:4], self.plant.x[plants.GOAL] = states[-1], q_rad[-1]

    def serve(self, token: int, seq: int, q_rad: np.ndarray, states: np.ndarray) -> None:
        """Everything else of `n` undisturbed cycles that sent `q_rad` (n, 6) with sequence numbers from `seq`."""
        n, k = len(q_rad), self.tick_count
        self._heartbeat = (self._heartbeat - 1 + n) % HEARTBEAT_MAX + 1
        self.inputs = Inputs(self._heartbeat, token, int(Command.SERVO), (seq + n - 1) & 0x3FFFFFFF, q_rad[-1])
        self.program.goal_rad = q_rad[-2]
        self.program.sequence = (seq + n - 2) & 0x3FFFFFFF
        self._feedback = self._sample((k + n - 2) * self.period_s, self.arrival_s(k + n - 2), states[n - 2].copy())
        self.program.served(self.inputs)
        self._down.clear()
        self._down.append(self._sample((k + n - 1) * self.period_s, self.arrival_s(k + n - 1), states[n - 1].copy()))
        self.tick_count, self.arrived_tick = k + n, k + n - 1
        self.sent = (Command.SERVO, token, seq + n - 1, q_rad[-1])
