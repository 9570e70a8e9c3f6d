"""I4 and I5: silence, and an arm that does not follow, that nobody notices."""
from __future__ import annotations

from steadyhand import watchdog
from steadyhand.guard_protocol import Arm, Chunk, Gripper
from steadyhand_cli.dst.planted.defect import Table
from steadyhand_firmware_bridge.guard import core, motion

TABLE = Table()
defect = TABLE.enter
Guard, Motion = core.Guard, motion.Motion


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
    return [(watchdog.InputWatchdog, "holding", lambda self, now_s, moving: {})]


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
