"""I1 and I2: stops that do not win, arming without a right to it."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from steadyhand import guard_state as gs
from steadyhand import watchdog
from steadyhand.protocols import ArmingPhase, Command
from steadyhand_cli.dst.planted.defect import Table
from steadyhand_firmware_bridge.guard import base, core, motion

TABLE = Table()
defect = TABLE.enter
Guard, Motion = core.Guard, motion.Motion


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


@defect("stop_leaves_upload", "I1", "a stop during arming does not take the program back that is on its way")
def _():
    original = Guard._stop

    def stop(self, reaction, cause, now_s):
        kept = self.robot.stop_program
        if self.robot.arming().phase is ArmingPhase.UNDER_WAY:
            self.robot.stop_program = lambda now_s: None
        original(self, reaction, cause, now_s)
        self.robot.stop_program = kept

    return [(Guard, "_stop", stop)]


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
    return [(base.hmac, "compare_digest", lambda a, b: True)]


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

    def keeping(self, reaction, cause, now_s):
        self.motion.kept = self.motion.plan
        stop(self, reaction, cause, now_s)

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
