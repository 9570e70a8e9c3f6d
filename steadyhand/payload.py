"""What hangs on the flange: mass and centre of mass, what the fingers prove about it, and when it may be changed. Pure.

The controller plans its motor torques with the payload it was told. A wrong one bends the motion and may end in a
protective stop; a payload changed under way is a step of torque. So it is changed at rest only, and only by what the
fingers show: their command and their measured width, resting. Source of the largest mass: UR5 user manual (5 kg).
"""
from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steadyhand import skills
from steadyhand.errors import ConfigError

MASS_MAX_KG = 5.0
COG_MAX_M = 0.30  # of each coordinate, in the flange; further out the UR5 carries next to nothing
WIDTH_RESTS_M, EVIDENCE_S = 0.002, 0.100  # the width has not changed by more for so long
CLOSED_M = 0.02  # a command below this closes
SHOWN_KG, SHOWN_M = 1e-3, 1e-3  # to which the controller must show what it was told
NAMES = ("tool_kg", "tool_cog_m", "object_kg", "object_cog_m")


@dataclass(frozen=True)
class Payload:
    """kg, and m in the flange. Raises ConfigError naming the field."""

    mass_kg: float
    cog_m: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        if not _number(self.mass_kg) or not 0.0 <= self.mass_kg <= MASS_MAX_KG:
            raise ConfigError(f"payload mass_kg={self.mass_kg!r}: give 0 to {MASS_MAX_KG}")
        if not isinstance(self.cog_m, tuple) or len(self.cog_m) != 3 or not all(map(_number, self.cog_m)):
            raise ConfigError(f"payload cog_m={self.cog_m!r}: give x, y, z in m, in the flange")
        if not all(-COG_MAX_M <= c <= COG_MAX_M for c in self.cog_m):
            raise ConfigError(f"payload cog_m={self.cog_m!r}: give coordinates from -{COG_MAX_M} to {COG_MAX_M} m")

    def __add__(self, other: Payload) -> Payload:
        """Both together. Raises ConfigError when that is more than the arm carries."""
        mass_kg = self.mass_kg + other.mass_kg
        if mass_kg == 0.0:
            return self
        cog = (
            (self.mass_kg * a + other.mass_kg * b) / mass_kg for a, b in zip(self.cog_m, other.cog_m)
        )
        return Payload(mass_kg, tuple(cog))

    def shown_by(self, mass_kg: float, cog_m: tuple[float, ...]) -> bool:
        """Whether these numbers of a controller are this payload. NaN is not."""
        near = all(abs(a - b) <= SHOWN_M for a, b in zip(self.cog_m, cog_m))
        return len(cog_m) == 3 and near and abs(self.mass_kg - mass_kg) <= SHOWN_KG

    def __str__(self) -> str:
        return f"{self.mass_kg:.3f} kg at ({', '.join(f'{c * 1e3:.0f}' for c in self.cog_m)}) mm"


@dataclass(frozen=True)
class PayloadConfig:
    """`tool`: the gripper, with nothing in it. `object`: what a grasp picks up; None when each request says it."""

    tool: Payload
    object: Payload | None = None


def config_of(raw: Any) -> PayloadConfig | None:
    """From the guard's YAML; None when it is empty: payload is then left to the pendant. Raises ConfigError."""
    if not isinstance(raw, Mapping):
        raise ConfigError(f"payload={raw!r}: give a map of {', '.join(NAMES)}")
    for name in raw:
        if name not in NAMES:
            raise ConfigError(f"payload.{name}: unknown; known: {', '.join(NAMES)}")
    if not raw:
        return None
    if "tool_kg" not in raw or "tool_cog_m" not in raw:
        raise ConfigError("payload: give tool_kg and tool_cog_m, those of the gripper")
    if ("object_kg" in raw) != ("object_cog_m" in raw):
        raise ConfigError("payload: give object_kg and object_cog_m, or neither")
    tool = payload_of(raw["tool_kg"], raw["tool_cog_m"])
    held = payload_of(raw["object_kg"], raw["object_cog_m"]) if "object_kg" in raw else None
    if held is not None:
        if held.mass_kg == 0.0:
            raise ConfigError("payload.object_kg=0: leave it out when objects are told apart by request")
        tool + held  # too much together is said now
    return PayloadConfig(tool, held)


def payload_of(mass_kg: Any, cog_m: Any) -> Payload:
    """From numbers that came from outside. Raises ConfigError."""
    return Payload(mass_kg, tuple(cog_m) if isinstance(cog_m, (list, tuple)) else cog_m)


class Evidence(enum.Enum):
    """What the fingers prove."""

    NONE = "nothing proved"
    HELD = "something is held"
    FREE = "nothing is held"  # open, or closed on nothing


class Fingers:
    """Evidence by command and measured width; what is not a number proves nothing."""

    def __init__(self) -> None:
        self.seen = Evidence.NONE  # at the newest measurement, resting or not
        self._width_m, self._since_s = math.inf, math.inf

    def update(self, stamp_s: float, width_m: float, commanded_m: float) -> None:
        """One measurement."""
        closed = commanded_m < CLOSED_M
        if skills.grasp_verified(width_m, closed):
            seen = Evidence.HELD
        elif skills.released(width_m, commanded_m != commanded_m or closed) or (
            closed and width_m <= skills.GRASP_WIDTH_MIN_M
        ):
            seen = Evidence.FREE
        else:
            seen = Evidence.NONE
        if seen is not self.seen or not abs(width_m - self._width_m) < WIDTH_RESTS_M:
            self.seen, self._width_m, self._since_s = seen, width_m, stamp_s

    def verified(self, now_s: float) -> Evidence:
        """What has rested for EVIDENCE_S."""
        return self.seen if now_s - self._since_s >= EVIDENCE_S else Evidence.NONE


def refusal(object_kg: float, evidence: Evidence, at_rest: bool) -> str:
    """Why what is held may not be said to be `object_kg` now; empty when it may."""
    if not at_rest:
        return "the arm is not at rest: the payload is switched at standstill only"
    if object_kg > 0.0 and evidence is not Evidence.HELD:
        return f"no verified grasp: {evidence.value} by command and width of the gripper"
    if object_kg == 0.0 and evidence is not Evidence.FREE:
        return f"no verified release: {evidence.value} by command and width of the gripper"
    return ""


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
