"""The lines of the URCap's socket, both ways. Pure. What is not exactly an answer to what was asked is a ProtocolError,
whose first word names its kind: garbage, foreign, out_of_range, oversized, refused."""
from __future__ import annotations

import re
from collections.abc import Mapping

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.robotiq.config import COUNT_MAX

WRITABLE = ("ACT", "GTO", "ATR", "ARD", "FOR", "SPE", "POS")
READABLE = (*WRITABLE, "STA", "PRE", "OBJ", "FLT", "COU")
HIGHEST = {"ACT": 1, "GTO": 1, "ATR": 1, "ARD": 1, "STA": 3, "OBJ": 3}  # any other: COUNT_MAX
MAX_LINE = 64
SHOWN = 40
_VALUE = re.compile(rb"[A-Z]{3} (\d{1,3}|\?)")


def set_line(values: Mapping[str, int]) -> bytes:
    """`SET POS 100 GTO 1`, taken as a whole. Raises ProtocolError for a name or value that is none of the gripper's."""
    words = []
    for name, value in values.items():
        if name not in WRITABLE:
            raise ProtocolError(f"foreign {name!r}: give one of {', '.join(WRITABLE)}")
        words += [name, str(_checked(name, value))]
    return f"SET {' '.join(words)}\n".encode()


def get_line(name: str) -> bytes:
    """`GET POS`."""
    if name not in READABLE:
        raise ProtocolError(f"foreign {name!r}: give one of {', '.join(READABLE)}")
    return f"GET {name}\n".encode()


def acknowledged(line: bytes) -> None:
    """The answer to a SET. Raises ProtocolError for any other."""
    if line.strip() != b"ack":
        raise ProtocolError(f"refused SET: {line[:SHOWN]!r}, wanted ack")


def value_of(line: bytes, name: str) -> int | None:
    """The value in the answer to `GET name`; None for `?`, which is said while the gripper cannot be read."""
    words = line.split()
    if len(words) != 2 or not words[0].isalpha():
        raise ProtocolError(f"garbage {line[:SHOWN]!r} in answer to GET {name}")
    if words[0] != name.encode():
        raise ProtocolError(f"foreign {line[:SHOWN]!r} in answer to GET {name}")
    if words[1] == b"?":
        return None
    if not words[1].isdigit() or len(words[1]) > 3:  # ASCII digits only: no sign, no point, no nan
        raise ProtocolError(f"garbage {line[:SHOWN]!r} in answer to GET {name}")
    return _checked(name, int(words[1]))


def _checked(name: str, value: int) -> int:
    highest = HIGHEST.get(name, COUNT_MAX)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= highest:
        raise ProtocolError(f"out_of_range {name} {value!r}: 0 to {highest}")
    return value


class Lines:
    """Cuts a stream into lines."""

    def __init__(self) -> None:
        self._buffer = b""

    @property
    def partial(self) -> bytes:
        """What has come of the next line."""
        return self._buffer

    def feed(self, data: bytes) -> None:
        """More bytes. Raises ProtocolError when a line does not end."""
        self._buffer += data
        if len(self._buffer.split(b"\n", 1)[0]) > MAX_LINE:
            raise ProtocolError(f"oversized line: more than {MAX_LINE} bytes")

    def take(self, settled: bool = False) -> bytes | None:
        """The next answer, without its end; None when it is not there yet.

        `ack` has no end of line (the URCap's own script reads three bytes). Whether a value has one no source says: one
        without is taken when it is complete in form and nothing has followed for a while (`settled`).
        """
        if b"\n" in self._buffer:
            line, self._buffer = self._buffer.split(b"\n", 1)
            return line.rstrip(b"\r")
        if self._buffer == b"ack" or settled and _VALUE.fullmatch(self._buffer):
            line, self._buffer = self._buffer, b""
            return line
        return None
