"""Seeded defects of the product, each planted in this process by name: the simulator must find every one.

A defect patches one function of the real guard, as a careless change would. `planted(name)` undoes it at the end.
"""
from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from steadyhand import agent, interpolator, safety_gate, watchdog
from steadyhand import guard_state as gs
from steadyhand.guard_protocol import Arm, Chunk, Gripper
from steadyhand.protocols import ALIVE, Command
from steadyhand.task import Code
from steadyhand.types import Mode, Verdict
from steadyhand_cli.dst.world import World
from steadyhand_firmware_bridge.guard import admission, core, motion

Patch = tuple[Any, str, Any]  # owner, attribute, replacement


@dataclass(frozen=True)
class Defect:
    """`patches` is called when it is planted; `breaks` names the invariant whose requirement it violates."""

    breaks: str
    says: str
    patches: Callable[[], list[Patch]]


DEFECTS: dict[str, Defect] = {}


def defect(name: str, breaks: str, says: str) -> Callable:
    """Enter into the table."""

    def enter(patches: Callable[[], list[Patch]]) -> Callable[[], list[Patch]]:
        DEFECTS[name] = Defect(breaks, says, patches)
        return patches

    return enter


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """The product with this defect."""
    kept = []
    try:
        for owner, attribute, replacement in DEFECTS[name].patches():
            kept.append((owner, attribute, owner.__dict__[attribute]))
            setattr(owner, attribute, replacement)
        yield
    finally:
        for owner, attribute, original in reversed(kept):
            setattr(owner, attribute, original)


Guard, Motion = core.Guard, motion.Motion


# --- I1: stop wins --------------------------------------------------------------------------------------------------


@defect("stop_leaves_chunk", "I1", "a stop lets the plan under way run on")
def _():
    return [(Motion, "brake", lambda self: 0.0)]


@defect("stop_ignored_while_arming", "I1", "a stop request during arming is counted only")
def _():
    original = Guard.stop_requests

    def stop_requests(self, stops, now_s):
        if self.state.arming is None:
            original(self, stops, now_s)

    return [(Guard, "stop_requests", stop_requests)]


@defect("stop_brakes_slowly", "I1", "the stop is played at half speed: it takes too long")
def _():
    original = motion.scale_to_rest

    def scale_to_rest(plan, index, limits):
        stop = original(plan, index, limits)
        rows = np.repeat(np.arange(len(stop.plan)), 3)
        q = stop.plan.q_rad[rows].copy()
        for k in range(len(q)):  # linear in between
            i, part = divmod(k, 3)
            after = stop.plan.q_rad[min(i + 1, len(stop.plan) - 1)]
            q[k] = stop.plan.q_rad[i] + part / 3 * (after - stop.plan.q_rad[i])
        qd, qdd = stop.plan.qd_rad_s[rows] / 3, stop.plan.qdd_rad_s2[rows] / 9
        return replace(stop, plan=replace(stop.plan, q_rad=q, qd_rad_s=qd, qdd_rad_s2=qdd))

    return [(motion, "scale_to_rest", scale_to_rest)]


@defect("safety_stop_is_braked", "I1", "after the robot's own stop the guard goes on sending")
def _():
    rules = dict(gs.RULES)
    rules["robot_safety"] = rules["robot_mode"] = gs.Rule(gs.Reaction.BRAKE)
    return [(gs, "RULES", rules)]


@defect("rest_assumed", "I1", "rest is taken for granted when the commanded motion has ended")
def _():
    return [(watchdog.RestDetector, "at_rest", lambda self, now_s: True)]


@defect("rest_time_too_short", "I1", "one still sample counts as rest")
def _():
    return [(watchdog.RestDetector, "at_rest", lambda self, now_s: self._since_s is not None)]


@defect("heartbeat_while_stopped", "I1", "the guard holds the target for ever after a stop")
def _():
    original = Guard._send

    def send(self, feedback, now_s):
        original(self, feedback, now_s)
        if self.settled and feedback is not None and feedback.program_token == self.state.token:
            self.robot.send(Command.HOLD, self.state.token, self.seq, feedback.q_target_rad)

    return [(Guard, "_send", send)]


# --- I2: a stop latches and empties ---------------------------------------------------------------------------------


