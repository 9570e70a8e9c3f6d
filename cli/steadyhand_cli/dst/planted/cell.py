"""I13 and I5: a partner in the cell that is not heard or not told the truth, an interlock that is not asked."""
from __future__ import annotations

from dataclasses import replace

from steadyhand import guard_state as gs
from steadyhand import stop_domain, watchdog
from steadyhand.guard_protocol import Beat
from steadyhand_cli.dst.planted.defect import Patch, Table
from steadyhand_firmware_bridge.guard import core, zone

TABLE = Table()
defect = TABLE.enter
Guard, Zone, StopDomain = core.Guard, zone.Zone, stop_domain.StopDomain


def _deaf_to(field: str) -> list[Patch]:
    """News of a beat that differs from the one before in this field is none."""
    original = StopDomain.hear

    def hear(self, beat, now_s):
        before = self._beats.get(beat.guard)
        if before is not None:
            self._beats[beat.guard] = replace(before, **{field: getattr(beat, field)})
        return original(self, beat, now_s)

    return [(StopDomain, "hear", hear)]


@defect("partners_stop_ignored", "I13", "the other guard's stop does not stop this arm")
def _():
    return _deaf_to("stops")


@defect("partners_restart_ignored", "I13", "another guard that was started anew counts as the one before")
def _():
    return _deaf_to("boot")


@defect("silent_partner_is_clear", "I13", "what the other guard said last holds for ever")
def _():
    def as_if_heard(original):
        def heard(self, *given):
            kept, self.timeout_s = self.timeout_s, float("inf")
            try:
                return original(self, *given)
            finally:
                self.timeout_s = kept

        return heard

    return [(StopDomain, name, as_if_heard(getattr(StopDomain, name))) for name in ("holding", "occupied")]


@defect("partners_safety_ignored", "I13", "the safety stop of the other robot does not keep this arm from arming")
def _():
    original = StopDomain.hear
    return [(StopDomain, "hear", lambda self, beat, now_s: original(self, replace(beat, unsafe=""), now_s))]


@defect("told_clear_while_reaching", "I13", "the arm announces where it is, not where its plan will lead it")
def _():
    original = Zone.says
    return [(Zone, "says", lambda self, q_rad, plan, *rest: original(self, q_rad, None, *rest))]


@defect("told_clear_without_feedback", "I13", "without feedback the arm announces where it was")
def _():
    original = Guard._zone

    def where_it_was(self):
        kept, self._fresh = self._fresh, self.robot.feedback() is not None
        try:
            return original(self)
        finally:
            self._fresh = kept

    return [(Guard, "_zone", where_it_was)]


@defect("interlock_not_asked", "I13", "a plan may reach over a vehicle that claims the place")
def _():
    return [(Zone, "forbids", lambda self, plan, q_rad: False)]


@defect("own_fault_not_told", "I13", "only what an operator stops is told to the other guard")
def _():
    return [(stop_domain, "begins_here", lambda event, decisions: isinstance(event, gs.StopRequest))]


@defect("partners_stop_told_on", "I13", "a stop that the other guard caused is told as one that began here")
def _():
    original = stop_domain.begins_here

    def begins_here(event, decisions):
        return original(event, decisions) or any(isinstance(d, gs.Stop) for d in decisions)

    return [(stop_domain, "begins_here", begins_here)]


@defect("own_safety_not_told", "I13", "the other guard is not told that this robot's safety acted")
def _():
    def beat(self) -> Beat:
        return Beat(self.config.name, self._boot, self._stops, self._stop_cause, "", self._zone())

    return [(Guard, "beat", beat)]


@defect("moving_input_watched_at_rest_only", "I5", "an input with a tighter limit while the arm moves is not held to it")
def _():
    original = watchdog.InputWatchdog.holding
    return [(watchdog.InputWatchdog, "holding", lambda self, now_s, moving: original(self, now_s, False))]
