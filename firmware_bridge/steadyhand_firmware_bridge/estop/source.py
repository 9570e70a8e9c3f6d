"""The loop common to all plug-ins: ask the input, pass stops on, say so when a stop was not delivered."""
from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Protocol

from steadyhand.errors import RobotError

REPEAT_S = 0.1  # while an input asks for a stop


class StopInput(Protocol):
    """Something that may ask for a stop."""

    name: str  # source of the stop, such as "estop:serial"
    poll_s: float  # longest wait between two polls

    def open(self) -> None:
        """Open the input; raises SteadyhandError when it cannot be used at all."""

    def fileno(self) -> int:
        """For select; -1 when there is nothing to wait for but time."""

    def poll(self, now_s: float) -> str:
        """Why a stop is asked for now; empty when none is. Never raises for what the input does."""

    @property
    def ended(self) -> bool:
        """Whether the input is over for good (a terminal that was closed)."""

    def close(self) -> None:
        """Give the input back as it was."""


class Repeater:
    """Which stop to send when: at once when the reason is new, then every `REPEAT_S` while it lasts. Pure."""

    def __init__(self) -> None:
        self._reason, self._sent_s = "", 0.0
        self.undelivered = 0

    def due(self, reason: str, now_s: float) -> bool:
        """Whether this reason is to be sent now."""
        news = reason != self._reason
        self._reason = reason
        if not reason or not (news or now_s - self._sent_s >= REPEAT_S):
            return False
        self._sent_s = now_s
        return True

    def failed(self) -> None:
        """The last one was not delivered: due again at the next poll."""
        self.undelivered += 1
        self._sent_s = float("-inf")


def run(
    source: StopInput, stop: Callable[[str, str], None], tell: Callable[[str], None], ending: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Serve until `ending()` or the input is over; 0, or 1 when the last stop was not delivered.

    `stop(source, reason)` raises RobotError when no guard takes the request. An error here ends in a stop too.
    """
    repeater, told, code = Repeater(), "", 0
    source.open()
    try:
        tell(f"{source.name}: watching; software stop only, the wired emergency stop stays the safety function")
        while not ending() and not source.ended:
            wait = [source.fileno()] if source.fileno() >= 0 else []
            try:
                select.select(wait, [], [], source.poll_s)
            except (OSError, ValueError):
                pass  # closed under us: poll says what it means
            reason = source.poll(clock())
            if repeater.due(reason, clock()):
                try:
                    stop(source.name, reason)
                except RobotError as error:
                    repeater.failed()
                    reason = f"{reason} - NOT DELIVERED: {error}"
            if reason != told:
                tell(f"{source.name}: {'STOP: ' + reason if reason else 'released'}")
                told = reason
    finally:
        try:
            stop(source.name, "the plug-in ends")
        except RobotError:
            code = 1
        source.close()
    return code
