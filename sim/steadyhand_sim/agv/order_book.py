"""The vehicle's order: what it takes, refuses, stitches, and what is left of it. Pure: no clock, no socket.

`receive` follows the standard's flow chart of accepting an order or an order update (2.1.0 figure 8, 3.0 figure 8), in
its order of questions. Released nodes and edges are the base; the vehicle drives no further than its end.
"""
from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass

from steadyhand_sim.agv.actions import ActionQueue, known
from steadyhand_sim.agv.order import Edge, Node, Order, Place
from steadyhand_sim.agv.refusals import Kind, Refusal

AUTOMATIC_MODES = ("AUTOMATIC", "SEMIAUTOMATIC")
OFF_LINE_M = 0.1  # further off its line at rest, the vehicle heads for the node straight from where it stands


class Answer(enum.Enum):
    """What became of an order message."""

    NEW = "new"
    UPDATED = "updated"
    REPEATED = "repeated"  # the same again: ignored without an error, as the standard says
    REFUSED = "refused"


@dataclass(frozen=True)
class Situation:
    """Of the vehicle, at the moment an order arrives."""

    x_m: float
    y_m: float
    map_id: str
    localised: bool
    operating_mode: str = "AUTOMATIC"
    cancelling: bool = False  # the order ends as soon as the vehicle stands


@dataclass(frozen=True)
class BookConfig:
    """What the vehicle can reach and carry out. `find` looks up a node that is sent without a position."""

    maps: tuple[str, ...]
    passable: Callable[[Place, Place], str]  # why it cannot drive from one to the other (or stand), empty when it can
    find: Callable[[str], Place | None]
    start_tolerance_m: float = 0.3
    height_m: float = 0.0
    max_nodes: int = 256
    max_actions: int = 64
    max_action_states: int = 256  # over several updates: the oldest that are over are forgotten


@dataclass(frozen=True)
class Leg:
    """What to drive next: along `edge` from `start` to the place of `node`. `stop`: come to rest there."""

    edge: Edge
    start: Place
    node: Node
    place: Place
    stop: bool


