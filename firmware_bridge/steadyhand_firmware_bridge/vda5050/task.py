"""The one task under way: its order sent, repeated, released piece by piece, followed to its end in the states. Pure.

A base is only ever extended, and nothing is sent while the caller sees a trouble. A task that the vehicle refuses,
loses or gives up, or an action of which fails, has failed: what was cancelled there is not continued.
"""
from __future__ import annotations

import math
from typing import Any

from steadyhand.agv import DriveTo, TaskState
from steadyhand.vda5050 import dialect
from steadyhand.vda5050.dialect import VehicleState
from steadyhand.vda5050.strict_json import shown
from steadyhand_firmware_bridge.vda5050.config import MasterConfig
from steadyhand_firmware_bridge.vda5050.route import Route, first_route

ORDER_TRIES = 3  # an order message is sent so often; a vehicle ignores what it has already
UNDER_WAY = (TaskState.SENT, TaskState.UNDER_WAY)


class OrderTask:
    """`begin`, `repeat` and `follow` return the order message that is due, None when none is."""

    def __init__(self, config: MasterConfig, name: str):
        self.config, self._name = config, name
        self.route: Route | None = None
        self.state, self.detail = TaskState.NONE, ""
        self.cancelling = False
        self.failed = 0
        self._sent_s, self._tries, self._orders = -math.inf, 0, 0
        self._kinds: dict[str, str] = {}  # what the ids of the order's actions stand for

    @property
    def under_way(self) -> bool:
        """Sent or being driven."""
        return self.state in UNDER_WAY

    @property
    def ended(self) -> bool:
        """Arrived, or cancelled: the vehicle has nothing of it to do any more."""
        return self.state in (TaskState.ARRIVED, TaskState.STOPPED)

    def clear(self) -> None:
        """A new arming asks for nothing yet."""
        self.state, self.detail, self.cancelling = TaskState.NONE, "", False

    def begin(self, task: DriveTo, now_s: float) -> dict[str, Any]:
        """A task of its own order."""
        self._orders += 1
        self.route = first_route(f"{self._name}-{self._orders}", task, self.config)
        self._kinds = self.route.actions()
        self.state, self.detail, self.cancelling, self._tries = TaskState.SENT, "", False, 0
        return self._message(now_s)

    def fail(self, why: str) -> None:
        """Given up; the caller's trouble."""
        self.failed += 1
        self.state, self.detail, self.cancelling = TaskState.FAILED, why, False

    def stop(self) -> None:
        """Given up by the guard."""
        if self.under_way:
            self.state, self.cancelling = TaskState.STOPPED, False

    def cancel(self) -> None:
        """The vehicle is asked to end it."""
        self.cancelling, self.detail = True, "being cancelled"

    def in_flight(self, state: VehicleState | None) -> bool:
        """An order of ours that the vehicle has not shown yet may still be on its way."""
        return self.route is not None and state is not None and state.order_id != self.route.order_id

    def kind_of(self, action_id: str) -> str:
        """What an action of our order is, in words; empty when it is none."""
        return self._kinds.get(action_id, "")

    def repeat(self, state: VehicleState, now_s: float) -> dict[str, Any] | None:
        """Time has passed: an order that the vehicle does not show is sent again, as it was."""
        waits = self.under_way and not self.cancelling and not self._acknowledged(state)
        if not waits or now_s - self._sent_s <= self.config.acknowledge_s:
            return None
        if self._tries >= ORDER_TRIES:
            self.fail(f"update {self.route.update_id} was not acknowledged after {ORDER_TRIES} tries")
            return None
        return self._message(now_s)

    def follow(self, state: VehicleState, cancel_sent: bool, release: bool, now_s: float) -> dict[str, Any] | None:
        """A state has come. `cancel_sent`: a cancelOrder has not ended; `release`: nothing forbids to release more."""
        if not self.under_way:
            return None
        if self.cancelling:
            return self._cancelled(state, cancel_sent)
        why = self._refused(state) or self._given_up(state)
        if why:
            self.fail(why)
            return None
        if not self._acknowledged(state):
            return None
        self.state = TaskState.UNDER_WAY
        if state.idle and not state.driving:
            self.state = TaskState.ARRIVED
        if not state.nodes or not release:
            return None
        update = self.route.extended(self._passed(state))
        if update is None:
            return None
        self.route, self._tries = update, 0
        return self._message(now_s)

    def _message(self, now_s: float) -> dict[str, Any]:
        self._sent_s, self._tries = now_s, self._tries + 1
        return self.route.message()

    def _acknowledged(self, state: VehicleState) -> bool:
        return state.order_id == self.route.order_id and state.order_update_id >= self.route.update_id

    def _cancelled(self, state: VehicleState, cancel_sent: bool) -> None:
        if not cancel_sent and state.idle and not state.driving:
            self.state, self.detail, self.cancelling = TaskState.STOPPED, "cancelled", False

    def _refused(self, state: VehicleState) -> str:
        refusal = next((e for e in state.errors if e.refers(dialect.ORDER_ID, self.route.order_id)), None)
        if refusal is not None:
            return f"{refusal.kind} ({refusal.level}): {refusal.text}"[:300]
        for action_id, action in state.actions.items():
            if action.status == dialect.FAILED and action_id in self._kinds:
                return f"{self._kinds[action_id]} failed: {action.text or 'the vehicle does not say why'}"[:300]
        return ""

    def _given_up(self, state: VehicleState) -> str:
        """Why the vehicle will not end the task: it had the order and has it no more. Sent anew, it would begin."""
        route = self.route
        if state.order_id != route.order_id:
            had = self.state is TaskState.UNDER_WAY
            return f"the vehicle has lost the order; it has {shown(state.order_id)} now" if had else ""
        last = state.last_node_id, state.last_node_sequence_id
        if state.nodes or last == (route.task.waypoints[-1].name, 2 * route.last):
            return ""
        return f"the vehicle has given the order up at node {shown(state.last_node_id)}"

    def _passed(self, state: VehicleState) -> int:
        """Index of the last node passed. By the nodes left, too: lastNodeSequenceId may be of the order before."""
        left = min(node.sequence_id for node in state.nodes)
        return max(0, min(left // 2 - 1, state.last_node_sequence_id // 2, self.route.base))
