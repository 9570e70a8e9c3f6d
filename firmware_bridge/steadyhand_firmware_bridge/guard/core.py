"""The guard without sockets and clock: one `cycle` per control period, `handle` for what clients send in between.

Carries out the decisions of `steadyhand.guard_state`; motion is in `motion`, the judgement of chunks in `admission`.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from steadyhand import guard_state as gs
from steadyhand import robot_status
from steadyhand.guard_protocol import Chunk, Gripper, Payload, Reply, State, Verdict
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.link_monitor import LinkMonitor
from steadyhand.payload import config_of
from steadyhand.plan import Published
from steadyhand.protocols import ALIVE, ArmingPhase, Command, Counting, Feedback, QueuedGripper, Robot, TellsOfPrograms
from steadyhand.types import Reason
from steadyhand.watchdog import RestDetector, SourceWatchdog
from steadyhand_firmware_bridge.guard.acts import RobotActs
from steadyhand_firmware_bridge.guard.admission import Admission
from steadyhand_firmware_bridge.guard.base import Answer, GuardBase
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.motion import Motion
from steadyhand_firmware_bridge.guard.payloads import Payloads
from steadyhand_firmware_bridge.guard.zone import Zone

HALT_CYCLES_S = 0.2  # the program gets this long to end on command, then the controller's own stop
LINK_REFUSALS = 3  # packages in a row that the link did not take


class Guard(GuardBase):
    """All of the guard's decisions for one arm. `answer` sends a message to a client (any opaque value)."""

    commands = (Chunk, Gripper, Payload)

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
        super().__init__(config, credential, fresh_token, answer, now_s)
        self.robot, self.config, self.limits = robot, config, limits
        self._acts = RobotActs(robot)
        self._queued = robot if isinstance(robot, QueuedGripper) else None
        self._programs = robot if isinstance(robot, TellsOfPrograms) else None
        self._counting = robot if isinstance(robot, Counting) else None
        self.payloads = Payloads(config_of(config.payload), robot)
        self.motion = Motion(robot.period_s, limits, config.tracking_lag_s)
        self.admission = Admission(config, limits, robot.period_s)
        self.rest = RestDetector(config.feedback_timeout_s)
        self.source = SourceWatchdog(
            config.command_timeout_s, frozenset(config.streaming_sources), config.motion_wanted_rad_s
        )
        self.zone = Zone(config.interlock_zone_m)
        self.link = LinkMonitor(robot.period_s)  # tells of clock and link; decides nothing
        self._pending: tuple[Any, Chunk] | None = None
        self._halt_until_s: float | None = None
        self._silent_since_s: float | None = None
        self._link_refusals = 0
        self._fresh = False  # whether the newest cycle knew where the arm is
        self._controller_stamp_s = self._feedback_s = float("-inf")
        self._cycle_s = now_s

    # --- what the loop needs ---

    def open(self, now_s: float) -> None:
        """Begin to connect."""
        self.robot.open(now_s)

    def readable(self) -> list[Any]:
        """The controller's sockets."""
        return list(self.robot.readable())

    def service(self, now_s: float) -> None:
        """Take what the controller has sent."""
        self.robot.service(now_s)

    @property
    def moving(self) -> bool:
        """Whether a plan moves the arm."""
        return self.motion.moving

    @property
    def feedback_s(self) -> float | None:
        """When the newest state of the controller came."""
        feedback = self.robot.feedback()
        return None if feedback is None else feedback.stamp_s

    # --- one control cycle ---

    def cycle(self, now_s: float) -> State:
        """Feedback, watchdogs, decisions, one package out; the state to publish."""
        self._cycle_s = now_s
        self.robot.service(now_s)
        feedback = self.robot.feedback()
        if feedback is not None:
            self.link.update(feedback.controller_stamp_s, feedback.stamp_s)
        if feedback is not None and feedback.controller_stamp_s != self._controller_stamp_s:
            # a controller that repeats itself is a lost controller
            self._controller_stamp_s, self._feedback_s = feedback.controller_stamp_s, feedback.stamp_s
        fresh = feedback is not None and now_s - self._feedback_s <= self.config.feedback_timeout_s
        self._fresh = fresh
        if fresh:
            self.rest.update(feedback.qd_rad_s, self._feedback_s)  # of a repeated one: no new measurement
            self.payloads.measure(feedback)
        at_rest = self._at_rest(now_s)
        self._step(gs.Cycle(self._holding(feedback, fresh, now_s), at_rest, self._snapshot()), now_s)
        self._moments(feedback, now_s)
        self._arming(feedback, fresh, now_s)
        if fresh:
            self._payload(feedback, at_rest, now_s)
        self._answer_acts()
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
        return self.motion.settled and self.rest.at_rest(now_s)

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
            elif payload := self.payloads.wrong(feedback):
                wrong["payload"] = payload
        wrong |= self._told_of_programs(wrong)
        outside = (feedback.q_rad < self.limits.q_min_rad) | (feedback.q_rad > self.limits.q_max_rad)
        if outside.any():
            joint = int(np.argmax(outside))
            name, value = self.robot.joint_names[joint], feedback.q_rad[joint]
            wrong["margin"] = f"{name} at {value:.3f} rad, beyond its limit: jog it back in mode recover"
        return wrong | self._watched(now_s)

    def _told_of_programs(self, wrong: dict[str, str]) -> dict[str, str]:
        """What the controller says of programs; a script error is the reason why ours was lost."""
        if self._programs is None:
            return {}
        state = self.state
        told = dict(
            self._programs.program_troubles(state.armed or state.arming is not None or state.stopping is not None)
        )
        if "program_lost" in wrong and "script_error" in told:
            told["program_lost"] = f"{wrong['program_lost']}: {told['script_error']}"
        return told

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

    def _payload(self, feedback: Feedback, at_rest: bool, now_s: float) -> None:
        fault = self.payloads.cycle(feedback, self.state.armed, at_rest, now_s)
        if fault and self.state.armed:
            self._step(gs.FaultRaised("payload", fault, self._snapshot()), now_s)

    def _arming(self, feedback: Feedback | None, fresh: bool, now_s: float) -> None:
        if self.state.arming is None:
            return
        arming = self.robot.arming()
        if arming.phase is ArmingPhase.FAILED:
            self._step(gs.ArmingEnded(self.state.token, False, arming.detail), now_s)
        elif arming.phase is ArmingPhase.READY and fresh:
            apart = float(np.abs(feedback.q_target_rad - feedback.q_rad).max())
            limit = self.config.first_setpoint_tolerance_rad
            payload = self.payloads.wrong(feedback)
            if payload:
                self._step(gs.ArmingEnded(self.state.token, False, payload), now_s)
            elif not apart <= limit:
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

    def _carry_out(self, decision: gs.Decision, now_s: float) -> None:
        match decision:
            case gs.Stop(reaction, cause):
                self._stop(reaction, cause, now_s)
            case gs.HaltProgram():
                self.motion.clear()
                self._halt_until_s = now_s + HALT_CYCLES_S
            case gs.BeginArming(_, token):
                self._halt_until_s = self._silent_since_s = None
                self.payloads.begin_arming(token, now_s)
                self.robot.begin_arming(token, now_s)
            case gs.Armed(mode, _, snapshot):
                self.admission.reset()
                self._armed(mode, snapshot)
            case gs.Refused(causes):
                self._arm_refused(causes)

    def _stop(self, reaction: gs.Reaction, cause: str, now_s: float) -> None:
        """Empty everything that could move; then by reaction."""
        self._note_stop(reaction, cause)
        self._drop_pending(Reason.NOT_ARMED, "stopped")
        if self._queued is not None:
            self._queued.drop_gripper_queue()
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

    def _zone(self) -> str:
        # an old measurement does not say where the arm is: somebody may move it at the pendant
        q_rad = self.robot.feedback().q_rad if self._fresh else None
        return self.zone.says(q_rad, self.motion.plan, self.motion.index, self._at_rest(self._cycle_s))

    # --- clients ---

    def _command(self, client: Any, message: Any, now_s: float) -> None:
        if isinstance(message, Chunk):
            self._drop_pending(Reason.FLOOD, "superseded before it was judged")
            self._pending = (client, message)
        elif isinstance(message, Gripper):
            self._on_gripper(client, message)
        else:
            self._on_payload(client, message, now_s)

    def _drop_pending(self, reason: Reason, why: str) -> None:
        if self._pending is not None:
            (client, chunk), self._pending = self._pending, None
            self._refuse(client, chunk.trace_id, reason, why)

    @property
    def pending(self) -> bool:
        """Whether a chunk waits to be judged; `admit` costs a few milliseconds. While the payload changes, it waits."""
        return self._pending is not None and not self.payloads.under_way

    def admit(self, next_setpoint_s: float, now_s: float) -> None:
        """Judge the pending chunk, to start with the set-point due at `next_setpoint_s`."""
        (client, chunk), self._pending = self._pending, None
        feedback = self.robot.feedback()
        result = self.admission.judge(chunk, self.state, self.motion, feedback, next_setpoint_s, now_s)
        if result.plan is None:
            self._refuse(client, chunk.trace_id, result.reason, result.detail)
            return
        occupied = self.domain.occupied(self.config.interlock, now_s)
        if occupied and self.zone.forbids(result.plan, self.motion.q_rad):
            self._refuse(client, chunk.trace_id, Reason.WORKSPACE, f"interlock: {occupied}")
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

    def _on_payload(self, client: Any, message: Payload, now_s: float) -> None:
        """Said to be held, or let go: only at rest, only as the fingers prove it. Answered when the controller shows it."""
        if not self.state.armed:
            return self._refuse(client, message.trace_id, Reason.NOT_ARMED, f"mode {self.state.mode.value}")
        if message.token != self.state.token:
            return self._refuse(client, message.trace_id, Reason.FOREIGN_TOKEN, "token of another arming")

        def ended(ok: bool, why: str) -> None:
            if ok:
                self.answer(client, Verdict(message.trace_id, True))
            else:
                self._refuse(client, message.trace_id, Reason.PAYLOAD, why)

        at_rest = self._at_rest(now_s) and self._pending is None
        why = self.payloads.request(message.object_kg, message.object_cog_m, at_rest, now_s, ended)
        return self._refuse(client, message.trace_id, Reason.PAYLOAD, why) if why else None

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
        more = self._counting.counters() if self._counting is not None else {}
        return super().counters() | self.link.counters() | dict(more) | self.payloads.counters(self._cycle_s)

    @property
    def settled(self) -> bool:
        """Whether a stop has run its course: nothing is being sent any more."""
        return super().settled and self._halt_until_s is None
