"""The guard's sockets: commands, states, stop requests. Moves packets and bounds what any client can cost a cycle.

Only processes of the same user may connect (SO_PEERCRED), the folder is 0700, and one guard holds it (a lock file).
A sender over its budget stays in the kernel's buffer until the next cycle: a flood delays the flooder.
"""
from __future__ import annotations

import fcntl
import os
import secrets
import socket
import stat
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.guard_protocol import (
    COMMAND_SOCKET,
    MAX_PACKET,
    REARM_TOKEN_FILE,
    STOP_SOCKET,
    Hello,
    Stop,
    decode,
    encode,
)

MAX_CLIENTS = 16
HELLO_TIMEOUT_S = 2.0  # a connection that says no hello would keep the others out
PACKETS_PER_CLIENT_PER_CYCLE = 16
STOPS_PER_CYCLE = 128
SEND_BUFFER_BYTES = 65536  # states that a slow reader may have outstanding


@dataclass(eq=False)
class Client:
    """One connection. Before its Hello it may send nothing else."""

    sock: socket.socket
    since_s: float  # when it was accepted
    hello: Hello | None = None
    commander: bool = False
    budget: int = PACKETS_PER_CLIENT_PER_CYCLE


@dataclass(eq=False)
class Server:
    """Opens and serves the sockets of one slot; see `guard_protocol` for what passes through them."""

    folder: Path
    clients: list[Client] = field(default_factory=list)
    refused_connections: int = 0
    dropped_states: int = 0
    malformed: int = 0
    credential: str = ""
    _listener: socket.socket | None = None
    _stop: socket.socket | None = None
    _lock: int = -1
    _stop_budget: int = STOPS_PER_CYCLE

    def open(self) -> None:
        """Create the folder, the sockets and a new credential. Raises ConfigError when that would not be safe."""
        private_folder(self.folder)
        self._lock = os.open(self.folder / "guard.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            self._lock = -1
            raise ConfigError(
                f"{self.folder}: another guard runs in this slot; stop it, or choose another STEADYHAND_SLOT"
            ) from error
        self.credential = secrets.token_hex(32)
        _write_private(self.folder / REARM_TOKEN_FILE, self.credential)
        self._listener = self._bind(COMMAND_SOCKET, socket.SOCK_SEQPACKET)
        self._listener.listen(MAX_CLIENTS)
        self._stop = self._bind(STOP_SOCKET, socket.SOCK_DGRAM)

    def _bind(self, name: str, kind: int) -> socket.socket:
        path = self.folder / name
        path.unlink(missing_ok=True)  # ours: the lock is held
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.setblocking(False)
        try:
            sock.bind(str(path))
        except OSError as error:
            sock.close()
            remedy = "choose a shorter XDG_RUNTIME_DIR or another slot"
            raise ConfigError(f"socket {path}: {error.strerror or error}; {remedy}") from error
        os.chmod(path, 0o600)
        return sock

    def close(self) -> None:
        """Drop everybody and remove the sockets; the lock goes last."""
        for client in list(self.clients):
            self.drop(client)
        for sock, name in ((self._listener, COMMAND_SOCKET), (self._stop, STOP_SOCKET)):
            if sock is not None:
                sock.close()
                (self.folder / name).unlink(missing_ok=True)
        self._listener = self._stop = None
        if self._lock >= 0:
            (self.folder / REARM_TOKEN_FILE).unlink(missing_ok=True)
            os.close(self._lock)
            self._lock = -1

    # --- receiving ---

    def new_cycle(self) -> None:
        """Give every sender its budget for one cycle."""
        self._stop_budget = STOPS_PER_CYCLE
        for client in self.clients:
            client.budget = PACKETS_PER_CLIENT_PER_CYCLE

    def readable(self) -> list[socket.socket]:
        """Sockets worth waiting for: those of senders within their budget."""
        socks = [c.sock for c in self.clients if c.budget > 0]
        socks.append(self._listener)
        if self._stop_budget > 0:
            socks.append(self._stop)
        return socks

    def stops(self) -> list[tuple[Stop, int]]:
        """Stop requests that have arrived, each with how many of them. Whatever cannot be read is a stop too."""
        found: dict[str, tuple[Stop, int]] = {}
        while self._stop_budget > 0:
            try:
                packet = self._stop.recv(2048)
            except BlockingIOError:
                break
            except OSError:
                break  # a datagram that the kernel could not deliver; the next wait shows what follows
            self._stop_budget -= 1
            try:
                message = decode(packet) if not found else None  # a flood is decoded once
            except ProtocolError:
                message = None
            if isinstance(message, Stop):
                stop = message
            else:
                stop = next((known for known, _ in found.values()), Stop("unreadable"))
            count = found.get(stop.source, (stop, 0))[1]
            found[stop.source] = (stop, count + 1)
        return list(found.values())

    def speechless(self, now_s: float) -> list[Client]:
        """Connections that have had their time to say hello."""
        return [c for c in self.clients if c.hello is None and now_s - c.since_s > HELLO_TIMEOUT_S]

    def accept(self, now_s: float) -> None:
        """Take new connections of the same user; others are closed and counted."""
        for _ in range(MAX_CLIENTS):
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            if len(self.clients) >= MAX_CLIENTS or peer_uid(sock) not in (os.getuid(), 0):
                self.refused_connections += 1
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
            self.clients.append(Client(sock, now_s))

    def receive(self, client: Client, handle: Callable[[Client, Any], None], may_go_on: Callable[[], bool]) -> bool:
        """Pass a client's packets on, within its budget and while `may_go_on()`. False when it has gone."""
        while client.budget > 0 and may_go_on():
            try:
                packet = client.sock.recv(MAX_PACKET + 1)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not packet:
                return False
            client.budget -= 1
            try:
                message = decode(packet)
                if client.hello is None and not isinstance(message, Hello):
                    raise ProtocolError("expected a hello first")
            except ProtocolError:
                self.malformed += 1
                continue
            handle(client, message)
        return True

    # --- sending ---

    def send(self, client: Client, message: Any) -> None:
        """Answer one client; a client that does not read loses the answer."""
        self._put(client, encode(message))

    def publish(self, message: Any) -> None:
        """Send a state to everyone who asked for states; encoded once."""
        readers = [c for c in self.clients if c.hello is not None and c.hello.states]
        if readers:
            packet = encode(message)
            for client in readers:
                self._put(client, packet)

    def _put(self, client: Client, packet: bytes) -> None:
        try:
            client.sock.send(packet, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            self.dropped_states += 1
        except OSError:
            pass  # gone: the next receive says so

    def drop(self, client: Client) -> None:
        """Close one connection."""
        client.sock.close()
        if client in self.clients:
            self.clients.remove(client)


def peer_uid(sock: socket.socket) -> int:
    """User of the process at the other end."""
    return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))[1]


def private_folder(folder: Path) -> None:
    """Make `folder` (and its parent, below a shared one) ours alone; raises ConfigError when somebody else owns it."""
    for path in (folder.parent, folder):
        try:
            path.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}; set XDG_RUNTIME_DIR to a folder of your own") from error
        info = path.lstat()
        if not stat.S_ISDIR(info.st_mode) or info.st_uid != os.getuid():
            raise ConfigError(f"{path}: not a folder of user {os.getuid()}; remove it, or set XDG_RUNTIME_DIR to one")
    os.chmod(folder, 0o700)


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(text + "\n")
