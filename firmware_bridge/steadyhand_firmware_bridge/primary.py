"""The controller's primary port (30001), read only: why a program was refused or died, which one runs, what is configured.

Packages come ten times a second, messages when they happen; nothing is ever sent. The parsers are pure; `PrimaryClient`
never waits. What cannot be read costs the connection, counted; an arming asks for what is configured. Source: Universal Robots,
"Remote Control Via TCP/IP"; Universal_Robots_Client_Library `src/primary`.
"""
from __future__ import annotations

import errno
import math
import socket
import struct
from collections import Counter, deque
from dataclasses import dataclass

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.right_robot import DhParameters

PRIMARY_PORT = 30001
MAX_PACKAGE = 1 << 16
MAX_READ = 8192  # a look: bounds what a flood costs the guard's cycle
ROBOT_STATE, ROBOT_MESSAGE = 16, 20
CARTESIAN_INFO, CONFIGURATION_DATA = 4, 6
KEY, RUNTIME_EXCEPTION = 7, 10
TEXT_MAX = 300
RECONNECT_S = 1.0


@dataclass(frozen=True)
class ScriptError:
    """A runtime exception message; compile errors come by it too."""

    line: int
    column: int
    text: str

    def __str__(self) -> str:
        where = f"line {self.line}" + (f", column {self.column}" if self.column > 0 else "")
        return f"{where}: {self.text}"


@dataclass(frozen=True)
class KeyEvent:
    """`PROGRAM_XXX_STARTED`, `PROGRAM_XXX_STOPPED` ...; `text` is the program's name."""

    title: str
    text: str


@dataclass(frozen=True)
class Configured:
    """Configuration data: what the controller's own kinematics and limits are. Arrays of six, rad, m, rad/s."""

    q_min_rad: tuple[float, ...]
    q_max_rad: tuple[float, ...]
    qd_max_rad_s: tuple[float, ...]
    dh: DhParameters


@dataclass(frozen=True)
class TcpOffset:
    """TCP in the flange: x, y, z (m), rotation vector (rad)."""

    pose: tuple[float, ...]


Item = ScriptError | KeyEvent | Configured | TcpOffset


class Packages:
    """Cuts the stream into packages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Whole packages: type, body. Raises ProtocolError for a length that cannot be."""
        self._buffer += data
        found = []
        while len(self._buffer) >= 5:
            size, kind = struct.unpack_from(">IB", self._buffer)
            if not 5 <= size <= MAX_PACKAGE:
                raise ProtocolError(f"primary port: package of {size} bytes")
            if len(self._buffer) < size:
                break
            found.append((kind, bytes(self._buffer[5:size])))
            del self._buffer[:size]
        return found


def messages(kind: int, body: bytes) -> list[Item]:
    """Program messages of a package; state packages are left alone, they come too often. Raises ProtocolError."""
    if kind != ROBOT_MESSAGE:
        return []
    try:
        message = struct.unpack_from(">QBB", body)[2]
        rest = body[10:]
        if message == RUNTIME_EXCEPTION:
            line, column = struct.unpack_from(">ii", rest)
            return [ScriptError(line, column, _text(rest[8:]))]
        if message == KEY:
            size = struct.unpack_from(">iiB", rest)[2]
            if len(rest) < 9 + size:
                raise ProtocolError(f"primary port: key message of {len(rest)} bytes, title of {size}")
            return [KeyEvent(_text(rest[9 : 9 + size]), _text(rest[9 + size :]))]
    except struct.error as error:
        raise ProtocolError(f"primary port: message of {len(body)} bytes: {error}") from error
    return []


def configuration(kind: int, body: bytes) -> list[Item]:
    """Configuration and TCP in a state package. Raises ProtocolError."""
    found: list[Item] = []
    while kind == ROBOT_STATE and body:
        try:
            size, part = struct.unpack_from(">IB", body)
            if not 5 <= size <= len(body):
                raise ProtocolError(f"primary port: sub-package of {size} bytes, {len(body)} are left")
            if part == CARTESIAN_INFO:
                found.append(TcpOffset(_finite(struct.unpack_from(">12d", body[:size], 5)[6:])))
            elif part == CONFIGURATION_DATA:
                v = _finite(struct.unpack_from(">53d", body[:size], 5))
                dh = DhParameters(v[29:35], v[35:41], v[41:47], v[47:53])
                found.append(Configured(v[0:12:2], v[1:12:2], v[12:24:2], dh))
            body = body[size:]
        except struct.error as error:
            raise ProtocolError(f"primary port: sub-package of {len(body)} bytes: {error}") from error
    return found


def _finite(values: tuple[float, ...]) -> tuple[float, ...]:
    if not all(map(math.isfinite, values)):
        raise ProtocolError("primary port: a number is not finite")
    return values


def _text(data: bytes) -> str:
    """Somebody else's text: one line, printable, of bounded length."""
    text = data.split(b"\0", 1)[0][:TEXT_MAX].decode("utf-8", "replace")
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


class PrimaryClient:
    """One connection, made anew by itself. Times are monotonic seconds of the caller."""

    def __init__(self, host: str, port: int = PRIMARY_PORT):
        self._at = (host, port)
        self._socket: socket.socket | None = None
        self._packages = Packages()
        self._retry_s = -math.inf
        self.events: deque[ScriptError | KeyEvent] = deque(maxlen=32)
        self.configured: Configured | None = None  # told on each connection, and of no other
        self.counters: Counter = Counter()

    def fileno(self) -> int:
        """For select; -1 when closed."""
        return self._socket.fileno() if self._socket is not None else -1

    def poll(self, now_s: float) -> None:
        """Take what has come; connect when it is time to."""
        if self._socket is None:
            if now_s >= self._retry_s:
                self._open(now_s)
            return
        try:
            data = self._socket.recv(MAX_READ)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOTCONN:  # still connecting
                self._drop(now_s)
            return
        if not data:
            return self._drop(now_s)
        try:
            for kind, body in self._packages.feed(data):
                self.events.extend(messages(kind, body))
                if self.configured is None:
                    self._look_for_configuration(kind, body)
        except ProtocolError:
            self.counters["primary_malformed"] += 1
            self._drop(now_s)

    def _look_for_configuration(self, kind: int, body: bytes) -> None:
        """A state package that cannot be read costs the configuration, not the messages."""
        try:
            self.configured = next((i for i in configuration(kind, body) if isinstance(i, Configured)), None)
        except ProtocolError:
            self.counters["primary_unreadable"] += 1

    def close(self) -> None:
        """Close; messages that have come are kept, what is configured is not: another connection may be another robot."""
        self.configured = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _open(self, now_s: float) -> None:
        self._packages, self._retry_s = Packages(), now_s + RECONNECT_S
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        if self._socket.connect_ex(self._at) not in (0, errno.EINPROGRESS):
            self.close()

    def _drop(self, now_s: float) -> None:
        self.counters["primary_lost"] += 1
        self._retry_s = now_s + RECONNECT_S
        self.close()