class OrderBook:
    """One vehicle's order. `queue` holds the states of its actions."""

    def __init__(self, config: BookConfig) -> None:
        self.config = config
        self.queue = ActionQueue()
        self.order_id, self.update_id = "", 0
        self.last_node_id, self.last_node_sequence_id = "", 0
        self.nodes: list[Node] = []  # still to be traversed, horizon included
        self.edges: list[Edge] = []
        self.cancelled = False
        self._places: dict[int, Place] = {}  # by the sequence id of the node
        self._base_end: Node | None = None
        self._on_edge: int | None = None
        self._last: Order | None = None

    # -- what is left ------------------------------------------------------------------------------------------------
    @property
    def active(self) -> bool:
        """Whether an order is executed or waits for an update (2.1 figure 8, question 3)."""
        return bool(self.nodes or self.edges) or not self.queue.all_over

    @property
    def base_left(self) -> int:
        """Number of released nodes still to be traversed."""
        return sum(n.released for n in self.nodes)

    def legs(self) -> list[Leg]:
        """What is left of the base, in order. Whether driving is allowed now is the queue's word."""
        found = []
        for i, (edge, node) in enumerate(zip(self.edges, self.nodes)):
            if not (edge.released and node.released):
                break
            last = i + 1 >= len(self.edges) or not self.edges[i + 1].released
            stop = last or any(a.stops_driving for a in node.actions)
            found.append(Leg(edge, self._places[edge.sequence_id - 1], node, self._places[node.sequence_id], stop))
        return found

    # -- what happens ------------------------------------------------------------------------------------------------
    def receive(self, order: Order, where: Situation) -> tuple[Answer, Refusal | None]:
        """Take an order or its update, or say why not. A refused message leaves everything as it was."""
        refusal = self._impossible(order, where)
        if order.order_id != self.order_id:
            refusal = refusal or self._not_new(order, where)
            if refusal:
                return Answer.REFUSED, refusal
            self._take_new(order)
            return Answer.NEW, None
        if order.update_id < self.update_id:
            text = f"orderUpdateId {order.update_id}: the vehicle has {self.update_id}; send a greater one"
            return Answer.REFUSED, order.refuse(Kind.OUTDATED_UPDATE, text)
        if order.update_id == self.update_id:
            if self._last is not None and order.content == self._last.content:
                return Answer.REPEATED, None
            text = f"orderUpdateId {order.update_id} again with another content; send a greater one"
            return Answer.REFUSED, order.refuse(Kind.SAME_UPDATE, text)
        refusal = refusal or self._not_continuing(order, where)
        if refusal:
            return Answer.REFUSED, refusal
        self._append(order)
        return Answer.UPDATED, None

    def enter_edge(self) -> None:
        """Driving begins on the next edge: its actions may start. Harmless when it has begun."""
        if self.edges and self.edges[0].released and self._on_edge != self.edges[0].sequence_id:
            self._on_edge = self.edges[0].sequence_id
            self.queue.reach(self._on_edge)

    def traverse(self) -> Node:
        """The next node has been reached: its actions may start, the edge behind it is left."""
        edge, node = self.edges.pop(0), self.nodes.pop(0)
        self.queue.leave(edge.sequence_id)
        self._places = {k: place for k, place in self._places.items() if k >= node.sequence_id}
        self._stand_on(node)
        return node

    def cancel(self, why: str) -> None:
        """Delete the order; its actions fail. Its id stays, as the standard says."""
        self.nodes, self.edges, self._on_edge = [], [], None
        self.queue.cancel(why)
        self.cancelled = True

    # -- refusals ----------------------------------------------------------------------------------------------------
    def _impossible(self, order: Order, where: Situation) -> Refusal | None:
        """What can never be done, whatever the present order is."""
        if where.operating_mode not in AUTOMATIC_MODES:
            return order.refuse(Kind.NOT_AVAILABLE, f"operatingMode {where.operating_mode} takes no orders")
        if len(order.nodes) > self.config.max_nodes:
            return order.refuse(Kind.UNSUPPORTED, f"nodes: {len(order.nodes)}, limit {self.config.max_nodes}")
        if len(order.actions()) > self.config.max_actions:
            return order.refuse(Kind.UNSUPPORTED, f"actions: {len(order.actions())}, limit {self.config.max_actions}")
        nodes, edges = ((n, "NODE", "nodeId") for n in order.nodes), ((e, "EDGE", "edgeId") for e in order.edges)
        for part, scope, key in (*nodes, *edges):
            for action in part.actions:
                why = known(action, scope)
                if why:
                    names = ((key, part.node_id if scope == "NODE" else part.edge_id), ("actionId", action.action_id))
                    return order.refuse(Kind.ORDER_ACTION, why, *names)
        for edge in order.edges:
            if edge.max_height_m < self.config.height_m:
                text = f"maxHeight {edge.max_height_m}: the vehicle is {self.config.height_m} m high"
                return order.refuse(Kind.UNSUPPORTED, text, ("edgeId", edge.edge_id))
        former = None
        for node in order.nodes:
            names = ("nodeId", node.node_id)
            place = self._place(order, node)
            if place is None:
                text = f"node {node.node_id!r} has no nodePosition and is not on the map"
                return order.refuse(Kind.NO_ROUTE, text, names)
            if place.map_id not in self.config.maps:
                text = f"mapId {place.map_id!r}: the vehicle has {', '.join(self.config.maps)}"
                return order.refuse(Kind.UNKNOWN_MAP, text, names)
            why = self.config.passable(former or place, place)
            if why:
                return order.refuse(Kind.NO_ROUTE, f"node {node.node_id!r}: {why}", names)
            former = place
        return None

    def _place(self, order: Order, node: Node) -> Place | None:
        """Where a node is. The one that an update is stitched to stays where it was, whatever the update says."""
        stitched = order.order_id == self.order_id and node is order.nodes[0]
        kept = self._places.get(node.sequence_id) if stitched else None
        return kept or node.place or self.config.find(node.node_id)

    def _not_new(self, order: Order, where: Situation) -> Refusal | None:
        if self.active:
            text = f"order {self.order_id!r} is active; cancel it or wait for its end"
            return order.refuse(Kind.OTHER_ORDER, text, ("activeOrderId", self.order_id))
        if not where.localised:
            return order.refuse(Kind.NOT_AVAILABLE, "the vehicle is not localised; send initPosition first")
        first = order.nodes[0]
        place = first.place or self.config.find(first.node_id)
        away = math.hypot(place.x_m - where.x_m, place.y_m - where.y_m)
        allowed = max(place.deviation_m, self.config.start_tolerance_m)
        if place.map_id != where.map_id or away > allowed:
            text = f"first node {first.node_id!r} is {away:.2f} m away, allowed {allowed:.2f} m"
            return order.refuse(Kind.START_TOO_FAR, text, ("nodeId", first.node_id))
        if len(order.nodes) > 1:  # from beside the first node it drives straight to the second
            second = order.nodes[1]
            why = self.config.passable(Place(where.x_m, where.y_m, where.map_id), self._place(order, second))
            if why and away > OFF_LINE_M:
                text = f"node {second.node_id!r} from {away:.2f} m beside the first node: {why}"
                return order.refuse(Kind.NO_ROUTE, text, ("nodeId", second.node_id))
        return None

    def _not_continuing(self, order: Order, where: Situation) -> Refusal | None:
        if self.cancelled or where.cancelling:
            return order.refuse(Kind.UPDATE_AFTER_CANCEL, f"order {self.order_id!r} was cancelled; send a new order")
        end, first = self._base_end, order.nodes[0]
        if end is None or (first.node_id, first.sequence_id) != (end.node_id, end.sequence_id):
            wanted = "none" if end is None else f"{end.node_id!r} with sequenceId {end.sequence_id}"
            text = f"first node {first.node_id!r} with sequenceId {first.sequence_id} is not the base's end: {wanted}"
            return order.refuse(Kind.NO_CONTINUATION, text, ("nodeId", first.node_id))
        nodes = self.base_left + len(order.nodes) - 1
        if nodes > self.config.max_nodes:
            text = f"nodes: {nodes} with those still to be traversed, limit {self.config.max_nodes}; send it later"
            return order.refuse(Kind.UNSUPPORTED, text)
        kept = [e for e in self.queue.entries if e.sequence_id <= end.sequence_id]
        states = sum(not e.over for e in kept) + sum(len(p.actions) for p in (*order.nodes[1:], *order.edges))
        if states > self.config.max_action_states:
            text = f"actions: {states} with those that wait, limit {self.config.max_action_states}; send it later"
            return order.refuse(Kind.UNSUPPORTED, text)
        taken = {e.action.action_id for e in kept}
        for part in (*order.nodes[1:], *order.edges):
            for action in part.actions:
                if action.action_id in taken:
                    text = f"actionId {action.action_id!r} is in use"
                    return order.refuse(Kind.MALFORMED, text, ("actionId", action.action_id))
        return None

    # -- taking ------------------------------------------------------------------------------------------------------
    def _take_new(self, order: Order) -> None:
        self.queue.forget()
        self._places = {}
        self.cancelled = False
        self.order_id, self.nodes, self.edges, self._on_edge = order.order_id, [], [], None
        first = order.nodes[0]
        self.queue.announce(first.actions, "NODE", first.sequence_id)
        self._extend(order)
        self._stand_on(first)

    def _append(self, order: Order) -> None:
        """Clear the horizon, then stitch. The stitching node keeps what it was first sent with."""
        end = self._base_end.sequence_id
        self.nodes = [n for n in self.nodes if n.released]
        self.edges = [e for e in self.edges if e.released]
        self.queue.drop_after(end)
        self._extend(order)

    def _extend(self, order: Order) -> None:
        self.update_id, self._last = order.update_id, order
        self.nodes += order.nodes[1:]
        self.edges += order.edges
        for node in order.nodes:
            if node is not order.nodes[0] or node.sequence_id not in self._places:  # a stitching node stays as it was
                self._places[node.sequence_id] = node.place or self.config.find(node.node_id)
        parts = sorted((*order.nodes[1:], *order.edges), key=lambda part: part.sequence_id)
        for part in parts:
            self.queue.announce(part.actions, "NODE" if isinstance(part, Node) else "EDGE", part.sequence_id)
        self.queue.shorten(self.config.max_action_states)
        self._base_end = [n for n in order.nodes if n.released][-1]

    def _stand_on(self, node: Node) -> None:
        self.last_node_id, self.last_node_sequence_id = node.node_id, node.sequence_id
        self.queue.reach(node.sequence_id)
