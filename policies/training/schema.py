"""Strict reading of YAML into frozen dataclasses: what is unknown, missing, of the wrong type or out of range is
refused with its full name and never repaired. Ranges stand at the fields (`ranged`), relations in `__post_init__`."""
from __future__ import annotations

import math
import types
import typing
from dataclasses import MISSING, Field, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import yaml

from steadyhand.errors import ConfigError

_NAMES = {dict: "a mapping", list: "a list", str: "text", bool: "true or false", int: "a whole number",
          float: "a number", type(None): "nothing"}


def ranged(low: float, high: float, default: Any = MISSING) -> Any:
    """A field whose number (or each of whose numbers) lies within low to high, both included."""
    return field(default=default, metadata={"low": low, "high": high})


class _Loader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice, where YAML would silently take the last."""

    def construct_mapping(self, node, deep=False):
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise ConfigError(f"line {key_node.start_mark.line + 1}: key {key!r} is not text")
            if key in seen:
                raise ConfigError(f"line {key_node.start_mark.line + 1}: key {key!r} is given twice")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read(cls: type, path: Path) -> Any:
    """The dataclass in a YAML file. Raises ConfigError, which names the file, the key and what is accepted."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error
    return parse(cls, text, str(path))


def parse(cls: type, text: str, what: str = "configuration") -> Any:
    """The dataclass in YAML text."""
    try:
        raw = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    except yaml.YAMLError as error:
        raise ConfigError(f"{what}: not YAML: {error}") from error
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from None
    try:
        return build(cls, raw, "")
    except ConfigError as error:
        raise ConfigError(f"{what}: {error}") from None


def build(cls: type, raw: Any, name: str) -> Any:
    """A dataclass from a decoded mapping; `name` is its place, such as "ppo"."""
    if not isinstance(raw, dict):
        raise ConfigError(f"{name or 'the file'}: {_said(raw)}, expected a mapping of keys")
    hints, known, values = typing.get_type_hints(cls), {f.name: f for f in fields(cls)}, {}
    for key in raw:
        if key not in known:
            raise ConfigError(f"{_at(name, key)}: unknown key; known are {', '.join(known)}")
    for key, f in known.items():
        if key in raw:
            values[key] = _convert(hints[key], raw[key], _at(name, key), f)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ConfigError(f"{_at(name, key)}: missing")
    try:
        return cls(**values)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}" if name else str(error)) from None


def _convert(kind: Any, value: Any, name: str, f: Field) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):  # only `X | None` is used
        if value is None:
            return None
        (kind,) = (a for a in arguments if a is not type(None))
        return _convert(kind, value, name, f)
    if origin is typing.Literal:
        if value not in arguments or type(value) is not str:
            raise ConfigError(f"{name}: {value!r}, expected one of {', '.join(map(str, arguments))}")
        return value
    if is_dataclass(kind):
        return build(kind, value, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise ConfigError(f"{name}: {_said(value)}, expected a list")
        if arguments[-1] is not Ellipsis and len(value) != len(arguments):
            raise ConfigError(f"{name}: {len(value)} entries, expected {len(arguments)}")
        return tuple(_convert(arguments[0], v, f"{name}[{i}]", f) for i, v in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise ConfigError(f"{name}: {_said(value)}, expected a mapping")
        return {k: _convert(arguments[1], v, _at(name, k), f) for k, v in value.items()}
    return _in_range(_scalar(kind, value, name), name, f)


def _scalar(kind: type, value: Any, name: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if type(value) is not kind:
        hint = ""
        if isinstance(value, str) and kind in (int, float) and _is_number(value):
            hint = "; YAML reads a number in E notation only with a point and a sign, as 1.0e-4"
        raise ConfigError(f"{name}: {_said(value)}, expected {_NAMES[kind]}{hint}")
    if kind is float and not math.isfinite(value):
        raise ConfigError(f"{name}: {value}, expected a finite number")
    return value


def _in_range(value: Any, name: str, f: Field) -> Any:
    low, high = f.metadata.get("low"), f.metadata.get("high")
    if low is not None and not isinstance(value, (str, bool)) and not low <= value <= high:
        raise ConfigError(f"{name}: {value}, expected {low:g} to {high:g}")
    return value


def _said(value: Any) -> str:
    text = repr(value)
    return f"{text if len(text) <= 40 else text[:37] + '...'} is {_NAMES.get(type(value), type(value).__name__)}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _at(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)
