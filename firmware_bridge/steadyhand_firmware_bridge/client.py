"""A client's end of the guard's sockets: no threads, no waiting but where it says so.

`poll` must be called often: it answers each batch of states with the heartbeat that tells the guard that this process
lives (commander only). A commander that does not poll is a dead commander, and a moving arm stops.
"""
from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steadyhand.errors import ProtocolError, RobotError
from steadyhand.guard_protocol import (
    COMMAND_SOCKET,
    MAX_PACKET,
    STATES,
    AgvState,
    Heartbeat,
    Hello,
    Reply,
    State,
    decode,
    encode,
)
from steadyhand.slot import current_slot

SHELL_HEARTBEAT = "shell"  # name of the commander's own heartbeat


class GuardClient:
    """One connection to a guard. `state` is the newest state seen."""

    def __init__(self, name: str, commander: bool = False, states: bool = True, folder: Path | None = None):
        self.hello = Hello(client=name, commander=commander, states=states)
        self.folder = Path(folder) if folder is not None else current_slot().socket_dir
        self.state: State | AgvState | None = None
        self.commander = False
        self._sock: socket.socket | None = None

    @property
    def connected(self) -> bool:
        """Whether the connection stands."""
        return self._sock is not None

    def fileno(self) -> int:
        """For select; -1 when not connected."""
        return self._sock.fileno() if self._sock is not None else -1

    def connect(self, timeout_s: float = 2.0) -> None:
        """Connect and introduce ourselves. Raises RobotError when no guard answers or it refuses this client."""
        self.close()
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sock.settimeout(timeout_s)
        path = self.folder / COMMAND_SOCKET
        try:
            sock.connect(str(path))
        except OSError as error:
            sock.close()
            why = error.strerror or error
            raise RobotError(f"no guard at {path} ({why}); start steadyhand-guard in this slot") from error
        sock.setblocking(False)
        self._sock = sock
        self.send(self.hello)
        reply = self.wait(lambda m: isinstance(m, Reply) and m.request_id == "hello", timeout_s)
        if reply is None or not reply.ok:
            self.close()
            raise RobotError(f"guard at {path} {'does not answer' if reply is None else 'refuses: ' + reply.message}")
        self.commander = self.hello.commander

    def send(self, message: Any) -> bool:
        """Send one message; False when the guard takes no more now or has gone (then `connected` is false)."""
        if self._sock is None:
            return False
        try:
            self._sock.send(encode(message), socket.MSG_NOSIGNAL)
        except BlockingIOError:
            return False
        except OSError:
            self.close()
            return False
        return True

    def poll(self, every_state: bool = False) -> list[Any]:
        """Messages that have arrived, in order; of a backlog of states only the newest, last, unless `every_state`.
        Never waits."""
        messages: list[Any] = []
        newest = None
        while self._sock is not None:
            try:
                packet = self._sock.recv(MAX_PACKET + 1)
            except BlockingIOError:
                break
            except OSError:
                packet = b""
            if not packet:
                self.close()
                break
            try:
                message = decode(packet)
            except ProtocolError:
                continue  # a newer guard may say more than we know
            if isinstance(message, STATES):
                newest = message
            if every_state or not isinstance(message, STATES):
                messages.append(message)
        if newest is not None:
            self.state = newest
            if not every_state:
                messages.append(newest)
            if self.commander:
                self.send(Heartbeat(SHELL_HEARTBEAT, True))
        return messages

    def wait(self, wanted: Callable[[Any], bool], timeout_s: float) -> Any | None:
        """Poll until a message is `wanted`; None after `timeout_s` or when the guard has gone."""
        deadline = time.monotonic() + timeout_s
        while self._sock is not None:
            for message in self.poll():
                if wanted(message):
                    return message
            left = deadline - time.monotonic()
            if left <= 0 or self._sock is None:
                return None
            select.select([self._sock], [], [], left)
        return None

    def close(self) -> None:
        """Let go of the connection. To the guard this is the loss of its commander."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
        self.commander = False
