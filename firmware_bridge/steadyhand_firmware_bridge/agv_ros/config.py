"""Parameters of a vehicle driven over ROS, validated where they enter. YAML (`config/agv_ros.yaml`) only fills them."""
from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig, made, section
from steadyhand_firmware_bridge.guard.config import read

DRIVES = ("cmd_vel", "nav2")
CMD_VEL_TYPES = ("TwistStamped", "Twist")
SHOWN = {
    "namespace": "/left", "action": "navigate_to_pose", "odom_frame": "odom", "base_frame": "base_link",
    "map_frame": "map",
}  # fmt: skip
NAME = re.compile(r"/?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*")
FRAME = re.compile(r"[^\s/]\S{0,199}")  # tf takes no leading slash
REST_GAP_S = 0.5  # odometry comes many times in this; the guard's own default is for a vehicle that tells every 30 s


@dataclass(frozen=True)
class LoadLimits:
    """Limits of the velocity that is asked for, with one load. `stop` is the ramp of a stop, `decel` of any other.

    They hold for what is commanded. That the vehicle can follow them with this load is for its operator to measure.
    """

    speed_m_s: float = described(0.5, "highest speed", "m/s", 0.01, 5.0)
    accel_m_s2: float = described(0.3, "speeding up", "m/s^2", 0.01, 10.0)
    decel_m_s2: float = described(0.4, "slowing down", "m/s^2", 0.01, 10.0)
    stop_m_s2: float = described(0.8, "a stop", "m/s^2", 0.01, 10.0)
    omega_rad_s: float = described(0.8, "highest rate of turning", "rad/s", 0.01, 6.0)
    omega_accel_rad_s2: float = described(0.8, "turning faster", "rad/s^2", 0.01, 30.0)
    omega_decel_rad_s2: float = described(1.0, "turning slower", "rad/s^2", 0.01, 30.0)
    omega_stop_rad_s2: float = described(2.0, "a stop", "rad/s^2", 0.01, 30.0)
    stop_distance_m: float = described(1.0, "room that a stop from the highest speed may take", "m", 0.001, 50.0)

    def __post_init__(self) -> None:
        check_ranges(self)
        for stop, decel in (("stop_m_s2", "decel_m_s2"), ("omega_stop_rad_s2", "omega_decel_rad_s2")):
            if getattr(self, stop) < getattr(self, decel):
                raise ConfigError(
                    f"{stop}={getattr(self, stop)}: a stop is no gentler than {decel}={getattr(self, decel)}"
                )
        needs_m = self.speed_m_s**2 / (2.0 * self.stop_m_s2)
        if needs_m > self.stop_distance_m:
            raise ConfigError(
                f"speed_m_s={self.speed_m_s}: a stop from it at {self.stop_m_s2} m/s^2 takes {needs_m:.2f} m, "
                f"stop_distance_m={self.stop_distance_m}; lower the speed"
            )


