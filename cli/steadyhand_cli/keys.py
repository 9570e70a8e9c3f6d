"""Keys of a terminal as a jog command. Pure, but for `Terminal`, which reads them.

A terminal tells of presses and repeats, never of a release: a key moves for `HOLD_S`, each repeat for as long again.
"""
from __future__ import annotations

import os
import select
import sys
import termios
import tty
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand.jog import FRAMES, JogCommand, JogConfig

HOLD_S = 0.15
LINEAR = {"w": (0, 1), "s": (0, -1), "a": (1, 1), "d": (1, -1), "q": (2, 1), "e": (2, -1)}
ANGULAR = {"u": (3, 1), "o": (3, -1), "i": (4, 1), "k": (4, -1), "j": (5, 1), "l": (5, -1)}
HELP = """\
  w/s x   a/d y   q/e z   u/o i/k j/l turn about x y z    t: base or tool frame
  1..6 choose a joint, + and - move it    [ ] slower, faster
  c close, v open the gripper (at standstill)    space: STOP    x: leave (disarms)"""


@dataclass
class KeyMap:
    """`press` takes keys, `command` gives the velocity wanted now."""

    config: JogConfig = JogConfig()
    speed: float = 0.3  # share of the greatest speeds
    frame: str = FRAMES[0]
    joint: int = 0
    _values: tuple[float, ...] = (0.0,) * 6
    _is_joint: bool = False
    _until_s: float = float("-inf")

    def press(self, key: str, now_s: float) -> str:
        """One key; an act for the caller: "stop", "leave", "close", "open", or empty."""
        c = self.config
        acts = {" ": "stop", "x": "leave", "\x1b": "leave", "\x04": "leave", "c": "close", "v": "open"}
        if key in acts:
            self._until_s = float("-inf")
            return acts[key]
        if key in LINEAR or key in ANGULAR:
            axis, sign = (LINEAR | ANGULAR)[key]
            self._set(axis, sign * (c.linear_m_s if key in LINEAR else c.angular_rad_s), False, now_s)
        elif key in "123456" and key:
            self.joint = int(key) - 1
        elif key in ("+", "=", "-"):
            self._set(self.joint, (-1 if key == "-" else 1) * c.joint_rad_s, True, now_s)
        elif key == "t":
            self.frame = FRAMES[1 - FRAMES.index(self.frame)]
        elif key in ("[", "]"):
            self.speed = float(np.clip(self.speed * (0.8 if key == "[" else 1.25), 0.05, 1.0))
        return ""

    def _set(self, axis: int, value: float, is_joint: bool, now_s: float) -> None:
        values = [0.0] * 6
        values[axis] = value
        self._values, self._is_joint, self._until_s = tuple(values), is_joint, now_s + HOLD_S

    def command(self, now_s: float) -> JogCommand:
        """The velocity wanted now: zeros when no key is held. A living operator's stream never ends."""
        held = now_s < self._until_s
        values = tuple(v * self.speed for v in self._values) if held else (0.0,) * 6
        return JogCommand(now_s, values, self._is_joint, self.frame)


class Terminal:
    """Raw keys of standard input; a context manager that gives the terminal back."""

    def __init__(self, fd: int | None = None):
        self.fd = sys.stdin.fileno() if fd is None else fd
        self.closed = False

    def __enter__(self) -> Terminal:
        try:
            self._before = termios.tcgetattr(self.fd)
            tty.setcbreak(self.fd)
        except termios.error as error:
            raise ConfigError(f"needs a terminal on its standard input: {error}") from error
        return self

    def __exit__(self, *exc) -> None:
        try:
            termios.tcsetattr(self.fd, termios.TCSADRAIN, self._before)
        except termios.error:
            pass  # it is gone

    def read(self) -> str:
        """Keys that have come; sets `closed` at the terminal's end."""
        try:
            if not select.select([self.fd], [], [], 0)[0]:
                return ""
            data = os.read(self.fd, 256)
        except OSError:
            data = b""
        self.closed = not data
        return data.decode("ascii", "ignore")
