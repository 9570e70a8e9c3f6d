"""Parameters of a vehicle's guard, validated where they enter. YAML (`config/agv.yaml`) only fills them."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.vda5050.header import Identity
from steadyhand_firmware_bridge.guard.config import (
    are_coordinates, check_inputs, check_interlock, check_moving_inputs, check_peers, read,
)
from steadyhand_firmware_bridge.guard.promises import weaker
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig

# As an arm's: what is above them is not promised any more. A velocity's 0.5 s cannot be given more at all.
WEAKEST = {
    "link_timeout_s": 0.500, "peer_timeout_s": 0.100, "shell_timeout_s": 0.500, "command_age_s": 0.500,
    "inputs": 0.500, "moving_inputs": 0.500,
}  # fmt: skip


@dataclass(frozen=True)
class AgvGuardConfig:
    """What a vehicle's guard watches. `interlock` names the peers (arms) that must be clear before it may leave."""

    inputs: Mapping[str, float] = field(default_factory=dict)  # AUTO input -> longest silence (s)
    moving_inputs: Mapping[str, float] = field(default_factory=dict)
    name: str = "agv"
    peers: Mapping[str, str] = field(default_factory=dict)
    interlock: tuple[str, ...] = ()
    interlock_xy_m: tuple[float, ...] = ()  # where they meet, in the map; empty: everywhere
    link_timeout_s: float = described(0.5, "silence of an operator in control", "s", 0.02, 5.0)
    peer_timeout_s: float = described(0.1, "silence of another guard", "s", 0.02, 5.0)
    velocity_timeout_s: float = described(0.5, "silence of who commands a velocity", "s", 0.02, 0.5)
    shell_timeout_s: float = described(0.5, "silence of the commander's process while it moves", "s", 0.02, 5.0)
    command_age_s: float = described(0.5, "age of the state that a command answers", "s", 0.02, 5.0)
    rest_speed: float = described(0.01, "below it, in m/s and rad/s, the vehicle rests", "", 0.001, 0.1)
    rest_gap_s: float = described(35.0, "longest gap between two measurements of rest", "s", 0.1, 600.0)
    interlock_radius_m: float = described(2.0, "how near to where they meet", "m", 0.1, 100.0)

    def __post_init__(self) -> None:
        check_inputs("inputs", self.inputs)
        check_inputs("moving_inputs", self.moving_inputs)
        check_moving_inputs(self.moving_inputs, self.inputs)
        if not isinstance(self.name, str) or not self.name:
            raise ConfigError(f"name={self.name!r}: give the name of this guard")
        check_peers(self.peers, self.name)
        check_interlock(self.interlock, self.peers)
        place = self.interlock_xy_m
        if place != () and not are_coordinates(place, 2):
            raise ConfigError(f"interlock_xy_m={place!r}: give [x, y] in m, or leave it out")
        if place and not self.interlock:
            raise ConfigError(f"interlock_xy_m={place!r} without interlock: name the peers that must be clear there")
        check_ranges(self)

    def weakened(self) -> list[str]:
        """Each limit that is weaker than promised, in words; for a busy test machine, where no real vehicle moves."""
        return weaker(self, WEAKEST)


@dataclass(frozen=True)
class AgvFile:
    """Everything in one file: `guard`, `vehicle` (with `manufacturer`, `serial_number`, `version`) and `broker`."""

    guard: AgvGuardConfig
    vehicle: MasterConfig
    broker: BrokerConfig


def load(path: Path | str) -> AgvFile:
    """The configuration in a YAML file. Raises ConfigError naming file, field and value."""
    raw = read(path)
    try:
        for name in raw:
            if name not in ("guard", "vehicle", "broker"):
                raise ConfigError(f"unknown section {name!r}; known: guard, vehicle, broker")
        vehicle = dict(section(raw, "vehicle"))
        names = [f.name for f in fields(Identity)]
        identity = made(Identity, "vehicle", {n: vehicle.pop(n) for n in names if n in vehicle})
        master = made(MasterConfig, "vehicle", vehicle | {"identity": identity})
        guard = {k: tuple(v) if isinstance(v, list) else v for k, v in section(raw, "guard").items()}
        broker = made(BrokerConfig, "broker", section(raw, "broker"))
        return AgvFile(made(AgvGuardConfig, "guard", guard), master, broker)
    except ConfigError as error:
        raise ConfigError(f"AGV configuration {path}: {error}") from error


def section(raw: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One map of parameters below another; empty when it is not there."""
    value = raw.get(name) or {}
    if not isinstance(value, dict):
        raise ConfigError(f"{name}: {value!r}: give a map of parameters")
    return value


def made(cls: type, where: str, values: Mapping[str, Any]) -> Any:
    """`cls(**values)`. Raises ConfigError naming section and field."""
    known = {f.name for f in fields(cls)}
    for name in values:
        if name not in known:
            raise ConfigError(f"{where}: unknown parameter {name!r}; known: {', '.join(sorted(known))}")
    try:
        return cls(**values)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}") from error
