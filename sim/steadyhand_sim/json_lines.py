"""JSON-lines server on a Unix socket, polled from the simulator's loop: never blocks, survives hostile clients."""
from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path

from steadyhand.errors import SteadyhandError
from steadyhand_sim.scene_stream import MAX_CLIENTS, listen

MAX_LINE = 65_536
MAX_REQUESTS_PER_POLL = 16  # a flood cannot take the physics' time


class JsonLinesServer:
    """Answers each request line with one line: `{"ok": true, ...}` or `{"ok": false, "error": ...}`."""

    def __init__(self, path: Path, handle: Callable[[dict], dict]) -> None:
        self._path, self._handle = path, handle
        self._server = listen(path, socket.SOCK_STREAM)
        self._clients: dict[socket.socket, bytearray] = {}
        self.counters = {"requests": 0, "refused": 0, "disconnected": 0}

    def files(self) -> list[socket.socket]:
        """What to wait for input on: the listening socket and every client."""
        return [self._server, *self._clients]

    def poll(self) -> None:
        """Accept, read, answer; returns at once."""
        try:
            client, _ = self._server.accept()
        except OSError:
            pass
        else:
            client.setblocking(False)
            if len(self._clients) < MAX_CLIENTS:
                self._clients[client] = bytearray()
            else:
                client.close()
        for client in list(self._clients):
            self._serve(client)

    def _serve(self, client: socket.socket) -> None:
        pending = self._clients[client]
        try:
            received = client.recv(MAX_LINE)
            if not received:
                return self._drop(client)
            pending += received
        except BlockingIOError:
            if b"\n" not in pending:
                return
        except OSError:
            return self._drop(client)
        for _ in range(MAX_REQUESTS_PER_POLL):
            end = pending.find(b"\n")
            if end < 0:
                if len(pending) > MAX_LINE:
                    self._drop(client)
                return
            line = bytes(pending[:end])
            del pending[: end + 1]
            if not self._send(client, self._answer(line)):
                return self._drop(client)

    def _answer(self, line: bytes) -> dict:
        self.counters["requests"] += 1
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise ValueError("give a JSON object")
            return {"ok": True, **self._handle(request)}
        except (SteadyhandError, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            self.counters["refused"] += 1
            return {"ok": False, "error": f"{type(error).__name__}: {error}"[:1000]}

    def _send(self, client: socket.socket, answer: dict) -> bool:
        try:
            data = json.dumps(answer).encode() + b"\n"
            return client.send(data, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(data)
        except OSError:  # a client that does not read its answers is not waited for
            return False

    def _drop(self, client: socket.socket) -> None:
        self.counters["disconnected"] += 1
        self._clients.pop(client, None)
        client.close()

    def close(self) -> None:
        """Close everything and remove the socket."""
        for client in [*self._clients, self._server]:
            client.close()
        self._clients = {}
        self._path.unlink(missing_ok=True)
