"""Judges a run from what passes on the wires of the guard: messages, answers, states, packages.

What the controller makes of the packages is judged by `controller_checker`, the set-points in them by `setpoints` and
`followed`, what passes between this guard and a vehicle's by `cell_checker`.
Imports nothing of gate and guard; its limits are its own copies of the requirements. Each rule names the invariant that
it watches (docs/design.md). Rules allow one control period where two parties look at different moments.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadyhand.guard_protocol import Arm, Beat, Chunk, Gripper, Heartbeat, Reply, State, Stop, Verdict
from steadyhand.protocols import Command, Feedback
from steadyhand_cli.dst.cell import MOVING_INPUTS_S, PARTNER, ZONE_M, Mix
from steadyhand_cli.dst.cell_checker import CellChecker
from steadyhand_cli.dst.controller_checker import ControllerChecker
from steadyhand_cli.dst.followed import Followed
from steadyhand_cli.dst.operators_checker import OperatorsChecker
from steadyhand_cli.dst.setpoints import SetpointChecker

ARMED = frozenset({"ARMED_AUTO", "ARMED_MANUAL", "RECOVERING"})
ASKED = {"auto": "ARMED_AUTO", "manual": "ARMED_MANUAL", "recover": "RECOVERING"}
ALIVE_STATES = (1, 2)  # of the controller program: ready, servoing
STREAMING = ("policy", "manual")
FEEDBACK_LIMIT_S, SHELL_LIMIT_S, SOURCE_LIMIT_S, CHUNK_AGE_S = 0.040, 0.040, 0.100, 0.100
REST_QD_RAD_S, REST_TIME_S, REST_LIMIT_S = 0.01, 0.1, 2.0
BRAKE_S = 0.6  # longest path-consistent stop (0.5 s) and the cycles round it
HALT_PACKAGES = 28  # 0.2 s for the program to end on command, and the cycles round it
MOVING_RAD_S = 1e-3
RAISED = "the guard raised"  # begins the detail of an exception
SURELY_MOVING_RAD_S = 0.01  # two looks at a speed may differ by a cycle
MOTION_WANTED_RAD_S = 0.05  # a chunk whose last way-points are slower than this ends in rest
ONSET_S, ONSET_RISE_RAD_S, RISE_RAD_S = 0.05, 0.3, 0.05  # see steadyhand_cli.invariants
LOST_RAD, LOST_SHARE = 0.05, 0.3  # off everything sent lately: a little more than the bound on tracking (0.03 rad)
NOTHING = float("-inf")
JOINT_NAMES = [
    "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
]  # fmt: skip


@dataclass(frozen=True)
class Violation:
    """One broken invariant: which, when on the monotonic clock, and what was seen."""

    invariant: str
    stamp_s: float
    detail: str


class Checker:
    """Feed everything in order of time; read `violations`."""

    def __init__(
        self, period_s: float, inputs: dict[str, float], gripper_max_m: float, credential: str, mix: Mix = Mix()
    ):
        self.period_s, self.inputs, self.gripper_max_m, self.credential = period_s, inputs, gripper_max_m, credential
        self.violations: list[Violation] = []
        self.setpoints = SetpointChecker(period_s, self.report)
        self.followed = Followed(period_s, self.report)
        self.controller = ControllerChecker(self.report)
        self.moving_inputs = MOVING_INPUTS_S if mix.moving_inputs else {}
        self.cell = CellChecker(self.report, self._must_stop, period_s, PARTNER, ZONE_M) if mix.vehicle else None
        self.tokens: set[int] = set()
        self.arms = self.stops = 0
        self.operators = OperatorsChecker(self.report, lambda now_s, why: self._must_stop(now_s, why))
        self._reset()

    def _reset(self) -> None:
        self.armed, self.mode, self.token = False, "STOPPED", 0
        self.states: dict[int, float] = {}  # published: sequence -> stamp
        self.last_state: State | None = None
        self.asked: dict[str, bool] = {}  # verified requests since the last stop: mode -> rest was measured then
        self.must_stop: str = ""
        self.stop_s = NOTHING
        self.silenced: str = ""
        self.offered: dict[str, list[tuple[bool, Chunk]]] = {}
        self.chunk_since_arming = False
        self.last_chunk_seq, self.source, self.accepted_s = -1, "", NOTHING
        self.beats: dict[str, tuple[float, bool]] = {}
        self.commander_s = NOTHING
        self.has_commander = False
        self.measured: Feedback | None = None
        self.news_s = self.controller_s = NOTHING
        self.still_since_s: float | None = None
        self.halts = 0  # packages in a row that end the program
        self.gripper: Gripper | None = None
        self.lost_cycles = 0
        self.recent: deque[np.ndarray] = deque(maxlen=8)
        self.speed_sum = 0.0
        self.sequence = -1
        self.unsent = 0  # cycles in a row that sent nothing, armed
        self.first_due = False  # the first set-point of an arming
        self.rest_seen = True  # since the last stop, or told to be unknown
        self.pendant = False  # it has taken control
        self.ends_s = float("inf")  # of accepted way-points that end in motion
        self.accepted_trace = ""  # of this arming's newest accepted chunk
        self.stopped_trace: str | None = None  # what the last stop interrupted
        self.setpoints.cut()
        self.followed.cut()
        self.operators.reset()
        if self.cell is not None:
            self.cell.reset()

    def report(self, invariant: str, stamp_s: float, detail: str) -> None:
        """Something is broken."""
        self.violations.append(Violation(invariant, stamp_s, detail))

    # --- the process -----------------------------------------------------------------------------------------------
    def guard_started(self) -> None:
        """A new process: it may assume nothing."""
        self._reset()

    def crashed(self, now_s: float, error: BaseException) -> None:
        """An exception left the guard."""
        self.report("I11", now_s, f"{RAISED} {type(error).__name__}: {error}")

    def late(self, now_s: float, late_s: float) -> None:
        """The loop was held up for longer than the controller waits: it must not wake up into motion."""
        why = f"cycle {late_s * 1e3:.0f} ms late"
        self._must_stop(now_s, why)
        self.silenced = self.silenced or why

    def program_started(self, now_s: float) -> None:
        """The controller has begun to run a program of the guard's."""
        if not self.asked:
            self.report("I1", now_s, "a program is started, although nobody has asked to arm since the last stop")

    def _must_stop(self, now_s: float, why: str) -> None:
        self.asked = {}
        if self.armed and not self.must_stop:
            self.must_stop = why
            self.stop_s = now_s
            self.stops += 1

    # --- messages in -----------------------------------------------------------------------------------------------
    def stop(self, now_s: float) -> None:
        """A stop request reached the guard."""
        if self.cell is not None:
            self.cell.stop()
        self._must_stop(now_s, "stop requested")

    def commander_came(self, now_s: float) -> None:
        """A connection was welcomed as the commander."""
        if self.has_commander:
            self.report("I3", now_s, "a second commander was welcomed")
        self.has_commander, self.commander_s = True, now_s

    def commander_gone(self, now_s: float) -> None:
        """The commander's connection ended."""
        self.has_commander = False
        if self.armed and self.operators.manual is None:
            self._must_stop(now_s, "commander gone")

    def message(self, now_s: float, client: Any, message: Any) -> None:
        """One message is about to be handled."""
        if client.commander:
            self.commander_s = now_s
        self.operators.message(now_s, client, message)
        commands = self.operators.commands(client)
        match message:
            case Heartbeat() if client.commander and message.name in self.inputs:
                self.beats[message.name] = (now_s, message.ok)
            case Stop():
                self.stop(now_s)
            case Chunk():
                self.offered.setdefault(message.trace_id, []).append((commands, message))
            case Gripper():
                self.gripper = message if commands else None
            case Arm() if message.mode == "disarm":
                self._must_stop(now_s, "disarmed")
            case Arm():
                if message.credential == self.credential and not self.armed and message.mode in ASKED:
                    self.asked[ASKED[message.mode]] = self.asked.get(ASKED[message.mode], False) or self._rest(now_s)

    def feedback(self, measured: Feedback) -> None:
        """A measurement reached the guard."""
        self.measured = measured
        if measured.controller_stamp_s == self.controller_s:
            return
        gap = measured.stamp_s - self.news_s > FEEDBACK_LIMIT_S
        still = bool(np.abs(measured.qd_rad_s).max() < REST_QD_RAD_S)
        if not still:
            self.still_since_s = None
        elif gap or self.still_since_s is None:
            self.still_since_s = measured.stamp_s
        self.controller_s, self.news_s = measured.controller_stamp_s, measured.stamp_s

    def _rest(self, now_s: float) -> bool:
        fresh = now_s - self.news_s <= FEEDBACK_LIMIT_S + 2 * self.period_s
        return self.still_since_s is not None and fresh and self.news_s - self.still_since_s >= REST_TIME_S - 1e-3

    # --- what the guard does ---------------------------------------------------------------------------------------
    def answer(self, now_s: float, client: Any, message: Any) -> None:
        """The guard answers a client."""
        if isinstance(message, Verdict) and message.trace_id in self.offered:
            commander, chunk = self.offered[message.trace_id][-1]
            if message.accepted:
                self._accepted(now_s, commander, chunk)
            elif message.reason in ("expired", "from_future") and 0.0 <= now_s - chunk.state_stamp_s <= CHUNK_AGE_S:
                if "last way-point" not in message.detail:
                    self.report("I3", now_s, f"refused by another clock: {message.detail}")
            if len(self.offered) > 64:
                self.offered.pop(next(iter(self.offered)))
        elif isinstance(message, Reply) and message.ok and message.message.startswith("armed"):
            self.operators.armed(now_s, client, message)
            if not (self.asked or self.armed):
                self.report("I2", now_s, "armed without a verified request since the last stop")
            shown = message.snapshot.get("trace_id")
            if self.stopped_trace and shown != self.stopped_trace:
                self.report("I2", now_s, f"armed, and shows {shown} as interrupted, not {self.stopped_trace}")

    def _accepted(self, now_s: float, commander: bool, chunk: Chunk) -> None:
        age_s = now_s - chunk.state_stamp_s
        q = np.asarray(chunk.q_rad, dtype=float)
        wrong = [
            what
            for bad, what in (
                (not commander, "sender is not the commander"),
                (not self.armed, "not armed"),
                (bool(self.must_stop), f"after a stop ({self.must_stop})"),
                (chunk.token != self.token, f"token {chunk.token}, arming has {self.token}"),
                (not -1e-9 <= age_s <= CHUNK_AGE_S + 1e-9, f"answers a state {age_s * 1e3:.0f} ms old"),
                (self.states.get(chunk.state_seq) != chunk.state_stamp_s, "answers no state that was published"),
                (chunk.state_seq <= self.last_chunk_seq, f"sequence {chunk.state_seq} after {self.last_chunk_seq}"),
                (q.ndim != 2 or q.shape[1] != 6 or not np.isfinite(q).all(), "way-points not finite or of wrong shape"),
                (chunk.source == "policy" and self.mode != "ARMED_AUTO", f"policy in {self.mode}"),
                (chunk.joint_names != JOINT_NAMES, "joint names"),
            )
            if bad
        ]
        for what in wrong:
            self.report("I3", now_s, f"chunk accepted: {what}")
        self.last_chunk_seq, self.source, self.accepted_s = chunk.state_seq, chunk.source, now_s
        self.chunk_since_arming, self.accepted_trace = True, chunk.trace_id
        if wrong:
            return
        end_speed_rad_s = np.abs(q[-1] - q[-2]).max() / chunk.period_s if len(q) > 1 else 0.0
        moves_on = end_speed_rad_s > MOTION_WANTED_RAD_S
        self.ends_s = chunk.state_stamp_s + len(q) * chunk.period_s if moves_on else float("inf")
        if self.cell is not None:
            self.cell.accepted(now_s, chunk, self.recent[-1] if self.recent else None)
        self.followed.accepted(chunk, self.last_state.seq, self.last_state.stamp_s + self.period_s)

    def gripper_written(self, now_s: float, width_m: float) -> None:
        """The guard wrote the gripper's outputs."""
        order = self.gripper
        if order is None or order.width_m != width_m:
            self.report("I12", now_s, "gripper written without an order of the commander")
        elif not self.armed or self.must_stop or order.token != self.token:
            self.report("I12", now_s, f"gripper written by an order of token {order.token}, {self.mode}")
        elif not 0.0 <= width_m <= self.gripper_max_m:
            self.report("I4", now_s, f"gripper written with {width_m} m")
        self.gripper = None

    def cycle(self, now_s: float, state: State, package: tuple | None) -> None:
        """One control cycle: what it published and what it sent."""
        armed = state.mode in ARMED
        self._order(now_s, state)
        if armed and not self.armed:
            self._on_armed(now_s, state)
        elif self.armed and not armed:
            self._on_disarmed(now_s, state)
        elif armed:
            self._while_armed(now_s, state)
        if not armed and not state.causes:
            self.report("I2", now_s, "stopped, and the state names no cause")
        self.mode, self.token = state.mode, state.token
        if state.at_rest and not self._rest(now_s):
            self.report("I1", now_s, "rest is claimed but was not measured")
        if state.at_rest and self.setpoints.speed_rad_s > REST_QD_RAD_S:
            self.report("I1", now_s, f"rest is claimed, the arm is commanded at {self.setpoints.speed_rad_s:.3f} rad/s")
        self._says_what_is(now_s, state, package)
        if package is None:
            self.setpoints.cut()
            self.halts = 0
            if armed:
                self._sent_nothing(now_s)
        else:
            self._package(now_s, state, armed, *package)
        if not armed and state.mode == "STOPPED" and not state.at_rest and now_s - self.stop_s > REST_LIMIT_S + 0.05:
            if self.stop_s > NOTHING and not self.rest_seen:
                self.report("I6", now_s, "no rest was measured for 2 s, and the guard does not say so")
                self.rest_seen = True
        self.rest_seen = self.rest_seen or state.at_rest or state.mode == "REST_UNKNOWN"
        self.last_state = state

    def hears(self, now_s: float, beat: Beat) -> None:
        """A beat of another guard has reached this one."""
        if self.cell is not None:
            self.cell.hears(now_s, beat)

    def tells(self, now_s: float, beat: Beat) -> None:
        """It sends a beat."""
        if self.cell is not None:
            self.cell.tells(now_s, beat)

    def after_cycle(self, now_s: float) -> None:
        """The end of a cycle, when its beat has gone out."""
        if self.cell is not None:
            self.cell.cycle(now_s, self.armed, self.last_state.at_rest, self.measured, now_s - self.news_s)

    def _says_what_is(self, now_s: float, state: State, package: tuple | None) -> None:
        """The state shows the measurement that reached the guard and the set-point that it sent."""
        f = self.measured
        if f is not None and (state.robot_mode != f.robot_mode or state.safety_mode != f.safety_mode):
            self.report("I9", now_s, f"the state says robot mode {state.robot_mode}, safety mode {state.safety_mode}")
        pairs = [] if f is None else [("q", state.q_rad, f.q_rad), ("qd", state.qd_rad_s, f.qd_rad_s)]
        if package is not None and package[0] == Command.SERVO:
            pairs.append(("q_commanded", state.q_commanded_rad, package[3]))
        for name, said, was in pairs:
            if said != was.tolist() and not np.array_equal(said, was, equal_nan=True):
                self.report("I9", now_s, f"{name} of the state is not what was measured or sent")

    def _sent_nothing(self, now_s: float) -> None:
        """The line refuses: allowed for three packages in a row."""
        self.unsent += 1
        if self.unsent > 3:
            self.report("I5", now_s, "armed, but nothing goes out to the controller")

    def _order(self, now_s: float, state: State) -> None:
        last = self.last_state
        if last is not None and (state.seq <= last.seq or state.stamp_s <= last.stamp_s):
            self.report("I3", now_s, f"state {state.seq} at {state.stamp_s:.3f} after {last.seq}")
        self.states[state.seq] = state.stamp_s
        if len(self.states) > 160:
            for seq in list(self.states)[:64]:
                del self.states[seq]

    def _on_armed(self, now_s: float, state: State) -> None:
        self.arms += 1
        if state.mode not in self.asked:
            self.report("I2", now_s, f"armed {state.mode} without a verified request for it since the last stop")
        elif not self.asked[state.mode]:
            self.report("I2", now_s, "armed although rest had not been measured when it was asked for")
        if state.token in self.tokens:
            self.report("I3", now_s, f"token {state.token} was used before")
        self.tokens.add(state.token)
        for cause in self._causes(now_s, state.mode, 0.0):
            self.report("I2", now_s, f"armed although {cause}")
        self.armed, self.must_stop, self.silenced, self.asked = True, "", "", {}
        self.chunk_since_arming, self.last_chunk_seq, self.source = False, -1, ""
        self.commander_s = max(self.commander_s, now_s)
        self.lost_cycles = self.unsent = 0
        self.first_due = True
        self.ends_s, self.accepted_trace = float("inf"), ""
        self.recent.clear()
        self.setpoints.cut()
        self.followed.cut()
        if self.measured is not None:
            self.setpoints.rest_at(self.measured.q_target_rad)

    def _on_disarmed(self, now_s: float, state: State) -> None:
        if not self.must_stop:
            self.stop_s = now_s
            self.stops += 1
        if self._blind(now_s):
            self.silenced = "no usable feedback"
        if self.mode != "ARMED_AUTO":  # a person has moved the arm: what was seen before does not count
            self.beats = {name: beat for name, beat in self.beats.items() if beat[0] > self.last_state.stamp_s}
        if self.cell is not None:
            self.cell.disarmed(now_s, state.causes)
        self.armed, self.must_stop, self.rest_seen = False, "", False
        self.operators.manual = None
        self.stopped_trace = self.accepted_trace
        self.gripper = None
        self.followed.cut()

    def _causes(self, now_s: float, mode: str, grace_s: float) -> list[str]:
        """What forbids this mode by the wires alone."""
        f, found = self.measured, []
        if f is None or now_s - self.news_s > FEEDBACK_LIMIT_S + grace_s:
            return ["feedback is old"]
        if self.pendant:
            found.append("the pendant has control")
        if f.safety_mode != 1 or f.robot_mode != 7 or f.freedrive:
            found.append(f"robot mode {f.robot_mode}, safety mode {f.safety_mode}")
        if not (np.isfinite(f.q_rad).all() and np.isfinite(f.qd_rad_s).all()):
            found.append("feedback is not finite")
        if f.program_token != (self.last_state.token if self.last_state else 0) or not f.program_running:
            found.append("the controller runs another program, or none")
        elif f.program_state not in ALIVE_STATES:
            found.append(f"the program is in state {f.program_state}")
        if self.operators.silent(now_s, grace_s):
            found.append("an operator in control is silent")
        if self.cell is not None:
            found += self.cell.causes(now_s, grace_s)
        if mode == "ARMED_AUTO":
            moving = self.setpoints.speed_rad_s > SURELY_MOVING_RAD_S
            for name, limit_s in self.inputs.items():
                limit_s = min(limit_s, self.moving_inputs.get(name, limit_s)) if moving else limit_s
                beat_s, ok = self.beats.get(name, (NOTHING, False))
                if now_s - beat_s > limit_s + grace_s or not ok:
                    found.append(f"input {name} is silent or not well")
        return found

    def _blind(self, now_s: float) -> bool:
        f = self.measured
        old = f is None or now_s - self.news_s > FEEDBACK_LIMIT_S + self.period_s
        return old or f.safety_mode not in (1, 2) or f.robot_mode != 7 or f.freedrive

    def _while_armed(self, now_s: float, state: State) -> None:
        if self.must_stop:
            self.report("I1", now_s, f"still armed: {self.must_stop}")
            self.must_stop = ""
        if state.token != self.token:
            self.report("I3", now_s, "the token changed while armed")
        for cause in self._causes(now_s, state.mode, self.period_s):
            broken = "I13" if "other guard" in cause else "I5" if "old" in cause or "silent" in cause else "I1"
            self.report(broken, now_s, f"still armed although {cause}")
        moving = self.setpoints.speed_rad_s > MOVING_RAD_S
        by_hand = self.operators.manual is not None
        self.operators.while_armed(now_s, moving, self.period_s)
        if moving and not by_hand and now_s - self.commander_s > SHELL_LIMIT_S + self.period_s:
            self.report("I5", now_s, "still armed: the commander is silent while the arm moves")
        if moving and self.source in STREAMING and now_s - self.accepted_s > SOURCE_LIMIT_S + 2 * self.period_s:
            self.report("I5", now_s, f"still armed: no chunk of {self.source} while the arm moves")
        if now_s > self.ends_s + SOURCE_LIMIT_S + 2 * self.period_s:
            self.report("I5", now_s, f"still armed: the way-points of {self.source} are used up, the last ones moving")
        if not self.has_commander and moving and not by_hand:
            self.report("I5", now_s, "still armed and moving without a commander")
        if len(self.recent) == self.recent.maxlen and self.measured is not None:
            sent = np.array(self.recent)  # of the last 64 ms: more than the arm's lag
            low, high = sent.min(axis=0), sent.max(axis=0)
            off = np.maximum(low - self.measured.q_rad, self.measured.q_rad - high)
            lost = off > LOST_RAD + LOST_SHARE * (high - low)
            self.lost_cycles = self.lost_cycles + 1 if lost.any() else 0
            if self.lost_cycles == 3:
                self.report("I4", now_s, f"still armed: the arm is {off.max():.3f} rad from what was commanded")

    def _package(
        self, now_s: float, state: State, armed: bool, command: int, token: int, seq: int, q: np.ndarray
    ) -> None:
        self.unsent = 0
        if command == Command.HOLD and self.asked:
            self.silenced = ""
        if self.silenced:
            self.report("I1", now_s, f"a package after silence was due ({self.silenced})")
            self.silenced = ""
        if seq <= self.sequence:
            self.report("I3", now_s, f"package {seq} after {self.sequence}")
        self.sequence = seq
        if command != Command.HALT:
            self.halts = 0
        if token != state.token:
            self.report("I3", now_s, f"package with token {token}, arming has {state.token}")
        if command == Command.SERVO:
            self._servo(now_s, armed, q)
            return
        self.setpoints.cut()
        self.recent.clear()
        if command == Command.HOLD and not self.asked:
            self.report("I1", now_s, "a heartbeat is sent while stopped")
        elif command == Command.HOLD and self._blind(now_s):
            self.report("I5", now_s, "a heartbeat is sent without feedback")
        elif command == Command.HALT:
            self.halts += 1
            if self.halts == HALT_PACKAGES:
                self.report("I1", now_s, "packages go on after the stop")
            if armed:
                self.report("I1", now_s, "halts while armed")

    def _servo(self, now_s: float, armed: bool, q: np.ndarray) -> None:
        sets = self.setpoints
        if self.first_due and armed and self.measured is not None:
            self.first_due = False
            off = np.abs(q - self.measured.q_target_rad).max()
            if not off <= 1e-9 or not np.abs(q - self.measured.q_rad).max() <= 0.02 + 1e-9:
                self.report("I2", now_s, f"first set-point {off:.4f} rad from the controller's target")
        before = self.speed_sum
        sets.add(now_s, q, self.mode)
        known = sets.speed_known
        self.speed_sum = sets.speed_sum_rad_s if known else before
        self.recent.append(q)
        self.followed.add(self.sequence, np.array([now_s]), q[None])
        if armed and not self.chunk_since_arming and sets.speed_rad_s > 1e-9:
            self.report("I2", now_s, "moves after arming without a chunk of this arming")
            self.chunk_since_arming = True
        if armed:
            return
        since_s = now_s - self.stop_s
        if self._blind(now_s):
            self.report("I1", now_s, "set-points go on without feedback, or after the robot's own stop")
        rise = ONSET_RISE_RAD_S if since_s <= ONSET_S else RISE_RAD_S
        if self.speed_sum > before + rise:
            self.report("I1", now_s, f"commanded speed rose to {self.speed_sum:.3f} rad/s after the stop")
        if since_s > BRAKE_S and self.speed_sum > 1e-9:
            self.report("I1", now_s, f"still moving at {self.speed_sum:.3f} rad/s {since_s:.2f} s after the stop")
            self.stop_s = now_s
        if since_s > REST_LIMIT_S + 0.1:
            self.report("I1", now_s, "set-points go on after the stop")
            self.stop_s = now_s

    def block(self, times_s: np.ndarray, first_seq: int, q_rad: np.ndarray) -> None:
        """Cycles of which each sent one set-point, armed, with fresh feedback: (n,) times, (n, 6) set-points.

        Package i has number first_seq + i; the state behind it has the next.
        """
        if not self.armed or self.must_stop or not self.has_commander:
            self.report("I1", float(times_s[0]), f"set-points go on: {self.must_stop or 'not armed, or no commander'}")
        self.setpoints.add_block(times_s, q_rad, self.mode)
        self.followed.add(first_seq, times_s, q_rad)
        self.speed_sum = self.setpoints.speed_sum_rad_s
        self.recent.extend(q_rad[-self.recent.maxlen:])
        self.sequence = first_seq + len(q_rad) - 1
        for k in range(max(0, len(q_rad) - 32), len(q_rad)):
            self.states[first_seq + 1 + k] = float(times_s[k])
        for seq in list(self.states)[:-64]:
            del self.states[seq]
        last_s = float(times_s[-1])
        self.commander_s = last_s
        for name in self.beats:
            self.beats[name] = (last_s, True)

    def feedback_block(self, newest: Feedback, still_since_s: float | None, stamp_s: float) -> None:
        """After a block: the newest measurement, and since when the measured joints have been still."""
        self.measured, self.still_since_s = newest, still_since_s
        self.controller_s, self.news_s = newest.controller_stamp_s, stamp_s