@defect("arming_ignores_causes", "I2", "arming is granted, and goes on, while a cause persists")
def _():
    original = gs._on_cycle

    def on_cycle(state, event, now_s):
        return original(state, replace(event, holding={}) if state.arming is not None else event, now_s)

    def blockers(state, mode):
        return ("busy",) if state.armed or state.arming is not None or state.stopping is not None else ()

    return [(gs, "blockers", blockers), (gs, "_on_cycle", on_cycle)]


@defect("credential_not_checked", "I2", "any credential arms")
def _():
    return [(core.hmac, "compare_digest", lambda a, b: True)]


@defect("arms_during_stop", "I2", "a request during a stop under way is granted")
def _():
    original = gs._on_arm

    def on_arm(state, event):
        if state.stopping is not None and event.verified:
            state = replace(state, stopping=None, at_rest=True)
        return original(state, event)

    return [(gs, "_on_arm", on_arm)]


@defect("plan_resumed_after_arming", "I2", "what was in progress goes on after arming again")
def _():
    begin, stop = Motion.begin, Guard._stop

    def keeping(self, reaction, now_s):
        self.motion.kept = self.motion.plan
        stop(self, reaction, now_s)

    def resuming(self, q_rad, now_s):
        begin(self, q_rad, now_s)
        kept = getattr(self, "kept", None)
        if kept is not None and len(kept) > 50:
            shift = self.q_rad - kept.q_rad[0]
            self._replace(replace(kept, q_rad=kept.q_rad + shift, history_rad=kept.history_rad + shift))

    return [(Guard, "_stop", keeping), (Motion, "begin", resuming)]


@defect("first_setpoint_from_memory", "I2", "after arming the guard starts where it stopped, not where the arm is")
def _():
    begin, clear = Motion.begin, Motion.clear

    def cleared(self):
        self.kept = self.q_rad.copy()
        clear(self)

    def begun(self, q_rad, now_s):
        begin(self, getattr(self, "kept", q_rad), now_s)

    return [(Motion, "clear", cleared), (Motion, "begin", begun)]


@defect("token_not_renewed", "I2", "each arming of a process has the same token")
def _():
    original = Guard._on_arm

    def on_arm(self, client, message, now_s):
        if not hasattr(self, "one_token"):
            self.one_token, self.other = self.fresh_token(), self.fresh_token()
        self.fresh_token = lambda: self.one_token if self.state.token != self.one_token else self.other
        original(self, client, message, now_s)

    return [(Guard, "_on_arm", on_arm)]


# --- I3: no late, blind or foreign action ---------------------------------------------------------------------------


def _without(reason: str) -> list[Patch]:
    """A gate that does not refuse for one reason: the check is skipped, those behind it still run."""
    original = safety_gate.SafetyGate.check_chunk
    changes = {
        "foreign_token": lambda c, s, token, last, now: (replace(c, token=token), s, token, last, now),
        "out_of_order": lambda c, s, token, last, now: (c, s, token, -1, now),
        "expired": lambda c, s, token, last, now: (c, s, token, last, min(now, c.state_stamp_s + 0.05)),
    }

    def check_chunk(self, chunk, state, token, last_seq, now_s, published=None):
        return original(self, *changes[reason](chunk, state, token, last_seq, now_s), published)

    return [(safety_gate.SafetyGate, "check_chunk", check_chunk)]


@defect("old_token_accepted", "I3", "the token of a chunk is not compared")
def _():
    return _without("foreign_token")


@defect("out_of_order_accepted", "I3", "an older chunk replaces a newer one")
def _():
    return _without("out_of_order")


@defect("expiry_not_checked", "I3", "a chunk may answer a state of long ago")
def _():
    return _without("expired")


@defect("expiry_on_the_wall_clock", "I3", "a chunk's age is taken from the clock that somebody may set")
def _():
    original = safety_gate.SafetyGate.check_chunk

    def check_chunk(self, chunk, state, token, last_seq, now_s, published=None):
        return original(self, chunk, state, token, last_seq, now_s + WALL["offset_s"](), published)

    return [(safety_gate.SafetyGate, "check_chunk", check_chunk), (World, "begin", _remembering(World.begin))]


