"""Socket of the stop domain: beats of this guard to its peers, and theirs to it. Nothing here decides anything.

Datagrams between private folders of one user: who can write there may stop this guard anyway, and nobody else can.
"""
from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.guard_protocol import DOMAIN_SOCKET, Beat, decode, encode
from steadyhand.slot import MAX_SLOT, current_slot

BEATS_PER_CYCLE = 32
SEND_EVERY = 2  # cycles between beats without news


def peer_folder(where: str) -> Path:
    """Socket folder of a peer: a path, `slot:N`, or `slot:` for this process's own, each with `/FOLDER` below it or not.

    Raises ConfigError naming the value.
    """
    if not where.startswith("slot:"):
        return Path(where)
    number, _, below = where.removeprefix("slot:").partition("/")
    if number and (not number.isdecimal() or int(number) > MAX_SLOT):
        raise ConfigError(f"peer at {where!r}: give slot:, slot:0 to slot:{MAX_SLOT}, or a socket folder")
    return current_slot({**os.environ, **({"STEADYHAND_SLOT": number} if number else {})}).socket_dir / below


class PeerSocket:
    """Open only when there are peers; otherwise every method does nothing."""

    def __init__(self, folder: Path, peers: Mapping[str, str]):
        self._path = folder / DOMAIN_SOCKET
        self._peers = [str(peer_folder(where) / DOMAIN_SOCKET) for where in peers.values()]
        self._sock: socket.socket | None = None
        self._budget = BEATS_PER_CYCLE
        self._sent: Beat | None = None
        self._cycles = 0
        self.malformed = 0
        self.unsent = 0

    def open(self) -> None:
        """Bind; the caller holds the slot's lock. Raises ConfigError."""
        if not self._peers:
            return
        self._path.unlink(missing_ok=True)
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sock.setblocking(False)
        try:
            self._sock.bind(str(self._path))
        except OSError as error:
            raise ConfigError(f"socket {self._path}: {error.strerror or error}; choose a shorter folder") from error
        os.chmod(self._path, 0o600)

    def readable(self) -> list[socket.socket]:
        """For select, while there is budget in this cycle."""
        return [self._sock] if self._sock is not None and self._budget > 0 else []

    def new_cycle(self) -> None:
        """A new budget: a flood stays in the kernel's buffer."""
        self._budget = BEATS_PER_CYCLE

    def receive(self) -> list[Beat]:
        """Beats that have arrived."""
        found = []
        while self._sock is not None and self._budget > 0:
            try:
                packet = self._sock.recv(2048)
            except OSError:
                break
            self._budget -= 1
            try:
                message = decode(packet)
            except ProtocolError:
                message = None
            if isinstance(message, Beat):
                found.append(message)
            else:
                self.malformed += 1
        return found

    def send(self, beat: Beat, each_cycle: bool = False) -> None:
        """To every peer: at once when there is news, else at every second cycle; one that is not there is counted."""
        if self._sock is None:
            return
        self._cycles += each_cycle
        if beat == self._sent and not (each_cycle and self._cycles % SEND_EVERY == 0):
            return
        self._sent = beat
        packet = encode(beat)
        for path in self._peers:
            try:
                self._sock.sendto(packet, path)
            except OSError:
                self.unsent += 1  # not started yet, or gone: its silence or ours is the other side's to notice

    def close(self) -> None:
        """Close and remove."""
        if self._sock is not None:
            self._sock.close()
            self._path.unlink(missing_ok=True)
            self._sock = None
