"""Which arm a robot description (URDF) describes: where it puts the flange, by the six joints of a UR. Pure.

Source of the convention: URDF's `<origin>` (xyz, then fixed-axis rpy) and `<axis>`; ur_description names the joints and
chains their links one after the other.
"""
from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree

import numpy as np

from steadyhand import ur5
from steadyhand_firmware_bridge.right_robot import POSTURES, unfit_flange

TEXT_MAX = 4_000_000  # characters; a UR's description has some 50,000


def unfit_description(text: str, joint_prefix: str = "") -> str:
    """What is wrong with the arm described; empty for a UR5, and when there is no description."""
    if not text:
        return ""
    try:
        joints = _joints(text, [joint_prefix + name for name in ur5.JOINT_NAMES])
        return unfit_flange([_flange_m(joints, np.array(q)) for q in POSTURES])
    except (ValueError, ElementTree.ParseError) as error:
        return f"robot_description cannot be read: {error}"


def _joints(text: str, names: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Origin (4, 4) and axis (3,) of each joint. ValueError for what is no chain of these."""
    if len(text) > TEXT_MAX or "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError(f"{len(text)} characters, or entities: no description of a robot")
    found = {j.get("name"): j for j in ElementTree.fromstring(text).iter("joint") if j.find("parent") is not None}
    joints, link = [], None
    for name in names:
        joint = found.get(name)
        if joint is None:
            raise ValueError(f"no joint {name!r}")
        parent, child = (getattr(joint.find(end), "attrib", {}).get("link") for end in ("parent", "child"))
        if parent is None or child is None or (link is not None and parent != link):
            raise ValueError(f"joint {name!r} does not follow the one before")
        link = child
        origin, axis = joint.find("origin"), joint.find("axis")
        where = {} if origin is None else origin.attrib
        at = np.eye(4)
        at[:3, :3], at[:3, 3] = _rotation(*_three(where.get("rpy", "0 0 0"), name)), _three(where.get("xyz", "0 0 0"), name)
        joints.append((at, _three("1 0 0" if axis is None else axis.get("xyz", "1 0 0"), name)))
    return joints


def _three(text: str, name: str) -> np.ndarray:
    numbers = np.array([float(word) for word in text.split()])
    if numbers.shape != (3,) or not np.isfinite(numbers).all():
        raise ValueError(f"joint {name!r}: {text[:60]!r} is not three finite numbers")
    return numbers


def _rotation(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Fixed-axis rpy."""
    return _turn(np.array([0, 0, 1.0]), yaw) @ _turn(np.array([0, 1.0, 0]), pitch) @ _turn(np.array([1.0, 0, 0]), roll)


def _turn(axis: np.ndarray, angle: float) -> np.ndarray:
    """Rodrigues."""
    x, y, z = axis / np.linalg.norm(axis)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def _flange_m(joints: list[tuple[np.ndarray, np.ndarray]], q_rad: np.ndarray) -> np.ndarray:
    """(3,) origin of the last link in the frame of the first joint's parent, the DH base of ur_description."""
    total = np.eye(4)
    for (origin, axis), q in zip(joints, q_rad):
        if not np.linalg.norm(axis) > 0.0:
            raise ValueError("a joint without an axis")
        turn = np.eye(4)
        turn[:3, :3] = _turn(axis, q)
        total = total @ origin @ turn
    return total[:3, 3]
