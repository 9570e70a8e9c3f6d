"""Reads a recorded ROS 2 bag of a vehicle: every message of its odometry as the bridge would get it, and its IMU's."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_cli import bag
from steadyhand_firmware_bridge.agv_ros.wire import Odom

ODOMETRY, IMU = "nav_msgs/msg/Odometry", "sensor_msgs/msg/Imu"
AT_LEAST = 10


@dataclass(frozen=True)
class ImuRecording:
    """An IMU. `arrivals_s` (M, 2): stamp and time of recording of each message, seconds from the start of the bag."""

    arrivals_s: np.ndarray
    rate_rad_s: np.ndarray  # (M, 3) as mounted
    acceleration_m_s2: np.ndarray  # (M, 3) as mounted


@dataclass(frozen=True)
class VehicleRecording:
    """A vehicle's bag. `odoms` are not judged yet: stamps are the sender's, arrivals from the start of the bag."""

    odoms: list[Odom]
    odom_arrivals_s: np.ndarray  # (N, 2) stamp and time of recording, as of `ImuRecording`
    imu: ImuRecording | None
    refused: dict[str, int]  # messages of the IMU that could not be used, by reason


def is_vehicle(topics: Mapping[str, str]) -> bool:
    """Whether a bag holds odometry and no joints of an arm."""
    return bag.ACTUAL not in topics and ODOMETRY in topics.values()


def read(path: Path, odom_topic: str = "", imu_topic: str = "") -> VehicleRecording:
    """Read a bag. ConfigError: cannot be read, no odometry, or several topics of a kind and none of them named."""
    topics = bag.topics(path)
    odom_topic = _the_one(path, topics, ODOMETRY, odom_topic, "--odom")
    imu_topic = _the_one(path, topics, IMU, imu_topic, "--imu")
    if not odom_topic:
        held = ", ".join(sorted(topics)) or "nothing"
        raise ConfigError(f"bag {path}: no topic of type {ODOMETRY}; it holds: {held}")
    odoms, odom_arrivals, imu_rows, refused = [], [], [], {}
    for topic, message, at_s, start_ns in bag.messages(path, {odom_topic, imu_topic}):
        stamp_s = bag.stamp_s(message.header, start_ns)
        if topic == odom_topic:
            odoms.append(_odom(message, at_s))
            odom_arrivals.append((stamp_s, at_s))
            continue
        w, a = message.angular_velocity, message.linear_acceleration
        row = (stamp_s, at_s, w.x, w.y, w.z, a.x, a.y, a.z)
        if np.isfinite(row).all():
            imu_rows.append(row)
        else:
            refused["imu is not finite"] = refused.get("imu is not finite", 0) + 1
    if len(odoms) < AT_LEAST:
        raise ConfigError(f"bag {path}: {len(odoms)} messages on {odom_topic}, at least {AT_LEAST} are needed")
    rows = np.array(imu_rows)
    imu = ImuRecording(rows[:, :2], rows[:, 2:5], rows[:, 5:8]) if len(rows) >= AT_LEAST else None
    return VehicleRecording(odoms, np.array(odom_arrivals), imu, refused)


def _the_one(path: Path, topics: Mapping[str, str], kind: str, named: str, option: str) -> str:
    found = sorted(topic for topic, held in topics.items() if held == kind)
    if named and named not in found:
        known = ", ".join(found) or "none"
        raise ConfigError(f"bag {path}: {option} {named}: no topic of type {kind}; of that type: {known}")
    if not named and len(found) > 1:
        raise ConfigError(f"bag {path}: {', '.join(found)} are all of type {kind}: choose one by {option}")
    return named or (found[0] if found else "")


def _odom(message, at_s: float) -> Odom:
    p, q = message.pose.pose.position, message.pose.pose.orientation
    v, w = message.twist.twist.linear, message.twist.twist.angular
    stamp = message.header.stamp
    return Odom(
        at_s, stamp.sec + stamp.nanosec * 1e-9, message.header.frame_id, message.child_frame_id,
        [float(x) for x in (p.x, p.y, p.z, q.x, q.y, q.z, q.w)], [float(x) for x in (v.x, v.y, v.z, w.x, w.y, w.z)],
    )  # fmt: skip
