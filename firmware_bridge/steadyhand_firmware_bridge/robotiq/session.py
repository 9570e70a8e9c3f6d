"""One connection to the URCap's socket: asks, waits with a limit, and gives up by name. Blocking; the worker's only."""
from __future__ import annotations

import select
import socket
import time
from collections import Counter
from collections.abc import Mapping

from steadyhand.errors import ProtocolError, RobotError
from steadyhand_firmware_bridge.robotiq import wire

SETTLED_S = 0.020  # a value without an end of line is whole when nothing has followed for so long
REGISTERS = ("POS", "PRE", "OBJ", "STA", "FLT")


class Session:
    """Raises RobotError from every call that fails; the connection is closed then, and the failure counted by kind."""

    def __init__(self, host: str, port: int, timeout_s: float, counters: Counter):
        self._at, self._timeout_s, self._counters = (host, port), timeout_s, counters
        self._lines = wire.Lines()
        try:
            self._socket = socket.create_connection(self._at, timeout=timeout_s)
        except OSError as error:
            counters["connections_refused"] += 1
            raise RobotError(f"{host}:{port}: {error.strerror or error}; is the gripper's URCap installed?") from error
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        counters["connections"] += 1

    def write(self, values: Mapping[str, int]) -> None:
        """SET, acknowledged."""
        line = self._ask(wire.set_line(values))
        self._judged(lambda: wire.acknowledged(line))
        self._counters["writes"] += 1

    def read(self, name: str) -> int | None:
        """GET; None for a value that cannot be read now."""
        line = self._ask(wire.get_line(name))
        value = self._judged(lambda: wire.value_of(line, name))
        if value is None:
            self._counters["unavailable"] += 1
        return value

    def close(self) -> None:
        """Close; says nothing to the gripper."""
        self._socket.close()

    def _ask(self, line: bytes) -> bytes:
        deadline_s = time.monotonic() + self._timeout_s
        try:
            self._refuse_stray()
            self._socket.sendall(line)  # under 64 bytes: the kernel takes it whole, or the peer has not read for long
            while (answer := self._lines.take()) is None:
                begun = bool(self._lines.partial)
                left_s = max(0.0, deadline_s - time.monotonic())
                if select.select([self._socket], [], [], min(SETTLED_S, left_s) if begun else left_s)[0]:
                    self._feed(self._socket.recv(4096))
                elif (answer := self._lines.take(settled=begun)) is not None:
                    return answer
                elif time.monotonic() >= deadline_s:
                    what = f"no whole answer to {line.decode().strip()} within {self._timeout_s:g} s"
                    self._fail("truncated" if begun else "slow", what)
            return answer
        except OSError as error:
            return self._fail("closed", error.strerror or str(error))

    def _refuse_stray(self) -> None:
        """What waits before a question would be taken for its answer."""
        while select.select([self._socket], [], [], 0)[0]:
            self._feed(self._socket.recv(4096))
        left = self._lines.partial
        self._lines = wire.Lines()
        if left.strip():  # an end of line after `ack` is none
            self._fail("foreign", f"words that nobody asked for: {left[: wire.SHOWN]!r}")

    def _feed(self, data: bytes) -> None:
        if not data:
            kind = "truncated" if self._lines.partial else "closed"
            self._fail(kind, "closed by the gripper's side")
        self._judged(lambda: self._lines.feed(data))

    def _judged(self, parse):
        try:
            return parse()
        except ProtocolError as error:
            kind, _, detail = str(error).partition(" ")
            self._fail(kind, detail)

    def _fail(self, kind: str, detail: str) -> None:
        self._counters[kind] += 1
        self.close()
        raise RobotError(f"{self._at[0]}:{self._at[1]}: {kind}: {detail}")
