"""The motion primitives of URScript as generators of set-points, one per control cycle. Pure.

Each primitive starts from the present set-point, so that the target never jumps. Sources: script manual (movej, servoj,
speedj, stopj); what the manual leaves open is stated here and in `docs/emulated_controller.md`.
"""
from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import ruckig

from steadyhand import ur5
from steadyhand_sim.ur_controller import frames

SERVO_ACCELERATION_LIMIT_RAD_S2 = 40.0  # assumed: the manual gives none; bounds the answer to a step of the target
_AT_REST_RAD_S = 1e-9


@dataclass(frozen=True)
class Setpoint:
    """Joint target of one cycle, (6,) each."""

    q_rad: np.ndarray
    qd_rad_s: np.ndarray
    qdd_rad_s2: np.ndarray

    @staticmethod
    def at_rest(q_rad: np.ndarray) -> Setpoint:
        """Standing still at a configuration."""
        return Setpoint(np.array(q_rad, dtype=float), np.zeros(ur5.DOF), np.zeros(ur5.DOF))

    @property
    def moving(self) -> bool:
        """Whether the target itself moves."""
        return bool(np.abs(self.qd_rad_s).max() > _AT_REST_RAD_S)


class Motion(Protocol):
    """One primitive under way."""

    done: bool

    def replan(self, now: Setpoint) -> None:
        """Go on to the same goal from another set-point (after a pause)."""
        ...

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """The next set-point. `speed_scale` (0..1] is the speed slider; it slows moves, not servo or speed commands."""
        ...


class Hold:
    """Stand still."""

    done = True

    def replan(self, now: Setpoint) -> None:
        """Nothing to plan."""

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """The same position."""
        return Setpoint.at_rest(now.q_rad)


class Brake:
    """stopj: all joints come to rest together, linearly; the leading axis decelerates at `deceleration_rad_s2`."""

    def __init__(self, now: Setpoint, deceleration_rad_s2: float):
        self._deceleration = require_positive("a", deceleration_rad_s2)
        self.replan(now)

    def replan(self, now: Setpoint) -> None:
        """Restart the ramp from the present velocity."""
        self._qd0, self._q0 = now.qd_rad_s, now.q_rad
        self._duration_s = float(np.abs(now.qd_rad_s).max()) / self._deceleration
        self._t_s = 0.0
        self.done = not now.moving

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """Along the ramp; exact at any cycle time."""
        if self.done:
            return Setpoint.at_rest(now.q_rad)
        self._t_s = min(self._t_s + dt_s, self._duration_s)
        t, duration = self._t_s, self._duration_s
        q = self._q0 + self._qd0 * (t - t * t / (2.0 * duration))
        if t >= duration:
            self.done = True
            return Setpoint.at_rest(q)
        return Setpoint(q, self._qd0 * (1.0 - t / duration), -self._qd0 / duration)


class Speed:
    """speedj: the joint velocity goes linearly to `qd_rad_s` (leading axis at `a`), then stays there. Never done."""

    def __init__(self, qd_rad_s: np.ndarray, acceleration_rad_s2: float):
        self.goal = as_joints("qd", qd_rad_s)
        self._acceleration = require_positive("a", acceleration_rad_s2)
        self.done = False
        self.reached = False

    def replan(self, now: Setpoint) -> None:
        """Accelerates again from the present velocity."""
        self.reached = False

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """One cycle of constant acceleration towards the goal."""
        difference = self.goal - now.qd_rad_s
        peak = float(np.abs(difference).max())
        fraction = 1.0 if peak <= self._acceleration * dt_s else self._acceleration * dt_s / peak
        self.reached = fraction == 1.0
        qd = now.qd_rad_s + fraction * difference
        return Setpoint(now.q_rad + 0.5 * (now.qd_rad_s + qd) * dt_s, qd, (qd - now.qd_rad_s) / dt_s)


_SQUARINGS = 10


@functools.lru_cache(maxsize=64)
def _servo_transition(gain: float, lookahead_s: float, dt_s: float) -> np.ndarray:
    """Exact transition (2, 2) of (error, velocity) over one cycle of qdd = gain * (q_goal - q - lookahead * qd).

    Matrix exponential by scaling and squaring. `scipy.linalg.expm` would wake a pool of BLAS threads, for which a
    SCHED_FIFO process waits 15 ms and more on a busy machine.
    """
    scaled = np.array([[0.0, 1.0], [-gain, -gain * lookahead_s]]) * (dt_s / 2**_SQUARINGS)
    term = total = np.eye(2)
    for k in range(1, 16):
        term = term @ scaled / k
        total = total + term
    for _ in range(_SQUARINGS):
        total = total @ total
    return total


