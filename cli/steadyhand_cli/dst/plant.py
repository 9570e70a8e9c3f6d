"""Arm and servo of the modelled controller: linear, lagging, as fast as one small matrix product a cycle.

`servoj` is read as in `steadyhand_sim.ur_controller.motion` (qdd = gain (goal - q - lookahead qd)); the joints follow
with the recorded dynamics of joint 1 (`motors.json`), friction's sign and saturation left out. `run` takes any number
of cycles and is the only way to servo, so that a block of cycles and as many single ones give the same bits.
"""
from __future__ import annotations

import functools

import numpy as np
from scipy.linalg import expm

from steadyhand import ur5
from steadyhand_firmware_bridge.urscript import ProgramConfig
from steadyhand_sim.motor_model import MotorParameters

STOPJ_RAD_S2 = ProgramConfig().stop_deceleration_rad_s2
SAFETY_STOP_RAD_S2 = 20.0  # category 0 stop of the robot's own safety system: brakes and motors at their limit
TARGET, TARGET_SPEED, MEASURED, MEASURED_SPEED, GOAL = range(5)  # rows of the state


@functools.lru_cache(maxsize=1)
def _servo_step(dt_s: float) -> np.ndarray:
    """(4, 5): state of the next cycle from (target, its speed, measured, its speed, goal)."""
    p, m = ProgramConfig(), MotorParameters.load()
    wn2, damping = m.wn_rad_s[0] ** 2, 2 * m.zeta[0] * m.wn_rad_s[0]
    k_a, viscous = m.acceleration_gain[0], m.viscous_per_s[0]
    a = np.zeros((5, 5))
    a[TARGET, TARGET_SPEED] = a[MEASURED, MEASURED_SPEED] = 1.0
    a[TARGET_SPEED, [TARGET, TARGET_SPEED, GOAL]] = -p.servo_gain, -p.servo_gain * p.servo_lookahead_s, p.servo_gain
    a[MEASURED_SPEED, [TARGET, TARGET_SPEED]] = wn2, damping
    a[MEASURED_SPEED, [MEASURED, MEASURED_SPEED]] = -wn2, -damping - viscous
    a[MEASURED_SPEED] += k_a * a[TARGET_SPEED]
    return np.ascontiguousarray(expm(a * dt_s)[:4])


@functools.lru_cache(maxsize=1)
def _follow_step(dt_s: float) -> np.ndarray:
    """(2, 5): measured and its speed from (target, target speed, measured, its speed, target acceleration)."""
    m = MotorParameters.load()
    wn2, damping = m.wn_rad_s[0] ** 2, 2 * m.zeta[0] * m.wn_rad_s[0]
    a = np.zeros((5, 5))
    a[TARGET, TARGET_SPEED] = a[TARGET_SPEED, GOAL] = a[MEASURED, MEASURED_SPEED] = 1.0
    a[MEASURED_SPEED] = [wn2, damping, -wn2, -damping - m.viscous_per_s[0], m.acceleration_gain[0]]
    return np.ascontiguousarray(expm(a * dt_s)[2:4])


class Plant:
    """`x` (5, 6): target, target speed, measured, measured speed, and the goal of `servoj`."""

    def __init__(self, q_rad: np.ndarray, dt_s: float):
        self.dt_s = dt_s
        self.x = np.zeros((5, ur5.DOF))
        self.x[[TARGET, MEASURED, GOAL]] = q_rad
        self.stuck = np.zeros(ur5.DOF, dtype=bool)  # joints that do not move: a collision, a brake

    def run(self, goals_rad: np.ndarray) -> np.ndarray:
        """Servo to one goal a cycle, (n, 6); the states (n, 4, 6) behind each cycle."""
        step, x, out = _servo_step(self.dt_s), self.x, np.empty((len(goals_rad), 4, ur5.DOF))
        dot, goal_row, state = np.dot, x[GOAL], x[:4]
        for goal, after in zip(goals_rad, out):
            goal_row[:] = goal
            dot(step, x, out=after)
            state[:] = after
        return out

    def coast(self, deceleration_rad_s2: float) -> None:
        """One cycle without a program: the target comes to rest, all joints together."""
        x, dt = self.x, self.dt_s
        speed = x[TARGET_SPEED]
        peak = np.abs(speed).max()
        share = max(0.0, 1.0 - deceleration_rad_s2 * dt / peak) if peak > 0 else 0.0
        x[GOAL] = speed * (share - 1.0) / dt  # acceleration of the target in this cycle
        after = _follow_step(dt) @ x
        x[TARGET] += 0.5 * (1.0 + share) * dt * speed
        x[TARGET_SPEED] = speed * share
        x[[MEASURED, MEASURED_SPEED]] = after

    def hold_stuck(self, before: np.ndarray) -> None:
        """Undo the motion of stuck joints since the state `before` (5, 6)."""
        x = self.x
        x[MEASURED, self.stuck] = before[MEASURED, self.stuck]
        x[MEASURED_SPEED, self.stuck] = 0.0
