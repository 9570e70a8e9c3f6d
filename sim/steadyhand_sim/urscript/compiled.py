"""What the compiler makes of a node: a closure, and how its execution ends or waits."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from steadyhand_sim.urscript import nodes
from steadyhand_sim.urscript.errors import ScriptError
from steadyhand_sim.urscript.signature import Signature

BREAK, CONTINUE = object(), object()  # how a statement ended, besides None and Returned


class Returned(NamedTuple):
    """A `return` was executed."""

    value: Any


class Join:
    """Yielded by `join`: the thread goes on when the other has ended, in the same cycle if that one ends in it."""

    __slots__ = ("handle",)

    def __init__(self, handle: int):
        self.handle = handle


class Code(NamedTuple):
    """A compiled node: `run(env)`, a generator function when `waits`."""

    waits: bool
    run: Callable[[dict], Any]


@dataclass
class Routine:
    """A compiled def or thread; `body` is filled in after all signatures are known, so that calls may be recursive."""

    function: nodes.Function
    signature: Signature
    body: Code | None = None


def refuse(line: int, error: Exception | str) -> ScriptError:
    """The error as it is reported: with a line, unless it has one."""
    if isinstance(error, ScriptError) and error.line:
        return error
    reason = error.reason if isinstance(error, ScriptError) else str(error)
    return ScriptError(reason or type(error).__name__, line)
