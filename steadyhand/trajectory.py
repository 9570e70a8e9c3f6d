"""Deterministic motions of the executor: smooth joint-space paths in guard time, sampled as way-points.

Every path ends at rest and holds there. Time laws are minimum-jerk (quintic) polynomials: peak velocity 1.875 d/T and
peak acceleration 5.774 d/T^2 for a distance d (Flash and Hogan 1985).
"""
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.spatial.transform import Rotation

from steadyhand import kinematics

PEAK_VELOCITY, PEAK_ACCELERATION = 1.875, 10.0 / math.sqrt(3.0)


@dataclass(frozen=True)
class Trajectory:
    """`at(t)` gives q_rad (6,) at `t` seconds after `start_s`, for 0 <= t <= duration_s."""

    start_s: float
    duration_s: float
    at: Callable[[float], np.ndarray]

    def q_rad(self, stamp_s: float) -> np.ndarray:
        """Configuration (6,) at a guard time; the ends are held before and after."""
        return self.at(min(max(stamp_s - self.start_s, 0.0), self.duration_s))

    def waypoints(self, stamp_s: float, count: int, period_s: float) -> np.ndarray:
        """Sliding window (count, 6): way-point k is wanted at stamp_s + (k + 1) period_s."""
        return np.stack([self.q_rad(stamp_s + (k + 1) * period_s) for k in range(count)])

    @property
    def goal_q_rad(self) -> np.ndarray:
        """Configuration (6,) at the end."""
        return self.at(self.duration_s)

    def over(self, stamp_s: float) -> bool:
        """Whether the commanded motion has ended."""
        return stamp_s >= self.start_s + self.duration_s


def duration_s(distance: float, velocity: float, acceleration: float, shortest_s: float = 0.2) -> float:
    """Shortest minimum-jerk duration over a distance within a velocity and an acceleration."""
    return max(PEAK_VELOCITY * distance / velocity, math.sqrt(PEAK_ACCELERATION * distance / acceleration), shortest_s)


def _quintic(q0: np.ndarray, v0: np.ndarray, q1: np.ndarray, total_s: float) -> Callable[[float], np.ndarray]:
    """Quintic from (q0, v0, 0) to (q1, 0, 0) over `total_s`."""
    d, v = q1 - q0, v0 * total_s
    c3, c4, c5 = 10 * d - 6 * v, -15 * d + 8 * v, 6 * d - 3 * v

    def at(t: float) -> np.ndarray:
        s = t / total_s
        return q0 + v * s + s**3 * (c3 + s * (c4 + s * c5))

    return at


def joint_move(start_s: float, q_rad: np.ndarray, qd_rad_s: np.ndarray, goal_q_rad: np.ndarray,
               velocity_rad_s: float, acceleration_rad_s2: float) -> Trajectory:
    """From a commanded state (q, qd) to rest at `goal_q_rad`, all joints together."""
    q0, v0, q1 = (np.asarray(a, dtype=float) for a in (q_rad, qd_rad_s, goal_q_rad))
    total_s = duration_s(float(np.abs(q1 - q0).max()), velocity_rad_s, acceleration_rad_s2)
    total_s = max(total_s, 2.0 * float(np.abs(v0).max()) / acceleration_rad_s2)
    return Trajectory(start_s, total_s, _quintic(q0, v0, q1, total_s))


def brake(start_s: float, q_rad: np.ndarray, qd_rad_s: np.ndarray, acceleration_rad_s2: float) -> Trajectory:
    """From a commanded state to rest along its own direction.

    Half of v T is covered: then the quintic's jerk is balanced and its deceleration peaks at 1.5 v / T.
    """
    q0, v0 = np.asarray(q_rad, dtype=float), np.asarray(qd_rad_s, dtype=float)
    total_s = max(1.5 * float(np.abs(v0).max()) / acceleration_rad_s2, 0.1)
    return Trajectory(start_s, total_s, _quintic(q0, v0, q0 + v0 * total_s / 2, total_s))


def tool_line(start_s: float, q_rad: np.ndarray, goal_position_m: np.ndarray, goal_yaw_rad: float,
              velocity_m_s: float, acceleration_m_s2: float, grid_s: float = 0.05) -> Trajectory:
    """Straight line of the tool from rest at `q_rad` to a position, pointing down with a yaw, on the same branch.

    It turns about one axis on the way, at most at 1 rad/s: a tool that is tilted at first is upright at the end.
    Inverse kinematics on a grid of the path, cubic Hermite between. KinematicsError where the line leaves reach.
    """
    q0 = np.asarray(q_rad, dtype=float)
    pose = kinematics.pose_base_link_tool(q0)
    goal = kinematics.tool_down(*np.asarray(goal_position_m, dtype=float), goal_yaw_rad)
    way = goal[:3, 3] - pose[:3, 3]
    turn = kinematics.rotation_vector(goal[:3, :3] @ pose[:3, :3].T)
    total_s = max(duration_s(float(np.linalg.norm(way)), velocity_m_s, acceleration_m_s2),
                  duration_s(float(np.linalg.norm(turn)), 1.0, 4.0))
    count = max(int(math.ceil(total_s / grid_s)), 2)
    share = np.linspace(0.0, 1.0, count + 1)
    share = share**3 * (10 - 15 * share + 6 * share**2)
    knots = [q0]
    for s in share[1:]:
        wanted = np.eye(4)
        wanted[:3, :3] = Rotation.from_rotvec(s * turn).as_matrix() @ pose[:3, :3]
        wanted[:3, 3] = pose[:3, 3] + s * way
        knots.append(kinematics.ik_near(wanted, knots[-1]))
    q = np.stack(knots)
    step_s = total_s / count
    slope = np.gradient(q, step_s, axis=0)
    slope[0] = slope[-1] = 0.0

    def at(t: float) -> np.ndarray:
        i = min(int(t / step_s), count - 1)
        s = t / step_s - i
        return (
            (1 + 2 * s) * (1 - s) ** 2 * q[i] + s * s * (3 - 2 * s) * q[i + 1]
            + step_s * (s * (1 - s) ** 2 * slope[i] - s * s * (1 - s) * slope[i + 1])
        )

    return Trajectory(start_s, total_s, at)
