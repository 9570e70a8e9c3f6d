"""Values of URScript: int, float, bool, str, list, pose; and `Wait`, by which a builtin consumes time."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Pose(list):
    """p[x, y, z, rx, ry, rz]: six floats, metres and an axis-angle vector in radians. Not equal to a plain list."""

    def __init__(self, values: Any):
        super().__init__(float(v) for v in values)
        if len(self) != 6:
            raise ValueError(f"a pose has 6 numbers, not {len(self)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pose) and list.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None


class Wait:
    """Returned by a builtin that takes time.

    done: polled once per cycle from the next cycle on; the thread goes on when it is true.
    result: the value of the call, or a function called once when done.
    cancel: called once if the thread is killed or the program ends while waiting.
    """

    __slots__ = ("done", "result", "cancel")

    def __init__(self, done: Callable[[], bool], result: Any = None, cancel: Callable[[], None] | None = None):
        self.done = done
        self.result = result
        self.cancel = cancel

    def value(self) -> Any:
        """The value of the call, taken when done."""
        return self.result() if callable(self.result) else self.result


def type_name(value: Any) -> str:
    """The word used in messages for the type of a value."""
    if value is None:
        return "nothing"
    return {bool: "bool", int: "int", float: "float", str: "string", list: "list", Pose: "pose"}.get(
        type(value), type(value).__name__
    )


def copied(value: Any) -> Any:
    """Lists and poses are values: assignment and passing copy them."""
    if type(value) is list:
        return [copied(v) for v in value]
    return Pose(value) if type(value) is Pose else value


def to_text(value: Any) -> str:
    """As `to_str` and `textmsg` print a value (script manual, module internals, to_str)."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return ("p" if isinstance(value, Pose) else "") + "[" + ", ".join(to_text(v) for v in value) + "]"
    return str(value)
