"""The tree of a program. Every node knows its line; expressions know their depth, which the parser bounds."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Literal:
    value: Any
    line: int
    depth: int = 1


@dataclass(slots=True)
class Name:
    name: str
    line: int
    depth: int = 1


@dataclass(slots=True)
class Sequence:
    """[a, b] or, when `pose`, p[a, b, c, d, e, f]."""

    items: list
    pose: bool
    line: int
    depth: int


@dataclass(slots=True)
class Operation:
    """Unary (one operand: `-`, `+`, `not`) or binary."""

    operator: str
    operands: list
    line: int
    depth: int


@dataclass(slots=True)
class Index:
    """base[i] or base[i, j]."""

    base: Any
    indices: list
    line: int
    depth: int


@dataclass(slots=True)
class Call:
    """name(positional, ..., key=value); `run name(...)` when `as_thread`."""

    name: str
    positional: list
    named: dict
    as_thread: bool
    line: int
    depth: int


@dataclass(slots=True)
class Assign:
    """target = value. `scope`: "" (free), "global" or "local". `indices`: empty, or those of target[i] = value."""

    name: str
    indices: list
    value: Any
    scope: str
    line: int


@dataclass(slots=True)
class Evaluate:
    """A call as a statement."""

    call: Call
    line: int


@dataclass(slots=True)
class If:
    """branches: (condition or None for else, block)."""

    branches: list
    line: int


@dataclass(slots=True)
class While:
    condition: Any
    body: list
    line: int


@dataclass(slots=True)
class Switch:
    """cases: (literal or None for default, block)."""

    subject: Any
    cases: list
    line: int


@dataclass(slots=True)
class Return:
    value: Any
    line: int


@dataclass(slots=True)
class Simple:
    """word: break, continue, pass, halt, enter_critical, exit_critical."""

    word: str
    line: int


@dataclass(slots=True)
class OnThread:
    """join EXPRESSION or kill EXPRESSION."""

    word: str
    handle: Any
    line: int


@dataclass(slots=True)
class Function:
    """def, thread or sec. `defaults[k]` is the default of `params[k]`, or None. Nested definitions in `functions`."""

    kind: str
    name: str
    params: list
    defaults: list
    body: list
    line: int
    functions: dict = field(default_factory=dict)
