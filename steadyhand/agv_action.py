"""What a vehicle does at a way-point or on the way to it (VDA 5050: actions of nodes and edges), checked by name. Pure.

How an action blocks is VDA 5050's (2.1.0, 6.12): NONE runs beside driving and other actions, SOFT beside other actions
but not while driving, HARD alone and not while driving.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

BLOCKING = ("NONE", "SOFT", "HARD")
MAX_ACTIONS, MAX_PARAMETERS, MAX_TEXT = 32, 16, 64  # of one way-point; of one action; characters


@dataclass(frozen=True)
class Action:
    """`kind` is the vehicle's name for it, such as pick, drop or one of its manufacturer's own."""

    kind: str
    blocking: str = "HARD"
    parameters: Mapping[str, str | float | bool] = field(default_factory=dict)


def wrong(action: Action) -> str:
    """What is wrong with an action, naming field and value; empty when nothing is."""
    if not _name(action.kind):
        return f"kind={shown(action.kind)}: give the vehicle's name of the action, 1 to {MAX_TEXT} characters"
    if action.blocking not in BLOCKING:
        return f"blocking={shown(action.blocking)}: give one of {', '.join(BLOCKING)}"
    if not isinstance(action.parameters, Mapping) or len(action.parameters) > MAX_PARAMETERS:
        return f"parameters={shown(action.parameters)}: give a map of at most {MAX_PARAMETERS}"
    for key, value in action.parameters.items():
        if not _name(key):
            return f"parameters: key {shown(key)}: give 1 to {MAX_TEXT} characters"
        if isinstance(value, str) and len(value) <= MAX_TEXT or isinstance(value, bool):
            continue
        if not isinstance(value, (int, float)) or not math.isfinite(value):
            return f"parameters.{key}={shown(value)}: give a finite number, true, false or {MAX_TEXT} characters"
    return ""


def read(entry: Any) -> Action | str:
    """The action in a map with `kind`, `blocking` (HARD when left out) and `parameters`; else what is wrong with it."""
    if not isinstance(entry, Mapping):
        return f"{shown(entry)}: give a map with kind, blocking and parameters"
    unknown = set(entry) - {"kind", "blocking", "parameters"}
    if unknown:
        return f"unknown field {min(map(str, unknown))[:40]!r}: give kind, blocking and parameters"
    action = Action(entry.get("kind", ""), entry.get("blocking", "HARD"), entry.get("parameters", {}))
    return wrong(action) or action


def plain(action: Action) -> dict[str, Any]:
    """As `read` takes it."""
    return {"kind": action.kind, "blocking": action.blocking, "parameters": dict(action.parameters)}


def shown(value: Any) -> str:
    """A value for a message: whatever a client sent, however deeply nested."""
    if isinstance(value, (str, bytes, int, float)) or value is None:
        return repr(value)[:40]
    return f"a {type(value).__name__}"


def _name(value: Any) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= MAX_TEXT and value.isprintable()
