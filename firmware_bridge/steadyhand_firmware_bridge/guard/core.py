"""The guard without sockets and clock: one `cycle` per control period, `handle` for what clients send in between.

Carries out the decisions of `steadyhand.guard_state`; motion is in `motion`, the judgement of chunks in `admission`.
"""
from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

import numpy as np

from steadyhand import guard_state as gs
from steadyhand import robot_status, stop_domain
from steadyhand.guard_protocol import Arm, Beat, Chunk, Gripper, Heartbeat, Link, Reply, State, Stop, Verdict
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.link_monitor import LinkMonitor
from steadyhand.plan import Published
from steadyhand.protocols import ALIVE, ArmingPhase, Command, Feedback, Robot
from steadyhand.types import Mode, Reason
from steadyhand.watchdog import InputWatchdog, LinkWatchdog, RestDetector, SourceWatchdog
from steadyhand_firmware_bridge.client import SHELL_HEARTBEAT
from steadyhand_firmware_bridge.guard.admission import Admission
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.motion import Motion

HALT_CYCLES_S = 0.2  # the program gets this long to end on command, then the controller's own stop
LINK_REFUSALS = 3  # packages in a row that the link did not take
MANUAL_MODES = (Mode.ARMED_MANUAL, Mode.RECOVERING)
ARM_FAILURES, ARM_FAILURE_REFILL_S = 5, 1.0
# Characters of somebody else's text that are passed on. The wire takes 4096 bytes a text and 65536 a packet: what is
# cut here can always be sent, and read by every client.
NAME_MAX, TEXT_MAX = 80, 500

Answer = Callable[[Any, Any], None]  # (client, message)


