"""Power on, brake release, unlock: acts on a UR controller that an operator has asked the guard for, and nobody else.

Over a dashboard connection of its own, so that no act delays a stop. Nothing here starts a program; every act begins
with the controller's own `stop`, since after a protective or emergency stop the program before is only paused and would
go on when somebody plays it (UR user manual). Source: "Dashboard Server", CB-Series and e-Series.
"""
from __future__ import annotations

from steadyhand.errors import RobotError
from steadyhand.protocols import ActResult
from steadyhand_firmware_bridge.dashboard import DashboardClient

# act -> (dashboard command, how a granted one begins), in order
ACTS: dict[str, tuple[tuple[str, str], ...]] = {
    "power-on": (("stop", "Stopped"), ("power on", "Powering on")),
    "brake-release": (("stop", "Stopped"), ("brake release", "Brake releasing")),
    "unlock": (
        ("stop", "Stopped"), ("close safety popup", "closing safety popup"),
        ("unlock protective stop", "Protective stop releasing"),
    ),
    "power-off": (("stop", "Stopped"), ("power off", "Powering off")),
    "restart-safety": (
        ("stop", "Stopped"), ("close safety popup", "closing safety popup"), ("restart safety", "Restarting safety"),
    ),
}  # fmt: skip
GRIPPER_ACT = "gripper-activate"  # not the dashboard's: of a gripper with a controller of its own
TIMEOUT_S = 5.0
# the controller says "Failed to execute: stop" when there was nothing to stop
_HARMLESS = {"stop": ("Failed to execute: stop",)}


class OperatorDashboard:
    """One act at a time; times are monotonic seconds of the caller."""

    def __init__(self, host: str):
        self._client = DashboardClient(host, timeout_s=TIMEOUT_S)
        self._act = ""
        self._left: list[tuple[str, str]] = []

    @property
    def busy(self) -> bool:
        """An act is under way."""
        return bool(self._act)

    def fileno(self) -> int:
        """For select; -1 when closed."""
        return self._client.fileno()

    def begin(self, act: str, now_s: float) -> None:
        """Start an act. Raises RobotError for an unknown one, or while another is under way."""
        if act not in ACTS:
            raise RobotError(f"act {act[:40]!r}: give one of {', '.join(ACTS)}")
        if self._act:
            raise RobotError(f"{self._act} is under way")
        self._act, self._left = act, list(ACTS[act])
        self._client.request(self._left[0][0], now_s)

    def poll(self, now_s: float) -> ActResult | None:
        """Advance without blocking; how the act ended, once."""
        for reply in self._client.poll(now_s):
            if not self._act:
                continue
            command, wanted = self._left.pop(0)
            granted = reply.ok and (reply.text.startswith(wanted) or reply.text in _HARMLESS.get(command, ()))
            if not granted:
                return self._end(False, f"{command}: {reply.text[:200] or 'no answer'}")
            if not self._left:
                return self._end(True, reply.text[:200])
            try:
                self._client.request(self._left[0][0], now_s)
            except RobotError as error:
                return self._end(False, str(error))
        return None

    def _end(self, ok: bool, detail: str) -> ActResult:
        act, self._act, self._left = self._act, "", []
        return ActResult(act, ok, detail)

    def close(self) -> None:
        """Close the connection; an act under way is forgotten."""
        self._act, self._left = "", []
        self._client.close()
