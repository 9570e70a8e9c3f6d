"""VDA 5050 orders and instant actions for tests of the simulated vehicle, as a master would write them."""
from steadyhand.vda5050.header import Identity

ORDER_NODE_STEP = 2


def node(number, x, y, released=True, theta=None, actions=(), deviation=None, map_id="hall", version="2.1.0"):
    """Node `n<number>` at (x, y)."""
    position = {"x": x, "y": y, "mapId": map_id}
    if theta is not None:
        position["theta"] = theta
    if deviation is not None:
        round_ = {"a": deviation, "b": deviation, "theta": 0.0}
        position["allowedDeviationXY"] = deviation if version.startswith("2.") else round_
    return {
        "nodeId": f"n{number}", "sequenceId": ORDER_NODE_STEP * number, "released": released, "nodePosition": position,
        "actions": list(actions),
    }  # fmt: skip


def order(points, order_id="order", update_id=0, released=None, first=0, actions=None, edge=None, version="2.1.0"):
    """An order without header along points (x, y); the first `released` nodes are the base (all by default)."""
    nodes = [
        node(first + i, *p, released=released is None or i < released, actions=(actions or {}).get(i, ()), version=version)
        for i, p in enumerate(points)
    ]
    edges = [
        {"edgeId": f"e{first + i}", "sequenceId": ORDER_NODE_STEP * (first + i) + 1, "released": nodes[i + 1]["released"],
         "startNodeId": nodes[i]["nodeId"], "endNodeId": nodes[i + 1]["nodeId"], "actions": [], **(edge or {})}
        for i in range(len(nodes) - 1)
    ]  # fmt: skip
    return {"orderId": order_id, "orderUpdateId": update_id, "nodes": nodes, "edges": edges}


def action(action_type, action_id, blocking="HARD", **parameters):
    """One action."""
    return {
        "actionType": action_type, "actionId": action_id, "blockingType": blocking,
        "actionParameters": [{"key": k, "value": v} for k, v in parameters.items()],
    }  # fmt: skip


def instant(*actions):
    """An instantActions message without header."""
    return {"actions": [a | {"blockingType": "NONE"} for a in actions]}


def with_header(message, identity: Identity, header_id=0):
    """The whole message."""
    return identity.header(header_id, 1_800_000_000.0) | message
