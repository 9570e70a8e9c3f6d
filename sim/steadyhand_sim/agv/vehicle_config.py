"""The simulated vehicle's figures. Invented for a small differential-drive carrier, unless a source is named."""
from __future__ import annotations

import math
from dataclasses import dataclass, fields

from steadyhand.errors import ConfigError


def parse_pose(option: str, text: str) -> tuple[float, float, float]:
    """x, y (m) and heading (rad) of "X,Y,HEADING"; raises ConfigError naming the option."""
    try:
        x, y, heading = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(f"{option} {text!r}: give X,Y,HEADING") from error
    if not all(map(math.isfinite, (x, y, heading))):
        raise ConfigError(f"{option} {text!r}: give finite numbers")
    return x, y, heading


@dataclass(frozen=True)
class VehicleConfig:
    """Geometry in metres (x forward, from the middle of the wheels' axle), masses in kg, limits in SI units.

    The braking force is fixed, so deceleration falls with the load: `deceleration_m_s2(load)`. The emergency brake is
    held by the wheels' grip instead, which grows with the mass.
    """

    length_m: float = 0.80
    width_m: float = 0.60
    height_m: float = 0.65
    track_m: float = 0.50
    wheel_radius_m: float = 0.10
    ticks_per_m: float = 1.0 / 2.15e-6  # as the recorded tricycle's traction counter, calibrated (`fit_noise`)
    mass_kg: float = 60.0
    max_load_kg: float = 40.0
    max_speed_m_s: float = 1.2
    max_rotation_rad_s: float = 1.2
    acceleration_m_s2: float = 0.6  # unladen
    braking_m_s2: float = 0.8  # unladen, service brake
    emergency_m_s2: float = 2.5  # at any load: grip
    rotation_acceleration_rad_s2: float = 2.0
    period_s: float = 0.04
    field_margin_m: float = 0.25  # what is left in front when stopped by the protective field
    field_clear_s: float = 2.0  # the field must be free for so long before it drives on by itself
    arrival_m: float = 0.03  # it brakes and steers for a node to be met so near
    arrival_limit_m: float = 0.25  # a node is not reached further away than this, or than the order allows if that is more
    arrival_rad: float = 0.05
    dock_m: float = 0.012
    dock_rad: float = 0.02
    off_path_m: float = 0.5  # further from its line than this it stops for good
    battery_wh: float = 480.0
    idle_w: float = 35.0
    rolling_resistance: float = 0.015
    drive_efficiency: float = 0.7
    charge_w: float = 400.0
    battery_low_percent: float = 20.0
    battery_empty_percent: float = 3.0

    def __post_init__(self) -> None:
        for f in fields(self):
            value = getattr(self, f.name)
            if not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
                raise ConfigError(f"vehicle {f.name}={value!r}: give a finite value above 0")
        if self.track_m >= self.width_m:
            raise ConfigError(f"vehicle track_m={self.track_m}: less than width_m={self.width_m}")
        if self.drive_efficiency > 1:
            raise ConfigError(f"vehicle drive_efficiency={self.drive_efficiency}: give at most 1")
        if self.period_s > 0.1:
            raise ConfigError(f"vehicle period_s={self.period_s}: give at most 0.1 s")

    def share(self, load_kg: float) -> float:
        """What the load leaves of an acceleration that the unladen vehicle has."""
        return self.mass_kg / (self.mass_kg + max(0.0, load_kg))

    def deceleration_m_s2(self, load_kg: float) -> float:
        """Service braking with a load."""
        return self.braking_m_s2 * self.share(load_kg)

    def stopping_m(self, speed_m_s: float, load_kg: float) -> float:
        """Way that the service brake takes, one control period of reaction included."""
        return speed_m_s**2 / (2 * self.deceleration_m_s2(load_kg)) + abs(speed_m_s) * self.period_s

    def field_m(self, speed_m_s: float) -> float:
        """Length of the protective field before the vehicle's front: emergency braking way, reaction and margin."""
        return speed_m_s**2 / (2 * self.emergency_m_s2) + abs(speed_m_s) * 2 * self.period_s + self.field_margin_m


@dataclass
class Battery:
    """Charge of a battery, in watt hours. `step` passes time; never below empty or above full."""

    config: VehicleConfig
    charge_wh: float
    charging: bool = False

    @property
    def percent(self) -> float:
        """State of charge."""
        return 100.0 * self.charge_wh / self.config.battery_wh

    @property
    def voltage_v(self) -> float:
        """Open-circuit voltage of eight LiFePO4 cells, linear between empty and full (a coarse model)."""
        return 8 * (3.0 + 0.35 * self.percent / 100.0)

    @property
    def reach_m(self) -> float:
        """Way that is left at half of the top speed, unladen."""
        c = self.config
        speed = c.max_speed_m_s / 2
        power_w = c.idle_w + c.rolling_resistance * c.mass_kg * 9.81 * speed / c.drive_efficiency
        return self.charge_wh * 3600.0 / power_w * speed

    def step(self, dt_s: float, speed_m_s: float, acceleration_m_s2: float, load_kg: float) -> None:
        """Rolling resistance and acceleration of the whole mass; braking gives nothing back."""
        c = self.config
        mass_kg = c.mass_kg + load_kg
        force_n = c.rolling_resistance * mass_kg * 9.81 + mass_kg * max(0.0, acceleration_m_s2)
        power_w = c.idle_w + force_n * abs(speed_m_s) / c.drive_efficiency - (c.charge_w if self.charging else 0.0)
        self.charge_wh = min(c.battery_wh, max(0.0, self.charge_wh - power_w * dt_s / 3600.0))
