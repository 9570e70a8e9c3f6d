"""I5 and I3: operators in control and in command who are not watched, or not alone."""
from __future__ import annotations

from steadyhand import watchdog
from steadyhand_cli.dst.planted.defect import Table
from steadyhand_firmware_bridge.guard import core

TABLE = Table()
defect = TABLE.enter
Guard = core.Guard


@defect("operator_link_not_watched", "I5", "an operator in control may fall silent")
def _():
    return [(watchdog.LinkWatchdog, "holding", lambda self, now_s: {})]


@defect("operator_link_loss_ignored", "I5", "the connection of an operator in control may end without a stop")
def _():
    def gone(self, client):
        self._links.pop(client, None)
        return ""

    return [(watchdog.LinkWatchdog, "gone", gone)]


@defect("shell_commands_beside_operator", "I3", "while an operator commands, the shell commands too")
def _():
    original = Guard._may_command

    def may_command(self, client, trace_id):
        return client is self._commander or original(self, client, trace_id)

    return [(Guard, "_may_command", may_command)]


@defect("operator_in_command_not_watched", "I5", "an operator in command may fall silent while the arm moves")
def _():
    original = Guard._moments

    def moments(self, feedback, now_s):
        if self._manual is not None:
            self._shell_s = now_s
        original(self, feedback, now_s)

    return [(Guard, "_moments", moments)]


@defect("operator_in_command_may_vanish", "I5", "command falls back to the shell when the operator's connection ends")
def _():
    original = Guard.forget

    def forget(self, client, now_s):
        if client is self._manual:
            self._manual = None
        original(self, client, now_s)

    return [(Guard, "forget", forget)]