class Guard:
    """All of the guard's decisions for one robot. `answer` sends a message to a client (any opaque value)."""

    def __init__(
        self,
        robot: Robot,
        config: GuardConfig,
        credential: str,
        fresh_token: Callable[[], int],
        answer: Answer,
        now_s: float,
        limits: Limits = UR5_LIMITS,
    ):
        self.robot, self.config, self.limits = robot, config, limits
        self.credential, self.fresh_token, self.answer = credential, fresh_token, answer
        self.state = gs.initial(fresh_token(), now_s)
        self.motion = Motion(robot.period_s, limits, config.tracking_lag_s)
        self.admission = Admission(config, limits, robot.period_s)
        self.inputs = InputWatchdog(dict(config.inputs), dict(config.moving_inputs))
        self.links = LinkWatchdog(config.link_timeout_s)
        self.domain = stop_domain.StopDomain(tuple(config.peers), config.peer_timeout_s)
        self.rest = RestDetector(config.feedback_timeout_s)
        self.source = SourceWatchdog(
            config.command_timeout_s, frozenset(config.streaming_sources), config.motion_wanted_rad_s
        )
        self.link = LinkMonitor(robot.period_s)  # tells of clock and link; decides nothing
        self.refused: dict[str, int] = {}
        self.accepted = 0
        self.seq = 0
        self.scheduler = "SCHED_OTHER"
        self.late_cycles = 0
        self._pending: tuple[Any, Chunk] | None = None
        self._arm_asked: tuple[Any, str] | None = None
        self._arm_commands = False  # whether who asked shall command
        self._commander: Any = None  # the shell's connection
        self._manual: Any = None  # the operator's that armed and commands; then the shell may not
        self._boot, self._stops, self._stop_cause = fresh_token(), 0, ""
        self._last_stop: dict[str, Any] = {}
        self._shell_s = now_s
        self._halt_until_s: float | None = None
        self._silent_since_s: float | None = None
        self._link_refusals = 0
        self._controller_stamp_s = self._feedback_s = float("-inf")
        self._arm_credit, self._arm_credit_s = float(ARM_FAILURES), now_s

    # --- one control cycle ---

    def cycle(self, now_s: float) -> State:
        """Feedback, watchdogs, decisions, one package out; the state to publish."""
        self.robot.service(now_s)
        feedback = self.robot.feedback()
        if feedback is not None:
            self.link.update(feedback.controller_stamp_s, feedback.stamp_s)
        if feedback is not None and feedback.controller_stamp_s != self._controller_stamp_s:
            # a controller that repeats itself is a lost controller
            self._controller_stamp_s, self._feedback_s = feedback.controller_stamp_s, feedback.stamp_s
        fresh = feedback is not None and now_s - self._feedback_s <= self.config.feedback_timeout_s
        if fresh:
            self.rest.update(feedback.qd_rad_s, self._feedback_s)  # of a repeated one: no new measurement
        at_rest = self._at_rest(now_s)
        self._step(gs.Cycle(self._holding(feedback, fresh, now_s), at_rest, self._snapshot()), now_s)
        self._moments(feedback, now_s)
        self._arming(feedback, fresh, now_s)
        self._send(feedback, now_s)
        self.seq += 1
        state = self._publishable(feedback, at_rest, now_s)
        self.admission.published(
            state.seq,
            Published(state.stamp_s, np.array(state.q_commanded_rad), np.array(state.qd_commanded_rad_s)),
        )
        return state

    def _at_rest(self, now_s: float) -> bool:
        """Measured, since the stop if there was one, and with the commanded motion ended."""
        commanded = self.motion.ended or not self.motion.moving
        return commanded and self.rest.at_rest(now_s)

    def _holding(self, feedback: Feedback | None, fresh: bool, now_s: float) -> dict[str, str]:
        """Everything that is wrong now, by fault name."""
        wrong = dict(self.robot.troubles())
        if not fresh:
            limit_ms = self.config.feedback_timeout_s * 1e3
            wrong["feedback_lost"] = "none yet" if feedback is None else f"no state for more than {limit_ms:.0f} ms"
            return wrong | self._watched(now_s)
        if not (np.isfinite(feedback.q_rad).all() and np.isfinite(feedback.qd_rad_s).all()):
            wrong["feedback_lost"] = "joint state is not finite"
        wrong |= robot_status.causes(feedback)
        if self.state.armed or self.state.stopping is gs.Reaction.BRAKE:
            if feedback.program_token != self.state.token:
                wrong["program_lost"] = "the controller runs another program, or echoes another token"
            elif not feedback.program_running or feedback.program_state not in ALIVE:
                wrong["program_lost"] = f"our program ended, its state {feedback.program_state}"
        outside = (feedback.q_rad < self.limits.q_min_rad) | (feedback.q_rad > self.limits.q_max_rad)
        if outside.any():
            joint = int(np.argmax(outside))
            name, value = self.robot.joint_names[joint], feedback.q_rad[joint]
            wrong["margin"] = f"{name} at {value:.3f} rad, beyond its limit: jog it back in mode recover"
        return wrong | self._watched(now_s)

    def _watched(self, now_s: float) -> dict[str, str]:
        """Silence of AUTO's inputs, of operators in control and of the other guards."""
        moving = self.motion.moving
        return self.inputs.holding(now_s, moving) | self.links.holding(now_s) | self.domain.holding(now_s)

    def _moments(self, feedback: Feedback | None, now_s: float) -> None:
        """Faults of this cycle that need an armed guard."""
        if not self.state.armed:
            return
        fault = self.motion.tracking_fault(self.admission.gate, feedback.q_rad, feedback.stamp_s)
        if fault:
            return self._step(gs.FaultRaised("tracking", fault, self._snapshot()), now_s)
        silent = self.source.silent(now_s, self.motion.moving)
        if silent:
            return self._step(gs.FaultRaised("command_source_silent", silent, self._snapshot()), now_s)
        # a person's own process is held to the limit of manual jogging, the shell of AUTO to a tighter one
        limit_s = self.config.shell_timeout_s if self._manual is None else self.config.command_timeout_s
        if self.motion.moving and now_s - self._shell_s > limit_s:
            detail = f"commander silent for more than {limit_s * 1e3:.0f} ms while moving"
            return self._step(gs.FaultRaised("shell_lost", detail, self._snapshot()), now_s)
        return None

    def _arming(self, feedback: Feedback | None, fresh: bool, now_s: float) -> None:
        if self.state.arming is None:
            return
        arming = self.robot.arming()
        if arming.phase is ArmingPhase.FAILED:
            self._step(gs.ArmingEnded(self.state.token, False, arming.detail), now_s)
        elif arming.phase is ArmingPhase.READY and fresh:
            apart = float(np.abs(feedback.q_target_rad - feedback.q_rad).max())
            limit = self.config.first_setpoint_tolerance_rad
            if not apart <= limit:
                detail = f"controller's target {apart:.4f} rad from the measured pose, limit {limit}"
                self._step(gs.ArmingEnded(self.state.token, False, detail), now_s)
            else:
                self.motion.begin(feedback.q_target_rad, now_s)
                self._shell_s = now_s
                self._step(gs.ArmingEnded(self.state.token, True), now_s)

    def _send(self, feedback: Feedback | None, now_s: float) -> None:
        """One package, or silence, by the state."""
        token = self.state.token
        if self.state.armed or self.state.stopping is gs.Reaction.BRAKE:
            taken = self.robot.send(Command.SERVO, token, self.seq, self.motion.advance(now_s))
            if taken and self.state.stopping is not None:
                self._last_stop.setdefault("braking_s", now_s)
        elif self.state.arming is not None and feedback is not None:
            taken = self.robot.send(Command.HOLD, token, self.seq, feedback.q_target_rad)
        elif self._halt_until_s is not None:
            taken = self._halt(feedback, now_s)
        else:
            if self._silent_since_s is not None and now_s - self._silent_since_s > HALT_CYCLES_S:
                self._silent_since_s = None
                if feedback is not None and feedback.program_running:
                    self.robot.stop_program(now_s)  # it should have ended by itself long ago
            return
        self._link_refusals = 0 if taken else self._link_refusals + 1
        if self._link_refusals >= LINK_REFUSALS and (self.state.armed or self.state.stopping is not None):
            self._link_refusals = 0
            self._step(gs.FaultRaised("link_lost", "the controller takes no more packages", self._snapshot()), now_s)

    def _halt(self, feedback: Feedback, now_s: float) -> bool:
        """At rest after S1: end the program, so that nothing holds a target."""
        if not feedback.program_running or feedback.program_state not in ALIVE:
            self._halt_until_s = None
        elif now_s > self._halt_until_s:
            self._halt_until_s = None
            self.robot.stop_program(now_s)
        return self.robot.send(Command.HALT, self.state.token, self.seq, self.motion.q_rad)

    # --- decisions ---

    def _step(self, event: gs.Event, now_s: float) -> None:
        before = self.state.mode
        self.state, decisions = gs.step(self.state, event, now_s)
        if before in MANUAL_MODES and not self.state.armed:
            self.inputs.renew()  # hand-back to AUTO needs observations made after the person's last motion
        if stop_domain.begins_here(event, decisions):
            first = next((d.cause for d in decisions if isinstance(d, gs.Stop)), "stop_requested")
            self._stops, self._stop_cause = self._stops + 1, first
        for decision in decisions:
            self._carry_out(decision, now_s)

    def _carry_out(self, decision: gs.Decision, now_s: float) -> None:
        match decision:
            case gs.Stop(reaction, cause):
                self._stop(reaction, cause, now_s)
            case gs.HaltProgram():
                self.motion.clear()
                self._halt_until_s = now_s + HALT_CYCLES_S
            case gs.BeginArming(_, token):
                self._halt_until_s = self._silent_since_s = None
                self.robot.begin_arming(token, now_s)
            case gs.Armed(mode, _, snapshot):
                self.admission.reset()
                if self._arm_commands and self._arm_asked is not None:
                    self._manual = self._arm_asked[0]
                self._reply_arm(Reply("", True, f"armed: {mode.value}", [], dict(snapshot)))
            case gs.Refused(causes):
                self._reply_arm(Reply("", False, "refused", list(causes), dict(self.state.snapshot)))

    def _stop(self, reaction: gs.Reaction, cause: str, now_s: float) -> None:
        """Empty everything that could move; then by reaction."""
        self._note_stop(reaction, cause)
        self._drop_pending(Reason.NOT_ARMED, "stopped")
        self._manual = None
        self.source.clear()
        self.rest.reset()
        self._reply_arm(Reply("", False, "stopped while arming", self.state.causes()))
        if reaction is gs.Reaction.BRAKE and self.motion.plan is not None:
            self.motion.brake()
            return
        self.motion.clear()
        self._halt_until_s = None
        self._silent_since_s = now_s
        if reaction is gs.Reaction.WITHDRAW:
            self._silent_since_s = None
            self.robot.stop_program(now_s)

    def _note_stop(self, reaction: gs.Reaction, cause: str) -> None:
        """Times of a stop, for measurements. One that escalates is the same stop: its first cause, its first time."""
        if self._last_stop.get("received_s") == self.state.stop_since_s:
            self._last_stop["reaction"] = reaction.name
            return
        number = self._last_stop.get("number", 0) + 1
        self._last_stop = {
            "number": number, "cause": cause, "reaction": reaction.name, "received_s": self.state.stop_since_s
        }

    def _snapshot(self) -> dict:
        """What is in progress: shown at re-arming, never resumed by itself."""
        if not self.state.armed:
            return {}
        plan, feedback = self.motion.plan, self.robot.feedback()
        return {
            "mode": self.state.mode.value,
            "trace_id": plan.trace_id if plan is not None else "",
            "source": plan.source if plan is not None else "",
            "plan_left_s": self.motion.left_s(),
            "q_commanded_rad": self.motion.q_rad.tolist(),
            "gripper_width_m": feedback.gripper_width_m if feedback is not None else float("nan"),
            "gripper_commanded_m": feedback.gripper_commanded_m if feedback is not None else float("nan"),
        }

    # --- clients ---

    def stop_requests(self, stops: list[tuple[Stop, int]], now_s: float) -> None:
        """From the stop socket: answered before anything else."""
        for stop, count in stops:
            source, reason = stop.source[:NAME_MAX], stop.reason[:TEXT_MAX]
            self._step(gs.StopRequest(source, reason, self._snapshot(), count), now_s)

    def fault(self, name: str, detail: str, now_s: float) -> None:
        """A fault found outside: the loop, or the process being asked to end."""
        self._step(gs.FaultRaised(name, detail, self._snapshot()), now_s)

    def commander_changed(self, client: Any, now_s: float) -> None:
        """A commander came (`client`) or went (None)."""
        if client is None and self.state.armed and self._manual is None:
            self.fault("shell_lost", "the commander's connection ended", now_s)
        self._commander = client
        if self._manual is None:
            self._shell_s = now_s

    def handle(self, client: Any, message: Any, now_s: float) -> None:
        """One message of a client that has said hello."""
        if client is self.commander:
            self._shell_s = now_s
        match message:
            case Stop():
                self.stop_requests([(message, 1)], now_s)
                self.answer(client, Reply(message.request_id, True, "stopping", self.state.causes()))
            case Heartbeat():
                if client is self._commander and message.name != SHELL_HEARTBEAT:
                    self.inputs.beat(message.name, message.ok, message.detail[:TEXT_MAX], now_s)
            case Link():
                self.links.beat(client, message.name or "unnamed", message.in_control, now_s)
                if message.request_id:
                    said = "in control" if message.in_control else "released"
                    self.answer(client, Reply(message.request_id, True, said))
            case Arm():
                self._on_arm(client, message, now_s)
            case Chunk():
                if self._may_command(client, message.trace_id):
                    self._drop_pending(Reason.FLOOD, "superseded before it was judged")
                    self._pending = (client, message)
            case Gripper():
                if self._may_command(client, message.trace_id):
                    self._on_gripper(client, message)

    def forget(self, client: Any, now_s: float) -> None:
        """A client has gone."""
        if self._arm_asked is not None and self._arm_asked[0] is client:
            self._arm_asked = None
            if self._arm_commands and self.state.arming is not None:
                self.fault("shell_lost", "the operator's connection ended while arming", now_s)
        if client is self._manual:
            self._manual = None
            self.fault("shell_lost", "the connection of the operator in command ended", now_s)
        operator = self.links.gone(client)
        if operator:
            self.fault("operator_link", f"{operator}: connection ended", now_s)

    @property
    def commander(self) -> Any:
        """Who may command now: the operator that armed for itself, else the shell."""
        return self._commander if self._manual is None else self._manual

    # --- stop domain ---

    def peer_beat(self, beat: Beat, now_s: float) -> None:
        """A beat of another guard."""
        news = self.domain.hear(beat, now_s)
        if news:
            self.fault(stop_domain.PEER, news, now_s)

    def beat(self) -> Beat:
        """What the other guards are told."""
        return Beat(self.config.name, self._boot, self._stops, self._stop_cause, stop_domain.unsafe(self.state.holding))

    def _may_command(self, client: Any, trace_id: str) -> bool:
        if client is self.commander:
            return True
        self._refuse(client, trace_id, Reason.SECOND_COMMANDER, "this connection is not the commander's")
        return False

    def _refuse(self, client: Any, trace_id: str, reason: Reason, detail: str) -> None:
        self.refused[reason.value] = self.refused.get(reason.value, 0) + 1
        self.answer(client, Verdict(trace_id, False, reason.value, detail[:TEXT_MAX]))

    def _drop_pending(self, reason: Reason, why: str) -> None:
        if self._pending is not None:
            (client, chunk), self._pending = self._pending, None
            self._refuse(client, chunk.trace_id, reason, why)

    @property
    def pending(self) -> bool:
        """Whether a chunk waits to be judged; `admit` costs a few milliseconds."""
        return self._pending is not None

    def admit(self, next_setpoint_s: float, now_s: float) -> None:
        """Judge the pending chunk, to start with the set-point due at `next_setpoint_s`."""
        (client, chunk), self._pending = self._pending, None
        feedback = self.robot.feedback()
        result = self.admission.judge(chunk, self.state, self.motion, feedback, next_setpoint_s, now_s)
        if result.plan is None:
            self._refuse(client, chunk.trace_id, result.reason, result.detail)
            return
        self.motion.commit(result.plan)
        self.source.accepted(chunk.source, result.waypoints_end_s, result.end_speed_rad_s, now_s)
        self.accepted += 1
        self.answer(client, Verdict(chunk.trace_id, True))

    def _on_gripper(self, client: Any, message: Gripper) -> None:
        if not self.state.armed:
            return self._refuse(client, message.trace_id, Reason.NOT_ARMED, f"mode {self.state.mode.value}")
        if message.token != self.state.token:
            return self._refuse(client, message.trace_id, Reason.FOREIGN_TOKEN, "token of another arming")
        if not np.isfinite(message.width_m):
            return self._refuse(client, message.trace_id, Reason.NOT_FINITE, f"width_m {message.width_m}")
        if not 0.0 <= message.width_m <= self.config.gripper_max_width_m:
            detail = f"width_m {message.width_m:.4f}, limit 0..{self.config.gripper_max_width_m}"
            return self._refuse(client, message.trace_id, Reason.POSITION, detail)
        if not self.robot.command_gripper(message.width_m):
            detail = "the link took no gripper command; send it again"
            return self._refuse(client, message.trace_id, Reason.FLOOD, detail)
        return self.answer(client, Verdict(message.trace_id, True))

    def _on_arm(self, client: Any, message: Arm, now_s: float) -> None:
        def refuse(why: str) -> None:
            self.answer(client, Reply(message.request_id, False, why))

        if message.mode == "disarm":
            self._step(gs.DisarmRequest("operator", self._snapshot()), now_s)
            return self.answer(client, Reply(message.request_id, True, "disarmed", self.state.causes()))
        if message.mode not in gs.ARM_MODES:
            return refuse(f"mode {message.mode[:20]!r}: give one of {', '.join((*gs.ARM_MODES, 'disarm'))}")
        self._arm_credit = min(ARM_FAILURES, self._arm_credit + (now_s - self._arm_credit_s) / ARM_FAILURE_REFILL_S)
        self._arm_credit_s = now_s
        if self._arm_credit < 1.0:
            return refuse("too many failed credentials; wait a second")
        verified = hmac.compare_digest(message.credential.encode(), self.credential.encode())
        if not verified:
            self._arm_credit -= 1.0
        if self._arm_asked is not None:
            return refuse("an arming is under way")
        if message.command and message.mode == "auto":
            return refuse("an operator's connection commands in manual and recover only")
        self._arm_asked, self._arm_commands = (client, message.request_id), message.command
        return self._step(gs.ArmRequest(gs.ARM_MODES[message.mode], verified, self.fresh_token()), now_s)

    def _reply_arm(self, reply: Reply) -> None:
        if self._arm_asked is not None:
            (client, request_id), self._arm_asked = self._arm_asked, None
            self.answer(client, Reply(request_id, reply.ok, reply.message, reply.causes, reply.snapshot))

    # --- what is published ---

    def _publishable(self, feedback: Feedback | None, at_rest: bool, now_s: float) -> State:
        nothing = [float("nan")] * len(self.robot.joint_names)
        driven = self.motion.plan is not None
        target = feedback.q_target_rad.tolist() if feedback is not None else nothing
        return State(
            stamp_s=now_s,
            seq=self.seq,
            token=self.state.token,
            mode=self.state.mode.value,
            q_rad=feedback.q_rad.tolist() if feedback is not None else nothing,
            qd_rad_s=feedback.qd_rad_s.tolist() if feedback is not None else nothing,
            q_commanded_rad=self.motion.q_rad.tolist() if driven else target,
            qd_commanded_rad_s=self.motion.qd_rad_s.tolist() if driven else [0.0] * len(nothing),
            gripper_width_m=feedback.gripper_width_m if feedback is not None else float("nan"),
            gripper_commanded_m=feedback.gripper_commanded_m if feedback is not None else float("nan"),
            at_rest=at_rest,
            causes=self.state.causes() if not self.state.armed else [],
            robot_mode=feedback.robot_mode if feedback is not None else -1,
            safety_mode=feedback.safety_mode if feedback is not None else -1,
            trace_id=self.motion.plan.trace_id if driven and not self.motion.ended else "",
            plan_left_s=self.motion.left_s(),
            counters=self.counters(),
            scheduler=self.scheduler,
            last_stop=dict(self._last_stop),
        )

    def counters(self) -> dict[str, int]:
        """Everything counted, under one level of names."""
        counts = dict(self.state.counts)
        counts.update({f"refused:{reason}": n for reason, n in self.refused.items()})
        counts.update(accepted=self.accepted, cycles=self.seq, late_cycles=self.late_cycles)
        return counts | self.link.counters()

    @property
    def settled(self) -> bool:
        """Whether a stop has run its course: nothing is being sent any more."""
        idle = not self.state.armed and self.state.arming is None and self.state.stopping is None
        return idle and self._halt_until_s is None
