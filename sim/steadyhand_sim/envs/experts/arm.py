"""Velocity laws for the UR5's tasks: towards the target through a funnel, fingers, then up or away.

Distances become speeds by a square-root law, v = min(k d, sqrt(2 a d - (a / k)^2), v_max): exponential near the target,
constant deceleration before. The joint formulation's expert reads the arm's joints from the observation, wants the same
tool velocity, and turns it into joint steps by the Jacobian.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand.policy_io import OBSERVATION_NAMES, PERIOD_S, STEP_M, STEP_YAW_RAD
from steadyhand_sim.envs.formulations import CARTESIAN, STEP_Q_RAD, Arm

_FINGERS_ON_CUBE_M, _FINGERS_OFF_M = 0.0465, 0.047
_N = len(OBSERVATION_NAMES)


@dataclass(frozen=True)
class Seen:
    """What the laws read: target minus tool (m, rad), tool speed, height, fingers."""

    x: float
    y: float
    z: float
    yaw: float
    speed_m_s: float
    height_m: float
    width_m: float
    closed: bool

    @property
    def beside_m(self) -> float:
        """Horizontal distance."""
        return math.hypot(self.x, self.y)


@dataclass(frozen=True)
class Wanted:
    """Tool velocity (m/s), yaw rate (rad/s), vote on the gripper."""

    vx: float
    vy: float
    vz: float
    yaw_rate: float
    vote: float


class ArmExpert:
    """Reads and writes either formulation; a task says what is wanted."""

    def __init__(self, formulation: str) -> None:
        self.formulation = formulation

    def act(self, observation: np.ndarray, info: dict | None = None) -> np.ndarray:
        """Action for a state observation; `info` is not looked at."""
        o = np.asarray(observation, dtype=float)
        if self.formulation == CARTESIAN:
            return _cartesian(self.wanted(_read(o[:_N])))
        arm = Arm.at(o[0:6], o[6:12])
        return _joints(self.wanted(_read_joints(o, arm)), arm)

    def wanted(self, seen: Seen) -> Wanted:
        """The task's law."""
        raise NotImplementedError


class GraspExpert(ArmExpert):
    """Above the cube, down, close, up by what success asks for and a little more."""

    travel_m, clear_m, lift_m = 0.10, 0.085, 0.135
    aim_m = 0.004  # above the middle: the gate's workspace ends 5 mm below it, and it sees 250 ms ahead

    def wanted(self, seen: Seen) -> Wanted:
        if seen.closed:
            vz = _law(self.lift_m + seen.z, 3.0, 0.7, 0.26) if seen.width_m < _FINGERS_ON_CUBE_M else 0.0
            return Wanted(0.0, 0.0, vz, 0.0, 1.0)
        away = seen.beside_m
        turned = 0.35 * max(abs(seen.yaw) - 0.10, 0.0)
        above = min(3.0 * max(away - 0.006, 0.0) + turned, self.travel_m)
        free = max(_ramp(seen.height_m - self.clear_m + 0.02, 0.02), 1.0 - _ramp(away - 0.015, 0.015))
        lateral = _law(away, 3.0, 0.7, 0.30) * free / max(away, 1e-9)
        down = seen.z + self.aim_m
        vz = _law(down + above, 3.0, 0.7, 0.26)
        vote = _confidence(-down / 0.012, (away - 0.004) / 0.012, (abs(seen.yaw) - 0.05) / 0.2)
        return Wanted(seen.x * lateral, seen.y * lateral, vz, _law(seen.yaw, 3.5, 2.2, 1.2), vote)


class InsertExpert(ArmExpert):
    """Over the socket until aligned to a fraction of the clearance, slowly down, let go at the seat."""

    hover_m = 0.045  # of the seat's height: the peg's lower face is 15 mm over the rim
    beside_m, yaw_rad = 0.0010, 0.02

    def wanted(self, seen: Seen) -> Wanted:
        if not seen.closed:
            return Wanted(0.0, 0.0, 0.0, 0.0, -1.0)
        away = seen.beside_m
        aligned = max(away - self.beside_m, 0.0) * 15.0 + max(abs(seen.yaw) - self.yaw_rad, 0.0) * 1.5
        above = min(aligned, self.hover_m)
        free = max(_ramp(seen.height_m - 0.085, 0.015), 1.0 - _ramp(away - 0.003, 0.003))
        lateral = _law(away, 3.0, 0.5, 0.20) * free / max(away, 1e-9)
        vz = _law(seen.z + above, 3.0, 0.4, 0.10)
        vote = -_confidence(-seen.z / 0.006, seen.speed_m_s / 0.035)
        return Wanted(seen.x * lateral, seen.y * lateral, vz, _law(seen.yaw, 3.5, 2.2, 1.0), vote)


def _read(o: np.ndarray) -> Seen:
    x, y, z, sine, cosine, vx, vy, vz, _, height, width, closed = o[:12].tolist()
    speed = math.sqrt(vx * vx + vy * vy + vz * vz)
    return Seen(x, y, z, math.atan2(sine, cosine) / 4.0, speed, height, width, closed > 0.5)


def _read_joints(o: np.ndarray, arm: Arm) -> Seen:
    tx, ty, tz, sine, cosine, width, closed = o[18:25].tolist()
    px, py, pz = arm.pose[:3, 3].tolist()
    yaw = math.atan2(arm.pose[1, 0], arm.pose[0, 0])
    error = math.remainder(math.atan2(sine, cosine) / 4.0 - yaw, math.pi / 2)
    return Seen(tx - px, ty - py, tz - pz, error, arm.speed_m_s, pz, width, closed > 0.5)


def _cartesian(wanted: Wanted) -> np.ndarray:
    scale = PERIOD_S / STEP_M
    action = [wanted.vx * scale, wanted.vy * scale, wanted.vz * scale, wanted.yaw_rate * PERIOD_S / STEP_YAW_RAD]
    return np.clip([*action, wanted.vote], -1.0, 1.0).astype(np.float32)


def _joints(wanted: Wanted, arm: Arm) -> np.ndarray:
    """One factor for all joints where one would exceed its step: the direction is kept."""
    tilt_gain = 2.0  # 1/s, of the tool's tilt
    twist = np.array([
        wanted.vx, wanted.vy, wanted.vz, -tilt_gain * arm.pose[1, 2], tilt_gain * arm.pose[0, 2], wanted.yaw_rate,
    ])
    step = np.linalg.solve(arm.jacobian, twist) * PERIOD_S / STEP_Q_RAD
    step /= max(1.0, float(np.abs(step).max()))
    return np.array([*step, wanted.vote], dtype=np.float32)


def _law(distance: float, gain: float, deceleration: float, limit: float) -> float:
    """Square-root law, odd in the distance."""
    d = abs(distance)
    knee = deceleration / gain**2
    speed = gain * d if d < knee else math.sqrt(2.0 * deceleration * d - (deceleration / gain) ** 2)
    return math.copysign(min(speed, limit), distance)


def _confidence(*beyond: float) -> float:
    """Vote, 1 where all is well: what is beyond that, in units of what is tolerated, lowers it, to below 0 when it is
    more than 1. Graded, because a clone learns a slope from many steps, a threshold from the one or two that pass it.
    """
    return max(-1.0, 1.0 - math.hypot(*(max(0.0, b) for b in beyond)))


def _ramp(value: float, width: float) -> float:
    """0 below 0, 1 above `width`, smooth between."""
    u = min(1.0, max(0.0, value / width))
    return u * u * (3.0 - 2.0 * u)
