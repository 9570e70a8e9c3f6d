"""The other end of the score socket: ground truth and fault injection, for summaries and tests, never for the graph."""
from __future__ import annotations

import json
import socket
import time
from pathlib import Path

from steadyhand.errors import RobotError
from steadyhand.slot import current_slot


class ScoreClient:
    """One connection; every call has a limit. RobotError when the simulator does not answer or refuses."""

    def __init__(self, folder: Path | None = None, timeout_s: float = 2.0):
        self._path = (folder or current_slot().socket_dir) / "sim_score.sock"
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._buffer = b""

    def score(self) -> dict:
        """Counts of cubes: n_cubes, in_box, in_tray, dropped, in_motion, places."""
        return self._ask({"get": "score"})["score"]

    def state(self) -> dict:
        """Everything the simulator knows."""
        return self._ask({"get": "state"})["state"]

    def fault(self, name: str, **parameters: float) -> None:
        """Inject a fault by name; see `steadyhand_sim.faults`."""
        self._ask({"fault": name, "parameters": parameters})

    def close(self) -> None:
        """Close the connection; harmless twice."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._buffer = None, b""

    def _ask(self, request: dict) -> dict:
        deadline = time.monotonic() + self._timeout_s
        try:
            answer = self._exchange(request, deadline)
        except (OSError, ValueError) as error:  # ValueError: an answer that is no JSON
            self.close()
            raise RobotError(f"simulator at {self._path}: {error}; is steadyhand-sim running in this slot?") from error
        if not answer.get("ok"):
            raise RobotError(f"simulator refuses {request}: {answer.get('error', 'no reason given')}")
        return answer

    def _exchange(self, request: dict, deadline: float) -> dict:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(self._timeout_s)
            self._socket.connect(str(self._path))
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            received = self._socket.recv(65536)
            if not received:
                raise ConnectionError("connection closed")
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)
