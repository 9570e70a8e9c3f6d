"""Signs of another master: orders and actions on the topics or in the vehicle's state that are not ours. Pure.

Our own begin with this master's random name. What the vehicle had before the arming is known and no sign.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from steadyhand.vda5050.dialect import VehicleState
from steadyhand.vda5050.strict_json import shown
from steadyhand_firmware_bridge.vda5050.route import Route


class Foreigners:
    """`seen` says what the newest sign was; empty once the last one is `forget_s` ago."""

    def __init__(self, name: str, forget_s: float):
        self._prefix, self._forget_s = f"{name}-", forget_s
        self._known_order, self._known_actions = "", frozenset()
        self._sign, self._sign_s = "", -math.inf
        self.count = 0

    def know(self, state: VehicleState) -> None:
        """What the vehicle has now is no sign later."""
        self._known_order, self._known_actions = state.order_id, frozenset(state.actions)

    def know_order(self, order_id: str) -> None:
        """The order that it may still show until it has taken ours."""
        self._known_order = order_id

    def overheard(self, kind: str, message: Mapping[str, Any], now_s: float) -> None:
        """Our own messages come back too; whatever else is on these topics is another master."""
        if kind == "order":
            if not message["orderId"].startswith(self._prefix):
                self._note(f"order {shown(message['orderId'])} on the topic", now_s)
            return
        for action in message["actions"]:
            if not action["actionId"].startswith(self._prefix):
                self._note(f"{shown(action['actionType'])} {shown(action['actionId'])} on the topic", now_s)

    def look(self, state: VehicleState, route: Route | None, ended: bool, now_s: float) -> None:
        """A state of an armed vehicle. `ended`: the order of `route` was arrived or cancelled before this state."""
        order = state.order_id
        if route is None or order != route.order_id:  # an old one of ours, too, is somebody's doing
            if order not in ("", self._known_order) or state.nodes:
                self._note(f"order {shown(order)} in its state", now_s)
        elif ended and state.nodes:  # sent again, or it came after its cancelOrder
            self._note(f"order {shown(order)} in its state, which had ended", now_s)
        elif state.order_update_id > route.update_id:
            self._note(f"update {state.order_update_id} of our order in its state, which we never sent", now_s)
        strange = [i for i in state.actions if i not in self._known_actions and not i.startswith(self._prefix)]
        if strange:
            self._note(f"action {shown(strange[0])} in its state", now_s)

    def seen(self, now_s: float) -> str:
        """The newest sign, while it counts."""
        return self._sign if now_s - self._sign_s <= self._forget_s else ""

    def _note(self, what: str, now_s: float) -> None:
        self.count += 1
        self._sign, self._sign_s = what, now_s
