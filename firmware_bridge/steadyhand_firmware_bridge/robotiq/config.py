"""Parameters of a Robotiq gripper, validated where they enter (`robotiq:` in the guard's configuration)."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from steadyhand.errors import ConfigError

PORT = 63352
COUNT_MAX = 255  # of every register


@dataclass(frozen=True)
class RobotiqConfig:
    """A 2F-85 by default. `open_count` and `closed_count` are read from POS at commissioning: see docs/gripper.md."""

    host: str = ""  # where the URCap listens; empty: the robot's controller
    port: int = PORT
    stroke_m: float = 0.085  # opening at open_count; 0 at closed_count
    open_count: int = 0
    closed_count: int = 255
    speed_m_s: float = 0.150
    force_n: float = 40.0
    speed_range_m_s: tuple[float, float] = (0.020, 0.150)  # at SPE 0 and 255 (2F-85 data sheet)
    force_range_n: tuple[float, float] = (20.0, 235.0)  # at FOR 0 and 255 (2F-85 data sheet)
    poll_s: float = 0.050  # between two readings of the gripper's state
    answer_timeout_s: float = 0.500  # for one answer of the gripper
    state_timeout_s: float = 0.500  # for the worker's newest state, on the guard's side
    command_age_s: float = 0.100  # a command that could not be written for so long is dropped
    back_off_s: float = 0.200  # first wait before a new connection; doubles up to 2 s

    def __post_init__(self) -> None:
        if not isinstance(self.host, str):
            raise ConfigError(f"robotiq.host={self.host!r}: give an address, or leave it out for the controller's")
        for name, low, high in (("port", 1, 65535), ("open_count", 0, COUNT_MAX), ("closed_count", 0, COUNT_MAX)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(f"robotiq.{name}={value!r}: give a whole number from {low} to {high}")
        if self.closed_count - self.open_count < 50:
            counts = f"open_count={self.open_count}, closed_count={self.closed_count}"
            raise ConfigError(f"robotiq.{counts}: POS grows as the fingers close; give counts at least 50 apart")
        for name in ("speed_range_m_s", "force_range_n"):
            value = getattr(self, name)
            pair = isinstance(value, tuple) and len(value) == 2 and all(map(_number, value))
            if not (pair and 0 < value[0] < value[1]):
                raise ConfigError(f"robotiq.{name}={value!r}: give two rising numbers above 0")
        for name, (low, high) in self._ranges().items():
            value = getattr(self, name)
            if not (_number(value) and low <= value <= high):
                raise ConfigError(f"robotiq.{name}={value!r}: give a number from {low} to {high}")

    def _ranges(self) -> dict[str, tuple[float, float]]:
        return {
            "stroke_m": (0.01, 0.2), "speed_m_s": self.speed_range_m_s, "force_n": self.force_range_n,
            "poll_s": (0.01, 0.5), "answer_timeout_s": (0.05, 5.0), "state_timeout_s": (0.1, 5.0),
            "command_age_s": (0.02, 1.0), "back_off_s": (0.05, 2.0),
        }  # fmt: skip

    def count_of(self, width_m: float) -> int:
        """POS of an opening. Raises ConfigError for one that is not finite or outside the stroke."""
        if not (_number(width_m) and 0.0 <= width_m <= self.stroke_m + 1e-9):
            raise ConfigError(f"width_m={width_m!r}: give 0 to {self.stroke_m}")
        share = 1.0 - width_m / self.stroke_m
        return round(self.open_count + share * (self.closed_count - self.open_count))

    def width_of(self, count: int) -> float:
        """Opening (m) at a POS; not clipped, so that a wrong calibration shows."""
        return self.stroke_m * (self.closed_count - count) / (self.closed_count - self.open_count)

    @property
    def speed_count(self) -> int:
        """SPE of `speed_m_s`."""
        return _scaled(self.speed_m_s, self.speed_range_m_s)

    @property
    def force_count(self) -> int:
        """FOR of `force_n`."""
        return _scaled(self.force_n, self.force_range_n)


def of(raw: Mapping[str, Any]) -> RobotiqConfig:
    """From a map of YAML. Raises ConfigError naming the field."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"robotiq={raw!r}: give a map of parameters")
    known = {f.name for f in fields(RobotiqConfig)}
    for name in raw:
        if name not in known:
            raise ConfigError(f"robotiq.{name}: unknown; known: {', '.join(sorted(known))}")
    return RobotiqConfig(**{name: tuple(v) if isinstance(v, list) else v for name, v in raw.items()})


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _scaled(value: float, limits: tuple[float, float]) -> int:
    return round(COUNT_MAX * (value - limits[0]) / (limits[1] - limits[0]))
