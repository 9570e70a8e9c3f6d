"""Limits weaker than the invariants promise: each is said, and refused where something real may move."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge.service import say


def weaker(config: Any, promised: Mapping[str, float]) -> list[str]:
    """Each of the fields in `promised` that is above its figure there, in words. A map has the figure for each value."""
    values: dict[str, float] = {}
    for name in promised:
        value = getattr(config, name)
        values |= {f"{name}.{k}": v for k, v in value.items()} if isinstance(value, Mapping) else {name: value}
    figures = {name: promised[name.partition(".")[0]] for name in values}
    return [f"{name}={v} (promised: {figures[name]})" for name, v in values.items() if v > figures[name]]


def check(program: str, path: str, weakened: list[str], harmless: bool) -> None:
    """Say what is weakened in the file at `path`. Raises ConfigError unless it is `harmless`: nothing real moves."""
    if not weakened:
        return
    listed = "; ".join(weakened)
    if not harmless:
        remedy = "tighten them, or say --weaker-limits if no real robot moves"
        raise ConfigError(f"guard configuration {path}: {listed}: {remedy}")
    say(f"{program}: limits weaker than promised: {listed}", error=True)
