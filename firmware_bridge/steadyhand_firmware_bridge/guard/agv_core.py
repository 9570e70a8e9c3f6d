"""The guard of a vehicle, without sockets and clock: one `cycle` per period, `handle` for what clients send in between.

The same latched state machine, watchdogs, operators and stop domain as an arm's (`base`); motion is the vehicle's own
(`steadyhand.agv.Agv`). Whatever the reaction, a stop is the bridge's `stop`: there is no milder one that is surer.

I13, an AGV never leaves under an arm that is not clear of it: a command to move is first told to the other guards
(`Beat.zone`) and carried out `peer_timeout_s` later, if they are clear then. By then each has heard of the other's
newest claim, or counts it as silent; so two that begin at once both know, and neither begins.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from steadyhand import guard_state as gs
from steadyhand.agv import Agv, AgvFeedback, TaskState, Velocity, check_command
from steadyhand.guard_protocol import AgvState, Drive, Pause, Reply, Twist, VehicleAct, Verdict
from steadyhand.protocols import ArmingPhase
from steadyhand.types import Mode, Reason
from steadyhand.watchdog import RestDetector
from steadyhand_firmware_bridge.guard import agv_task, vehicle_acts
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig
from steadyhand_firmware_bridge.guard.base import NAME_MAX, TEXT_MAX, TOO_MANY, Answer, GuardBase

UNDER_WAY = (TaskState.SENT, TaskState.UNDER_WAY)


class AgvGuard(GuardBase):
    """All of the guard's decisions for one vehicle. `answer` sends a message to a client (any opaque value)."""

    commands = (Drive, Twist, Pause)
    late_limit_s = 0.5

    def __init__(
        self, agv: Agv, config: AgvGuardConfig, credential: str, fresh_token: Callable[[], int], answer: Answer,
        now_s: float,
    ):
        super().__init__(config, credential, fresh_token, answer, now_s)
        self.agv = agv
        self.rest = RestDetector(config.rest_gap_s, config.rest_speed)
        self._claim_s: float | None = None  # since when the other guards are told that it moves, or is about to
        self._claimed_s = -math.inf  # the newest command that needed it
        self._waiting: tuple[Any, Drive | Pause | VehicleAct, float] | None = None  # what the claim has to precede
        self._asked = vehicle_acts.VehicleActs(agv)
        self._operators_hold = False  # paused by an operator's act: no commander lets it go on
        self._velocity_s: float | None = None  # the newest velocity that is not zero
        self._now_s = now_s

    # --- what the loop needs ---

    def open(self, now_s: float) -> None:
        """Begin to connect."""
        self.agv.open(now_s)

    def readable(self) -> list[Any]:
        """The bridge's sockets."""
        return list(self.agv.readable())

    def service(self, now_s: float) -> None:
        """Take what the vehicle has sent."""
        self.agv.poll(now_s)

    @property
    def moving(self) -> bool:
        """Whether the vehicle moves, or has something to do that moves it."""
        feedback = self.agv.feedback()
        if feedback is None:
            return False
        return feedback.driving or self._velocity_s is not None or feedback.task_state in UNDER_WAY

    # --- one cycle ---

    def cycle(self, now_s: float) -> AgvState:
        """Feedback, watchdogs, decisions; the state to publish."""
        self._now_s = now_s
        self.agv.poll(now_s)
        feedback = self.agv.feedback()
        at_rest = self._measure(feedback, now_s)
        self._step(gs.Cycle(self._holding(now_s), at_rest, self._snapshot()), now_s)
        self._moments(now_s)
        self._arming(now_s)
        self._begin_waiting(now_s)
        for client, reply in self._asked.ended(now_s):
            self.answer(client, reply)
        idle = self._waiting is None and now_s - self._claimed_s > self.config.velocity_timeout_s
        if at_rest and not self.moving and idle:
            self._claim_s = None
        self.seq += 1
        return self._publishable(feedback, at_rest, now_s)

    def _measure(self, feedback: AgvFeedback | None, now_s: float) -> bool:
        """Rest, by measured velocity where the vehicle tells it, and by its own word that it does not drive."""
        if feedback is not None:
            twist = feedback.twist_m_s_rad_s
            stamp_s = feedback.stamp_s if twist is None else min(feedback.stamp_s, feedback.twist_stamp_s)
            self.rest.update(np.array([*(twist or ()), 1.0 if feedback.driving else 0.0]), stamp_s)
        return self.rest.at_rest(now_s)

    def _holding(self, now_s: float) -> dict[str, str]:
        wrong = dict(self.agv.troubles(now_s))
        wrong |= self.inputs.holding(now_s, self.moving) | self.links.holding(now_s) | self.domain.holding(now_s)
        occupied = self.interlock(now_s)
        if occupied and self.moving:
            wrong["interlock"] = occupied
        return wrong

    def _moments(self, now_s: float) -> None:
        """Faults of this cycle that need an armed guard."""
        if not self.state.armed:
            return
        limit_s = self.config.velocity_timeout_s
        if self._velocity_s is not None and now_s - self._velocity_s > limit_s:
            return self.fault("command_source_silent", f"no velocity for more than {limit_s * 1e3:.0f} ms", now_s)
        limit_s = self.config.shell_timeout_s
        if self.moving and now_s - self._shell_s > limit_s:
            self.fault("shell_lost", f"commander silent for more than {limit_s * 1e3:.0f} ms while moving", now_s)
        return None

    def _arming(self, now_s: float) -> None:
        if self.state.arming is None:
            return
        arming = self.agv.arming()
        if arming.phase is ArmingPhase.FAILED:
            self._step(gs.ArmingEnded(self.state.token, False, arming.detail), now_s)
        elif arming.phase is ArmingPhase.READY:
            self._shell_s = now_s
            self._step(gs.ArmingEnded(self.state.token, True), now_s)

    # --- decisions ---

    def _carry_out(self, decision: gs.Decision, now_s: float) -> None:
        match decision:
            case gs.Stop(reaction, cause):
                self._note_stop(reaction, cause)
                self._drop_waiting("stopped")
                self._manual, self._velocity_s, self._operators_hold = None, None, False
                self.rest.reset()
                self.agv.stop(now_s)
                self._last_stop.setdefault("braking_s", now_s)
                self._reply_arm(Reply("", False, "stopped while arming", self.state.causes()))
            case gs.BeginArming(_, token):
                self.agv.begin_arming(token, now_s)
            case gs.Armed(mode, _, snapshot):
                self._armed(mode, snapshot)
            case gs.Refused(causes):
                self._arm_refused(causes)

    def _snapshot(self) -> dict:
        feedback = self.agv.feedback()
        if not self.state.armed or feedback is None:
            return {}
        return {
            "mode": self.state.mode.value, "task_id": feedback.task_id, "task_state": feedback.task_state.value,
            "last_waypoint": feedback.last_waypoint[:TEXT_MAX], "pose_m_rad": list(feedback.pose_m_rad or ()),
        }  # fmt: skip

    # --- the interlock ---

    def interlock(self, now_s: float) -> str:
        """Why the vehicle may not move where it is; empty when it may."""
        return self.domain.occupied(self.config.interlock, now_s) if self._near() else ""

    def _near(self) -> bool:
        place, feedback = self.config.interlock_xy_m, self.agv.feedback()
        if not self.config.interlock:
            return False
        if not place or feedback is None or feedback.pose_m_rad is None:
            return True
        if self._now_s - feedback.stamp_s > self.config.rest_gap_s:
            return True  # it may have been moved meanwhile
        apart_m = math.hypot(feedback.pose_m_rad[0] - place[0], feedback.pose_m_rad[1] - place[1])
        return not apart_m > self.config.interlock_radius_m  # NaN is near

    def _zone(self) -> str:
        claims = self._near() and (self._claim_s is not None or not self.rest.at_rest(self._now_s))
        return "the vehicle moves, or is about to" if claims else ""

    # --- commands ---

    def _command(self, client: Any, message: Any, now_s: float) -> None:
        refused = self._not_now(message, now_s)
        if refused is not None:
            return self._refuse(client, message.trace_id, *refused)
        if isinstance(message, Pause) and message.hold:
            self._drop_waiting("held before it began")
            refused = self.agv.hold(now_s)
            if not refused:
                self._velocity_s = None  # nobody need renew a velocity that is not driven
            return self._answer(client, message, refused)
        if self._operators_hold and not _stands(message):
            why = "an operator paused the vehicle: an operator resumes it"
            return self._refuse(client, message.trace_id, Reason.NOT_ARMED, why)
        if isinstance(message, Twist):
            return self._on_twist(client, message, now_s)
        if isinstance(message, Drive):
            task = agv_task.read(message)
            wrong = task if isinstance(task, str) else check_command(task, self.agv.kind)
            if wrong:
                return self._refuse(client, message.trace_id, Reason.MALFORMED, wrong)
        self._drop_waiting("superseded before it began")
        due_s = self._claim(now_s)
        self._waiting = (client, message, due_s)
        return self._begin_waiting(now_s)

    def _not_now(self, message: Drive | Twist | Pause, now_s: float) -> tuple[Reason, str] | None:
        if not self.state.armed:
            return Reason.NOT_ARMED, f"mode is {self.state.mode.value}"
        if message.token != self.state.token:
            return Reason.FOREIGN_TOKEN, "token of another arming"
        if isinstance(message, Drive) and self.state.mode is Mode.RECOVERING:
            return Reason.NOT_ARMED, "mode is RECOVERING: drive by hand"
        if isinstance(message, Pause) and message.hold:
            return None  # to stand is always allowed
        age_s = now_s - message.state_stamp_s
        if not -0.001 <= age_s:
            return Reason.FROM_FUTURE, f"state_stamp_s {message.state_stamp_s}"
        if not age_s <= self.config.command_age_s:
            return Reason.EXPIRED, f"answers a state {age_s * 1e3:.0f} ms old"
        if _stands(message):
            return None
        occupied = self.interlock(now_s)
        return (Reason.WORKSPACE, f"interlock: {occupied}") if occupied else None

    def _claim(self, now_s: float) -> float:
        """Tell the others; from when on the command may be carried out."""
        self._claimed_s = now_s
        if self._claim_s is None:
            self._claim_s = now_s
        return self._claim_s + (self.config.peer_timeout_s if self._near() else 0.0)

    def _begin_waiting(self, now_s: float) -> None:
        if self._waiting is None or now_s < self._waiting[2]:
            return
        (client, message, _), self._waiting = self._waiting, None
        self._claimed_s = now_s  # until the vehicle says what has become of it
        occupied = self.interlock(now_s)
        if isinstance(message, VehicleAct):
            refused = f"interlock: {occupied}" if occupied else self.agv.resume(now_s)
            self._operators_hold = self._operators_hold and bool(refused)
            self._reply(client, message, refused, "going on")
        elif occupied:
            self._refuse(client, message.trace_id, Reason.WORKSPACE, f"interlock: {occupied}")
        elif isinstance(message, Pause):
            self._answer(client, message, self.agv.resume(now_s))
        else:
            self._answer(client, message, self.agv.go(agv_task.read(message), now_s))

    def _on_twist(self, client: Any, message: Twist, now_s: float) -> None:
        velocity = Velocity(message.vx_m_s, message.vy_m_s, message.omega_rad_s)
        wrong = check_command(velocity, self.agv.kind)
        if wrong:
            return self._refuse(client, message.trace_id, Reason.MALFORMED, wrong)
        moves = velocity != Velocity(0.0, 0.0, 0.0)
        if moves and now_s < self._claim(now_s):
            return self._refuse(client, message.trace_id, Reason.WORKSPACE, "interlock: the arm is being told; go on")
        refused = self.agv.go(velocity, now_s)
        if not refused:
            self._velocity_s = now_s if moves else None
        return self._answer(client, message, refused)

    def _answer(self, client: Any, message: Any, refused: str) -> None:
        if refused:
            return self._refuse(client, message.trace_id, Reason.NOT_ARMED, refused)
        self.accepted += 1
        return self.answer(client, Verdict(message.trace_id, True))

    def _drop_waiting(self, why: str) -> None:
        if self._waiting is not None:
            (client, message, _), self._waiting = self._waiting, None
            if isinstance(message, VehicleAct):
                self._reply(client, message, why)
            else:
                self._refuse(client, message.trace_id, Reason.NOT_ARMED, why)

    # --- an operator's acts on the vehicle ---

    def handle(self, client: Any, message: Any, now_s: float) -> None:
        """One message of a client that has said hello."""
        if isinstance(message, VehicleAct):
            return self._act(client, message, now_s)
        return super().handle(client, message, now_s)

    def forget(self, client: Any, now_s: float) -> None:
        """A client has gone."""
        self._asked.forget(client)
        super().forget(client, now_s)

    def _act(self, client: Any, message: VehicleAct, now_s: float) -> None:
        refused = self._not_to_ask(message, now_s)
        if refused:
            return self._reply(client, message, refused)
        match message.act:
            case "pause":
                self._drop_waiting("held before it began")
                self._velocity_s = None
                refused = self.agv.hold(now_s)
                self._operators_hold = self._operators_hold or not refused
                return self._reply(client, message, refused, "coming to rest; the task is kept")
            case "cancel":
                waited = self._waiting is not None
                self._drop_waiting("cancelled before it began")
                refused = "" if waited and not self.moving else self.agv.cancel(now_s)
                return self._reply(client, message, refused, "coming to rest; the task is given up")
            case "resume":
                self._drop_waiting("superseded before it began")
                self._waiting = (client, message, self._claim(now_s))
                return self._begin_waiting(now_s)
        refused = self._asked.begin(client, message, now_s)
        return self._reply(client, message, refused) if refused else None

    def _not_to_ask(self, message: VehicleAct, now_s: float) -> str:
        """Why this act is refused now; empty when it is not."""
        refused = vehicle_acts.unknown(message, self.agv.name)
        if not refused and message.act in vehicle_acts.OPERATORS:
            verified = self._verified(message.credential, now_s)
            refused = TOO_MANY if verified is None else "" if verified else "credential refused"
        at_rest = self.rest.at_rest(now_s)
        held = self._operators_hold
        refused = refused or vehicle_acts.not_now(message.act, self.state, self.agv.feedback(), at_rest, held)
        if not refused and message.act == "resume":
            late = self._not_now(Pause(message.token, message.state_stamp_s, "", False), now_s)
            refused = late[1] if late is not None else ""
        return refused

    def _reply(self, client: Any, message: VehicleAct, refused: str, done: str = "") -> None:
        if refused:
            self.refused["vehicle_act"] = self.refused.get("vehicle_act", 0) + 1
        said = f"{message.act[:NAME_MAX]}: {refused or done}"[:TEXT_MAX]
        self.answer(client, Reply(message.request_id, not refused, said, self.state.causes() if refused else []))

    # --- what is published ---

    def _publishable(self, feedback: AgvFeedback | None, at_rest: bool, now_s: float) -> AgvState:
        f = feedback or AgvFeedback(-math.inf, False)
        return AgvState(
            stamp_s=now_s, seq=self.seq, token=self.state.token, mode=self.state.mode.value, vehicle=self.agv.name,
            kind=self.agv.kind.value, at_rest=at_rest, causes=self.state.causes() if not self.state.armed else [],
            pose_m_rad=list(f.pose_m_rad or ()), map_id=f.map_id[:TEXT_MAX],
            twist_m_s_rad_s=list(f.twist_m_s_rad_s or ()), driving=f.driving, paused=f.paused,
            operating_mode=f.operating_mode[:TEXT_MAX] if feedback else "", battery_percent=f.battery_percent,
            task_id=f.task_id, task_state=f.task_state.value, task_detail=f.task_detail[:TEXT_MAX],
            last_waypoint=f.last_waypoint[:TEXT_MAX], waypoints_left=f.waypoints_left, interlock=self.interlock(now_s),
            counters=self.counters(), scheduler=self.scheduler, last_stop=dict(self._last_stop), report=dict(f.report),
        )  # fmt: skip

    def counters(self) -> dict[str, int]:
        """Everything counted, also by the bridge."""
        bridge = getattr(self.agv, "counters", dict)()
        return super().counters() | {f"bridge:{name}": n for name, n in bridge.items()}


def _stands(message: Drive | Twist | Pause) -> bool:
    """Whether this velocity is none."""
    return isinstance(message, Twist) and not (message.vx_m_s or message.vy_m_s or message.omega_rad_s)
