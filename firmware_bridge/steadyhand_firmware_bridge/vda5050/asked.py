"""What an operator asks of the vehicle between tasks: its factsheet, and that it takes a position. Pure."""
from __future__ import annotations

import math

from steadyhand.agv import ActEnd, DriveTo, Waypoint
from steadyhand.vda5050.dialect import VehicleState
from steadyhand.vda5050.factsheet import Factsheet

ACTIONS = {"factsheetRequest": "factsheet", "initializePosition": "position"}


class Asked:
    """The newest of each act. A factsheet, once told, says what a task may ask for."""

    def __init__(self, limit_s: float):
        self.factsheet: Factsheet | None = None
        self._limit_s = limit_s
        self._asked_s: dict[str, float] = {}
        self._ends: dict[str, ActEnd] = {}

    def begin(self, act: str, now_s: float) -> None:
        """It was sent."""
        self._asked_s[act] = now_s
        self._ends.pop(act, None)

    def take_factsheet(self, factsheet: Factsheet, now_s: float) -> None:
        """The message has come, asked for or not."""
        self.factsheet = factsheet
        self._ends["factsheet"] = ActEnd(True, "the vehicle's factsheet", factsheet.plain())

    def action_ended(self, kind: str, finished: bool, said: str) -> None:
        """The instant action has ended; a factsheet is told by the message, not by its request's end."""
        act = ACTIONS.get(kind)
        if act is not None and not (finished and act == "factsheet"):
            self._ends[act] = ActEnd(finished, said)

    def end(self, act: str, now_s: float) -> ActEnd | None:
        """How it ended; None before."""
        if act not in self._ends and now_s - self._asked_s.get(act, -math.inf) > self._limit_s:
            return ActEnd(False, f"no answer to the {act} within {self._limit_s:g} s")
        return self._ends.get(act)

    def wrong_position(self, place: Waypoint, state: VehicleState | None) -> str:
        """Why the vehicle cannot be told that it is there, naming field and value; empty when it can."""
        pose = (place.x_m, place.y_m, place.yaw_rad)
        if state is None:
            return "the vehicle has told no state yet: switch it on, see its network, or correct its name in the topics"
        if state.driving:
            return "the vehicle drives: stop it first"
        if not state.idle:
            return f"the vehicle is not idle, it has order {state.order_id[:40]!r}: cancel it first"
        if not all(isinstance(v, (int, float)) and math.isfinite(v) for v in pose):
            return f"pose={pose!r}: give finite numbers for x, y and theta"
        if abs(place.yaw_rad) > math.pi:
            return f"theta={place.yaw_rad}: give -pi to pi"
        if state.maps and place.map_id not in state.maps:
            return f"map {place.map_id[:40]!r}: the vehicle has {', '.join(state.maps)[:200]}"
        return "" if place.map_id else "map '': give the map that the pose is in"

    def impossible(self, task: DriveTo) -> str:
        """What of a task the vehicle's factsheet does not know; empty while it has told none."""
        if self.factsheet is None:
            return ""
        for number, point in enumerate(task.waypoints):
            for name, scope in (("actions", "NODE"), ("way_actions", "EDGE")):
                for k, action in enumerate(getattr(point, name)):
                    if why := self.factsheet.refuses(action.kind, scope):
                        return f"waypoints[{number}].{name}[{k}].{why}"
        return ""
