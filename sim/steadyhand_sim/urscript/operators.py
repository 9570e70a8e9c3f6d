"""Operators and indexing: types are checked, nothing is converted silently, integers stay within 32 bits.

Division of two integers gives a float. `and` and `or` evaluate both sides: that the controller skips the second one is
documented nowhere, so a program that relies on it is found out here.
"""
from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from steadyhand_sim.urscript.lexer import INT_MAX, INT_MIN
from steadyhand_sim.urscript.values import Pose, type_name

MAX_TEXT_CHARS = 65_536
MAX_LIST_ITEMS = 4_096
_NUMBERS = (int, float)


def _number_pair(symbol: str, a: Any, b: Any) -> None:
    if type(a) not in _NUMBERS or type(b) not in _NUMBERS:
        raise TypeError(f"`{symbol}` needs two numbers, got {type_name(a)} and {type_name(b)}")


def checked(value: Any) -> Any:
    """`value`, unless it is an integer that does not fit in 32 bits (ValueError)."""
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        raise ValueError("integer overflow: the result does not fit in 32 bits")
    return value


def _remainder(a: int | float, b: int | float) -> int | float:
    if b == 0:
        raise ZeroDivisionError
    return math.fmod(a, b) if float in (type(a), type(b)) else int(math.fmod(a, b))


def _arithmetic(symbol: str, function: Callable) -> Callable:
    def apply(a: Any, b: Any) -> Any:
        _number_pair(symbol, a, b)
        try:
            return checked(function(a, b))
        except OverflowError:
            raise ValueError(f"`{symbol}`: the result is too large") from None
        except ZeroDivisionError:
            raise ValueError("division by zero") from None

    return apply


_add_numbers = _arithmetic("+", operator.add)


def _add(a: Any, b: Any) -> Any:
    if type(a) is str and type(b) is str:
        return text(a + b)
    return _add_numbers(a, b)


def text(value: str) -> str:
    """`value`, unless it is too long (ValueError)."""
    if len(value) > MAX_TEXT_CHARS:
        raise ValueError(f"string of {len(value)} characters, limit {MAX_TEXT_CHARS}")
    return value


def _compare(symbol: str, function: Callable) -> Callable:
    def apply(a: Any, b: Any) -> bool:
        _number_pair(symbol, a, b)
        return function(a, b)

    return apply


def _equal(a: Any, b: Any) -> bool:
    if type(a) in _NUMBERS and type(b) in _NUMBERS or type(a) is type(b) and a is not None:
        return a == b
    raise TypeError(f"cannot compare {type_name(a)} with {type_name(b)}")


def boolean(value: Any, where: str) -> bool:
    """`value` when it is a bool; TypeError otherwise (numbers are not truth values)."""
    if type(value) is not bool:
        raise TypeError(f"{where} needs True or False, got {type_name(value)}")
    return value


def _logical(symbol: str, function: Callable) -> Callable:
    def apply(a: Any, b: Any) -> bool:
        return function(boolean(a, f"`{symbol}`"), boolean(b, f"`{symbol}`"))

    return apply


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "+": _add,
    "-": _arithmetic("-", operator.sub),
    "*": _arithmetic("*", operator.mul),
    "/": _arithmetic("/", operator.truediv),
    "%": _arithmetic("%", _remainder),
    "==": _equal,
    "!=": lambda a, b: not _equal(a, b),
    "<": _compare("<", operator.lt),
    ">": _compare(">", operator.gt),
    "<=": _compare("<=", operator.le),
    ">=": _compare(">=", operator.ge),
    "and": _logical("and", operator.and_),
    "or": _logical("or", operator.or_),
    "xor": _logical("xor", operator.xor),
}


def _sign(symbol: str, function: Callable) -> Callable:
    def apply(a: Any) -> Any:
        if type(a) not in _NUMBERS:
            raise TypeError(f"`{symbol}` needs a number, got {type_name(a)}")
        return checked(function(a))

    return apply


UNARY: dict[str, Callable[[Any], Any]] = {
    "-": _sign("-", operator.neg),
    "+": _sign("+", operator.pos),
    "not": lambda a: not boolean(a, "`not`"),
}


def _position(items: Any, index: Any) -> int:
    if not isinstance(items, list):
        raise TypeError(f"cannot index a {type_name(items)}")
    if type(index) is not int:
        raise TypeError(f"an index is an integer, not a {type_name(index)}")
    if not 0 <= index < len(items):
        raise ValueError(f"index {index} is outside of 0..{len(items) - 1}")
    return index


def get_item(items: Any, *indices: int) -> Any:
    """items[i] or items[i, j]."""
    for index in indices:
        items = items[_position(items, index)]
    return items


def set_item(items: Any, value: Any, *indices: int) -> None:
    """items[i] = value; a pose takes numbers only, and an element keeps its kind."""
    if isinstance(value, list):
        _check_size([items, value])
    for index in indices[:-1]:
        items = items[_position(items, index)]
    index = _position(items, indices[-1])
    if isinstance(items, Pose):
        if type(value) not in _NUMBERS:
            raise TypeError(f"a pose holds numbers, not a {type_name(value)}")
        value = float(value)
    elif isinstance(value, list) != isinstance(items[index], list):
        raise TypeError(f"an element that is a {type_name(items[index])} cannot become a {type_name(value)}")
    items[index] = value


def make_list(*items: Any) -> list:
    """[a, b, ...]."""
    for item in items:
        if item is None:
            raise TypeError("a list cannot hold the result of a function that returns nothing")
    _check_size(items)
    return list(items)


def _check_size(items: Any) -> None:
    if _size(items) > MAX_LIST_ITEMS:
        raise ValueError(f"list of more than {MAX_LIST_ITEMS} values")


def _size(items: Any) -> int:
    """Values at any depth; an inner list counts too, or empty ones could be multiplied without end."""
    return sum(1 + _size(i) if isinstance(i, list) else 1 for i in items)


def make_pose(*items: Any) -> Pose:
    """p[x, y, z, rx, ry, rz]."""
    for item in items:
        if type(item) not in _NUMBERS:
            raise TypeError(f"a pose holds numbers, not a {type_name(item)}")
    return Pose(items)
