"""Blended moves, and servoc. A move with a blend radius hands over to the next one before it stands.

Source: script manual, movej/movel/movep (`r`: the move is left within this distance of its goal, and the arm does not
stop there) and servoc. How the corner is rounded is not published. Here the move that ends and the one that begins are
superposed in joint space while the first brakes: position and velocity stay continuous, the rest of the first and the
start of the second are each within `r` of the corner, and on a straight line at equal acceleration the speed is held.
"""
from __future__ import annotations

import numpy as np

from steadyhand import kinematics
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.motion import JointMove, Motion, Setpoint, as_joints, require_positive
from steadyhand_sim.ur_controller.motion_linear import LinearMove


class Blended:
    """The end of `before` and the start of `after`, which was planned from rest at `corner_q_rad`, together."""

    def __init__(self, before: Motion, now: Setpoint, after: JointMove | LinearMove, corner_q_rad: np.ndarray):
        self._before, self._after, self._corner = before, after, corner_q_rad
        self._then, self._now = now, Setpoint.at_rest(corner_q_rad)
        self.done = False

    @property
    def blend_m(self) -> float:
        """Of the move that goes on."""
        return self._after.blend_m

    def goal_q_rad(self, now: Setpoint) -> np.ndarray:
        """Joints at the end of the move that goes on."""
        return self._after.goal_q_rad(now)

    def may_blend(self, now: Setpoint, tcp: np.ndarray) -> bool:
        """Only when the corner before has been left."""
        return self._before.done and self._after.may_blend(now, tcp)

    def replan(self, now: Setpoint) -> None:
        """After a pause: straight to the goal of the move that goes on."""
        self._before = _Over()
        self._after.replan(now)
        self._now = now

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """The sum of both, until the first has ended."""
        self._now = self._after.step(self._now, dt_s, speed_scale)
        self.done = self._before.done and self._after.done
        if self._before.done:
            self._before = _Over()  # which held the move before it, and so on: a program may blend for days
            return self._now
        self._then = self._before.step(self._then, dt_s, speed_scale)
        return Setpoint(
            self._then.q_rad + self._now.q_rad - self._corner,
            self._then.qd_rad_s + self._now.qd_rad_s,
            self._then.qdd_rad_s2 + self._now.qdd_rad_s2,
        )


class _Over:
    """A motion that has ended."""

    done = True

    def replan(self, now: Setpoint) -> None:
        """Nothing."""

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """Stays."""
        return Setpoint.at_rest(now.q_rad)


class LinearServo:
    """servoc: the tool goes to a pose that may change at any time, at `v` and `a`, and slows down before it. Never done.

    The manual promises a circular path of constant tool speed through successive targets; here the tool's twist turns
    towards the newest target at `a` (assumed), which rounds corners likewise.
    """

    ARRIVED = 1e-5  # m or rad

    def __init__(self, pose: np.ndarray, a: float, v: float, blend_m: float, tcp: np.ndarray):
        self.done, self._tcp = False, tcp
        self.update(pose, a, v, blend_m)

    def update(self, pose: np.ndarray, a: float, v: float, blend_m: float) -> None:
        """A further servoc call."""
        self.goal = as_joints("pose", pose)
        self._a, self._v = require_positive("a", a), require_positive("v", v)
        require_blend(blend_m)
        self._wanted = frames.transform(self.goal)

    def replan(self, now: Setpoint) -> None:
        """The law needs no plan."""

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """One cycle: twist towards the goal, bounded in speed and acceleration; joints by damped least squares."""
        pose = frames.transform(frames.forward(now.q_rad, self._tcp))
        error = np.concatenate([
            self._wanted[:3, 3] - pose[:3, 3], kinematics.rotation_vector(self._wanted[:3, :3] @ pose[:3, :3].T)
        ])  # fmt: skip
        left = max(float(np.linalg.norm(error[:3])), float(np.linalg.norm(error[3:])))
        j = frames.jacobian(now.q_rad, self._tcp)
        twist = j @ now.qd_rad_s
        if left < self.ARRIVED and np.abs(twist).max() < self._a * dt_s:
            return Setpoint.at_rest(frames.inverse(self.goal, now.q_rad, self._tcp))
        speed = min(self._v, float(np.sqrt(1.6 * self._a * left)), 0.5 * left / dt_s)
        change = error / max(left, 1e-12) * speed - twist
        peak = float(np.abs(change).max())
        twist = twist + change * min(1.0, self._a * dt_s / max(peak, 1e-12))
        qd = j.T @ np.linalg.solve(j @ j.T + 1e-6 * np.eye(6), twist)
        return Setpoint(now.q_rad + 0.5 * (now.qd_rad_s + qd) * dt_s, qd, (qd - now.qd_rad_s) / dt_s)


def require_blend(r: float) -> float:
    """A blend radius, m; raises ValueError below 0."""
    if isinstance(r, bool) or not isinstance(r, (int, float)) or not 0.0 <= r < 10.0:
        raise ValueError(f"blend radius r = {r!r} is not a distance of 0 m or more")
    return float(r)


def follow_on(now: Setpoint, motion: Motion, tcp: np.ndarray) -> np.ndarray | None:
    """The corner (6,) to plan the next move from when `motion` may be left now; else None."""
    blend = getattr(motion, "blend_m", 0.0)
    return motion.goal_q_rad(now) if blend > 0.0 and not motion.done and motion.may_blend(now, tcp) else None
