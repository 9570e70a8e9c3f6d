"""Script ports (30001 primary, 30002 secondary, 30003 real-time): a text sent here is run as a program.

Source: Universal Robots, "Remote Control Via TCP/IP": URScript commands and programs end with a new line; a program
runs when its `end` has arrived; `sec` programs run beside the main one. What the ports say by themselves is in `primary`;
the real-time port's packages are not emulated.
"""
from __future__ import annotations

from steadyhand.errors import ProtocolError
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.net import Connection

PORTS = (30001, 30002, 30003)
MAX_PROGRAM = 1 << 20
_OPENERS = ("def", "sec", "thread", "while", "if", "switch", "case", "default", "for")


class ScriptFramer:
    """Cuts a stream of text into programs: from a first line to the `end` that closes it, or one line alone."""

    def __init__(self) -> None:
        self._partial = b""
        self._lines: list[str] = []
        self._size = 0
        self._depth = 0

    def feed(self, data: bytes) -> list[str]:
        """Complete programs. Raises ProtocolError when one grows beyond MAX_PROGRAM."""
        self._partial += data
        *lines, self._partial = self._partial.split(b"\n")
        programs = []
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip("\r")
            self._size += len(raw) + 1
            if self._depth == 0 and _word(line) == "":
                # blank and comment lines before a program belong to it: a header may say what it is
                self._lines.append(line)
            else:
                self._lines.append(line)
                self._depth += _opens(line)
                if self._depth <= 0:
                    programs.append("\n".join(self._lines) + "\n")
                    self._lines, self._size, self._depth = [], 0, 0
        if self._size + len(self._partial) > MAX_PROGRAM:
            raise ProtocolError(f"program of more than {MAX_PROGRAM} bytes")
        return programs


def _word(line: str) -> str:
    """First word of a line's code, empty for blank and comment lines."""
    code = line.split("#", 1)[0].strip()
    for stop in " \t(:":
        code = code.split(stop, 1)[0]
    return code


def _opens(line: str) -> int:
    word = _word(line)
    return -1 if word == "end" else int(word in _OPENERS)


class ScriptSession:
    """One client of a script port."""

    def __init__(self, controller: URController, connection: Connection):
        self._controller, self._connection = controller, connection
        self._framer = ScriptFramer()

    def received(self, data: bytes) -> None:
        """Run what is complete."""
        for program in self._framer.feed(data):
            first = next((w for w in map(_word, program.splitlines()) if w), "")
            if first == "sec":
                self._controller.run_secondary(program)
            elif first != "end":
                self._controller.start_program(program)

    def closed(self) -> None:
        """An unfinished program is dropped."""
