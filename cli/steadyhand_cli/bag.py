"""Reads a recorded ROS 2 bag, and that of a UR5 into arrays; says clearly what is wrong with one that it cannot use."""
from __future__ import annotations

import contextlib
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.rosbag2 import Reader
from rosbags.typesys import Stores, get_typestore

from steadyhand import ur5
from steadyhand.errors import ConfigError

ACTUAL, TARGET = "/joint_states", "/target_joint_states"
JOINT_STATE = "sensor_msgs/msg/JointState"


@dataclass(frozen=True)
class JointRecording:
    """One JointState topic, joints in the order of `ur5.JOINT_NAMES`; times from the start of the bag."""

    time_s: np.ndarray  # (N,)
    q_rad: np.ndarray  # (N, 6)
    qd_rad_s: np.ndarray  # (N, 6)
    current_a: np.ndarray  # (N, 6); ur_robot_driver puts motor currents into `effort`


@dataclass(frozen=True)
class Recording:
    """A bag: measured joints, and the controller's targets when they were recorded."""

    actual: JointRecording
    target: JointRecording | None
    refused: dict[str, int]  # messages that could not be used, by reason
    arrivals_s: np.ndarray | None = None  # (M, 2) of each message of the measured joints: its stamp, when recorded


def topics(path: Path) -> dict[str, str]:
    """Types of the topics in a bag folder, or in that of an .mcap file. ConfigError: missing, or not a bag."""
    with _opened(_folder(path)) as reader:
        return {c.topic: c.msgtype for c in reader.connections}


def messages(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, Any, float, int]]:
    """Messages of these topics: topic, message, seconds from the start of the bag, that start in nanoseconds.

    One at a time: a bag of images does not fit into memory. ConfigError where it cannot be read on.
    """
    typestore = get_typestore(Stores.ROS2_KILTED)
    with _opened(_folder(path)) as reader:
        start_ns = reader.start_time
        for connection, at_ns, raw in reader.messages([c for c in reader.connections if c.topic in wanted]):
            message = typestore.deserialize_cdr(raw, connection.msgtype)
            yield connection.topic, message, (at_ns - start_ns) * 1e-9, start_ns


def _folder(path: Path) -> Path:
    if not path.exists():
        raise ConfigError(f"bag {path}: does not exist; give the folder with metadata.yaml, or the .mcap file")
    folder = path if path.is_dir() else path.parent
    if not (folder / "metadata.yaml").is_file():
        raise ConfigError(f"bag {folder}: has no metadata.yaml; is it a ROS 2 bag? (`ros2 bag reindex` makes one)")
    return folder


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[Reader]:
    try:
        with contextlib.ExitStack() as stack:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                reader = stack.enter_context(Reader(folder))
            yield reader
    except Exception as error:  # the reader raises a class per storage format; here each one means the same
        raise ConfigError(
            f"bag {folder}: cannot be read to its end ({type(error).__name__}: {error}); it is truncated or damaged: "
            "record it again, or mend it with `mcap recover`"
        ) from error


def read(path: Path) -> Recording:
    """Read a bag folder or an .mcap file. ConfigError: missing, truncated, not a bag, or not of a UR5."""
    folder = _folder(path)
    _check_topics(folder, topics(path))
    rows: dict[str, list] = {ACTUAL: [], TARGET: []}
    refused: dict[str, int] = {}
    arrivals: list[tuple[float, float]] = []
    for topic, message, at_s, start_ns in messages(path, rows):
        if topic == ACTUAL:
            arrivals.append((stamp_s(message.header, start_ns), at_s))
        row, reason = _row(message, at_s)
        if row is None:
            refused[reason] = refused.get(reason, 0) + 1
        else:
            rows[topic].append(row)
    if len(rows[ACTUAL]) < 10:
        usable = f"{len(rows[ACTUAL])} usable messages on {ACTUAL}"
        raise ConfigError(f"bag {folder}: {usable}, at least 10 are needed; refused: {refused}")
    for topic, found in rows.items():
        if len(found) >= 10 and not np.median(np.diff([row[0] for row in found])) > 0:
            raise ConfigError(f"bag {folder}: the stamps of {topic} do not advance: record it with a running clock")
    target = _arrays(rows[TARGET]) if len(rows[TARGET]) >= 10 else None
    return Recording(_arrays(rows[ACTUAL]), target, refused, np.array(arrivals))


def stamp_s(header, start_ns: int) -> float:
    """A header's stamp, seconds from `start_ns`: differences of whole nanoseconds, so that no digit is lost."""
    return (header.stamp.sec * 10**9 + header.stamp.nanosec - start_ns) * 1e-9


def _check_topics(folder: Path, topics: dict[str, str]) -> None:
    if topics.get(ACTUAL) != JOINT_STATE:
        listed = ", ".join(f"{t} ({k})" for t, k in sorted(topics.items())) or "none"
        raise ConfigError(f"bag {folder}: no {ACTUAL} of type {JOINT_STATE}; it holds: {listed}")


def _row(message, time_s: float) -> tuple[tuple | None, str]:
    names = list(message.name)
    if sorted(names) != sorted(ur5.JOINT_NAMES):
        raise ConfigError(f"joints {names}: expected those of a UR5, {list(ur5.JOINT_NAMES)}")
    order = [names.index(n) for n in ur5.JOINT_NAMES]
    values = []
    for field in ("position", "velocity", "effort"):
        value = np.asarray(getattr(message, field), dtype=float)
        if value.size == 0 and field != "position":
            value = np.zeros(ur5.DOF)
        if value.shape != (ur5.DOF,):
            return None, f"{field} has {value.size} values"
        if not np.isfinite(value).all():
            return None, f"{field} is not finite"
        values.append(value[order])
    return (time_s, *values), ""


def _arrays(rows: list[tuple]) -> JointRecording:
    time_s, q, qd, current = (np.array(column) for column in zip(*rows))
    return JointRecording(time_s, q, qd, current)
