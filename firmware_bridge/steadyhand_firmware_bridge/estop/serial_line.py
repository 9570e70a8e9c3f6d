"""A button box on a serial line that proves at every moment that it is there. Silence is a stop.

Byte protocol, box to host, 8N1. While released the box sends 0x55 and 0xAA in turn, at least every 50 ms; when pressed
it sends 0x53 ('S'). The two take turns so that a stuck or echoing line is no life: only a byte unlike the last one
counts. Any other byte is a stop, since a damaged line must not be trusted. The host sends nothing.
"""
from __future__ import annotations

import os
import termios
import tty
from dataclasses import dataclass, field

from steadyhand.errors import ConfigError

BEATS, PRESSED = (0x55, 0xAA), 0x53
BAUDS = {rate: getattr(termios, f"B{rate}") for rate in (9600, 19200, 38400, 57600, 115200)}
REOPEN_S = 0.5


@dataclass
class Line:
    """What the bytes so far mean. Pure; before the first beat the box counts as silent."""

    timeout_s: float
    beats: int = 0
    _last: int | None = None
    _beat_s: float | None = None
    _reason: str = field(default="no heartbeat yet")

    def take(self, data: bytes, now_s: float) -> str:
        """Bytes that have just arrived (none is fine); why a stop is asked for, empty when none is.

        A pressed button or a bad byte is said at least once, even if a heartbeat follows in the same read.
        """
        said = ""
        for byte in data:
            if byte in BEATS:
                if byte != self._last:
                    self._beat_s, self.beats, self._reason = now_s, self.beats + 1, ""
                self._last = byte
                continue
            self._last = None
            self._beat_s = None
            self._reason = "button pressed" if byte == PRESSED else f"unknown byte 0x{byte:02x} on the line"
            said = self._reason
        if said:
            return said
        if self._beat_s is not None and now_s - self._beat_s > self.timeout_s:
            return f"no heartbeat for {self.timeout_s * 1e3:.0f} ms"
        return self._reason


class SerialInput:
    """One serial device."""

    name = "estop:serial"

    def __init__(self, device: str, baud: int = 115200, timeout_s: float = 0.150):
        if baud not in BAUDS:
            raise ConfigError(f"baud {baud}: give one of {', '.join(map(str, BAUDS))}")
        if not 0.02 <= timeout_s <= 2.0:
            raise ConfigError(f"timeout_s {timeout_s}: give 0.02 to 2 s")
        self.device, self._speed = device, BAUDS[baud]
        self.poll_s = min(0.02, timeout_s / 4)
        self.line = Line(timeout_s)
        self._fd = -1
        self._retry_s = 0.0

    def open(self) -> None:
        """Raises ConfigError when the device cannot be opened."""
        try:
            self._open()
        except (OSError, termios.error) as error:
            raise ConfigError(f"serial device {self.device}: {error}; check cable, name and group dialout") from error

    def _open(self) -> None:
        self._fd = os.open(self.device, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            tty.setraw(self._fd)
            settings = termios.tcgetattr(self._fd)
            settings[4] = settings[5] = self._speed
            termios.tcsetattr(self._fd, termios.TCSANOW, settings)
        except termios.error:
            self.close()
            raise

    def fileno(self) -> int:
        """The device; -1 while it is lost."""
        return self._fd

    def poll(self, now_s: float) -> str:
        """A lost device is a stop until it is back and the box beats again."""
        if self._fd < 0:
            if now_s - self._retry_s >= REOPEN_S:
                self._retry_s = now_s
                try:
                    self._open()
                    self.line = Line(self.line.timeout_s)
                except (OSError, termios.error):
                    self.close()
            return "device lost" if self._fd < 0 else self.line.take(b"", now_s)
        try:
            data = os.read(self._fd, 4096)
        except BlockingIOError:
            return self.line.take(b"", now_s)
        except OSError:
            data = b""
        if not data:  # hang-up: the adapter was pulled out
            self.close()
            return "device lost"
        return self.line.take(data, now_s)

    @property
    def ended(self) -> bool:
        """Never: a device may come back."""
        return False

    def close(self) -> None:
        """Close the device."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
