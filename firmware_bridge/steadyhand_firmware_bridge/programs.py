"""Which program runs on the controller, and what it said when it ended: ours, or somebody else's. Pure.

The controller tells by messages of its primary port (names, script errors) and by RTDE (running, our registers). Where
the messages do not come (port blocked) a running program that is not ours is noticed by RTDE alone, a second later.
"""
from __future__ import annotations

import math
from collections.abc import Iterable

from steadyhand.protocols import ALIVE, Feedback
from steadyhand_firmware_bridge.primary import KeyEvent, ScriptError

OWN_NAME = "steadyhand"
STARTED, STOPPED = "PROGRAM_XXX_STARTED", "PROGRAM_XXX_STOPPED"
UNNAMED_S = 1.0  # our own program takes less than that to end, from its last state on
FIRST_HEARTBEAT_S = 3.0  # and this to give up when nobody speaks to it


class Programs:
    """Feed it every event and every new feedback; `troubles` says what to tell people."""

    def __init__(self) -> None:
        self._name = ""  # of the program that runs, as its start told
        self._error = ""
        self._foreign_since_s = math.inf
        self._now_s = -math.inf
        self._running = False

    def begin_arming(self) -> None:
        """What was said before is of no interest any more."""
        self._error = ""

    def begin_session(self) -> None:
        """What ended or began meanwhile was not heard: RTDE alone tells, until the next message."""
        self._name = ""

    @property
    def error(self) -> str:
        """The script error since the arming began; empty when there is none."""
        return self._error

    def told(self, events: Iterable[ScriptError | KeyEvent]) -> None:
        """Messages of the primary port, in order."""
        for event in events:
            if isinstance(event, ScriptError):
                self._error = str(event)
            elif event.title == STARTED:
                self._name = event.text or "unnamed"
            elif event.title == STOPPED:
                self._name = ""

    def update(self, feedback: Feedback, token: int, now_s: float) -> None:
        """`token` is that of the newest arming, 0 before the first."""
        self._now_s, self._running = now_s, feedback.program_running
        ours = feedback.program_token == token and (feedback.program_state in ALIVE or self._name == OWN_NAME)
        if not feedback.program_running or ours:
            self._foreign_since_s = math.inf
        elif self._foreign_since_s == math.inf:
            self._foreign_since_s = now_s

    def troubles(self, armed_or_arming: bool) -> dict[str, str]:
        """`script_error` until the next arming; `foreign_program` while one runs that we have not started."""
        wrong = {"script_error": self._error} if self._error else {}
        if armed_or_arming or not self._running:
            return wrong
        named = self._name not in ("", OWN_NAME)
        running_s = self._now_s - self._foreign_since_s
        if running_s >= 0.0 if named else running_s >= (FIRST_HEARTBEAT_S if self._name == OWN_NAME else UNNAMED_S):
            what = f"program {self._name!r}" if self._name else "a program"
            wrong["foreign_program"] = (
                f"{what} runs that this guard has not started: at the pendant, or by another client; it may move the arm. "
                "Stop it there, or let the next arming end it"
            )
        return wrong