WALL: dict[str, Callable[[], float]] = {"offset_s": lambda: time.time()}


def _remembering(begin: Callable) -> Callable:
    def remembered(self):
        WALL["offset_s"] = lambda: self.clock.wall_offset_s
        begin(self)

    return remembered


@defect("observation_not_matched", "I3", "a chunk may name a state that was never published")
def _():
    original = safety_gate.SafetyGate.check_chunk

    def check_chunk(self, chunk, state, token, last_seq, now_s, published=None):
        return original(self, chunk, replace(state, seq=2**62), token, last_seq, now_s, None)

    return [
        (safety_gate.SafetyGate, "check_chunk", check_chunk),
        (admission.Admission, "_answered", lambda self, seq: self._published[self._newest % len(self._published)][1]),
    ]


@defect("second_commander_accepted", "I3", "whoever is connected may command")
def _():
    return [(Guard, "_may_command", lambda self, client, trace_id: True)]


# --- I4: a gate refuses ---------------------------------------------------------------------------------------------


class _Numpy:
    """numpy whose `isfinite` believes everything."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    @staticmethod
    def isfinite(values: Any) -> Any:
        return np.ones(np.shape(values), dtype=bool)


@defect("nan_through_clamp", "I4", "way-points are clamped instead of refused; NaN passes through")
def _():
    original = safety_gate.SafetyGate.admit

    def admit(self, chunk, *rest, **named):
        try:
            q = np.asarray(chunk.q_rad, dtype=float)
            low, high = self.limits.q_min_rad, self.limits.q_max_rad
            clamped = np.where(q > high, high, np.where(q < low, low, q))
        except (TypeError, ValueError):
            clamped = chunk.q_rad
        return original(self, replace(chunk, q_rad=clamped), *rest, **named)

    return [(safety_gate.SafetyGate, "admit", admit), (safety_gate, "np", _Numpy()), (interpolator, "np", _Numpy())]


@defect("tail_not_checked", "I4", "the end of a plan jumps to rest instead of braking")
def _():
    return [
        (interpolator, "stop_tail", lambda q, qd, qdd, limits, period_s, first_s: (q[None], 0 * q[None], 0 * q[None])),
        (safety_gate.SafetyGate, "check_plan", lambda self, plan, *_: Verdict(plan.trace_id, True)),
    ]


@defect("motion_not_checked", "I4", "a plan is not checked at all")
def _():
    return [(safety_gate.SafetyGate, "check_plan", lambda self, plan, *_: Verdict(plan.trace_id, True))]


@defect("workspace_not_checked", "I4", "the tool may leave its box")
def _():
    original = safety_gate.SafetyGate.__init__

    def initialised(self, limits=safety_gate.UR5_LIMITS, config=safety_gate.GateConfig(), min_clearance_m=None):
        wide = replace(limits, tool_min_m=np.full(3, -9.0), tool_max_m=np.full(3, 9.0))
        original(self, wide, config, min_clearance_m)

    return [
        (safety_gate.SafetyGate, "__init__", initialised),
        (safety_gate.collision, "path_clearance", lambda *_: _Clear()),
    ]


class _Clear:
    clearance_m, index, pair = 1.0, 0, ("", "")


@defect("setpoint_skipped", "I4", "two set-points in one cycle when the loop was late")
def _():
    original = Motion.advance

    def advance(self, now_s):
        late = bool(self._sent) and now_s - self._sent[-1][0] > 1.2 * self.period_s
        if late:
            self.index += 2
        return original(self, now_s)

    return [(Motion, "advance", advance)]


# --- I5: silence is a stop ------------------------------------------------------------------------------------------


@defect("feedback_age_ignored", "I5", "feedback counts as fresh however old it is")
def _():
    original = Guard.cycle

    def cycle(self, now_s):
        self._feedback_s = now_s
        self._controller_stamp_s = getattr(self.robot.feedback(), "controller_stamp_s", 0.0)
        self.rest._last_s = now_s - 0.001 if self.rest._since_s is not None else self.rest._last_s
        return original(self, now_s)

    return [(Guard, "cycle", cycle)]


@defect("repeated_feedback_is_fresh", "I5", "a controller that repeats itself counts as alive")
def _():
    original = Guard.cycle

    def cycle(self, now_s):
        self._controller_stamp_s = float("nan")
        return original(self, now_s)

    return [(Guard, "cycle", cycle)]


@defect("shell_not_watched", "I5", "the commander may fall silent while the arm moves")
def _():
    original = Guard._moments

    def moments(self, feedback, now_s):
        self._shell_s = now_s
        original(self, feedback, now_s)

    return [(Guard, "_moments", moments)]


@defect("lost_commander_ignored", "I5", "the commander's connection may end while armed")
def _():
    def commander_changed(self, client, now_s):
        self._commander, self._shell_s = client, now_s + 60.0

    return [(Guard, "commander_changed", commander_changed)]


@defect("source_not_watched", "I5", "a policy may stop sending while the arm moves")
def _():
    return [(watchdog.SourceWatchdog, "silent", lambda self, now_s, moving: "")]


@defect("inputs_not_watched", "I5", "AUTO goes on without perception")
def _():
    return [(watchdog.InputWatchdog, "holding", lambda self, now_s: {})]


@defect("strangers_beat_counts", "I5", "a heartbeat of anybody stands in for the commander's")
def _():
    original = Guard.handle

    def handle(self, client, message, now_s):
        known = self._commander
        if not isinstance(message, (Chunk, Gripper, Arm)):
            self._commander = client
        try:
            original(self, client, message, now_s)
        finally:
            self._commander = known if self._commander is client else self._commander

    return [(Guard, "handle", handle)]


@defect("tracking_not_watched", "I4", "an arm that does not follow is not noticed")
def _():
    return [(Motion, "tracking_fault", lambda self, *_: "")]


@defect("program_not_watched", "I1", "the guard does not notice that its program has ended")
def _():
    original = Guard._holding

    def holding(self, feedback, fresh, now_s):
        found = original(self, feedback, fresh, now_s)
        found.pop("program_lost", None)
        return found

    return [(Guard, "_holding", holding)]


@defect("cancel_dropped_before_acceptance", "I6", "a cancel that comes before its goal is forgotten")
def _():
    original = agent.Agent._take_cancels

    def take_cancels(self, inputs):
        original(self, inputs)
        self._early_cancels.clear()

    return [(agent.Agent, "_take_cancels", take_cancels)]


@defect("cancel_claims_rest", "I6", "a cancel is answered at once, while the arm still moves")
def _():
    return [(agent.Agent, "_await_rest", lambda self, inputs, new: self._conclude(True, inputs.now_s))]


@defect("cancel_answered_twice", "I6", "each cancel of a goal has a result of its own")
def _():
    original = agent.Agent._result

    def result(self, result, now_s):
        original(self, result, now_s)
        if result.code is Code.CANCELLED:
            original(self, result, now_s)

    return [(agent.Agent, "_result", result)]


# --- I6, I11, I12 ---------------------------------------------------------------------------------------------------


@defect("rest_unknown_not_said", "I6", "a stop without measured rest stays STOPPED for ever")
def _():
    return [(gs, "REST_LIMIT_S", 1e9)]


@defect("stop_opens_gripper", "I12", "a stop writes the gripper")
def _():
    original = Guard._stop

    def stop(self, reaction, now_s):
        self.robot.command_gripper(0.085)
        original(self, reaction, now_s)

    return [(Guard, "_stop", stop)]


@defect("gripper_token_ignored", "I12", "a gripper order of an earlier arming is obeyed")
def _():
    original = Guard._on_gripper
    return [(Guard, "_on_gripper", lambda self, client, m: original(self, client, replace(m, token=self.state.token)))]


@defect("never_arms_again_after_rest_unknown", "I11", "REST_UNKNOWN is a dead end")
def _():
    original = gs._on_rest

    def on_rest(state, at_rest, now_s):
        if state.mode is Mode.REST_UNKNOWN:
            return state, ()
        return original(state, at_rest, now_s)

    return [(gs, "_on_rest", on_rest)]


@defect("crash_on_early_feedback", "I11", "an exception when a measurement is missing")
def _():
    original = Guard._publishable

    def publishable(self, feedback, at_rest, now_s):
        if feedback.program_state in ALIVE:
            pass
        return original(self, feedback, at_rest, now_s)

    return [(Guard, "_publishable", publishable)]
