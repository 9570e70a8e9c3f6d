"""Drives along straight lines between nodes within limits of speed and acceleration. Pure: pose in, velocities out.

On a line the heading is steered to a point ahead of the vehicle on that line; in place it turns. Speeds change by the
acceleration and, downwards, by the deceleration that the load leaves; only `emergency` goes beyond.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from steadyhand_sim.agv.vehicle_config import VehicleConfig

LOOK_AHEAD_M, LOOK_AHEAD_S = 0.25, 0.25  # the aim lies so far ahead: nearer when slow, so that a dock is met
TURN_FIRST_RAD = 0.35  # more than this off the line's heading: turn in place first
TURN_ROOM_M = 0.45  # nearer to the end than this it no longer turns before it drives
TURN_GAIN, NEAR_M = 2.0, 1e-3


@dataclass(frozen=True)
class Line:
    """A straight way from `start` to `end` (x, y). `end_speed_m_s`: what the next line lets it arrive with."""

    start: tuple[float, float]
    end: tuple[float, float]
    max_speed_m_s: float
    max_rotation_rad_s: float
    backwards: bool = False
    end_speed_m_s: float = 0.0

    @property
    def heading_rad(self) -> float:
        """Direction of the vehicle's front on it."""
        turn = math.pi if self.backwards else 0.0
        return math.remainder(math.atan2(self.end[1] - self.start[1], self.end[0] - self.start[0]) + turn, math.tau)

    @property
    def length_m(self) -> float:
        """From start to end."""
        return math.hypot(self.end[0] - self.start[0], self.end[1] - self.start[1])

    def split(self, x_m: float, y_m: float) -> tuple[float, float]:
        """Way left to the end along the line (negative behind it), and distance from the line (left positive)."""
        length = self.length_m
        if length < NEAR_M:
            return 0.0, 0.0
        ux, uy = (self.end[0] - self.start[0]) / length, (self.end[1] - self.start[1]) / length
        dx, dy = self.end[0] - x_m, self.end[1] - y_m
        return ux * dx + uy * dy, ux * -dy + uy * dx


@dataclass
class Follower:
    """Commands of one vehicle. `speed_m_s` and `rotation_rad_s` are what is commanded now."""

    config: VehicleConfig
    speed_m_s: float = 0.0
    rotation_rad_s: float = 0.0

    @property
    def at_rest(self) -> bool:
        """Whether nothing is commanded."""
        return self.speed_m_s == 0.0 and self.rotation_rad_s == 0.0

    def follow(self, line: Line, pose: tuple[float, float, float], load_kg: float) -> None:
        """One period along a line."""
        c = self.config
        left, off = line.split(pose[0], pose[1])
        error = math.remainder(line.heading_rad - pose[2], math.tau)
        stands = abs(self.speed_m_s) < 1e-9
        if abs(error) > TURN_FIRST_RAD or (stands and abs(error) > c.arrival_rad and left > TURN_ROOM_M):
            if not stands:
                self._ramp(0.0, 0.0, load_kg)
            else:
                self.turn(error, load_kg, line.max_rotation_rad_s)
            return
        sign = -1.0 if line.backwards else 1.0
        braking = c.deceleration_m_s2(load_kg)
        lag = braking * c.period_s  # the command of this period holds until the next
        room = max(0.0, left)
        stop_speed = math.sqrt(line.end_speed_m_s**2 + 2 * braking * room + lag**2 / 4) - lag / 2
        speed = min(line.max_speed_m_s, c.max_speed_m_s, max(stop_speed, 0.0))
        if left <= 0.0 and line.end_speed_m_s <= 0.0:
            speed = 0.0
        aim = error - sign * math.atan2(off, LOOK_AHEAD_M + LOOK_AHEAD_S * abs(self.speed_m_s))
        limit = min(c.max_rotation_rad_s, line.max_rotation_rad_s)
        wanted = max(-limit, min(limit, TURN_GAIN * aim * max(0.3, min(1.0, abs(self.speed_m_s) / 0.3))))
        self._ramp(sign * speed, wanted if speed > 0.0 else 0.0, load_kg)

    def turn(self, error_rad: float, load_kg: float, max_rotation_rad_s: float = math.inf) -> None:
        """One period of turning in place towards a heading that is `error_rad` away."""
        c = self.config
        braking = c.rotation_acceleration_rad_s2 * c.share(load_kg)
        lag = braking * c.period_s
        speed = math.sqrt(2 * braking * abs(error_rad) + lag**2 / 4) - lag / 2
        speed = min(speed, 3.0 * abs(error_rad) + 0.02, c.max_rotation_rad_s, max_rotation_rad_s)
        self._ramp(0.0, math.copysign(speed, error_rad), load_kg)

    def creep(self, left_m: float, load_kg: float) -> None:
        """One period of slow motion straight ahead (or back) over the way that is left, for docking."""
        speed = min(0.08, 1.5 * abs(left_m))
        self._ramp(math.copysign(speed, left_m), 0.0, load_kg)

    def stop(self, load_kg: float) -> None:
        """One period of service braking."""
        self._ramp(0.0, 0.0, load_kg)

    def emergency(self) -> None:
        """One period of emergency braking, at any load."""
        c = self.config
        self.speed_m_s = _towards(self.speed_m_s, 0.0, c.emergency_m_s2 * c.period_s)
        self.rotation_rad_s = _towards(self.rotation_rad_s, 0.0, 2 * c.emergency_m_s2 / c.track_m * c.period_s)

    def _ramp(self, speed: float, rotation: float, load_kg: float) -> None:
        c = self.config
        slowing = abs(speed) < abs(self.speed_m_s) or speed * self.speed_m_s < 0
        rate = c.deceleration_m_s2(load_kg) if slowing else c.acceleration_m_s2 * c.share(load_kg)
        self.speed_m_s = _towards(self.speed_m_s, speed, rate * c.period_s)
        turning = c.rotation_acceleration_rad_s2 * c.share(load_kg) * c.period_s
        self.rotation_rad_s = _towards(self.rotation_rad_s, rotation, turning)


def _towards(value: float, target: float, step: float) -> float:
    return target if abs(target - value) <= step else value + math.copysign(step, target - value)
