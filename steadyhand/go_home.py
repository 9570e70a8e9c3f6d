"""The way home after a stop: straight up where there is room, then to HOME in joint space.

Pure. It is checked whole before it begins. What is planned here is judged again by the gate, chunk by chunk, while it
is driven. The speed is a reduced one.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from steadyhand import cell, collision, kinematics, trajectory, ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, KinematicsError, SteadyhandError
from steadyhand.limits import UR5_LIMITS, Limits
from steadyhand.trajectory import Trajectory

SAMPLE_S = 0.02
KNOT_M = 0.02


class NoWayHome(SteadyhandError):
    """No checked path; the message says what is in the way of each one tried."""


@dataclass(frozen=True)
class HomeConfig:
    """Reduced speeds and the heights that are tried before turning home."""

    joint_rad_s: float = described(0.30, "greatest joint speed", "rad/s", 0.02, 0.5)
    joint_rad_s2: float = described(0.60, "greatest joint acceleration", "rad/s2", 0.05, 2.0)
    linear_m_s: float = described(0.10, "speed of the straight lift", "m/s", 0.005, 0.25)
    linear_m_s2: float = described(0.20, "acceleration of the straight lift", "m/s2", 0.02, 1.0)
    heights_m: tuple[float, ...] = (0.25, 0.35, 0.45)

    def __post_init__(self) -> None:
        check_ranges(self)
        h = self.heights_m
        if not h or not all(0.0 < a < b <= 1.5 for a, b in zip(h, (*h[1:], 1.5))):
            raise ConfigError(f"HomeConfig.heights_m = {list(h)}: give rising heights above 0 and below 1.5 m")


def plan_home(
    q_rad: np.ndarray, start_s: float, config: HomeConfig = HomeConfig(), limits: Limits = UR5_LIMITS,
    goal_q_rad: np.ndarray = cell.HOME_Q_RAD,
) -> list[Trajectory]:
    """Legs from rest at `q_rad` (6,) to rest at home, the first beginning at `start_s`, each after the one before.

    Raises NoWayHome when neither the direct way nor one by a lift passes the checks.
    """
    q, found = np.asarray(q_rad, dtype=float), []
    height = float(kinematics.pose_base_link_tool(q)[2, 3])
    lifts = [h for h in config.heights_m if h > height + 0.01]
    for lift in [0.0, *lifts] if height >= config.heights_m[0] else lifts:
        legs: list[Trajectory] = []
        try:
            if lift:
                legs.append(straight_up(q, lift, start_s, config))
            at = legs[-1].goal_q_rad if legs else q
            then_s = start_s + sum(leg.duration_s for leg in legs)
            legs.append(trajectory.joint_move(
                then_s, at, np.zeros(ur5.DOF), goal_q_rad, config.joint_rad_s, config.joint_rad_s2
            ))
            wrong = check(legs, limits)
        except KinematicsError as error:
            wrong = str(error)
        if not wrong:
            return legs
        found.append(f"{f'by {lift:.2f} m up' if lift else 'directly'}: {wrong}")
    tried = "; ".join(found) or "no height is left to lift to"
    raise NoWayHome(f"no checked way home ({tried}): jog the arm free by hand")


def straight_up(q_rad: np.ndarray, height_m: float, start_s: float, config: HomeConfig) -> Trajectory:
    """The tool rises straight to `height_m` above the table, its orientation kept; KinematicsError out of reach."""
    pose = kinematics.pose_base_link_tool(q_rad)
    rise = height_m - float(pose[2, 3])
    shares = np.linspace(0.0, 1.0, max(3, int(np.ceil(abs(rise) / KNOT_M)) + 1))
    knots = [np.asarray(q_rad, dtype=float)]
    for share in shares[1:]:
        wanted = pose.copy()
        wanted[2, 3] += share * rise
        knots.append(kinematics.ik_near(wanted, knots[-1]))
    path = CubicSpline(shares, np.stack(knots))
    total_s = trajectory.duration_s(abs(rise), config.linear_m_s, config.linear_m_s2)
    fastest = trajectory.PEAK_VELOCITY * float(np.abs(path(shares, 1)).max()) / config.joint_rad_s
    total_s = max(total_s, fastest)

    def at(t: float) -> np.ndarray:
        s = t / total_s
        return path(s**3 * (10 - 15 * s + 6 * s**2))

    return Trajectory(start_s, total_s, at)


def check(legs: list[Trajectory], limits: Limits) -> str:
    """What is wrong with the whole path: joint ranges (NaN too), the tool's box, clearance. Empty when nothing is."""
    rows = [leg.at(t) for leg in legs for t in np.linspace(0.0, leg.duration_s, max(2, int(leg.duration_s / SAMPLE_S)))]
    q = np.stack(rows)
    outside = ~((q >= limits.q_min_rad) & (q <= limits.q_max_rad))
    if outside.any():
        return f"{ur5.JOINT_NAMES[int(np.argmax(outside.any(axis=0)))]} leaves its range"
    links = kinematics.link_transforms(q)
    tool = kinematics.pose_base_link_tool(q)[:, :3, 3]
    outside = (tool < limits.tool_min_m) | (tool > limits.tool_max_m)
    if outside.any():
        k, axis = np.argwhere(outside)[0]
        return f"tool {'xyz'[axis]} {tool[k, axis]:.3f} m leaves its box"
    near = collision.path_clearance(q, links, limits.min_clearance_m)
    if near.clearance_m < limits.min_clearance_m:
        return f"{' - '.join(near.pair)} come within {near.clearance_m * 1e3:.0f} mm"
    return ""


def waypoints(legs: list[Trajectory], stamp_s: float, count: int, period_s: float) -> np.ndarray:
    """Sliding window (count, 6) over all legs: way-point k is wanted at stamp_s + (k + 1) period_s."""
    times = [stamp_s + (k + 1) * period_s for k in range(count)]
    return np.stack([next((leg for leg in legs if not leg.over(t)), legs[-1]).q_rad(t) for t in times])
