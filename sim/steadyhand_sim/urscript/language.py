"""The functions of URScript that need no controller: module urmath and strings, with the manual's parameter names.

What is missing is refused as an unknown function. Angles are radians unless the name says otherwise.
"""
from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from steadyhand_sim.urscript import poses
from steadyhand_sim.urscript.operators import checked, make_list, text
from steadyhand_sim.urscript.values import Pose, to_text, type_name

FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _builtin(function: Callable[..., Any]) -> Callable[..., Any]:
    FUNCTIONS[function.__name__.rstrip("_")] = function
    return function


def number(value: Any, what: str) -> int | float:
    """`value`; TypeError unless it is an int or a float."""
    if type(value) not in (int, float):
        raise TypeError(f"{what} needs a number, got {type_name(value)}")
    return value


def pose(value: Any, what: str) -> Pose:
    """`value`; TypeError unless it is a pose."""
    if type(value) is not Pose:
        raise TypeError(f"{what} needs a pose, got {type_name(value)}")
    return value


def numbers(value: Any, what: str) -> list:
    """`value`; TypeError unless it is a list (or pose) of numbers."""
    if not isinstance(value, list):
        raise TypeError(f"{what} needs a list, got {type_name(value)}")
    return [number(v, what) for v in value]


def _string(value: Any, what: str) -> str:
    if type(value) is not str:
        raise TypeError(f"{what} needs a string, got {type_name(value)}")
    return value


def _integer(value: Any, what: str) -> int:
    if type(value) is not int:
        raise TypeError(f"{what} needs an integer, got {type_name(value)}")
    return value


def _real(name: str, function: Callable[[float], float]) -> None:
    def apply(f):
        return checked(function(number(f, name)))

    FUNCTIONS[name] = apply


for _name in ("acos", "asin", "atan", "cos", "sin", "tan", "sqrt"):
    _real(_name, getattr(math, _name))
_real("d2r", math.radians)
_real("r2d", math.degrees)
_real("floor", math.floor)
_real("ceil", math.ceil)


@_builtin
def atan2(x, y):
    return math.atan2(number(x, "atan2"), number(y, "atan2"))


@_builtin
def pow_(base, exponent):
    result = math.pow(number(base, "pow"), number(exponent, "pow"))
    return checked(int(result)) if type(base) is int and type(exponent) is int and result == int(result) else result


@_builtin
def log(b, f):
    return math.log(number(f, "log"), number(b, "log"))


@_builtin
def norm(a):
    """Length of a vector, absolute value of a number."""
    if isinstance(a, list):
        return checked(math.hypot(*numbers(a, "norm")))
    return checked(abs(number(a, "norm")))


@_builtin
def length(v):
    if not isinstance(v, (list, str)):
        raise TypeError(f"length needs a list, got {type_name(v)}")
    return len(v)


@_builtin
def get_list_length(v):
    return length(v)


@_builtin
def binary_list_to_integer(l):  # noqa: E741  (the manual's parameter name)
    """The first element is the lowest bit."""
    if not isinstance(l, list) or any(type(bit) is not bool for bit in l) or len(l) > 32:
        raise TypeError("binary_list_to_integer needs a list of up to 32 truth values")
    value = sum(1 << k for k, bit in enumerate(l) if bit)
    return value - 2**32 if value >= 2**31 else value


@_builtin
def integer_to_binary_list(x):
    return [bool(_integer(x, "integer_to_binary_list") >> k & 1) for k in range(32)]


@_builtin
def pose_trans(p_from, p_from_to):
    return poses.trans(pose(p_from, "pose_trans"), pose(p_from_to, "pose_trans"))


@_builtin
def pose_inv(p_from):
    return poses.inverse(pose(p_from, "pose_inv"))


@_builtin
def pose_add(p_1, p_2):
    return poses.add(pose(p_1, "pose_add"), pose(p_2, "pose_add"))


@_builtin
def pose_sub(p_to, p_from):
    return poses.sub(pose(p_to, "pose_sub"), pose(p_from, "pose_sub"))


@_builtin
def interpolate_pose(p_from, p_to, alpha):
    return poses.interpolate(
        pose(p_from, "interpolate_pose"), pose(p_to, "interpolate_pose"), number(alpha, "interpolate_pose")
    )


@_builtin
def point_dist(p_from, p_to):
    return math.dist(pose(p_from, "point_dist")[:3], pose(p_to, "point_dist")[:3])


@_builtin
def to_str(val):
    return text(to_text(val))


@_builtin
def to_num(str_):
    """Integer when the text is one, else a float."""
    value = _string(str_, "to_num")
    try:
        result = checked(int(value)) if value.strip().lstrip("+-").isdecimal() else float(value)
    except ValueError:
        result = math.nan
    if not math.isfinite(result):
        raise ValueError(f"to_num: {value[:40]!r} is not a number")
    return result


@_builtin
def str_cat(op1, op2):
    return text(to_text(op1) + to_text(op2))


@_builtin
def str_len(str_):
    return len(_string(str_, "str_len"))


@_builtin
def str_empty(str_):
    return _string(str_, "str_empty") == ""


@_builtin
def str_at(src, index):
    source, position = _string(src, "str_at"), _integer(index, "str_at")
    if not 0 <= position < len(source):
        raise ValueError(f"str_at: index {position} is outside of the string")
    return source[position]


@_builtin
def str_sub(src, index, len_=-1):
    source, start, count = _string(src, "str_sub"), _integer(index, "str_sub"), _integer(len_, "str_sub")
    if not 0 <= start <= len(source):
        raise ValueError(f"str_sub: index {start} is outside of the string")
    return source[start:] if count < 0 else source[start : start + count]


@_builtin
def str_find(src, target, start_from=0):
    start = _integer(start_from, "str_find")
    if start < 0:
        raise ValueError(f"str_find: start {start} is outside of the string")
    return _string(src, "str_find").find(_string(target, "str_find"), start)


@_builtin
def normalize(v):
    size = norm(v)
    if not isinstance(v, list) or size == 0:
        raise ValueError("normalize needs a vector that is not zero")
    return make_list(*(a / size for a in v))
