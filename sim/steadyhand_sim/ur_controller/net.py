"""Sockets of the emulated controller: one selector, no threads, nothing that blocks, everything bounded.

A `Service` gives each connection a handler; a handler takes bytes and answers by `Connection.send`. A handler that
raises ProtocolError loses its connection, counted; nobody else notices.
"""
from __future__ import annotations

import errno
import selectors
import socket
from collections.abc import Callable
from typing import Protocol

from steadyhand.errors import ProtocolError, RobotError

MAX_READ = 8192  # one turn of one client: bounds how long a flood can keep the loop from its next cycle
MAX_OUTGOING = 262144  # a client that does not read loses packages beyond this, never our time
SEND_BUFFER = 65536  # in the kernel: seconds of states, not minutes, for a client that stopped reading
MAX_CLIENTS = 32  # per port


class Handler(Protocol):
    """The protocol of one connection."""

    def received(self, data: bytes) -> None:
        """Bytes from the peer. Raise ProtocolError to close it."""
        ...

    def closed(self) -> None:
        """The connection is gone."""
        ...


class Connection:
    """One accepted client."""

    def __init__(self, net: Net, peer: socket.socket, port: int):
        self._net, self._socket, self.port = net, peer, port
        self.handler: Handler | None = None
        self._outgoing = bytearray()
        self.open = True

    def fileno(self) -> int:
        """For the selector."""
        return self._socket.fileno()

    def send(self, data: bytes) -> bool:
        """Whole or not at all: false (counted) when the client is too slow or gone."""
        if not self.open:
            return False
        if len(self._outgoing) + len(data) > MAX_OUTGOING:
            return self.drop()
        self._outgoing += data
        self.flush()
        return True

    @property
    def behind(self) -> bool:
        """The peer has not taken what was sent before."""
        return bool(self._outgoing)

    def drop(self) -> bool:
        """Count a package that is not sent because a newer one will be; false, as `send` answers."""
        self._net.counters["dropped_packages"] += 1
        return False

    def flush(self) -> None:
        """Hand bytes to the kernel, as many as it takes."""
        try:
            while self._outgoing:
                del self._outgoing[: self._socket.send(self._outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        self._net.watch(self, writing=bool(self._outgoing))

    def read(self) -> None:
        """One read, handed on."""
        try:
            data = self._socket.recv(MAX_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        try:
            self.handler.received(data)
        except ProtocolError:
            self._net.counters["protocol_errors"] += 1
            self.close()

    def close(self) -> None:
        """Idempotent."""
        if not self.open:
            return
        self.open = False
        self._net.forget(self)
        self._socket.close()
        if self.handler is not None:
            self.handler.closed()

    def finish(self) -> None:
        """Close after what was sent: the last words of a protocol."""
        self.flush()
        self.close()


class Net:
    """Listening ports and their connections."""

    def __init__(self) -> None:
        self._selector = selectors.SelectSelector()  # epoll rounds a wait up to whole milliseconds
        self._writing: dict[Connection, bool] = {}
        self._listeners: list[socket.socket] = []
        self.counters = {"accepted": 0, "refused": 0, "protocol_errors": 0, "dropped_packages": 0}

    def listen(self, host: str, port: int, make_handler: Callable[[Connection], Handler]) -> int:
        """Serve a port; the number it got (for port 0). Raises RobotError when it cannot be opened."""
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(8)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                reason = "is taken: another simulator runs there; choose another slot"
            else:
                reason = f"cannot be opened ({error.strerror}): give an address of this machine, 127.0.0.1 for example"
            raise RobotError(f"port {port} of {host} {reason}") from error
        listener.setblocking(False)
        self._listeners.append(listener)
        self._selector.register(listener, selectors.EVENT_READ, make_handler)
        return listener.getsockname()[1]

    @property
    def connections(self) -> list[Connection]:
        """The open ones."""
        return list(self._writing)

    def service(self, timeout_s: float) -> None:
        """Wait up to `timeout_s` for traffic, then serve what there is, once round."""
        for key, events in self._selector.select(max(0.0, timeout_s)):
            if isinstance(key.fileobj, socket.socket):
                self._accept(key.fileobj, key.data)
                continue
            connection: Connection = key.fileobj
            if events & selectors.EVENT_WRITE:
                connection.flush()
            if events & selectors.EVENT_READ and connection.open:
                connection.read()

    def _accept(self, listener: socket.socket, make_handler: Callable[[Connection], Handler]) -> None:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        port = listener.getsockname()[1]
        if sum(1 for c in self._writing if c.port == port) >= MAX_CLIENTS:
            self.counters["refused"] += 1
            peer.close()
            return
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        connection = Connection(self, peer, port)
        self._writing[connection] = False
        self._selector.register(connection, selectors.EVENT_READ)
        self.counters["accepted"] += 1
        connection.handler = make_handler(connection)

    def watch(self, connection: Connection, writing: bool) -> None:
        """Whether to wake up when the peer can take more."""
        if connection.open and self._writing[connection] != writing:
            self._writing[connection] = writing
            self._selector.modify(connection, selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0))

    def forget(self, connection: Connection) -> None:
        """Called by a closing connection."""
        self._selector.unregister(connection)
        del self._writing[connection]

    def close(self) -> None:
        """Close everything."""
        for connection in self.connections:
            connection.close()
        for listener in self._listeners:
            self._selector.unregister(listener)
            listener.close()
        self._selector.close()
