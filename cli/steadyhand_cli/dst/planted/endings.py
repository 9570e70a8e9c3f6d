"""I6, I11 and I12: cancels and rest that are not told, recovery that fails, the gripper."""
from __future__ import annotations

from dataclasses import replace

from steadyhand import agent
from steadyhand import guard_state as gs
from steadyhand.protocols import ALIVE
from steadyhand.task import Code
from steadyhand.types import Mode
from steadyhand_cli.dst.planted.defect import Table
from steadyhand_firmware_bridge.guard import core

TABLE = Table()
defect = TABLE.enter
Guard = core.Guard


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


@defect("rest_unknown_not_said", "I6", "a stop without measured rest stays STOPPED for ever")
def _():
    return [(gs, "REST_LIMIT_S", 1e9)]


@defect("stop_opens_gripper", "I12", "a stop writes the gripper")
def _():
    original = Guard._stop

    def stop(self, reaction, cause, now_s):
        self.robot.command_gripper(0.085)
        original(self, reaction, cause, now_s)

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


@defect("crash_on_early_feedback", "I11", "an exception when a measurement is missing", raises=True)
def _():
    original = Guard._publishable

    def publishable(self, feedback, at_rest, now_s):
        if feedback.program_state in ALIVE:
            pass
        return original(self, feedback, at_rest, now_s)

    return [(Guard, "_publishable", publishable)]
