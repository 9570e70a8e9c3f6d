"""One order: its nodes and edges, their actions, what of it is released, and the messages that say so. Pure.

Base and horizon as in VDA 5050 2.1.0, 6.6.1 and 6.6.2: an update begins with the last node of the base in force (the
stitching node), releases some more and repeats the rest as horizon. A base is only ever extended; to take it back, the
order is cancelled. Sequence ids: node i has 2 i, the edge behind it 2 i + 1. An action's id is made of the order's, its
node's or edge's sequence id and its number there, so that an update repeats it.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steadyhand.agv import DriveTo, Waypoint
from steadyhand.agv_action import Action
from steadyhand_firmware_bridge.vda5050.config import MasterConfig

SPEED = {"2.1.0": "maxSpeed", "3.0.0": "maximumSpeed"}


@dataclass(frozen=True)
class Route:
    """A task as an order. `base` is the index of its last released node, `update_id` that of the newest message."""

    order_id: str
    task: DriveTo
    config: MasterConfig
    base: int
    update_id: int = 0
    first: int = 0  # index of the first node in the newest message

    @property
    def last(self) -> int:
        """Index of the last node."""
        return len(self.task.waypoints) - 1

    @property
    def complete(self) -> bool:
        """Whether everything is released."""
        return self.base == self.last

    def message(self) -> dict[str, Any]:
        """Body of the newest order message, without header."""
        indices = range(self.first, self.last + 1)
        return {
            "orderId": self.order_id,
            "orderUpdateId": self.update_id,
            "nodes": [self._node(i) for i in indices],
            "edges": [self._edge(i) for i in indices[:-1]],
        }

    def extended(self, passed: int) -> Route | None:
        """The update that is due when the node with this index has been passed; None when none is."""
        base = min(self.last, passed + self.config.release_nodes)
        if base <= self.base:
            return None
        return Route(self.order_id, self.task, self.config, base, self.update_id + 1, self.base)

    def actions(self) -> dict[str, str]:
        """What each action's id stands for, in words."""
        found = {}
        for i, point in enumerate(self.task.waypoints):
            for k, action in enumerate(point.way_actions):
                found[self._action_id(2 * i - 1, k)] = f"{action.kind} on the way to {point.name}"
            for k, action in enumerate(point.actions):
                found[self._action_id(2 * i, k)] = f"{action.kind} at {point.name}"
        return found

    def _action_id(self, sequence_id: int, number: int) -> str:
        return f"{self.order_id}-{sequence_id}.{number}"

    def _actions(self, sequence_id: int, actions: tuple[Action, ...]) -> list[dict[str, Any]]:
        return [
            {"actionType": a.kind, "actionId": self._action_id(sequence_id, k), "blockingType": a.blocking,
             "actionParameters": [{"key": key, "value": value} for key, value in a.parameters.items()]}
            for k, a in enumerate(actions)
        ]  # fmt: skip

    def _node(self, index: int) -> dict[str, Any]:
        point = self.task.waypoints[index]
        return {
            "nodeId": point.name, "sequenceId": 2 * index, "released": index <= self.base,
            "nodePosition": self._position(point, index), "actions": self._actions(2 * index, point.actions),
        }  # fmt: skip

    def _position(self, point: Waypoint, index: int) -> dict[str, Any]:
        position: dict[str, Any] = {"x": float(point.x_m), "y": float(point.y_m), "mapId": point.map_id}
        if point.yaw_rad is not None:
            position["theta"] = float(point.yaw_rad)
            if point.deviation_rad is not None:
                position["allowedDeviationTheta"] = float(point.deviation_rad)
        radius_m = self.config.start_deviation_m if index == 0 else self.config.node_deviation_m
        radius_m = radius_m if point.deviation_m is None else float(point.deviation_m)
        if point.deviation_m is None and not radius_m > 0.0:
            return position  # the vehicle's own
        if self.config.identity.version == "2.1.0":
            position["allowedDeviationXY"] = radius_m  # 0: none but the vehicle's normal tolerance
        else:  # an ellipse since 3.0
            position["allowedDeviationXY"] = {"a": radius_m, "b": radius_m, "theta": 0.0}
        return position

    def _edge(self, index: int) -> dict[str, Any]:
        names = self.task.waypoints[index].name, self.task.waypoints[index + 1].name
        edge = {
            "edgeId": f"{names[0]}-{names[1]}", "sequenceId": 2 * index + 1, "released": index + 1 <= self.base,
            "startNodeId": names[0], "endNodeId": names[1],
            "actions": self._actions(2 * index + 1, self.task.waypoints[index + 1].way_actions),
        }  # fmt: skip
        if self.config.identity.version != "2.1.0":
            del edge["startNodeId"], edge["endNodeId"]
        if self.task.speed_m_s is not None:
            edge[SPEED[self.config.identity.version]] = float(self.task.speed_m_s)
        return edge


def first_route(order_id: str, task: DriveTo, config: MasterConfig) -> Route:
    """The order that begins a task: the node where the vehicle stands, and as many more as are to be released."""
    return Route(order_id, task, config, min(len(task.waypoints) - 1, config.release_nodes))
