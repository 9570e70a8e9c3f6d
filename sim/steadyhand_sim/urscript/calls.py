"""Which functions a program calls that it does not define: what a controller must offer to run it."""
from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from steadyhand_sim.urscript import nodes
from steadyhand_sim.urscript.parser import parse


def called_names(source: str) -> set[str]:
    """Names of the builtins a program calls anywhere. Raises ScriptError when the text is malformed."""
    called: set[str] = set()
    _visit(parse(source), frozenset(), called)
    return called


def _visit(node: Any, defined: frozenset[str], called: set[str]) -> None:
    if isinstance(node, (list, tuple)):
        for item in node:
            _visit(item, defined, called)
    elif isinstance(node, dict):
        _visit(list(node.values()), defined, called)
    elif is_dataclass(node):
        if isinstance(node, nodes.Function):
            defined = defined | set(node.functions)
        if isinstance(node, nodes.Call) and node.name not in defined:
            called.add(node.name)
        for field in fields(node):
            _visit(getattr(node, field.name), defined, called)
