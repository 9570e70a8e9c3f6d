"""The vehicle's own safety: emergency stop button, protective field, local stop, key switch. Pure; time is an argument.

It depends on no message: what stops the vehicle here stops it without broker and master. `paused` is what VDA 5050
calls so: driving is held, by a master's startPause or by a person at the vehicle, and the order can go on.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from steadyhand.errors import ConfigError
from steadyhand_sim.agv.vehicle_config import VehicleConfig

MODES = ("AUTOMATIC", "SEMIAUTOMATIC", "MANUAL", "SERVICE", "TEACHIN")


@dataclass(frozen=True)
class Obstacle:
    """A round thing on the floor, map frame."""

    x_m: float
    y_m: float
    radius_m: float

    def __post_init__(self) -> None:
        values = (self.x_m, self.y_m, self.radius_m)
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in values) or not 0 < self.radius_m <= 5:
            raise ConfigError(f"obstacle {values}: give x, y in metres and a radius above 0, at most 5 m")


class Safety:
    """State of button, field, line and key. `stop_hard` is emergency braking, `hold` is service braking."""

    def __init__(self, config: VehicleConfig) -> None:
        self._c = config
        self.button_pressed = False
        self.e_stop = False  # latched until acknowledged
        self.local_stop = False  # a line into the vehicle: held while it is set
        self.paused = False
        self.mode = "AUTOMATIC"
        self.field_violation = False
        self._clear_since_s: float | None = None
        # Of the field when it was violated: neither shrinks with the speed nor ends with the turn until it is clear.
        self._reach_m, self._turning = 0.0, False

    def press(self) -> None:
        """The emergency stop button. Latches; what was driven waits for the master's word afterwards."""
        self.button_pressed = self.e_stop = self.paused = True

    def release(self) -> None:
        """The button is pulled out again; still stopped."""
        self.button_pressed = False

    def acknowledge(self) -> str:
        """The acknowledge button. Why it does nothing; empty when the emergency stop is over (the vehicle is paused)."""
        if self.button_pressed:
            return "the emergency stop button is still pressed"
        self.e_stop = False
        return ""

    def watch_field(self, now_s: float, pose: tuple[float, float, float], speed_m_s: float, turning: bool,
                    obstacles: Iterable[Obstacle]) -> None:  # fmt: skip
        """The scanner's protective field in the direction of travel, as long as braking from this speed takes."""
        reach = self._c.length_m / 2 + self._c.field_m(speed_m_s)
        reach = self._reach_m = max(reach, self._reach_m) if self.field_violation else reach
        turning = self._turning = turning or (self.field_violation and self._turning)
        half = self._c.width_m / 2 + 0.05
        ahead = -1.0 if speed_m_s < 0 else 1.0
        c, s = math.cos(pose[2]), math.sin(pose[2])
        inside = False
        for o in obstacles:
            dx, dy = o.x_m - pose[0], o.y_m - pose[1]
            along, across = ahead * (c * dx + s * dy), -s * dx + c * dy
            nearest_x, nearest_y = min(max(along, 0.0), reach), min(max(across, -half), half)
            inside |= math.hypot(along - nearest_x, across - nearest_y) < o.radius_m
            inside |= turning and math.hypot(dx, dy) < o.radius_m + math.hypot(self._c.length_m, self._c.width_m) / 2
        if inside:
            self.field_violation, self._clear_since_s = True, None
        elif self.field_violation:
            self._clear_since_s = now_s if self._clear_since_s is None else self._clear_since_s
            self.field_violation = now_s - self._clear_since_s < self._c.field_clear_s

    @property
    def stop_hard(self) -> bool:
        """Emergency braking now."""
        return self.e_stop or self.field_violation

    @property
    def hold(self) -> bool:
        """Service braking now, the order stays."""
        return self.paused or self.local_stop

    def e_stop_kind(self, version: str) -> str:
        """As the standard's state says it: 3.0 has no AUTOACK, a field violation is its own flag there."""
        if self.e_stop:
            return "MANUAL"
        return "AUTOACK" if self.field_violation and version.startswith("2.") else "NONE"
