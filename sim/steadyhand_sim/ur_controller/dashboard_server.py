"""Dashboard server (port 29999): one line asked, one line answered. What is answered: `dashboard_commands`."""
from __future__ import annotations

from steadyhand.errors import ProtocolError
from steadyhand_sim.ur_controller.dashboard_commands import Dashboard
from steadyhand_sim.ur_controller.net import Connection

PORT = 29999
MAX_LINE = 1024
GREETING = b"Connected: Universal Robots Dashboard Server\n"


class DashboardSession:
    """One client."""

    def __init__(self, dashboard: Dashboard, connection: Connection):
        self._dashboard, self._connection = dashboard, connection
        self._buffer, self._switches = b"", dashboard.control_switches
        connection.send(GREETING)

    def received(self, data: bytes) -> None:
        """Answer each complete line."""
        self._buffer += data
        while b"\n" in self._buffer:
            raw, self._buffer = self._buffer.split(b"\n", 1)
            line = raw[:MAX_LINE].decode("utf-8", "replace")
            if line.strip().lower() == "quit":
                self._connection.send(b"Disconnected\n")
                self._connection.finish()
                return
            stale = self._dashboard.control_switches != self._switches
            self._connection.send(self._dashboard.answer(line, stale).encode() + b"\n")
        if len(self._buffer) > MAX_LINE:
            raise ProtocolError("dashboard line too long")

    def closed(self) -> None:
        """Nothing to give back."""
