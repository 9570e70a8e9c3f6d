"""The seam between the robot `ur_driver` and ROS: what the link to a stock ur_robot_driver gives and takes.

The link itself needs rclpy and the driver's messages, so it lies in `steadyhand_ros` and is loaded late, by name.
"""
from __future__ import annotations

import importlib
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_firmware_bridge.ur_driver_joints import JointSample

LINK_MODULE = "steadyhand_ros.ur_driver_link"
RESTARTS = ("resend", "play")
_NAMESPACE = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)*")
# The controllers of the driver that matter here, by name.
POSITION_CONTROLLER = "forward_position_controller"
TRAJECTORY_CONTROLLERS = (
    "scaled_joint_trajectory_controller", "joint_trajectory_controller",  # older, newer name
    "passthrough_trajectory_controller",
)  # fmt: skip
# Command interfaces beside the joints' own with which the driver does not combine position control, by their first part
# (ur_robot_driver, mode_compatibility.cpp).
OTHER_MODES = ("trajectory_passthrough", "force_mode", "freedrive_mode", "motion_primitive", "twist")


@dataclass(frozen=True)
class UrDriverConfig:
    """How the driver was started. Its `robot_receive_timeout` and `headless_mode` are settings of the driver itself."""

    namespace: str = ""  # of the driver's nodes, "/left"; empty: none
    joint_prefix: str = ""  # the driver's tf_prefix
    frequency_hz: float = 125.0  # of the set-points; joint states may come faster
    restart: str = "resend"  # the program: "resend" with headless_mode, "play" with the External Control URCap
    speed_scaling_full: float = 100.0  # what the topic says at full speed: 100, or 1 with a driver that publishes 0..1
    speed_scaling_min: float = 0.99  # of full; below, set-points would run ahead of the arm
    arming_timeout_s: float = 5.0

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise ConfigError(f"namespace={self.namespace!r}: give an absolute ROS name, such as /left, or none")
        if self.restart not in RESTARTS:
            raise ConfigError(f"restart={self.restart!r}: give one of {', '.join(RESTARTS)}")
        for name in ("frequency_hz", "speed_scaling_full", "arming_timeout_s"):
            value = getattr(self, name)
            if not (isinstance(value, (int, float)) and 0.0 < value < float("inf")):
                raise ConfigError(f"{name}={value!r}: give a number above 0")
        if not 0.0 < self.speed_scaling_min <= 1.0:
            raise ConfigError(f"speed_scaling_min={self.speed_scaling_min!r}: give a share of full speed, up to 1")


@dataclass(frozen=True)
class Controller:
    """One controller of the controller manager. `claims` are its command interfaces, such as `elbow_joint/position`."""

    name: str
    active: bool
    claims: Sequence[str] = ()


@dataclass
class Status:
    """Newest of each status topic; None before the first message."""

    robot_mode: int | None = None
    safety_mode: int | None = None
    program_running: bool | None = None
    speed_scaling: float | None = None  # as published
    speed_scaling_s: float = float("-inf")  # its arrival
    digital_outputs: int | None = None  # bits
    analog_input_0_v: float | None = None
    description: str = ""  # the URDF that the driver was started with
    analog_input_0_is_current: bool = False  # the installation has it measure mA: no voltage then


class Call(Protocol):
    """One service call under way. Not waited for."""

    done: bool
    ok: bool  # answered, and with success
    text: str  # what was said, or why there is no answer
    value: Any  # `list`: the controllers

    def drop(self) -> None:
        """Not to be asked again, and nobody wants the answer."""


class DriverLink(Protocol):
    """Everything ROS does for the robot. Nothing here waits; `spin` takes what has arrived."""

    status: Status
    joints: deque[JointSample]

    def spin(self) -> None:
        """Run the callbacks of what has arrived since the last time, within a bound."""

    def publish(self, q_rad: np.ndarray) -> bool:
        """One set-point to the position controller. False when nobody listens."""

    def call(self, service: str, request: Mapping[str, Any] | None = None) -> Call:
        """Call `stop`, `play`, `resend`, `list`, `switch` (activate, deactivate) or `set_io` (pin, on)."""

    def cancel_trajectories(self) -> None:
        """Cancel whatever goal the trajectory controller has, under either name."""

    def trajectory_under_way(self) -> str:
        """Name of the trajectory controller that executes somebody's goal; empty when none does."""

    def other_publishers(self) -> int:
        """How many others publish set-points to the position controller."""

    def close(self) -> None:
        """Let go."""


def link_type() -> Callable[[UrDriverConfig], DriverLink]:
    """What makes a link over ROS. Raises ConfigError that names the missing package and how to get it."""
    try:
        module = importlib.import_module(LINK_MODULE)
    except ImportError as error:
        missing = (error.name or str(error)).partition(".")[0]
        raise ConfigError(
            f"--robot ur_driver: Python package {missing!r} is missing. It needs rclpy, steadyhand_ros and the "
            "driver's messages: install ros-$ROS_DISTRO-ur-robot-driver (it brings ur_msgs, ur_dashboard_msgs, "
            "controller_manager_msgs), source its setup.bash, and run the guard in the Python of that ROS"
        ) from error
    return module.RosDriverLink
