"""A gamepad as a jog command, and one winner among several command streams. Pure.

Without the dead-man button pressed the command is zero: the arm comes to rest, armed. A gamepad that is unplugged sends
nothing more, and silence is a stop.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.jog import JogCommand, JogConfig, JogRefused

MAX_INPUTS = 64


@dataclass(frozen=True)
class JoyConfig:
    """Which axis and which button does what. The defaults fit an Xbox-like pad as `joy_node` reports it."""

    axes: tuple[int, ...] = described((1, 0, 4, -1, -1, 3), "axis for x y z and turns about x y z; -1: none")
    signs: tuple[float, ...] = described((1.0, 1.0, 1.0, 1.0, 1.0, 1.0), "direction of each, 1 or -1")
    dead_man: int = described(4, "button that must be held to move", "", 0, MAX_INPUTS - 1)
    stop: int = described(1, "button that stops", "", 0, MAX_INPUTS - 1)
    gripper_close: int = described(0, "button that closes the gripper, at standstill", "", 0, MAX_INPUTS - 1)
    gripper_open: int = described(3, "button that opens the gripper, at standstill", "", 0, MAX_INPUTS - 1)
    dead_zone: float = described(0.10, "deflection that counts as none", "", 0.0, 0.5)
    speed: float = described(0.5, "share of the greatest speeds at full deflection", "", 0.05, 1.0)
    frame: str = described("base_link", "frame of the motion: base_link or tool")

    def __post_init__(self) -> None:
        check_ranges(self)
        if len(self.axes) != 6 or any(not -1 <= a < MAX_INPUTS for a in self.axes):
            raise ConfigError(f"JoyConfig.axes = {list(self.axes)}: give six axis numbers from -1 to {MAX_INPUTS - 1}")
        if len(self.signs) != 6 or any(abs(s) != 1.0 for s in self.signs):
            raise ConfigError(f"JoyConfig.signs = {list(self.signs)}: give six of 1.0 and -1.0")
        buttons = (self.dead_man, self.stop, self.gripper_close, self.gripper_open)
        if len(set(buttons)) != len(buttons):
            raise ConfigError(f"JoyConfig: buttons {list(buttons)} for dead_man, stop, gripper: give four that differ")


@dataclass(frozen=True)
class JoyReading:
    """What a gamepad asks for now. `stop` and `gripper_m` act once per press, at its beginning."""

    command: JogCommand
    stop: bool = False
    close: bool = False
    open: bool = False


class JoyMap:
    """Axes and buttons to commands; remembers which buttons were down."""

    def __init__(self, config: JoyConfig = JoyConfig(), speeds: JogConfig = JogConfig()):
        self.config = config
        self._scale = (speeds.linear_m_s,) * 3 + (speeds.angular_rad_s,) * 3
        self._down: frozenset[int] = frozenset()

    def read(self, axes: Sequence[float], buttons: Sequence[int], now_s: float) -> JoyReading:
        """Raises JogRefused for a pad that lacks a configured axis or button, or whose values are not finite.

        Its stop button counts all the same.
        """
        c = self.config
        down = frozenset(k for k, pressed in enumerate(buttons[:MAX_INPUTS]) if pressed)
        new, self._down = down - self._down, down
        wrong = self._wrong(axes, buttons)
        if wrong and c.stop in new:
            return JoyReading(JogCommand(now_s, (0.0,) * 6, frame=c.frame), stop=True)
        if wrong:
            raise JogRefused(wrong)
        values = tuple(
            0.0 if axis < 0 or c.dead_man not in down else sign * scale * c.speed * self._deflection(axes[axis])
            for axis, sign, scale in zip(c.axes, c.signs, self._scale)
        )
        command = JogCommand(now_s, values, frame=c.frame)
        return JoyReading(command, c.stop in new, c.gripper_close in new, c.gripper_open in new)

    def _wrong(self, axes: Sequence[float], buttons: Sequence[int]) -> str:
        """Why a reading cannot be used; empty when it can."""
        c, what = self.config, f"joy: {len(axes)} axes, {len(buttons)} buttons"
        if len(axes) > MAX_INPUTS or len(buttons) > MAX_INPUTS:
            return f"{what}: at most {MAX_INPUTS} are read"
        if max(c.axes) >= len(axes) or max(c.dead_man, c.stop, c.gripper_close, c.gripper_open) >= len(buttons):
            return f"{what}: fewer than the configuration names"
        spoiled = [k for k, a in enumerate(axes) if not math.isfinite(a)]
        return f"joy: axis {spoiled[0]} = {axes[spoiled[0]]} is not finite: check the gamepad" if spoiled else ""

    def _deflection(self, value: float) -> float:
        """-1 to 1, zero inside the dead zone and continuous at its edge."""
        value = min(1.0, max(-1.0, value))
        size = max(0.0, abs(value) - self.config.dead_zone) / (1.0 - self.config.dead_zone)
        return math.copysign(size, value)


class Arbiter:
    """Several command streams, one winner: the stream that moves keeps the arm until it is zero or silent."""

    def __init__(self, timeout_s: float):
        self.timeout_s = timeout_s
        self.overruled = 0
        self._newest: dict[str, JogCommand] = {}
        self._owner = ""

    def put(self, source: str, command: JogCommand) -> None:
        """A new command of one stream."""
        self._newest[source] = command
        owner = self._newest.get(self._owner)
        busy = owner is not None and any(owner.values) and command.stamp_s - owner.stamp_s <= self.timeout_s
        if source == self._owner or not busy:
            self._owner = source
        elif any(command.values):
            self.overruled += 1

    def command(self) -> JogCommand | None:
        """The owner's newest command; None before any."""
        return self._newest.get(self._owner)
