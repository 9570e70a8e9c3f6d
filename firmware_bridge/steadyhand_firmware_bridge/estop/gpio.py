"""A button on an input pin of this machine, wired normally closed: the pin reads 1 while released, 0 when pressed.

A broken wire then reads as pressed. `SysfsInput` reads the value file of the older kernel interface; `ChipInput` uses
the character device by the `gpiod` package (2.x), imported only here. The character device was not tried on hardware.
"""
from __future__ import annotations

import abc
import os
from pathlib import Path

from steadyhand.errors import ConfigError

POLL_S = 0.004


class _Pin(abc.ABC):
    """What both ways of reading share. One reading is enough: a flickering contact is a broken button."""

    poll_s = POLL_S
    ended = False

    def __init__(self, name: str, pressed_level: int):
        if pressed_level not in (0, 1):
            raise ConfigError(f"pressed level {pressed_level}: give 0 or 1")
        self.name, self._pressed = name, pressed_level

    @abc.abstractmethod
    def level(self) -> int:
        """The pin's level, 0 or 1. Raises OSError or ValueError when it cannot be read."""

    def fileno(self) -> int:
        """Polled: a level that was missed as an edge would be a missed stop."""
        return -1

    def poll(self, now_s: float) -> str:
        """Pressed, or unreadable."""
        try:
            level = self.level()
        except (OSError, ValueError) as error:
            return f"pin unreadable: {error}"
        return "button pressed, or its wire broken" if level == self._pressed else ""


class SysfsInput(_Pin):
    """`path` is the value file, such as /sys/class/gpio/gpio17/value (exported, direction in)."""

    def __init__(self, path: str, pressed_level: int = 0):
        super().__init__("estop:gpio", pressed_level)
        self._path, self._fd = Path(path), -1

    def open(self) -> None:
        """Raises ConfigError when the pin cannot be read."""
        try:
            self.level()
        except (OSError, ValueError) as error:
            remedy = "export the pin and set its direction to in"
            raise ConfigError(f"gpio value file {self._path}: {error}; {remedy}") from error

    def level(self) -> int:
        """Read anew each time."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            text = os.pread(self._fd, 8, 0).strip()
        except OSError:
            self.close()
            raise
        if text not in (b"0", b"1"):
            self.close()
            raise ValueError(f"reads {text!r}, wanted 0 or 1")
        return int(text)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class ChipInput(_Pin):
    """Line `line` of a GPIO character device such as /dev/gpiochip0."""

    def __init__(self, chip: str, line: int, pressed_level: int = 0):
        super().__init__("estop:gpio", pressed_level)
        self._chip, self._line, self._request, self._active = chip, line, None, None

    def open(self) -> None:
        """Raises ConfigError when the package is missing or the line cannot be had."""
        try:
            import gpiod
            from gpiod.line import Direction, Value
        except ImportError as error:
            raise ConfigError("estop gpio --chip needs gpiod 2: pip install 'gpiod>=2,<3'; or use --sysfs") from error
        self._active = Value.ACTIVE
        try:
            settings = gpiod.LineSettings(direction=Direction.INPUT)
            self._request = gpiod.request_lines(self._chip, consumer="steadyhand-estop", config={self._line: settings})
        except (OSError, ValueError) as error:
            raise ConfigError(f"gpio {self._chip} line {self._line}: {error}; check the name and group gpio") from error

    def level(self) -> int:
        """Read by the kernel."""
        return int(self._request.get_value(self._line) == self._active)

    def close(self) -> None:
        """Give the line back."""
        if self._request is not None:
            self._request.release()
            self._request = None
