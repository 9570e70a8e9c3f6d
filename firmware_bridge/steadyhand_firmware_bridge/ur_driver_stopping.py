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
        self._asked: list[Call] = []  # and not answered yet

    def begin(self, now_s: float) -> None:
        """Ask at the next `advance`, and again each second for 5 s."""
        self._until_s, self._retry_s = now_s + STOP_RETRIED_S, now_s

    def cancel(self) -> None:
        """An arming takes over: what it starts must not be ended by a request that is repeated from before."""
        self._until_s, self._stop = float("-inf"), None
        for call in self._asked:
            call.drop()
        self._asked.clear()

    def advance(self, link: DriverLink, now_s: float) -> None:
        """Look at the answer, ask again."""
        self._asked = [call for call in self._asked if not call.done]
        if self._stop is not None and self._stop.done and self._stop.ok:
            self._until_s, self._stop = float("-inf"), None
        if self._until_s > now_s >= self._retry_s:
            self._retry_s = now_s + RETRY_S
            self._stop = link.call("stop")
            off = {"activate": [], "deactivate": [POSITION_CONTROLLER]}
            self._asked += [self._stop, link.call("switch", off)]
            link.cancel_trajectories()
