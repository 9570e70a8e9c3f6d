"""A vehicle for tests of the master: a point on straight lines that answers VDA 5050 as the standard says. Pure.

`take` gets a message of the master, `tick` gives those of the vehicle. Faults are injected by setting public fields.
It is not the simulated vehicle of `sim/`, which drives in the physics of the cell.
"""
import math

from steadyhand.vda5050.header import HeaderIds
from tests.unit import vda5050_messages as messages

SPEED_M_S, ACCELERATION_M_S2 = 1.0, 2.0


class Vehicle:
    def __init__(self, version="2.1.0", state_s=0.2):
        self.version, self.state_s = version, state_s
        self.identity = messages.IDENTITY[version]
        self.ids = HeaderIds()
        self.x = self.y = self.v = 0.0
        self.order, self.nodes, self.edges = "", [], []
        self.update, self.last_node, self.last_seq = 0, "n0", 0
        self.paused = self.deaf = self.silent = False
        self.actions, self.errors, self.changes = {}, [], {}
        self.online = False
        self.seen = []  # everything that was taken
        self._due, self._next_s, self._now_s = True, -math.inf, 0.0

    # --- what it takes ---

    def take(self, kind, message):
        self.seen.append((kind, message))
        if self.deaf:
            return
        (self.take_order if kind == "order" else self.take_actions)(message)
        self._due = True

    def take_order(self, message):
        if message["orderId"] == self.order and message["orderUpdateId"] == self.update:
            return
        first = message["nodes"][0]
        if message["orderId"] == self.order:
            base = [n for n in self.nodes if n["released"]]
            end = base[-1] if base else {"nodeId": self.last_node, "sequenceId": self.last_seq}
            if message["orderUpdateId"] < self.update or (first["nodeId"], first["sequenceId"]) != (
                end["nodeId"], end["sequenceId"],
            ):  # fmt: skip
                return self.refuse("orderUpdateError", message)
            self.nodes = base + [n for n in message["nodes"] if n["sequenceId"] > end["sequenceId"]]
            self.edges = [e for e in self.edges if e["released"]] + message["edges"]
        else:
            if self.nodes:
                return self.refuse("orderError", message)
            self.nodes, self.edges = list(message["nodes"]), list(message["edges"])
            self.actions, self.errors = {}, []
        self.order, self.update = message["orderId"], message["orderUpdateId"]

    def refuse(self, kind, message):
        reference = {"referenceKey": "orderId", "referenceValue": message["orderId"]}
        self.errors = [{"errorType": kind, "errorLevel": "WARNING", "errorReferences": [reference]}]

    def take_actions(self, message):
        for action in message["actions"]:
            kind, status = action["actionType"], "FINISHED"
            if kind == "startPause":
                self.paused = True
            elif kind == "stopPause":
                self.paused = False
            elif kind == "cancelOrder":
                if not self.nodes:
                    status = "FAILED"
                self.nodes, self.edges = [], []
            elif kind in ("initPosition", "initializePosition"):
                given = {p["key"]: p["value"] for p in action["actionParameters"]}
                self.x, self.y, self.last_node = given["x"], given["y"], given["lastNodeId"]
            self.actions[action["actionId"]] = {"actionId": action["actionId"], "actionStatus": status}

    # --- what it does ---

    def tick(self, now_s):
        """Drive on to now; the messages that are due."""
        dt_s = min(0.1, now_s - self._now_s) if self._now_s else 0.0
        self._now_s = now_s
        before = (self.v > 0, self.last_seq, len(self.nodes))
        self._drive(dt_s)
        out = []
        if not self.online:
            self.online = True
            out.append(("connection", self.message("connection", {"connectionState": "ONLINE"})))
        changed = before != (self.v > 0, self.last_seq, len(self.nodes))
        if not self.silent and (self._due or now_s >= self._next_s or changed):
            self._due, self._next_s = False, now_s + self.state_s
            out.append(("state", self.message("state", self.state())))
        return out

    def _drive(self, dt_s):
        target = self.nodes[0] if self.nodes and self.nodes[0]["released"] else None
        left = 0.0
        if target is not None:
            dx, dy = target["nodePosition"]["x"] - self.x, target["nodePosition"]["y"] - self.y
            left = math.hypot(dx, dy)
        wanted = 0.0 if self.paused or target is None else min(SPEED_M_S, math.sqrt(2 * ACCELERATION_M_S2 * left))
        step = ACCELERATION_M_S2 * dt_s
        self.v += min(step, max(-step, wanted - self.v))
        if target is not None and left > 0:
            go = min(left, self.v * dt_s)
            self.x, self.y = self.x + dx / left * go, self.y + dy / left * go
        if target is not None and left <= 0.02 and not self.paused:
            self.last_node, self.last_seq = target["nodeId"], target["sequenceId"]
            self.edges = [e for e in self.edges if e["sequenceId"] > self.last_seq]
            self.nodes = self.nodes[1:]

    def state(self):
        pose, v21 = {"x": self.x, "y": self.y, "theta": 0.0, "mapId": "hall"}, self.version == "2.1.0"
        body = messages.state(self.version) | {
            "orderId": self.order, "orderUpdateId": self.update, "lastNodeId": self.last_node,
            "lastNodeSequenceId": self.last_seq, "driving": self.v > 0, "paused": self.paused,
            "nodeStates": [{k: n[k] for k in ("nodeId", "sequenceId", "released")} for n in self.nodes],
            "edgeStates": [{k: e[k] for k in ("edgeId", "sequenceId", "released")} for e in self.edges],
            "velocity": {"vx": self.v, "vy": 0.0, "omega": 0.0}, "errors": self.errors,
        }  # fmt: skip
        body["actionStates" if v21 else "instantActionStates"] = list(self.actions.values())
        pose["positionInitialized" if v21 else "localized"] = True
        body["agvPosition" if v21 else "mobileRobotPosition"] = pose
        return body | self.changes

    def message(self, kind, body):
        return body | self.identity.header(self.ids.take(kind), 1_700_000_000.0 + self._now_s)
