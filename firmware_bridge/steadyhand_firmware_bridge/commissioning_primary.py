"""What the primary port tells of the controller's configuration, held against the UR5 this runtime is made for.

`read` waits with a limit; `judge` is pure. These are the controller's own limits of motion, not those of its safety
system, which no interface tells.
"""
from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ProtocolError, RobotError
from steadyhand_firmware_bridge.primary import PRIMARY_PORT, Configured, Item, Packages, TcpOffset, configuration
from steadyhand_firmware_bridge.right_robot import flange_apart_m, unfit_arm

TCP_TOLERANCE_M = 0.002
ANGLE_TOLERANCE_RAD = 0.01


@dataclass(frozen=True)
class Finding:
    """`good` None: to be looked at by a person."""

    name: str
    good: bool | None
    found: str
    remedy: str = ""


def read(host: str, timeout_s: float, port: int = PRIMARY_PORT) -> list[Item]:
    """Configuration and TCP of the first packages that have both. Raises RobotError naming what came instead."""
    found: dict[type, Item] = {}
    packages, deadline_s = Packages(), time.monotonic() + timeout_s
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as peer:
            while len(found) < 2:
                if not select.select([peer], [], [], max(0.0, deadline_s - time.monotonic()))[0]:
                    raise RobotError(f"port {port}: no configuration within {timeout_s:g} s")
                data = peer.recv(65536)
                if not data:
                    raise RobotError(f"port {port}: closed by the controller")
                for kind, body in packages.feed(data):
                    found.update({type(item): item for item in configuration(kind, body)})
    except (OSError, ProtocolError) as error:
        raise RobotError(f"port {port}: {getattr(error, 'strerror', None) or error}") from error
    return list(found.values())


def judge(items: list[Item]) -> list[Finding]:
    """One finding per thing told."""
    found: list[Finding] = []
    for item in items:
        if isinstance(item, Configured):
            found += _configured(item)
        elif isinstance(item, TcpOffset):
            found.append(_tcp(item))
    return found


def _configured(c: Configured) -> list[Finding]:
    unfit, _, remedy = unfit_arm(c.dh).partition(": ")
    within = f"by its DH parameters the flange is within {flange_apart_m(c.dh) * 1e3:.1f} mm of a UR5's"
    found = [Finding("kinematics configured", not unfit, unfit or within, remedy)]
    tight = (np.array(c.q_min_rad) > ur5.Q_MIN_RAD + ANGLE_TOLERANCE_RAD) | (
        np.array(c.q_max_rad) < ur5.Q_MAX_RAD - ANGLE_TOLERANCE_RAD
    )
    shown = ", ".join(f"{np.degrees(a):.0f}..{np.degrees(b):.0f}" for a, b in zip(c.q_min_rad, c.q_max_rad))
    names = ", ".join(n for n, t in zip(ur5.JOINT_NAMES, tight) if t)
    remedy = f"narrower than the guard's for {names}: beyond, the controller stops the arm itself" if names else ""
    found.append(Finding("joint limits configured", None if names else True, f"{shown} deg", remedy))
    speeds = np.array(c.qd_max_rad_s)
    slow = ", ".join(n for n, v in zip(ur5.JOINT_NAMES, speeds) if v < ur5.QD_MAX_RAD_S[0] - ANGLE_TOLERANCE_RAD)
    remedy = f"below the guard's {np.degrees(ur5.QD_MAX_RAD_S[0]):.0f} deg/s for {slow}" if slow else ""
    shown = ", ".join(f"{np.degrees(v):.0f}" for v in speeds)
    shown += " deg/s, of motion, not of safety"
    found.append(Finding("joint speeds configured", None if slow else True, shown, remedy))
    return found


def _tcp(item: TcpOffset) -> Finding:
    wanted = (0.0, 0.0, ur5.TOOL_LENGTH_M, 0.0, 0.0, 0.0)
    off_m = max(abs(a - b) for a, b in zip(item.pose[:3], wanted))
    turned = max(abs(a) for a in item.pose[3:])
    shown = ", ".join(f"{v * 1e3:.1f}" for v in item.pose[:3])
    text = f"({shown}) mm in the flange, turned by ({', '.join(f'{v:.3f}' for v in item.pose[3:])}) rad"
    good = off_m <= TCP_TOLERANCE_M and turned <= ANGLE_TOLERANCE_RAD
    remedy = "" if good else f"set TCP (0, 0, {ur5.TOOL_LENGTH_M * 1e3:.0f}) mm, not turned, at the pendant"
    return Finding("TCP configured", good, text, remedy)
