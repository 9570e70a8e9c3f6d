"""What the run of arm and vehicle in one cell is held to, by both guards' states and the world's truth. Pure.

States and truth in, violations, waits and figures out. The arm's own states go through `invariants.InvariantMonitor`.
"""
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steadyhand.guard_protocol import AgvState
from steadyhand_cli.invariants import ARMED, Violation

# Longest service brake: from 1.2 m/s at 0.48 m/s2 with the largest load, until the guard hears of it and measures rest.
STOP_LIMIT_S = 4.0
STILL_M_S, MOVES_M_S = 0.05, 0.02  # of its own estimate, which is noisy; of the world's truth


class VehicleMonitor:
    """States of a vehicle's guard, in order, to `update`."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.states = self.stops = self.armings = 0
        self._previous: AgvState | None = None
        self._stopped_s: float | None = None  # since when rest is waited for
        self._rested = False
        self._tokens: set[int] = set()

    def update(self, state: AgvState) -> None:
        """Check one state against those before it."""
        previous, self._previous = self._previous, state
        self.states += 1
        armed = state.mode in ARMED
        if previous is None:
            self._tokens.add(state.token)
            return
        was_armed = previous.mode in ARMED
        if state.stamp_s <= previous.stamp_s:
            self._report("I3", state, f"state at {state.stamp_s:.3f} after {previous.stamp_s:.3f}")
        if armed and not was_armed:
            self.armings += 1
            self._stopped_s = None
            if state.token in self._tokens:
                self._report("I3", state, f"token {state.token} was used before")
            self._tokens.add(state.token)
        if was_armed and not armed:
            self.stops += 1
            self._stopped_s, self._rested = state.stamp_s, False
        if self._stopped_s is not None:
            self._while_stopped(state)

    def _while_stopped(self, state: AgvState) -> None:
        speed = math.hypot(*state.twist_m_s_rad_s[:2]) if state.twist_m_s_rad_s else 0.0
        if self._rested and (state.driving or speed > STILL_M_S):
            self._report("I1", state, f"drives at {speed:.2f} m/s while stopped")
            self._rested = False
        elif state.at_rest:
            self._rested = True
        elif not self._rested and state.mode != "REST_UNKNOWN" and state.stamp_s - self._stopped_s > STOP_LIMIT_S:
            self._report("I1", state, f"not at rest {STOP_LIMIT_S:g} s after the stop")
            self._stopped_s = state.stamp_s

    def _report(self, invariant: str, state: AgvState, detail: str) -> None:
        self.violations.append(Violation(invariant, state.stamp_s, f"vehicle: {detail}"))


@dataclass
class Waits:
    """Times that somebody was refused because the other one was in the way."""

    number: int = 0
    seconds: float = 0.0
    _since_s: float | None = None

    def refused(self, now_s: float) -> None:
        """It asked, and has to wait; asked again, it waits on."""
        if self._since_s is None:
            self._since_s, self.number = now_s, self.number + 1

    def taken(self, now_s: float) -> None:
        """It goes."""
        if self._since_s is not None:
            self.seconds, self._since_s = self.seconds + now_s - self._since_s, None

    def plain(self) -> dict[str, float]:
        """For the summary."""
        return {"n": self.number, "seconds": round(self.seconds, 2)}


@dataclass
class Meeting:
    """I13 by the world's truth: never does the vehicle move near the arm's place while the arm is over it."""

    inside: Callable[[np.ndarray], np.ndarray]  # `Zone.inside`: joints (N, 6) -> (N,)
    xy_m: tuple[float, ...]
    radius_m: float
    looks: int = 0
    driven_m: float = 0.0
    driven_loaded_m: float = 0.0
    violations: list[Violation] = field(default_factory=list)
    _at: tuple[float, float] | None = None
    _reported: set[str] = field(default_factory=set)

    def look(self, now_s: float, vehicle: Mapping[str, Any], q_rad: Sequence[float]) -> None:
        """`vehicle`: the world's truth of it; `q_rad`: where the arm is. Both of now."""
        self.looks += 1
        x, y = vehicle["pose"][:2]
        speed = abs(vehicle["twist"][0])
        if self._at is not None and speed > MOVES_M_S:
            way = math.hypot(x - self._at[0], y - self._at[1])
            self.driven_m += way
            self.driven_loaded_m += way if vehicle["loaded"] else 0.0
        self._at = (x, y)
        near = math.hypot(x - self.xy_m[0], y - self.xy_m[1]) <= self.radius_m
        over = bool(np.isfinite(q_rad).all() and self.inside(np.array([q_rad]))[0])
        self._judge(near and over and speed > MOVES_M_S, now_s, f"drives at {speed:.2f} m/s under the arm")
        self._judge(bool(vehicle["touches_arm"]), now_s, "touches the arm")

    def _judge(self, broken: bool, now_s: float, detail: str) -> None:
        what = detail.split()[0]
        if broken and what not in self._reported:  # once until it has ended
            self.violations.append(Violation("I13", now_s, f"vehicle: {detail}"))
        (self._reported.add if broken else self._reported.discard)(what)


def docking_error(pose: Sequence[float], dock: Sequence[float]) -> dict[str, float]:
    """How far it stands from the dock: along its heading and across (mm), turned (mrad)."""
    c, s = math.cos(dock[2]), math.sin(dock[2])
    dx, dy = pose[0] - dock[0], pose[1] - dock[1]
    return {
        "along_mm": round((c * dx + s * dy) * 1e3, 1), "across_mm": round((-s * dx + c * dy) * 1e3, 1),
        "turned_mrad": round(math.remainder(pose[2] - dock[2], math.tau) * 1e3, 1),
    }  # fmt: skip
