"""Description of a config field: what it is, its unit and its range. Shells turn it into parameter descriptors."""
from __future__ import annotations

import math
from dataclasses import field, fields
from typing import Any

from steadyhand.errors import ConfigError


def described(default: Any, doc: str, unit: str = "", low: float | None = None, high: float | None = None):
    """A dataclass field with a default, a description, a unit and an inclusive range."""
    metadata: dict[str, Any] = {"doc": doc, "unit": unit}
    if low is not None and high is not None:
        metadata |= {"min": low, "max": high}
    return field(default=default, metadata=metadata)


def check_ranges(config: Any) -> None:
    """Raise ConfigError for a field outside its described range or not finite; for use in `__post_init__`."""
    for f in fields(config):
        value, meta = getattr(config, f.name), f.metadata
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if not math.isfinite(value):
            raise ConfigError(f"{type(config).__name__}.{f.name} = {value}: give a finite number")
        if "min" in meta and not meta["min"] <= value <= meta["max"]:
            raise ConfigError(
                f"{type(config).__name__}.{f.name} = {value}: give {meta['min']} to {meta['max']} {meta['unit']}".rstrip()
            )
