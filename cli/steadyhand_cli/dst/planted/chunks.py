"""I3 and I4: late, blind and foreign chunks, and motion that the gate should refuse."""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from steadyhand import collision, interpolator, safety_gate
from steadyhand.types import Reason, Verdict
from steadyhand_cli.dst.planted.defect import Patch, Table
from steadyhand_cli.dst.world import World
from steadyhand_firmware_bridge.guard import admission, core, motion

TABLE = Table()
defect = TABLE.enter
Guard, Motion = core.Guard, motion.Motion


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


@defect("self_collision_not_checked", "I4", "the arm may be led into itself")
def _():
    far = collision.Clearance(1.0, 0, ("base", "hand"))
    return [(collision, "path_clearance", lambda *_, **__: far)]


@defect("twice_the_jerk", "I4", "the gate allows twice the jerk")
def _():
    original = safety_gate._limit

    def limit(limits, reason):
        return original(limits, reason) * (2.0 if reason is Reason.JERK else 1.0)

    return [(safety_gate, "_limit", limit)]


@defect("second_commander_accepted", "I3", "whoever is connected may command")
def _():
    return [(Guard, "_may_command", lambda self, client, trace_id: True)]


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


@defect("workspace_not_checked", "I4", "the tool may leave its box, and go into the table")
def _():
    original, clearance = safety_gate.SafetyGate.__init__, collision.path_clearance

    def initialised(self, limits=safety_gate.UR5_LIMITS, config=safety_gate.GateConfig(), min_clearance_m=None):
        wide = replace(limits, tool_min_m=np.full(3, -9.0), tool_max_m=np.full(3, 9.0))
        original(self, wide, config, min_clearance_m)

    return [
        (safety_gate.SafetyGate, "__init__", initialised),
        # of the arm itself only: a defect that lets it into itself is another one
        (collision, "path_clearance", lambda *given: clearance(*given, table=False)),
    ]


@defect("setpoint_skipped", "I4", "two set-points in one cycle when the loop was late")
def _():
    original = Motion.advance

    def advance(self, now_s):
        late = bool(self._sent) and now_s - self._sent[-1][0] > 1.2 * self.period_s
        if late:
            self.index += 2
        return original(self, now_s)

    return [(Motion, "advance", advance)]
