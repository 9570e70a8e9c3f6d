"""Parameters of the guard, validated where they enter. YAML (`config/guard_ur5.yaml`) only fills them."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from steadyhand import payload
from steadyhand.errors import ConfigError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand_firmware_bridge.guard.promises import weaker
from steadyhand_firmware_bridge.robotiq import config as robotiq_config


GRIPPERS = ("io", "robotiq")
SOURCES = ("policy", "planner", "manual")  # who may be named as the author of a chunk
STREAMING = ("policy", "manual")  # those whose silence is a stop
# The invariants' own figures (docs/design.md): what is above them is not promised any more.
WEAKEST = {
    "feedback_timeout_s": 0.040, "command_timeout_s": 0.100, "link_timeout_s": 0.500, "shell_timeout_s": 0.032,
    "chunk_age_s": 0.100, "peer_timeout_s": 0.100, "first_setpoint_tolerance_rad": 0.02, "recover_speed_rad_s": 0.10,
    "inputs": 0.500, "moving_inputs": 0.500,
}


@dataclass(frozen=True)
class GuardConfig:
    """Time limits are those of the requirements (tighter is better); each may be tightened per cell.

    Weaker ones (`weakened`) are for a busy test machine: the guard takes them for an emulated controller only.
    """

    inputs: Mapping[str, float] = field(default_factory=dict)  # AUTO input -> longest silence (s)
    moving_inputs: Mapping[str, float] = field(default_factory=dict)  # some of them: a tighter limit while it moves
    feedback_timeout_s: float = 0.040
    command_timeout_s: float = 0.100  # two policy periods
    link_timeout_s: float = 0.500  # silence of an operator in control
    shell_timeout_s: float = 0.032  # silence of the commander's process while the arm moves
    chunk_age_s: float = 0.100
    arming_timeout_s: float = 5.0
    first_setpoint_tolerance_rad: float = 0.02  # controller's target against measured pose
    tracking_lag_s: float = 0.052  # set-point sent to measured position received; measured, emulated controller, motors
    streaming_sources: tuple[str, ...] = STREAMING
    motion_wanted_rad_s: float = 0.05
    recover_speed_rad_s: float = 0.10
    gripper_max_width_m: float = 0.085
    payload: Mapping[str, Any] = field(default_factory=dict)  # of gripper and object: `steadyhand.payload.config_of`
    gripper: str = "io"  # on the controller's outputs, or "robotiq" by the socket of its URCap
    robotiq: Mapping[str, Any] = field(default_factory=dict)  # its parameters: `robotiq.config.RobotiqConfig`
    name: str = "guard"  # of this guard in its stop domain
    peers: Mapping[str, str] = field(default_factory=dict)  # the domain's other guards: name -> folder, or "slot:N"
    peer_timeout_s: float = 0.100  # silence of a peer
    interlock: tuple[str, ...] = ()  # peers whose vehicle stands under this arm: it is told when the arm is there
    interlock_zone_m: tuple[float, ...] = ()  # where: x, y, z from, x, y, z to, in base_link
    tool_box_m: tuple[float, ...] = ()  # where the tool may be, likewise; empty: as in docs/limits.md

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in ("inputs", "moving_inputs"):
                check_inputs(f.name, value)
            elif f.name == "name":
                if not isinstance(value, str) or not value:
                    raise ConfigError(f"name={value!r}: give the name of this guard")
            elif f.name == "gripper":
                if value not in GRIPPERS:
                    raise ConfigError(f"gripper={value!r}: give one of {', '.join(GRIPPERS)}")
            elif f.name == "payload":
                payload.config_of(value)
            elif f.name == "robotiq":
                robotiq_config.of(value)
            elif f.name == "peers":
                check_peers(value, self.name)
            elif f.name == "tool_box_m":
                _check_box(f.name, value)
            elif f.name in ("interlock", "interlock_zone_m"):
                pass  # checked together, below
            elif f.name == "streaming_sources":
                # a name nobody sends would leave its source unwatched
                if not isinstance(value, tuple) or any(s not in SOURCES for s in value):
                    raise ConfigError(f"streaming_sources={value!r}: give a list of names from {', '.join(SOURCES)}")
            else:
                _positive(f.name, value)
        check_interlock(self.interlock, self.peers)
        _check_zone(self.interlock, self.interlock_zone_m)
        check_moving_inputs(self.moving_inputs, self.inputs)

    def weakened(self) -> list[str]:
        """Each limit that is weaker than the invariants promise, in words; empty when they hold."""
        found = weaker(self, WEAKEST)
        if unwatched := set(STREAMING) - set(self.streaming_sources):  # their silence would be no stop
            found.append(f"streaming_sources={self.streaming_sources} (promised: {', '.join(sorted(unwatched))} too)")
        return found

    def limits(self) -> Limits:
        """The gate's, with this cell's box of the tool."""
        box = self.tool_box_m
        return replace(UR5_LIMITS, tool_min_m=np.array(box[:3]), tool_max_m=np.array(box[3:])) if box else UR5_LIMITS


def check_moving_inputs(moving: Mapping[str, float], inputs: Mapping[str, float]) -> None:
    for name, limit in moving.items():
        if not limit <= inputs.get(name, 0.0):
            raise ConfigError(f"moving_inputs.{name}={limit!r}: give an input of `inputs`, and at most its limit")


def check_interlock(names: Any, peers: Mapping[str, str]) -> None:
    if not isinstance(names, tuple):
        raise ConfigError(f"interlock={names!r}: give a list of names of the peers")
    for name in names:
        if not isinstance(name, str) or name not in peers:
            raise ConfigError(f"interlock: {name!r} is none of the peers")


def are_coordinates(values: Any, n: int) -> bool:
    """Whether `values` is a tuple of n finite numbers."""
    numbers = isinstance(values, tuple) and len(values) == n
    return numbers and all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in values)


def _check_zone(names: tuple[str, ...], zone: Any) -> None:
    if bool(names) != bool(zone):
        raise ConfigError("interlock and interlock_zone_m: give both or neither")
    _check_box("interlock_zone_m", zone)


def _check_box(field_name: str, box: Any) -> None:
    if box == ():
        return
    if not are_coordinates(box, 6) or any(box[i] >= box[i + 3] for i in range(3)):
        raise ConfigError(f"{field_name}={box!r}: give x, y, z from and x, y, z to, in m, each from below its to")


def check_inputs(field_name: str, value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(f"{field_name}={value!r}: give a map from input name to its time limit in seconds")
    for name, limit in value.items():
        if not isinstance(name, str):
            raise ConfigError(f"{field_name}.{name!r}: give the name of an input")
        _positive(f"{field_name}.{name}", limit)


def check_peers(peers: Any, own_name: str) -> None:
    if not isinstance(peers, Mapping) or not all(isinstance(x, str) and x for pair in peers.items() for x in pair):
        raise ConfigError(f"peers={peers!r}: give a map from the name of a guard to its socket folder, or to slot:N")
    if own_name in peers:
        raise ConfigError(f"peers.{own_name}: is this guard's own name; leave it out")


def _positive(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise ConfigError(f"{name}={value!r}: give a number above 0")


def read(path: Path | str) -> dict[str, Any]:
    """The map in a YAML file. Raises ConfigError naming the file."""
    try:
        raw = yaml.safe_load(Path(path).read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"guard configuration {path}: {error}") from error
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigError(f"guard configuration {path}: expected a map of parameters")
    return raw


def load(path: Path | str) -> GuardConfig:
    """The configuration in a YAML file. Raises ConfigError naming file, field and value."""
    raw = read(path)
    known = {f.name for f in fields(GuardConfig)}
    for name in raw:
        if name not in known:
            known_names = ", ".join(sorted(known))
            raise ConfigError(f"guard configuration {path}: unknown parameter {name!r}; known: {known_names}")
    raw = {name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    try:
        return GuardConfig(**raw)
    except ConfigError as error:
        raise ConfigError(f"guard configuration {path}: {error}") from error
