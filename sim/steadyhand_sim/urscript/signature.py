"""Names, order and defaults of a function's parameters, for builtins and for functions of the program alike."""
from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Signature:
    """`instant`: the function never returns a Wait. `injected`: it is not the interpreter's own."""

    name: str
    params: tuple[str, ...]
    defaults: dict[str, Any] = field(default_factory=dict)
    function: Callable[..., Any] | None = None
    instant: bool = False
    injected: bool = False

    def mismatch(self, positional: int, named: tuple[str, ...]) -> str | None:
        """What is wrong with a call of this shape, or None."""
        if positional > len(self.params):
            return f"{self.name} takes at most {len(self.params)} arguments, got {positional}"
        for name in named:
            if name not in self.params:
                return f"{self.name} has no parameter {name}"
            if name in self.params[:positional]:
                return f"{self.name}: argument {name} twice"
        given = {*self.params[:positional], *named}
        missing = [p for p in self.params if p not in given and p not in self.defaults]
        return f"{self.name} needs {', '.join(missing)}" if missing else None

    def arranger(self, positional: int, named: tuple[str, ...]) -> Callable[[tuple], tuple]:
        """A function that puts the values of such a call (positional, then named) in the order of the parameters."""
        if not named and positional == len(self.params):
            return lambda values: values
        given = {**{p: i for i, p in enumerate(self.params[:positional])},
                 **{n: positional + i for i, n in enumerate(named)}}
        slots = tuple((given.get(p), self.defaults.get(p)) for p in self.params)
        return lambda values: tuple(default if slot is None else values[slot] for slot, default in slots)


def of_python(name: str, function: Callable[..., Any], injected: bool = True) -> Signature:
    """The signature of a Python function. Raises TypeError for *args, **kwargs and keyword-only parameters.

    An injected function is instant when its return annotation says so, i.e. names neither Wait nor Any. A trailing
    underscore (`str_`) keeps clear of Python's own names and is no part of the parameter's.
    """
    params, defaults = [], {}
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            raise TypeError(f"builtin {name}: parameter {parameter.name} must be an ordinary one")
        params.append(parameter.name.rstrip("_"))
        if parameter.default is not parameter.empty:
            defaults[params[-1]] = parameter.default
    returned = "Any" if signature.return_annotation is signature.empty else str(signature.return_annotation)
    instant = not injected or not ("Wait" in returned or "Any" in returned)
    return Signature(name, tuple(params), defaults, function, instant, injected)
