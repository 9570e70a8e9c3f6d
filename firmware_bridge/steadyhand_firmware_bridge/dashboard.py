"""Client of the dashboard server (port 29999): one line asked, one line answered, always with a limit.

Never blocks unless asked to: `request` queues a command, `poll` moves bytes and returns what was answered. `call` is
the blocking form for set-up code. Source: Universal Robots, "Dashboard Server, CB-Series" and "e-Series".
"""
from __future__ import annotations

import errno
import select
import socket
import time
from collections import deque
from dataclasses import dataclass

from steadyhand.errors import ConfigError, RobotError

DASHBOARD_PORT = 29999
MAX_LINE = 4096
MAX_QUEUE = 16
# e-Series: so begins the refusal in local control, and of every command that needs remote control on a connection that was
# made before control was switched (seen on robots: Universal_Robots_ROS_Driver issues 125 and 262)
NOT_ALLOWED = "Command is not allowed due to safety reasons"

# what the runtime uses; anything else is refused before it is sent
COMMANDS = frozenset((
    "PolyscopeVersion", "robotmode", "safetymode", "safetystatus", "programState", "running", "stop", "play", "pause",
    "power on", "power off", "brake release", "unlock protective stop", "close safety popup", "close popup",
    "restart safety", "is in remote control", "get robot model", "get serial number", "get loaded program",
    "quit",
))  # fmt: skip


@dataclass(frozen=True)
class DashboardReply:
    """`ok` is false when the connection failed, the limit passed or local control forbids it; `text` is the reason."""

    command: str
    ok: bool
    text: str

    @property
    def value(self) -> str:
        """The part after the colon: `Robotmode: RUNNING` -> `RUNNING`; first word for `PLAYING x.urp`."""
        text = self.text.partition(":")[2].strip() if ":" in self.text else self.text.strip()
        return text.split(" ")[0] if self.command == "programState" else text


class DashboardClient:
    """One connection, made when first needed, and made anew when control was switched. Times are monotonic seconds given
    by the caller."""

    def __init__(self, host: str, port: int = DASHBOARD_PORT, timeout_s: float = 1.0):
        if not 0.0 < timeout_s < 600.0:
            raise ConfigError(f"DashboardClient timeout_s={timeout_s}: give a positive number of seconds")
        self.host, self.port, self.timeout_s = host, port, timeout_s
        self._socket: socket.socket | None = None
        self._connecting = self._greeted = False
        self._buffer = b""
        self._queue: deque[tuple[str, float]] = deque()  # command, deadline
        self._asked = False  # the first of the queue is on the wire
        self._answered = 0  # on this connection

    @property
    def idle(self) -> bool:
        """Nothing waits for an answer."""
        return not self._queue

    def fileno(self) -> int:
        """For select; -1 when closed."""
        return self._socket.fileno() if self._socket else -1

    def request(self, command: str, now_s: float) -> None:
        """Queue a command. Raises RobotError for an unknown one or when too many wait already."""
        if command not in COMMANDS:
            raise RobotError(f"dashboard command {command[:40]!r} is not one the runtime uses")
        if len(self._queue) >= MAX_QUEUE:
            raise RobotError(f"dashboard: {MAX_QUEUE} commands wait already")
        self._queue.append((command, now_s + self.timeout_s))

    def poll(self, now_s: float) -> list[DashboardReply]:
        """Advance without blocking; the answers, failures included, in the order asked."""
        replies: list[DashboardReply] = []
        try:
            if self._queue and self._socket is None:
                self._open()
            if self._socket is not None:
                self._advance(replies)
        except OSError as error:
            replies += self._fail(f"dashboard {self.host}:{self.port}: {error.strerror or error}")
        if self._queue and now_s >= self._queue[0][1]:
            # what comes later would be taken for the answer to the next command: begin a new connection
            reason = f"dashboard {self.host}:{self.port}: no answer within {self.timeout_s} s"
            replies += self._fail(reason, only_first=True)
        return replies

    def call(self, command: str) -> str:
        """Ask and wait. Raises RobotError when there is no answer within the limit."""
        self.request(command, time.monotonic())
        while True:
            for reply in self.poll(time.monotonic()):
                if reply.command == command:
                    if not reply.ok:
                        raise RobotError(reply.text)
                    return reply.text
            if self._socket is not None:
                select.select([self._socket], [self._socket] if self._connecting else [], [], 0.02)

    def close(self) -> None:
        """Close; queued commands are dropped without an answer."""
        self._queue.clear()
        self._drop()

    def _open(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        code = self._socket.connect_ex((self.host, self.port))
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, errno.errorcode.get(code, str(code)))
        self._connecting, self._greeted, self._buffer, self._asked, self._answered = True, False, b"", False, 0

    def _advance(self, replies: list[DashboardReply]) -> None:
        if self._connecting:
            if not select.select([], [self._socket], [], 0)[1]:
                return
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, errno.errorcode.get(code, str(code)))
            self._connecting = False
        self._receive(replies)
        if self._queue and self._greeted and not self._asked:
            self._socket.sendall(self._queue[0][0].encode() + b"\n")  # under 64 bytes on an idle connection
            self._asked = True

    def _receive(self, replies: list[DashboardReply]) -> None:
        try:
            data = self._socket.recv(MAX_LINE)
        except BlockingIOError:
            return
        if not data:
            raise OSError(errno.ECONNRESET, "closed by the controller")
        self._buffer += data
        if len(self._buffer) > 2 * MAX_LINE:
            raise OSError(errno.EMSGSIZE, "line too long")
        while b"\n" in self._buffer:
            line, self._buffer = self._buffer.split(b"\n", 1)
            if not self._greeted:
                self._greeted = True
            elif self._asked:
                text = line.decode("utf-8", "replace").strip()
                refused = text.startswith(NOT_ALLOWED)
                if not (refused and self._answered):  # as the first on its connection it is the pendant's word
                    replies.append(DashboardReply(self._queue.popleft()[0], not refused, text))
                self._asked, self._answered = False, self._answered + 1
                if refused:
                    self._drop()  # what is queued, this one again if it was kept, goes over a new connection
                    return

    def _fail(self, reason: str, only_first: bool = False) -> list[DashboardReply]:
        self._drop()
        failed = [self._queue.popleft()] if only_first else list(self._queue)
        if not only_first:
            self._queue.clear()
        return [DashboardReply(command, False, reason) for command, _ in failed]

    def _drop(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._asked, self._greeted = None, False, False
