"""An order as the vehicle thinks of it, whichever version it came in. Input has passed the version's schema."""
from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steadyhand_sim.agv.refusals import Kind, Refusal

UNUSABLE_EDGE_FIELDS = ("trajectory", "corridor", "direction")  # the vehicle drives straight lines and stays on them
BLOCKING = ("NONE", "SINGLE", "SOFT", "HARD")
MAX_ID_BYTES = 64  # what the state repeats must fit into its message, or nothing is heard of the vehicle any more


@dataclass(frozen=True)
class Action:
    """One action of an order, or an instant one. Parameters by key."""

    action_id: str
    action_type: str
    blocking: str
    parameters: Mapping[str, Any]

    @property
    def stops_driving(self) -> bool:
        """Whether the vehicle stands while this action waits or runs."""
        return self.blocking in ("SOFT", "HARD")

    @property
    def alone(self) -> bool:
        """Whether no other action may run beside this one."""
        return self.blocking in ("SINGLE", "HARD")


@dataclass(frozen=True)
class Place:
    """A node's position. `theta_rad` None: any heading. Deviations of 0 mean: as good as the vehicle can."""

    x_m: float
    y_m: float
    map_id: str
    theta_rad: float | None = None
    deviation_m: float = 0.0
    deviation_rad: float | None = None


@dataclass(frozen=True)
class Node:
    """A node; `place` None when the order left it out."""

    node_id: str
    sequence_id: int
    released: bool
    place: Place | None
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Edge:
    """An edge. `backwards`: the vehicle's rear leads."""

    edge_id: str
    sequence_id: int
    released: bool
    start_node_id: str
    end_node_id: str
    max_speed_m_s: float
    max_rotation_rad_s: float
    max_height_m: float
    backwards: bool
    actions: tuple[Action, ...]


@dataclass(frozen=True)
class Order:
    """A whole order message, and what it says verbatim apart from its header (`content`, to compare repeats)."""

    order_id: str
    update_id: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    content: Mapping[str, Any]

    @property
    def references(self) -> tuple[tuple[str, str], ...]:
        """What names this order in an error."""
        return (("topic", "order"), ("orderId", self.order_id), ("orderUpdateId", str(self.update_id)))

    def refuse(self, kind: Kind, text: str, *more: tuple[str, str]) -> Refusal:
        """A refusal that names this order."""
        return Refusal(kind, text, (*self.references, *more))

    def actions(self) -> list[Action]:
        """All actions, nodes before edges."""
        return [a for part in (*self.nodes, *self.edges) for a in part.actions]


def read_action(entry: Mapping[str, Any]) -> Action:
    """An action object of either version."""
    parameters = {p["key"]: p["value"] for p in entry.get("actionParameters", ())}
    return Action(entry["actionId"], entry["actionType"], entry.get("blockingType", "NONE"), parameters)


def _place(entry: Mapping[str, Any] | None) -> Place | None:
    if entry is None:
        return None
    deviation = entry.get("allowedDeviationXY", 0.0)
    if isinstance(deviation, Mapping):  # 3.0: an ellipse; its smaller half axis as a radius conforms
        deviation = min(deviation["a"], deviation["b"])
    theta = entry.get("theta")
    turn = entry.get("allowedDeviationTheta")
    return Place(
        float(entry["x"]), float(entry["y"]), entry["mapId"], None if theta is None else float(theta), float(deviation),
        None if turn is None else abs(float(turn)),
    )


def _edge(entry: Mapping[str, Any]) -> Edge:
    height = entry.get("maxHeight", entry.get("maximumMobileRobotHeight", math.inf))
    return Edge(
        entry["edgeId"], entry["sequenceId"], entry["released"], entry.get("startNodeId", ""),
        entry.get("endNodeId", ""),
        float(entry.get("maxSpeed", entry.get("maximumSpeed", math.inf))),
        float(entry.get("maxRotationSpeed", math.inf)), float(height),
        abs(math.remainder(float(entry.get("orientation", 0.0)), math.tau)) > math.pi / 2,
        tuple(read_action(a) for a in entry["actions"]),
    )


def read_order(message: Mapping[str, Any]) -> Order | Refusal:
    """The order in a message valid by its schema; a refusal for what the schema lets through but no order may say."""
    nodes = tuple(
        Node(n["nodeId"], n["sequenceId"], n["released"], _place(n.get("nodePosition")),
             tuple(read_action(a) for a in n["actions"]))
        for n in message["nodes"]
    )  # fmt: skip
    edges = tuple(_edge(e) for e in message["edges"])
    content = {k: v for k, v in message.items() if k not in ("headerId", "timestamp")}
    order = Order(message["orderId"], message["orderUpdateId"], nodes, edges, content)
    return _malformed(order) or _unusable(order, message["edges"]) or order


