"""One ROS parameter per field of a frozen config dataclass, with description, unit and range.

A field may carry `metadata={"doc": ..., "unit": ..., "min": ..., "max": ...}` (see `steadyhand.config.described`). ROS
refuses values out of range by name; the dataclass's own `__post_init__` checks what a range cannot say.
"""
from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor

from steadyhand.errors import ConfigError

Config = TypeVar("Config")


def declare(node, cls: type[Config], prefix: str = "") -> Config:
    """Declare the parameters of `cls` on `node` and return the config that they give; ConfigError names the field."""
    values: dict[str, Any] = {}
    for field in fields(cls):
        default = field.default if field.default is not MISSING else field.default_factory()
        name = f"{prefix}.{field.name}" if prefix else field.name
        value = list(default) if isinstance(default, tuple) else default
        try:
            if not node.has_parameter(name):
                node.declare_parameter(name, value, _descriptor(field, default))
            got = node.get_parameter(name).value
        except Exception as error:  # rclpy raises several kinds here; each one means a wrong value was given
            raise ConfigError(f"parameter {name} of {node.get_name()}: {error}") from error
        values[field.name] = tuple(got) if isinstance(default, tuple) else got
    try:
        return cls(**values)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"parameters of {node.get_name()}: {error}") from error


def _descriptor(field, default) -> ParameterDescriptor:
    meta = field.metadata
    text = meta.get("doc", field.name.replace("_", " "))
    if meta.get("unit"):
        text = f"{text} [{meta['unit']}]"
    descriptor = ParameterDescriptor(description=text, read_only=True)
    if "min" in meta and "max" in meta:
        if isinstance(default, bool):
            pass
        elif isinstance(default, int):
            descriptor.integer_range = [IntegerRange(from_value=meta["min"], to_value=meta["max"], step=1)]
        elif isinstance(default, float):
            descriptor.floating_point_range = [
                FloatingPointRange(from_value=float(meta["min"]), to_value=float(meta["max"]), step=0.0)
            ]
    return descriptor