class Servo:
    """servoj: the target position is followed as qdd = gain * (q_goal - (q + lookahead_time * qd)).

    The manual calls `gain` a P-term on the position and says that `lookahead_time` projects the present position
    forward. Read as this second-order law, a ramp is followed `lookahead_time` late: 30 ms at the driver's usual
    0.03 s, which with the transport is the published 34-35 ms. Acceleration is bounded. Never done: a program that
    stops calling servoj leaves the arm at the last goal.
    """

    def __init__(self, q_rad: np.ndarray, lookahead_time_s: float, gain: float):
        self.done = False
        self.update(q_rad, lookahead_time_s, gain)

    def update(self, q_rad: np.ndarray, lookahead_time_s: float, gain: float) -> None:
        """A further servoj call: a new goal, the same motion. Ranges: script manual, servoj."""
        if not 0.03 <= lookahead_time_s <= 0.2:
            raise ValueError(f"lookahead_time {lookahead_time_s:g} s is outside 0.03..0.2")
        if not 100.0 <= gain <= 2000.0:
            raise ValueError(f"gain {gain:g} is outside 100..2000")
        self.goal = as_joints("q", q_rad)
        self._lookahead_s, self._gain = float(lookahead_time_s), float(gain)

    def replan(self, now: Setpoint) -> None:
        """The law needs no plan."""

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """One cycle, solved exactly, then bounded in acceleration."""
        m = _servo_transition(self._gain, self._lookahead_s, dt_s)
        error, qd = now.q_rad - self.goal, now.qd_rad_s
        q_next = self.goal + m[0, 0] * error + m[0, 1] * qd
        qd_next = m[1, 0] * error + m[1, 1] * qd
        qdd = (qd_next - qd) / dt_s
        limit = SERVO_ACCELERATION_LIMIT_RAD_S2
        over = np.abs(qdd) > limit
        if over.any():
            qdd = np.clip(qdd, -limit, limit)
            qd_next = np.where(over, qd + qdd * dt_s, qd_next)
            q_next = np.where(over, now.q_rad + 0.5 * (qd + qd_next) * dt_s, q_next)
        return Setpoint(q_next, qd_next, qdd)


class JointMove:
    """movej: trapezoid of the leading axis at (`v`, `a`), the others in proportion; or the duration `t`, if not 0.

    With `blend_m` a next move may take over within that distance of the goal, while this one brakes (`motion_blend`).
    """

    def __init__(
        self, now: Setpoint, goal_q_rad: np.ndarray, a: float, v: float, t: float = 0.0, blend_m: float = 0.0
    ):
        self.goal, self.blend_m = as_joints("q", goal_q_rad), blend_m
        self._a, self._v = require_positive("a", a), require_positive("v", v)
        self._duration = 0.0 if t == 0.0 else require_positive("t", t)
        self.replan(now)

    def replan(self, now: Setpoint) -> None:
        """A new trajectory from the present set-point."""
        given = ruckig.InputParameter(ur5.DOF)
        given.synchronization = ruckig.Synchronization.Phase
        given.current_position, given.current_velocity = now.q_rad.tolist(), now.qd_rad_s.tolist()
        given.target_position = self.goal.tolist()
        a, v = (SERVO_ACCELERATION_LIMIT_RAD_S2, math.pi) if self._duration else (self._a, self._v)
        given.max_velocity, given.max_acceleration = [min(v, math.pi)] * ur5.DOF, [a] * ur5.DOF
        if self._duration:
            given.minimum_duration = self._duration
        self._trajectory = ruckig.Trajectory(ur5.DOF)
        result = ruckig.Ruckig(ur5.DOF).calculate(given, self._trajectory)
        if int(result) < 0:
            raise ValueError(f"no trajectory: {result}")
        self._t_s, self.done, self._braking = 0.0, False, False

    def goal_q_rad(self, now: Setpoint) -> np.ndarray:
        """Joints at the end."""
        return self.goal

    def may_blend(self, now: Setpoint, tcp: np.ndarray) -> bool:
        """Braking, and the tool within the blend radius of its goal."""
        apart = frames.forward(now.q_rad, tcp)[:3] - frames.forward(self.goal, tcp)[:3]
        return self._braking and bool(np.linalg.norm(apart) <= self.blend_m)

    def step(self, now: Setpoint, dt_s: float, speed_scale: float) -> Setpoint:
        """Along the trajectory, slowed in time by the speed slider."""
        self._t_s += dt_s * speed_scale
        if self._t_s >= self._trajectory.duration:
            self.done = True
            return Setpoint.at_rest(self.goal)
        q, qd, qdd = (np.array(x) for x in self._trajectory.at_time(self._t_s))
        self._braking = float(qd @ qdd) < 0.0
        return Setpoint(q, qd * speed_scale, qdd * speed_scale**2)


def as_joints(name: str, value: object) -> np.ndarray:
    """Six finite numbers; raises ValueError naming the argument."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a list of six numbers") from None
    if array.shape != (ur5.DOF,) or not np.isfinite(array).all():
        raise ValueError(f"{name} is not six finite numbers")
    return array


def require_positive(name: str, value: float) -> float:
    """The value, or ValueError naming the argument."""
    if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} = {value!r} is not a positive number")
    return float(value)
