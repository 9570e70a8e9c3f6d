"""Description of a config field: what it is, its unit and its range. Shells turn it into parameter descriptors."""
from __future__ import annotations

import math
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Any

from steadyhand.errors import ConfigError


def described(default: Any, doc: str, unit: str = "", low: float | None = None, high: float | None = None):
    """A dataclass field with a default, a description, a unit and an inclusive range."""
    metadata: dict[str, Any] = {"doc": doc, "unit": unit}
    if low is not None and high is not None:
        metadata |= {"min": low, "max": high}
    return field(default=default, metadata=metadata)


def check_ranges(config: Any) -> None:
    """Raise ConfigError for a field outside its range, not finite or no number; for use in `__post_init__`."""
    for f in fields(config):
        value, meta, name = getattr(config, f.name), f.metadata, f"{type(config).__name__}.{f.name}"
        number = isinstance(value, Real) and not isinstance(value, bool)
        if "min" not in meta and not number:
            continue
        if not number or isinstance(f.default, int) and not isinstance(value, Integral):
            raise ConfigError(f"{name} = {value!r}: give a {'whole ' * isinstance(f.default, int)}number")
        if not math.isfinite(value):
            raise ConfigError(f"{name} = {value}: give a finite number")
        if "min" in meta and not meta["min"] <= value <= meta["max"]:
            raise ConfigError(f"{name} = {value}: give {meta['min']} to {meta['max']} {meta['unit']}".rstrip())
