"""Any key of a terminal is a stop. The terminal is put into raw mode and given back as it was."""
from __future__ import annotations

import os
import select
import sys
import termios
import tty

from steadyhand.errors import ConfigError


class KeyboardInput:
    """Any key stops, once per key press; the end of the terminal stops too and ends the plug-in."""

    name = "estop:keyboard"
    poll_s = 0.2

    def __init__(self, fd: int | None = None):
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._before: list | None = None
        self._ended = False

    def open(self) -> None:
        """Raises ConfigError when this is no terminal."""
        try:
            self._before = termios.tcgetattr(self._fd)
            tty.setcbreak(self._fd)  # keys at once, Ctrl-C still interrupts (and the end of the process stops)
        except (termios.error, OSError) as error:
            raise ConfigError(f"estop keyboard needs a terminal on its standard input: {error}") from error

    def fileno(self) -> int:
        """The terminal."""
        return -1 if self._ended else self._fd

    def poll(self, now_s: float) -> str:
        """A key, or the terminal's end."""
        if self._ended:
            return "terminal closed"
        try:
            if not select.select([self._fd], [], [], 0)[0]:
                return ""
            keys = os.read(self._fd, 1024)
        except (OSError, ValueError):
            keys = b""
        if not keys:
            self._ended = True
            return "terminal closed"
        return "key pressed"

    @property
    def ended(self) -> bool:
        """The terminal was closed."""
        return self._ended

    def close(self) -> None:
        """Give the terminal back."""
        if self._before is not None:
            try:
                termios.tcsetattr(self._fd, termios.TCSADRAIN, self._before)
            except (termios.error, OSError):
                pass  # it is gone
            self._before = None
