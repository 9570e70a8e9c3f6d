"""Judges the guard's part towards operators with a connection of their own (I5): in command, and in control.

An operator in command is one whose own arming asked for that; then it alone commands, 100 ms of its silence stop a
moving arm, and so does the end of its connection. An operator in control beats on the operator link: 500 ms of silence
stop, and so does the end of its connection without an orderly end of the link.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steadyhand.guard_protocol import Arm, Link, Reply

IN_COMMAND_LIMIT_S, IN_CONTROL_LIMIT_S = 0.100, 0.500


class OperatorsChecker:
    """`manual` is the connection in command, None while the shell may command."""

    def __init__(self, report: Callable[[str, float, str], None], must_stop: Callable[[float, str], None]):
        self._report, self._must_stop = report, must_stop
        self.reset()

    def reset(self) -> None:
        """A new guard."""
        self.manual: Any = None
        self._manual_s = float("-inf")
        self._asked: dict[str, Any] = {}  # requests to arm and command: id -> connection
        self._in_control: dict[Any, float] = {}  # connection -> last beat

    def commands(self, client: Any) -> bool:
        """Whether this connection may command now."""
        return client is self.manual if self.manual is not None else client.commander

    def message(self, now_s: float, client: Any, message: Any) -> None:
        """One message is about to be handled."""
        if client is self.manual:
            self._manual_s = now_s
        if isinstance(message, Link):
            if message.in_control:
                self._in_control[client] = now_s
            else:
                self._in_control.pop(client, None)
        elif isinstance(message, Arm) and message.command:
            self._asked[message.request_id] = client

    def armed(self, now_s: float, client: Any, reply: Reply) -> None:
        """The guard says that it armed for this connection's request."""
        self.manual = client if self._asked.get(reply.request_id) is client else None
        self._manual_s, self._asked = now_s, {}

    def gone(self, now_s: float, client: Any) -> None:
        """A connection has ended."""
        if self._in_control.pop(client, None) is not None:
            self._must_stop(now_s, "the connection of an operator in control ended")
        if client is self.manual:
            self._must_stop(now_s, "the connection of the operator in command ended")

    def silent(self, now_s: float, grace_s: float) -> bool:
        """Whether an operator in control is silent."""
        return any(now_s - last_s > IN_CONTROL_LIMIT_S + grace_s for last_s in self._in_control.values())

    def while_armed(self, now_s: float, moving: bool, period_s: float) -> None:
        """A cycle, armed."""
        if moving and self.manual is not None and now_s - self._manual_s > IN_COMMAND_LIMIT_S + period_s:
            self._report("I5", now_s, "still armed: the operator in command is silent while the arm moves")
