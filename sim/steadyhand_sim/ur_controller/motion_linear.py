"""Motions of the tool along lines: movel, speedl, stopl. Joint targets come from the inverse, cycle by cycle."""
from __future__ import annotations

import numpy as np
import ruckig

from steadyhand import kinematics
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.motion import (
    SERVO_ACCELERATION_LIMIT_RAD_S2, Brake, Setpoint, as_joints, require_positive,
)


class LinearMove:
    """movel: straight line of the TCP, orientation turning at a constant rate about one axis; trapezoid at (`v`, `a`).

    Speeds are m/s of the TCP; where the rotation in rad is the greater number, rad/s. A moving arm first comes to rest,
    as by stopl at `a` (no blending). Raises KinematicsError in `step` where the line leaves the reach or meets a
    singularity. With `blend_m` a next move may take over within that distance of the goal (`motion_blend`).
    """

    def __init__(
        self, now: Setpoint, pose: np.ndarray, a: float, v: float, t: float, tcp: np.ndarray, blend_m: float = 0.0
    ):
        self.goal, self.blend_m = as_joints("pose", pose), blend_m
        self._a, self._v = require_positive("a", a), require_positive("v", v)
        self._t = 0.0 if t == 0.0 else require_positive("t", t)
        self._tcp = tcp
        self.replan(now)

    def replan(self, now: Setpoint) -> None:
        """A new line from where the tool will stand when at rest."""
        self._brake = stop_linear(now, self._a, self._tcp) if now.moving else None
        self._trajectory = None
        self.done = self._braking = False

    def goal_q_rad(self, now: Setpoint) -> np.ndarray:
        """Joints at the end, on the branch of `now`."""
        return frames.inverse(self.goal, now.q_rad, self._tcp)

    def may_blend(self, now: Setpoint, tcp: np.ndarray) -> bool:
        """Braking at the end of the line, and the tool within the blend radius of its goal."""
        return self._braking and bool(
            np.linalg.norm(frames.forward(now.q_rad, self._tcp)[:3] - self.goal[:3]) <= self.blend_m
        )

    def _plan(self, now: Setpoint) -> None:
        self._start = frames.transform(frames.forward(now.q_rad, self._tcp))
        goal = frames.transform(self.goal)
        self._line = goal[:3, 3] - self._start[:3, 3]
        self._turn = kinematics.rotation_vector(goal[:3, :3] @ self._start[:3, :3].T)
        self._length = max(float(np.linalg.norm(self._line)), float(np.linalg.norm(self._turn)), 1e-9)
        given = ruckig.InputParameter(1)
        given.current_position, given.target_position = [0.0], [self._length]
        given.max_velocity, given.max_acceleration = [self._v], [self._a]
        if self._t > 0.0:
            given.max_velocity, given.max_acceleration, given.minimum_duration = [1e3], [1e3], self._t
        self._trajectory = ruckig.Trajectory(1)
        if int(ruckig.Ruckig(1).calculate(given, self._trajectory)) < 0:
            raise ValueError("no trajectory along the line")
        self._t_s = 0.0

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """The next point of the line."""
        if self._brake is not None:
            setpoint = self._brake.step(now, dt_s, speed_scale)
            if self._brake.done:
                self._brake = None
            return setpoint
        if self._trajectory is None:
            self._plan(now)
        self._t_s += dt_s * speed_scale
        if self._t_s >= self._trajectory.duration:
            q = frames.inverse(self.goal, now.q_rad, self._tcp)
            self.done = True
            return Setpoint(q, np.zeros(6), np.zeros(6))
        position, _, acceleration = self._trajectory.at_time(self._t_s)
        travelled, self._braking = position[0] / self._length, acceleration[0] < 0.0
        pose = np.eye(4)
        pose[:3, 3] = self._start[:3, 3] + travelled * self._line
        turned = frames.transform(np.concatenate([np.zeros(3), travelled * self._turn]))[:3, :3]
        pose[:3, :3] = turned @ self._start[:3, :3]
        q = frames.inverse(frames.pose_vector(pose), now.q_rad, self._tcp)
        qd = (q - now.q_rad) / dt_s
        return Setpoint(q, qd, (qd - now.qd_rad_s) / dt_s)


class LinearSpeed:
    """speedl: the tool's velocity (vx vy vz wx wy wz in `base`) goes linearly to the goal at `a`. Never done."""

    def __init__(self, twist: np.ndarray, a: float, tcp: np.ndarray):
        self.goal = as_joints("xd", twist)
        self._a, self._tcp = require_positive("a", a), tcp
        self.done = self.reached = False

    def replan(self, now: Setpoint) -> None:
        """Accelerates again from the present velocity."""
        self.reached = False

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """One cycle: twist -> joint velocity by damped least squares (Nakamura and Hanafusa 1986)."""
        j = frames.jacobian(now.q_rad, self._tcp)
        twist = j @ now.qd_rad_s
        difference = self.goal - twist
        peak = float(np.abs(difference).max())
        fraction = 1.0 if peak <= self._a * dt_s else self._a * dt_s / peak
        self.reached = fraction == 1.0
        wanted = twist + fraction * difference
        qd = j.T @ np.linalg.solve(j @ j.T + 1e-6 * np.eye(6), wanted)
        return Setpoint(now.q_rad + 0.5 * (now.qd_rad_s + qd) * dt_s, qd, (qd - now.qd_rad_s) / dt_s)


def stop_linear(now: Setpoint, a: float, tcp: np.ndarray) -> Brake:
    """stopl: the tool decelerates at `a` m/s2, the joints in proportion, which holds the path to first order.

    Where the tool hardly moves while the joints do, the bound of a servo command holds instead.
    """
    require_positive("a", a)
    peak = float(np.abs(now.qd_rad_s).max())
    speed = float(np.linalg.norm((frames.jacobian(now.q_rad, tcp) @ now.qd_rad_s)[:3]))
    return Brake(now, float(np.clip(peak * a / max(speed, 1e-6), 1e-3, SERVO_ACCELERATION_LIMIT_RAD_S2)))
