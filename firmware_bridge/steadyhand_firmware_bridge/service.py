"""What a process tells whoever runs it: lines for people, and systemd's notifications. Nothing here waits or raises.

The notifications are datagrams to the socket that `NOTIFY_SOCKET` names (sd_notify(3)); without one nothing is sent.
"""
from __future__ import annotations

import contextlib
import faulthandler
import os
import socket
import sys
import traceback
from collections.abc import Mapping


def say(line: str, error: bool = False) -> None:
    """A line to stdout or stderr. A full disk behind them, or a reader that has gone, is no reason to end."""
    try:
        print(line, file=sys.stderr if error else sys.stdout, flush=True)
    except (OSError, ValueError):
        pass


def say_exception() -> None:
    """The traceback of the exception being handled."""
    say(traceback.format_exc().rstrip(), error=True)


def say_where_it_hangs() -> None:
    """From now on a process that its watchdog ends (SIGABRT) prints where it was, unless it has no stderr."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, AttributeError):
        faulthandler.enable(sys.__stderr__)


class Notifier:
    """`turned(now_s)` from the loop itself, each turn: READY at the first, then the watchdog's sign of life.

    No timer and no thread of its own: a loop that hangs is silent, and systemd ends it.
    """

    def __init__(self, status: str = "", environ: Mapping[str, str] = os.environ, pid: int = 0):
        self.sent = 0
        self._status = status
        self._socket: socket.socket | None = None
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._next_s: float | None = None
        micros = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", "") in ("", str(pid or os.getpid()))
        # a quarter: systemd advises half, and a loop may be late
        self._interval_s = int(micros) * 0.25e-6 if ours and micros.isdecimal() and int(micros) else float("inf")
        if self._address[:1] in ("/", "@"):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.setblocking(False)
            if self._address[0] == "@":
                self._address = "\0" + self._address[1:]

    def turned(self, now_s: float) -> None:
        """The loop has turned once more."""
        if self._socket is None or (self._next_s is not None and now_s < self._next_s):
            return
        if self._send(f"READY=1\nSTATUS={self._status}" if self._next_s is None else "WATCHDOG=1"):
            self._next_s = now_s + self._interval_s

    def ending(self) -> None:
        """The process ends in order."""
        if self._socket is not None:
            self._send("STOPPING=1")
            self._socket.close()
            self._socket = None

    def _send(self, text: str) -> bool:
        """False when its buffer is full or nobody is there: the next turn tries again."""
        try:
            self._socket.sendto(text.encode(), self._address)
        except OSError:
            return False
        self.sent += 1
        return True