@dataclass(frozen=True)
class RosVehicleConfig:
    """One vehicle's topics, frames and loads. Names are relative to `namespace` unless they begin with a slash."""

    loads: Mapping[str, LoadLimits] = field(default_factory=dict)
    load: str = ""  # which of them is on the vehicle; with several possible ones, give the heaviest
    drive: str = "cmd_vel"  # "nav2": goals to Nav2, and cmd_vel only to brake
    namespace: str = ""
    cmd_vel: str = "cmd_vel"
    cmd_vel_type: str = "TwistStamped"
    odom: str = "odom"
    odom_frame: str = "odom"
    base_frame: str = "base_link"
    map_frame: str = "map"  # of Nav2's goals
    action: str = "navigate_to_pose"
    holonomic: bool = False  # whether it takes a velocity to the side
    other_publishers: tuple[str, ...] = ()  # nodes that may publish to cmd_vel beside the guard, such as "/my_joystick"
    hz: float = described(50.0, "rate of cmd_vel", "Hz", 10.0, 200.0)
    expire_s: float = described(0.3, "age of a set-point that is still followed", "s", 0.05, 0.5)
    guard_silence_s: float = described(0.3, "silence of the guard that ends an arming", "s", 0.05, 2.0)
    feedback_timeout_s: float = described(0.3, "age of the newest odometry", "s", 0.05, 2.0)
    jump_m: float = described(0.2, "step of the odometry's place beyond what was driven", "m", 0.005, 5.0)
    jump_rad: float = described(0.3, "step of its heading beyond what was turned", "rad", 0.01, 3.0)
    arming_s: float = described(5.0, "until an arming is through", "s", 0.5, 30.0)

    def __post_init__(self) -> None:
        _one_of("drive", self.drive, DRIVES)
        _one_of("cmd_vel_type", self.cmd_vel_type, CMD_VEL_TYPES)
        for name in ("namespace", "cmd_vel", "odom", "action", "odom_frame", "base_frame", "map_frame"):
            value, pattern = getattr(self, name), FRAME if name.endswith("frame") else NAME
            given = isinstance(value, str) and (pattern.fullmatch(value) or name == "namespace" and not value)
            if not given:
                raise ConfigError(f"{name}={value!r}: give a name of ROS, such as {SHOWN.get(name, name)!r}")
        if self.namespace and not self.namespace.startswith("/"):
            raise ConfigError(f"namespace={self.namespace!r}: give an absolute one, such as /left, or none")
        if not isinstance(self.holonomic, bool):
            raise ConfigError(f"holonomic={self.holonomic!r}: give true or false")
        for name in self.other_publishers:
            if not isinstance(name, str) or not name.startswith("/"):
                raise ConfigError(f"other_publishers: {name!r}: give full names of nodes, such as /my_joystick")
        if not self.loads or not all(isinstance(v, LoadLimits) for v in self.loads.values()):
            raise ConfigError("loads: give at least one load and its limits")
        if self.load not in self.loads:
            raise ConfigError(f"load={self.load!r}: give one of {', '.join(self.loads)}")
        check_ranges(self)

    @property
    def limits(self) -> LoadLimits:
        """Of the load that is on the vehicle."""
        return self.loads[self.load]

    @property
    def nav2(self) -> bool:
        """Whether Nav2 drives."""
        return self.drive == "nav2"

    def name_of(self, name: str) -> str:
        """Full name of a topic or an action."""
        return name if name.startswith("/") else f"{self.namespace}/{name}"

    def plain(self) -> dict[str, Any]:
        """As a map of plain values, for the link process; back by `vehicle`."""
        return asdict(self)


@dataclass(frozen=True)
class RosAgvFile:
    """Everything in one file: `vehicle` and `guard`."""

    vehicle: RosVehicleConfig
    guard: AgvGuardConfig


def vehicle(raw: Mapping[str, Any]) -> RosVehicleConfig:
    """From a map of plain values. Raises ConfigError naming field and value."""
    values = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    loads = section(values, "loads")
    values["loads"] = {str(name): _limits(loads, name) for name in loads}
    return made(RosVehicleConfig, "vehicle", values)


def _limits(loads: Mapping[str, Any], name: str) -> LoadLimits:
    try:
        return made(LoadLimits, "limits", section(loads, name))
    except ConfigError as error:
        raise ConfigError(f"vehicle.loads.{name}: {error}") from error


def load(path: Path | str) -> RosAgvFile:
    """The configuration in a YAML file. Raises ConfigError naming file, field and value."""
    raw = read(path)
    try:
        for name in raw:
            if name not in ("guard", "vehicle"):
                raise ConfigError(f"unknown section {name!r}; known: guard, vehicle")
        car = vehicle(section(raw, "vehicle"))
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in section(raw, "guard").items()}
        guard = made(AgvGuardConfig, "guard", {"rest_gap_s": REST_GAP_S} | values)
        if guard.interlock_xy_m and car.odom_frame != car.map_frame:
            raise ConfigError(
                f"guard.interlock_xy_m with poses in {car.odom_frame!r}: odometry drifts, so it would look clear of "
                "the arm where it is not; leave it out (the interlock then holds everywhere), or take a localised odometry "
                f"whose frame is {car.map_frame!r}"
            )
        return RosAgvFile(car, guard)
    except ConfigError as error:
        raise ConfigError(f"AGV configuration {path}: {error}") from error


def _one_of(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(f"{name}={value!r}: give one of {', '.join(known)}")
