"""Ending what the stock driver runs: program, position controller and trajectories, asked for again until answered."""
from __future__ import annotations

from steadyhand_firmware_bridge.ur_driver_link import POSITION_CONTROLLER, Call, DriverLink

STOP_RETRIED_S = 5.0
RETRY_S = 1.0


class DriverStopping:
    """`begin` asks, `advance` does. The program's end is what stops the arm; the rest leaves nothing that commands."""

    def __init__(self) -> None:
        self._until_s = self._retry_s = float("-inf")
        self._stop: Call | None = None

    def begin(self, now_s: float) -> None:
        """Ask at the next `advance`, and again each second for 5 s."""
        self._until_s, self._retry_s = now_s + STOP_RETRIED_S, now_s

    def cancel(self) -> None:
        """An arming takes over; it ends what runs by itself."""
        self._until_s, self._stop = float("-inf"), None

    def advance(self, link: DriverLink, now_s: float) -> None:
        """Look at the answer, ask again."""
        if self._stop is not None and self._stop.done and self._stop.ok:
            self.cancel()
        if self._until_s > now_s >= self._retry_s:
            self._retry_s = now_s + RETRY_S
            self._stop = link.call("stop")
            link.call("switch", {"activate": [], "deactivate": [POSITION_CONTROLLER]})
            link.cancel_trajectories()
