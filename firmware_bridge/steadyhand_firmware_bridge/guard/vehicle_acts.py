"""What an operator may ask of a vehicle, and when. What the vehicle has to answer is replied to when it has ended."""
from __future__ import annotations

from typing import Any

from steadyhand.agv import Agv, AgvFeedback, Asked, Waypoint
from steadyhand.guard_protocol import Reply, VehicleAct
from steadyhand.guard_state import GuardState

ANYBODYS = ("factsheet", "pause", "cancel")  # they ask for nothing, or for rest; the others are an operator's
OPERATORS = ("position", "resume")


def unknown(message: VehicleAct, vehicle: str) -> str:
    """Why there is no such act or vehicle here; empty when there is."""
    if message.act not in (*ANYBODYS, *OPERATORS):
        return f"act {message.act[:40]!r}: give one of {', '.join((*ANYBODYS, *OPERATORS))}"
    if message.vehicle not in ("", vehicle):
        return f"vehicle {message.vehicle[:80]!r}: this guard's is {vehicle}"
    return ""


def not_now(act: str, state: GuardState, feedback: AgvFeedback | None, at_rest: bool, held: bool) -> str:
    """Why a known act is not for now; empty when it is. `held`: an operator has paused the vehicle."""
    mode = state.mode.value
    if act == "position":
        if state.armed or state.arming is not None:
            return f"mode {mode}: stop it first; an armed vehicle is not told that it is elsewhere"
        if feedback is not None and not at_rest:
            return "the vehicle is not known to rest: wait until it stands"
    elif act != "factsheet" and not state.armed:
        return f"mode {mode}: only an armed vehicle has something to {act}"
    if act == "resume" and not held and (feedback is None or not feedback.paused):
        return "the vehicle is not paused"
    return ""


class VehicleActs:
    """Between the guard's clients and a bridge that offers `agv.Asked`."""

    def __init__(self, agv: Agv):
        self._agv = agv if isinstance(agv, Asked) else None
        self._asked: dict[str, tuple[Any, str]] = {}  # act -> client, request

    def begin(self, client: Any, message: VehicleAct, now_s: float) -> str:
        """Ask the vehicle; the refusal, empty when it was asked."""
        if self._agv is None:
            return f"this vehicle's bridge has no {message.act} to ask for: see the vehicle's own documents and tools"
        if message.act in self._asked:
            return f"another {message.act} is under way"
        if message.act == "factsheet":
            refused = self._agv.request_factsheet(now_s)
        elif len(message.place) != 3:
            refused = f"place={message.place!r}: give x, y and heading"
        else:
            refused = self._agv.initialise_position(Waypoint(message.node, *message.place, message.map_id), now_s)
        if not refused:
            self._asked[message.act] = (client, message.request_id)
        return refused

    def ended(self, now_s: float) -> list[tuple[Any, Reply]]:
        """Answers to give now."""
        found = []
        for act, (client, request) in list(self._asked.items()):
            end = self._agv.act_end(act, now_s)
            if end is not None:
                del self._asked[act]
                found.append((client, Reply(request, end.ok, f"{act}: {end.text}", [], dict(end.told))))
        return found

    def forget(self, client: Any) -> None:
        """A client has gone: nobody is told."""
        self._asked = {act: asked for act, asked in self._asked.items() if asked[0] is not client}
