"""The gripper's registers, and what they make the fingers do. No socket, no clock.

Sources: Robotiq, "2F-85 & 2F-140 Instruction Manual" (registers, activation, faults 5 and 7, object detection by stalled
fingers). Assumed: that a stall shows after 60 ms, and that power loss leaves the fingers where they are and the
activation lost.
"""
from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol

OPEN_M, SPEED_M_S, FORCE_N = 0.085, (0.020, 0.150), (20.0, 235.0)  # of a 2F-85; at 0 and 255
STALLED_S, STALLED_M = 0.060, 0.0004  # fingers that moved less than this for so long have stopped
ARRIVED_M = 0.0015
REQUESTS = ("ACT", "GTO", "ATR", "ARD", "FOR", "SPE", "POS")
HIGHEST = {"ACT": 1, "GTO": 1, "ATR": 1, "ARD": 1}


class Fingers(Protocol):
    """What a plant offers to a gripper that is not driven by the controller's outputs."""

    def gripper_width_m(self) -> float:
        """Measured opening."""
        ...

    def move_gripper(self, width_m: float, speed_m_s: float, force_n: float) -> None:
        """Go there from now on."""
        ...


class RobotiqDevice:
    """`open_count`, `closed_count`: POS at the ends, as each gripper has its own. `powered` is asked each cycle."""

    def __init__(
        self, fingers: Fingers, powered: Callable[[], bool], activated: bool = False,
        open_count: int = 0, closed_count: int = 255,
    ):
        self._fingers, self._powered = fingers, powered
        self._open, self._closed = open_count, closed_count
        self.requests = dict.fromkeys(REQUESTS, 0)
        self.status = {"STA": 0, "OBJ": 0, "FLT": 0, "COU": 0}
        self.writes = 0
        self.fault = 0  # injected
        self._activation: list[float] = []  # widths still to be visited
        self._goal_m: float | None = None
        self._opening = False
        self._track: deque[float] = deque()
        self.requests["POS"] = self._count(fingers.gripper_width_m())
        if activated:
            self.requests |= {"ACT": 1, "GTO": 1}
            self.status |= {"STA": 3, "OBJ": 3}

    def read(self, name: str) -> int | None:
        """A register; None while the gripper has no power. KeyError for none of its names."""
        if name not in ("POS", "PRE") and name not in self.requests and name not in self.status:
            raise KeyError(name)
        if not self._powered():
            return None
        if name == "POS":
            return self._count(self._fingers.gripper_width_m())
        if name == "PRE":
            return self.requests["POS"]
        return self.requests.get(name, self.status.get(name))

    def write(self, values: dict[str, int]) -> bool:
        """All of them or none; False for a name or value that is none of its."""
        if any(n not in REQUESTS or not 0 <= v <= HIGHEST.get(n, 255) for n, v in values.items()):
            return False
        if not self._powered():
            return False
        self.writes += 1
        before = self.requests["ACT"]
        self.requests |= values
        if self.requests["ACT"] == 0:
            self.status |= {"STA": 0, "OBJ": 0, "FLT": 0}
            self._activation, self._goal_m = [], None
        elif before == 0:
            self.status |= {"STA": 1, "FLT": 0}
            self._activation = [OPEN_M, 0.0, OPEN_M]
            self._go(self._activation[0])
        if "POS" in values or "GTO" in values:
            self._request()
        return True

    def _request(self) -> None:
        if self.requests["ACT"] == 0:
            self.status["FLT"] = 7
        elif self.status["STA"] != 3:
            self.status["FLT"] = 5
        elif self.requests["GTO"] == 1:
            self.status["FLT"] = 0
            self._go(self._width(self.requests["POS"]))

    def step(self, dt_s: float) -> None:
        """One control cycle."""
        if not self._powered():
            self.requests["ACT"] = 0
            self.status |= {"STA": 0, "OBJ": 0, "FLT": 0}
            self._activation, self._goal_m = [], None
            return
        if self.fault:
            self.status["FLT"] = self.fault
        width_m = self._fingers.gripper_width_m()
        self._track.append(width_m)
        kept = max(2, round(STALLED_S / dt_s))
        while len(self._track) > kept:
            self._track.popleft()
        if self._goal_m is None:
            return
        arrived = abs(width_m - self._goal_m) < ARRIVED_M
        stalled = len(self._track) == kept and max(self._track) - min(self._track) < STALLED_M
        if not arrived and not stalled:
            self.status["OBJ"] = 0
        elif self._activation:
            self._activation.pop(0)
            self.status["OBJ"] = 3
            if self._activation:
                self._go(self._activation[0])
            else:
                self.status["STA"], self._goal_m = 3, None
        elif stalled:
            self.status["OBJ"] = 3 if arrived else 1 if self._opening else 2

    def _go(self, width_m: float) -> None:
        speed = SPEED_M_S[0] + self.requests["SPE"] / 255 * (SPEED_M_S[1] - SPEED_M_S[0])
        if self._activation:
            speed = SPEED_M_S[1]
        force = FORCE_N[0] + self.requests["FOR"] / 255 * (FORCE_N[1] - FORCE_N[0])
        self._opening = width_m > self._fingers.gripper_width_m()
        self._goal_m = width_m
        self._track.clear()
        self.status["OBJ"] = 0
        self._fingers.move_gripper(width_m, speed, force)

    def _width(self, count: int) -> float:
        share = (self._closed - count) / (self._closed - self._open)
        return min(OPEN_M, max(0.0, share * OPEN_M))

    def _count(self, width_m: float) -> int:
        share = 1.0 - min(1.0, max(0.0, width_m / OPEN_M))
        return round(self._open + share * (self._closed - self._open))