def wrong_id(text: str) -> str:
    """Why the state cannot repeat a string; empty when it can."""
    if len(text.encode()) <= MAX_ID_BYTES and text.isprintable():
        return ""
    return f"{text[:30]!r} ({len(text)} characters): give at most {MAX_ID_BYTES} bytes of printable characters"


def _ids(order: Order) -> Iterator[tuple[str, str]]:
    yield "orderId", order.order_id
    for node in order.nodes:
        yield "nodeId", node.node_id
    for edge in order.edges:
        yield "edgeId", edge.edge_id
    for action in order.actions():
        yield "actionId", action.action_id


def _malformed(order: Order) -> Refusal | None:
    nodes, edges = order.nodes, order.edges

    def no(text: str, *more: tuple[str, str]) -> Refusal:
        return order.refuse(Kind.MALFORMED, text, *more)

    if not order.order_id:
        return no("orderId is empty; give an id")
    for field, value in _ids(order):
        if why := wrong_id(value):
            return no(f"{field} {why}", (field, value))
    if not nodes:
        return no("nodes: none; an order has one node at least")
    if len(edges) != len(nodes) - 1:
        return no(f"edges: {len(edges)}, wanted {len(nodes) - 1}: one fewer than nodes")
    first = nodes[0].sequence_id
    if first % 2:
        return no(f"nodes[0].sequenceId: {first}, wanted an even number", ("nodeId", nodes[0].node_id))
    for i, node in enumerate(nodes):
        if node.sequence_id != first + 2 * i:
            return no(f"nodes[{i}].sequenceId: {node.sequence_id}, wanted {first + 2 * i}", ("nodeId", node.node_id))
    for i, edge in enumerate(edges):
        names = ("edgeId", edge.edge_id)
        if edge.sequence_id != first + 2 * i + 1:
            return no(f"edges[{i}].sequenceId: {edge.sequence_id}, wanted {first + 2 * i + 1}", names)
        for field, value, node in (
            ("startNodeId", edge.start_node_id, nodes[i]), ("endNodeId", edge.end_node_id, nodes[i + 1]),
        ):  # fmt: skip
            if value and value != node.node_id:
                return no(f"edges[{i}].{field}: {value!r}, wanted {node.node_id!r}", names)
        if edge.released and not (nodes[i].released and nodes[i + 1].released):
            return no(f"edges[{i}] is released, its nodes are not", names)
        if nodes[i + 1].released and not edge.released:
            return no(f"nodes[{i + 1}] is released behind an unreleased edge", ("nodeId", nodes[i + 1].node_id))
    if not nodes[0].released:
        return no("nodes[0] is not released; the first node always is", ("nodeId", nodes[0].node_id))
    found: set[str] = set()
    for action in order.actions():
        if action.action_id in found:
            return no(f"actionId {action.action_id!r} twice", ("actionId", action.action_id))
        found.add(action.action_id)
    return None


def _unusable(order: Order, entries: Sequence[Mapping[str, Any]]) -> Refusal | None:
    for entry, edge in zip(entries, order.edges):
        names = ("edgeId", edge.edge_id)
        for field in UNUSABLE_EDGE_FIELDS:
            if field in entry:
                text = f"edge.{field} cannot be used; leave it out"
                return order.refuse(Kind.UNSUPPORTED, text, names, ("field", field))
        if entry.get("orientationType", "TANGENTIAL") != "TANGENTIAL":
            said = entry["orientationType"]
            return order.refuse(Kind.UNSUPPORTED, f"orientationType {said!r}: only TANGENTIAL", names)
        turn = float(entry.get("orientation", 0.0))
        if min(abs(math.remainder(turn, math.tau)), math.pi - abs(math.remainder(turn, math.tau))) > 0.01:
            return order.refuse(Kind.UNSUPPORTED, f"orientation {turn}: only 0 or pi, along the edge", names)
        for field, value in (("maxSpeed", edge.max_speed_m_s), ("maxRotationSpeed", edge.max_rotation_rad_s)):
            if not value > 0:
                return order.refuse(Kind.MALFORMED, f"edge.{field}: {value}, wanted above 0", names)
    return None
