"""Dashboard server (port 29999): one line asked, one line answered.

Source: Universal Robots, "Dashboard Server, CB-Series" (3.x) and "Dashboard Server, e-Series" (5.x); the answers below
are those the tables give. What is not here is answered as the real server answers an unknown command.
"""
from __future__ import annotations

from collections.abc import Callable

from steadyhand.errors import ProtocolError
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.modes import MOTION_ALLOWED, RuntimeState
from steadyhand_sim.ur_controller.net import Connection

PORT = 29999
MAX_LINE = 1024
GREETING = b"Connected: Universal Robots Dashboard Server\n"
# refused in local control on e-Series (guide: "available in remote control only")
_REMOTE_ONLY = frozenset(
    ("play", "stop", "pause", "power on", "power off", "brake release", "unlock protective stop", "restart safety")
)


class Dashboard:
    """Commands -> answers, on one controller."""

    def __init__(self, controller: URController):
        self._c = controller
        self._commands: dict[str, Callable[[], str]] = {
            "polyscopeversion": self._version,
            "robotmode": lambda: f"Robotmode: {self._c.robot_mode.name}",
            "safetymode": lambda: f"Safetymode: {self._c.safety_mode.name}",
            "safetystatus": lambda: f"Safetystatus: {self._c.safety_mode.name}",
            "programstate": self._program_state,
            "running": lambda: f"Program running: {str(self._c.runtime_state is RuntimeState.PLAYING).lower()}",
            "stop": self._stop,
            "pause": lambda: "Pausing program" if self._c.pause_program() else "Failed to execute: pause",
            "play": lambda: "Starting program" if self._c.play_program() else "Failed to execute: play",
            "power on": lambda: "Powering on" if self._c.power_on() else "Failed to execute: power on",
            "power off": self._power_off,
            "brake release": self._brake_release,
            "unlock protective stop": self._unlock,
            "close safety popup": lambda: "closing safety popup",
            "close popup": self._close_popup,
            "restart safety": lambda: "Restarting safety",
            "get robot model": lambda: "UR5",
            "get serial number": lambda: self._c.config.serial_number,
            "is in remote control": self._remote,
        }

    def answer(self, line: str) -> str:
        """The answer, without its new line."""
        text = line.strip()
        words = text.lower()
        if words.startswith("popup "):
            self._c.popup = text[6:]
            return "showing popup"
        if words.startswith("addtolog "):
            self._c.log(text[9:])
            return "Added log message"
        if words in _REMOTE_ONLY and self._c.config.is_e_series and not self._c.remote_control:
            return f"Failed to execute: {words}"
        command = self._commands.get(words)
        return command() if command else f"could not understand: '{text}'"

    def _version(self) -> str:
        major, minor, fix, build = self._c.config.version
        if self._c.config.is_e_series:
            return f"URSoftware {major}.{minor}.{fix}.{build} (Oct 15 2021)"
        return f"{major}.{minor}.{fix}.{build} (Jan 31 2022)"

    def _program_state(self) -> str:
        state = self._c.runtime_state
        if state is RuntimeState.PAUSED or state is RuntimeState.PAUSING:
            word = "PAUSED"
        else:
            word = "PLAYING" if state in (RuntimeState.PLAYING, RuntimeState.RESUMING) else "STOPPED"
        return f"{word} {self._c.program_name or '<unnamed>'}"

    def _stop(self) -> str:
        self._c.stop_program()
        return "Stopped"

    def _power_off(self) -> str:
        self._c.power_off()
        return "Powering off"

    def _brake_release(self) -> str:
        return "Brake releasing" if self._c.brake_release() else "Failed to execute: brake release"

    def _unlock(self) -> str:
        if self._c.unlock_protective_stop() or self._c.safety_mode in MOTION_ALLOWED:
            return "Protective stop releasing"
        return "Cannot unlock protective stop"

    def _close_popup(self) -> str:
        self._c.popup = ""
        return "closing popup"

    def _remote(self) -> str:
        if not self._c.config.is_e_series:
            return "could not understand: 'is in remote control'"  # e-Series only
        return str(self._c.remote_control).lower()


class DashboardSession:
    """One client."""

    def __init__(self, dashboard: Dashboard, connection: Connection):
        self._dashboard, self._connection = dashboard, connection
        self._buffer = b""
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
            self._connection.send(self._dashboard.answer(line).encode() + b"\n")
        if len(self._buffer) > MAX_LINE:
            raise ProtocolError("dashboard line too long")

    def closed(self) -> None:
        """Nothing to give back."""
