"""Actions: which there are, and the queue that runs an order's by their blocking types. Pure; time is an argument.

Blocking (2.1 section 6.12, 3.0 section 6.2.2): actions start in the order of the list; SOFT and HARD stop driving, HARD
and SINGLE run alone. An action that runs a given time is timed by the queue; others (trigger, fine positioning) end
when the vehicle says so.
"""
from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from steadyhand_sim.agv.order import Action, wrong_id

NUMBER, TEXT = (int, float), (str,)
NOT_NEGATIVE = ("weight", "height", "depth")
MAX_WEIGHT_KG = 1000.0  # far above what it may carry (that is an overload error of its own): no number beyond sense


@dataclass(frozen=True)
class Spec:
    """An action type: scopes, parameters with types (`?`: optional), duration (None: until told), cancelable."""

    scopes: tuple[str, ...]
    parameters: dict[str, tuple] = field(default_factory=dict)
    duration_s: float | None = 0.0
    cancel_allowed: bool = True
    text: str = ""


_LOAD = {"?lhd": TEXT, "?stationType": TEXT, "?stationName": TEXT, "?loadType": TEXT, "?loadId": TEXT,
         "?height": NUMBER, "?depth": NUMBER, "?side": TEXT, "?weight": NUMBER}  # fmt: skip
_POSE = {"x": NUMBER, "y": NUMBER, "theta": NUMBER, "mapId": TEXT, "?lastNodeId": TEXT}
ACTIONS: dict[str, Spec] = {
    "startPause": Spec(("INSTANT",), text="stop driving, keep the order"),
    "stopPause": Spec(("INSTANT",), text="go on"),
    "cancelOrder": Spec(("INSTANT",), {"?orderId": TEXT}, text="stop at once, then delete the order"),
    "stateRequest": Spec(("INSTANT",), text="send the state now"),
    "factsheetRequest": Spec(("INSTANT",), text="send the factsheet now"),
    "initPosition": Spec(("INSTANT",), _POSE, text="2.1: set the pose"),
    "initializePosition": Spec(("INSTANT",), _POSE, text="3.0: set the pose"),
    "trigger": Spec(("INSTANT",), {"?triggerType": TEXT}, text="ends waitForTrigger (the manufacturer's own in 2.1)"),
    "startCharging": Spec(("INSTANT", "NODE"), duration_s=1.0, text="needs a charging node"),
    "stopCharging": Spec(("INSTANT", "NODE"), duration_s=0.5),
    "pick": Spec(("NODE",), _LOAD, 3.0, text="a load comes aboard"),
    "drop": Spec(("NODE",), _LOAD, 3.0, text="the load goes"),
    "signal": Spec(("NODE", "EDGE"), {"?text": TEXT}, 1.0, text="light and buzzer (the manufacturer's own)"),
    "finePositioning": Spec(("NODE",), {"?stationType": TEXT, "?stationName": TEXT}, None, text="dock exactly"),
    "waitForTrigger": Spec(("NODE",), {"?triggerType": TEXT}, None, text="stand until triggered: loading by an arm"),
}


def known(action: Action, scope: str) -> str:
    """Why an action cannot be done in a scope ("NODE", "EDGE", "INSTANT"), naming the field; empty when it can."""
    spec = ACTIONS.get(action.action_type)
    if spec is None:
        return f"actionType {action.action_type[:60]!r} is unknown; one of {', '.join(ACTIONS)}"
    if scope not in spec.scopes:
        return f"actionType {action.action_type!r} is no {scope} action; allowed: {', '.join(spec.scopes)}"
    for name, types in spec.parameters.items():
        key = name.removeprefix("?")
        if key not in action.parameters:
            if key == name:
                return f"{action.action_type}: actionParameter {key!r} is missing"
            continue
        value = action.parameters[key]
        if not isinstance(value, types) or isinstance(value, bool) or types is NUMBER and not math.isfinite(value):
            wanted = "a number" if types is NUMBER else "a string"
            return f"{action.action_type}: actionParameter {key}={str(value)[:60]!r}, wanted {wanted}"
        if types is TEXT and (why := wrong_id(value)):
            return f"{action.action_type}: actionParameter {key}={why}"
        if key in NOT_NEGATIVE and value < 0:
            return f"{action.action_type}: actionParameter {key}={value}, wanted 0 or more"
        if key == "weight" and value > MAX_WEIGHT_KG:
            return f"{action.action_type}: actionParameter {key}={value}, wanted at most {MAX_WEIGHT_KG:g} kg"
    return ""


