"""Instant actions: what the master may ask between orders. Pure; the vehicle's own parts are given and acted on."""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from steadyhand_sim.agv.actions import Entry, known, newest
from steadyhand_sim.agv.order import Action, Place, read_action, wrong_id
from steadyhand_sim.agv.order_book import AUTOMATIC_MODES
from steadyhand_sim.agv.refusals import Kind, Refusal

if TYPE_CHECKING:
    from steadyhand_sim.agv.vehicle import Vehicle

MAX_KEPT = 40  # a master that asks for the state again and again does not make it endless
MAX_IDS = 256  # longer than a repeated message can be on its way
ALWAYS = ("stateRequest", "factsheetRequest")  # also where no master is in control


class InstantActions:
    """Of one vehicle: `take` at arrival, `step` each period. `entries` are their states."""

    def __init__(self, vehicle: Vehicle) -> None:
        self._v = vehicle
        self.entries: list[Entry] = []
        self.refusals: list[Refusal] = []
        self.repeated = 0
        self._taken: dict[str, Action] = {}  # by id, also when their states have gone: nothing is done twice

    def take(self, message: Mapping[str, Any]) -> None:
        """A message of the topic `instantActions`, valid by its schema."""
        former, self.refusals = self.refusals, []
        done = [self._begin(read_action(entry)) for entry in message["actions"]]
        if not any(done):
            self.refusals = [*former, *self.refusals][-10:]
        self.entries = newest(self.entries, MAX_KEPT)

    def _begin(self, action: Action) -> bool:
        """Whether it could be begun."""
        why = wrong_id(action.action_id) or wrong_id(action.action_type)
        if why:  # no state of it either: it would repeat what is too long
            self._report(action, Kind.INSTANT_ACTION, f"actionId or actionType {why}")
            return False
        former = self._taken.get(action.action_id)
        if former == action:
            self.repeated += 1  # the same message again changes nothing
            return False
        if former is not None or any(e.action.action_id == action.action_id for e in self._v.book.queue.entries):
            text = f"actionId {action.action_id!r} is in use; give {action.action_type} one of its own"
            self._report(action, Kind.INSTANT_ACTION, text)
            return False
        self._taken[action.action_id] = action
        if len(self._taken) > MAX_IDS:
            del self._taken[next(iter(self._taken))]
        entry = Entry(action, "INSTANT", "RUNNING")
        self.entries.append(entry)
        mode = self._v.safety.mode
        why = known(action, "INSTANT")
        if not why and mode not in AUTOMATIC_MODES and action.action_type not in ALWAYS:
            why = f"operatingMode {mode} takes no {action.action_type}"
        if sum(not e.over for e in self.entries) > MAX_KEPT:
            why = f"{MAX_KEPT} instant actions are under way; wait for their end"
        if why:
            self._refuse(entry, Kind.INSTANT_ACTION, why)
            return False
        self.step_one(entry, first=True)
        return True

    def step(self) -> None:
        """Those that wait for rest or for the end of others."""
        for entry in self.entries:
            if not entry.over:
                self.step_one(entry)

    def step_one(self, entry: Entry, first: bool = False) -> None:
        """Carry one on."""
        getattr(self, "_" + entry.action.action_type)(entry, first)

    def new_order(self) -> None:
        """States of instant actions that are over go with the former order."""
        self.entries = [e for e in self.entries if not e.over]

    def _refuse(self, entry: Entry, kind: Kind, why: str) -> None:
        entry.end("FAILED", why)
        self._report(entry.action, kind, why)

    def _report(self, action: Action, kind: Kind, why: str) -> None:
        references = (("topic", "instantActions"), ("actionId", action.action_id))
        self.refusals = [*self.refusals, Refusal(kind, why, references)][-10:]

    # -- one method for each action type -----------------------------------------------------------------------------
    def _startPause(self, entry: Entry, first: bool) -> None:
        if first:
            self._v.safety.paused = True
        if self._v.at_rest:
            entry.end("FINISHED")

    def _stopPause(self, entry: Entry, first: bool) -> None:
        if self._v.safety.local_stop or self._v.safety.e_stop:
            self._refuse(entry, Kind.INSTANT_ACTION, "held by the stop at the vehicle; release it there first")
            return
        for other in self.entries:
            if other.action.action_type == "startPause":
                other.end("FAILED", "stopPause came before the vehicle was at rest")
        self._v.safety.paused = False
        entry.end("FINISHED")

    def _cancelOrder(self, entry: Entry, first: bool) -> None:
        v = self._v
        if first:
            wanted = entry.action.parameters.get("orderId", v.book.order_id)
            if not v.book.active or wanted != v.book.order_id:
                text = f"no active order {wanted!r}" if wanted else "no order"
                self._refuse(entry, Kind.NO_ORDER_TO_CANCEL, text)
                return
            v.cancelling = "cancelOrder"
        if not v.cancelling and not v.book.active:
            entry.end("FINISHED")

    def _stateRequest(self, entry: Entry, first: bool) -> None:
        self._v.state_wanted = True
        entry.end("FINISHED")

    def _factsheetRequest(self, entry: Entry, first: bool) -> None:
        self._v.factsheet_wanted = True
        entry.end("FINISHED")

    def _initPosition(self, entry: Entry, first: bool) -> None:
        v, p = self._v, entry.action.parameters
        if v.book.active or not v.at_rest:
            why = "an order is active; cancel it first" if v.book.active else "the vehicle moves"
        elif p["mapId"] != v.site.map_id:
            why = f"mapId {p['mapId'][:60]!r}: the vehicle has {v.site.map_id!r}"
        elif abs(p["theta"]) > math.pi + 1e-9:
            why = f"theta {p['theta']}: give -pi to pi"
        else:
            here = Place(float(p["x"]), float(p["y"]), p["mapId"])
            why = v.site.passable(here, here, 0.0)
        if why:
            self._refuse(entry, Kind.INSTANT_ACTION, f"{entry.action.action_type}: {why}")
            return
        v.localisation.start(float(p["x"]), float(p["y"]), float(p["theta"]))
        v.book.cancel(entry.action.action_type)  # a finished order does not go on from another place
        v.book.last_node_id, v.book.last_node_sequence_id = str(p.get("lastNodeId", "")), 0
        entry.end("FINISHED")

    _initializePosition = _initPosition

    def _trigger(self, entry: Entry, first: bool) -> None:
        kind = entry.action.parameters.get("triggerType", "")
        if self._v.trigger(kind):
            entry.end("FINISHED")
        else:
            self._refuse(entry, Kind.INSTANT_ACTION, f"nothing waits for the trigger {kind!r}")

    def _startCharging(self, entry: Entry, first: bool) -> None:
        why = self._v.start_charging()
        if why:
            self._refuse(entry, Kind.INSTANT_ACTION, why)
        else:
            entry.end("FINISHED")

    def _stopCharging(self, entry: Entry, first: bool) -> None:
        self._v.battery.charging = False
        entry.end("FINISHED")

