"""The runtime of one program (under construction: the interface below is settled)."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from steadyhand_sim.urscript.errors import ScriptError

STATEMENTS_PER_CYCLE = 20_000


class State(Enum):
    """What became of the program."""

    RUNNING = "running"
    PAUSED = "paused"
    FINISHED = "finished"  # the end of the program was reached
    HALTED = "halted"  # `halt` was executed
    KILLED = "killed"  # stopped from outside: dashboard, a new program, a safety stop
    FAILED = "failed"  # a run-time error, see Machine.error


class Machine:
    """One uploaded program. Raises ScriptError when the text is malformed (or, strict, when it calls unknown names)."""

    def __init__(
        self,
        source: str,
        builtins: Mapping[str, Callable[..., Any]],
        *,
        steptime_s: float = 0.008,
        strict: bool | None = None,  # None: by the header, see is_strict_program
        on_message: Callable[[str], None] | None = None,  # textmsg, popup
        statements_per_cycle: int = STATEMENTS_PER_CYCLE,
    ):
        self.state = State.RUNNING
        self.error: ScriptError | None = None
        self.name = ""  # of the program: `def NAME():`
        self.cycle = 0
        raise NotImplementedError

    def tick(self) -> State:
        """Advance one controller cycle. A paused program does nothing; an ended one stays ended. Never raises."""

    def pause(self) -> None:
        """Freeze all threads; waits are not polled."""

    def resume(self) -> None:
        """Go on after `pause`."""

    def kill(self) -> None:
        """End the program from outside."""

    @property
    def running(self) -> bool:
        """True while RUNNING or PAUSED."""
        return self.state in (State.RUNNING, State.PAUSED)


def is_strict_program(source: str) -> bool:
    """True for our own program, which is checked entirely at upload."""
    raise NotImplementedError