@dataclass
class Entry:
    """One action and where it stands. `elapsed_s` counts while it runs."""

    action: Action
    scope: str
    status: str = "WAITING"
    text: str = ""
    elapsed_s: float = 0.0
    sequence_id: int = -1  # of the node or edge that it belongs to

    @property
    def over(self) -> bool:
        """Finished or failed."""
        return self.status in ("FINISHED", "FAILED")

    def end(self, status: str, text: str = "") -> None:
        """Final, once."""
        if not self.over:
            self.status, self.text = status, text


def newest(entries: list[Entry], most: int) -> list[Entry]:
    """At most so many, without the oldest of those that are over; what still waits or runs stays in any case."""
    gone = {id(e) for e in [e for e in entries if e.over][: max(0, len(entries) - most)]}
    return [e for e in entries if id(e) not in gone]


class ActionQueue:
    """The order's actions: those announced, and of those the ones whose node or edge has been reached."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self._reached: list[Entry] = []

    def announce(self, actions: Iterable[Action], scope: str, sequence_id: int) -> None:
        """New actions of an order; they wait for their node or edge."""
        self.entries += [Entry(a, scope, sequence_id=sequence_id) for a in actions]

    def forget(self) -> None:
        """A new order: former states go."""
        self.entries, self._reached = [], []

    def drop_after(self, sequence_id: int) -> None:
        """The horizon is replaced: its actions are no more."""
        self.entries = [e for e in self.entries if e.sequence_id <= sequence_id]

    def shorten(self, most: int) -> None:
        """An order that is continued for days: the oldest states that are over go, until `most` are left."""
        self.entries = newest(self.entries, most)

    def reach(self, sequence_id: int) -> None:
        """The node or edge is reached: its actions may start."""
        self._reached += [e for e in self.entries if e.sequence_id == sequence_id and not e.over]

    def leave(self, sequence_id: int) -> None:
        """An edge is left: what it started ends with it."""
        for entry in self._reached:
            if entry.scope == "EDGE" and entry.sequence_id == sequence_id:
                entry.end("FINISHED")

    @property
    def under_way(self) -> list[Entry]:
        """Initialised, running or paused."""
        return [e for e in self._reached if e.status in ("INITIALIZING", "RUNNING", "PAUSED")]

    @property
    def driving_allowed(self) -> bool:
        """No reached action that is not over forbids driving."""
        return not any(e.action.stops_driving for e in self._reached if not e.over)

    @property
    def all_over(self) -> bool:
        """Every announced action is final."""
        return all(e.over for e in self.entries)

    def step(self, dt_s: float, paused: bool, at_rest: bool) -> list[Entry]:
        """Start what may start, time what runs. Returns the entries whose time is up: the vehicle ends them."""
        self._reached = [e for e in self._reached if not e.over]
        due = []
        for entry in self._reached:
            if entry.status == "WAITING":
                running = self.under_way
                blocked = entry.action.alone and running or any(r.action.alone for r in running)
                if paused or blocked or entry.action.stops_driving and not at_rest:
                    break  # later ones wait for this one: the list's order is the order of starting
                entry.status = "RUNNING"
            elif entry.status == "RUNNING" and paused:
                entry.status = "PAUSED"
            elif entry.status == "PAUSED" and not paused:
                entry.status = "RUNNING"
            if entry.status == "RUNNING":
                entry.elapsed_s += dt_s
                duration_s = ACTIONS[entry.action.action_type].duration_s
                if duration_s is None or entry.elapsed_s >= duration_s:
                    due.append(entry)
        return due

    def cancel(self, why: str) -> None:
        """Everything that waits or runs and may be cancelled fails."""
        for entry in self.entries:
            if entry.status == "WAITING" or ACTIONS[entry.action.action_type].cancel_allowed:
                entry.end("FAILED", why)
