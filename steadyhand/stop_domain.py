"""One stop domain per cell (I13): robots that share space stop together, because their guards watch one another. Pure.

Each guard sends beats that count the stops which began with it. A counter that has gone on, a guard that was started
anew, one whose robot's safety system has acted and one that is silent: each stops every other guard of the domain. Each
guard is then re-armed by an operator, on its own. A stop that a peer caused is not counted, or two guards would stop
each other for ever; so every guard names every other one. An orderly disarming is no stop.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from steadyhand import guard_state as gs
from steadyhand.guard_protocol import Beat

PEER = "peer"


def begins_here(event: gs.Event, decisions: tuple[gs.Decision, ...]) -> bool:
    """Whether this event is a stop that the other guards must hear of."""
    match event:
        case gs.StopRequest():
            return True  # also to a guard that stands: the operator wants the cell to stop
        case gs.DisarmRequest():
            return False
        case gs.FaultRaised(name):
            return _stops(decisions) and not name.startswith(PEER)
        case gs.Cycle(holding):
            return _stops(decisions) and any(not name.startswith(f"{PEER}:") for name in holding)
    return False


def _stops(decisions: tuple[gs.Decision, ...]) -> bool:
    return any(isinstance(d, gs.Stop) for d in decisions)


@dataclass
class StopDomain:
    """What is known of the other guards. `peers` are their names; times are monotonic seconds of this guard."""

    peers: tuple[str, ...]
    timeout_s: float
    strangers: int = 0
    _beats: dict[str, Beat] = field(default_factory=dict)
    _last_s: dict[str, float] = field(default_factory=dict)

    def hear(self, beat: Beat, now_s: float) -> str:
        """Take one beat; why this guard must stop now, empty when there is no news."""
        if beat.guard not in self.peers:
            self.strangers += 1
            return ""
        before = self._beats.get(beat.guard)
        self._beats[beat.guard], self._last_s[beat.guard] = beat, now_s
        if before is None:
            return ""
        if beat.boot != before.boot:
            return f"{beat.guard} was started anew"
        if beat.stops != before.stops:
            return f"{beat.guard} stopped ({beat.cause[:200]})" if beat.cause else f"{beat.guard} stopped"
        return ""

    def holding(self, now_s: float) -> dict[str, str]:
        """`peer:<name>` -> why this guard may not move now."""
        found = {}
        for name in self.peers:
            beat, silence_s = self._beats.get(name), now_s - self._last_s.get(name, -math.inf)
            if beat is None:
                found[f"{PEER}:{name}"] = "never heard of: start its guard, or take it out of the peers"
            elif silence_s > self.timeout_s:
                found[f"{PEER}:{name}"] = f"silent for more than {self.timeout_s * 1e3:.0f} ms"
            elif beat.unsafe:
                found[f"{PEER}:{name}"] = f"its robot: {beat.unsafe[:200]}"
        return found

    def occupied(self, names: Iterable[str], now_s: float) -> str:
        """Why the place where arm and vehicle meet is not clear of these peers, which silence never is; else empty."""
        for name in names:
            beat, silence_s = self._beats.get(name), now_s - self._last_s.get(name, -math.inf)
            if beat is None or silence_s > self.timeout_s:
                return f"{name} is silent: whether it is clear is unknown"
            if beat.zone:
                return f"{name}: {beat.zone[:200]}"
        return ""


def unsafe(holding: Iterable[tuple[str, str]]) -> str:
    """The robot's own safety stop among what holds, which concerns the whole cell; empty when there is none."""
    return next((name for name, _ in holding if name.partition(":")[0] == "robot_safety"), "")
