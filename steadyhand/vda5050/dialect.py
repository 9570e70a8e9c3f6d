"""What a state says, whichever version it is written in, and what the versions call differently.

Sources: VDA 5050 2.1.0, sections 6.10 (state), 6.14 (connection); 3.0.0, the same topics. Input has passed the schema.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steadyhand.vda5050.strict_json import printable

CONNECTION_BROKEN = {"2.1.0": "CONNECTIONBROKEN", "3.0.0": "CONNECTION_BROKEN"}
# Error levels with which a vehicle does not go on by itself: 2.1 knows WARNING and FATAL; 3.0 adds URGENT (can go on)
# and CRITICAL (cannot).
BLOCKING_LEVELS = frozenset({"CRITICAL", "FATAL"})
FINISHED, FAILED = "FINISHED", "FAILED"  # action states that are final
# Order and instant actions that a vehicle refuses are reported as errors with these references.
ORDER_ID, ACTION_ID = "orderId", "actionId"


@dataclass(frozen=True)
class Stretch:
    """A node or edge of the order that the vehicle still has before it."""

    id: str
    sequence_id: int
    released: bool


@dataclass(frozen=True)
class VehicleError:
    """One entry of `errors`; references as the vehicle gives them (orderId, nodeId, actionId, ...)."""

    kind: str
    level: str
    text: str = ""
    references: tuple[tuple[str, str], ...] = ()

    @property
    def blocks(self) -> bool:
        """Whether the vehicle does not go on by itself."""
        return self.level in BLOCKING_LEVELS

    def refers(self, key: str, value: str) -> bool:
        """Whether a reference names this order, action or node."""
        return (key, value) in self.references


@dataclass(frozen=True)
class ActionState:
    """Where one action stands."""

    status: str
    text: str = ""
    kind: str = ""


@dataclass(frozen=True)
class VehicleState:
    """One state message. Pose and velocity are None when the vehicle does not tell them."""

    order_id: str
    order_update_id: int
    last_node_id: str
    last_node_sequence_id: int
    nodes: tuple[Stretch, ...]
    edges: tuple[Stretch, ...]
    driving: bool
    paused: bool
    operating_mode: str
    e_stop: str  # NONE when none is active
    field_violation: bool
    localised: bool
    pose_m_rad: tuple[float, float, float] | None = None  # x, y, theta in the map `map_id`
    map_id: str = ""
    velocity_m_s_rad_s: tuple[float, float, float] | None = None  # vx, vy, omega in the vehicle's frame
    battery_percent: float = float("nan")
    charging: bool = False
    new_base_request: bool = False
    loads: tuple[str, ...] = ()  # ids, or types, of what is aboard
    maps: tuple[str, ...] = ()  # ids of those that are enabled, if it tells; else of those it has
    requests: tuple[str, ...] = ()  # 3.0: what of zones and corridors it asks leave for, and waits
    actions: Mapping[str, ActionState] = field(default_factory=dict)
    errors: tuple[VehicleError, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nothing of an order is left: no node, no edge, no action that has not ended."""
        under_way = any(a.status not in (FINISHED, FAILED) for a in self.actions.values())
        return not self.nodes and not self.edges and not under_way


def read_state(message: Mapping[str, Any], version: str) -> VehicleState:
    """The state in a message valid for `version`."""
    position = message.get("agvPosition" if version == "2.1.0" else "mobileRobotPosition")
    pose, map_id, localised = read_position(position)
    power = message["batteryState" if version == "2.1.0" else "powerSupply"]
    safety = message["safetyState"]
    result = "resultDescription" if version == "2.1.0" else "actionResult"
    listed = [*message["actionStates"], *message.get("instantActionStates", ())]
    return VehicleState(
        order_id=message["orderId"],
        order_update_id=message["orderUpdateId"],
        last_node_id=message["lastNodeId"],
        last_node_sequence_id=message["lastNodeSequenceId"],
        nodes=tuple(Stretch(n["nodeId"], n["sequenceId"], n["released"]) for n in message["nodeStates"]),
        edges=tuple(Stretch(e["edgeId"], e["sequenceId"], e["released"]) for e in message["edgeStates"]),
        driving=message["driving"],
        paused=message.get("paused", False),
        operating_mode=message["operatingMode"],
        e_stop=safety["eStop" if version == "2.1.0" else "activeEmergencyStop"],
        field_violation=safety["fieldViolation"],
        localised=localised,
        pose_m_rad=pose,
        map_id=map_id,
        velocity_m_s_rad_s=read_velocity(message.get("velocity")),
        battery_percent=float(power["batteryCharge" if version == "2.1.0" else "stateOfCharge"]),
        charging=power["charging"],
        new_base_request=message.get("newBaseRequest", False),
        loads=tuple(load.get("loadId") or load.get("loadType") or "unnamed" for load in message.get("loads", ())),
        maps=_maps(message.get("maps", ())),
        requests=tuple(
            f"{r['requestType']} of {r.get('zoneId') or r.get('edgeId')}"
            for r in (*message.get("zoneRequests", ()), *message.get("edgeRequests", ()))
            if r["requestStatus"] == "REQUESTED"
        ),
        actions={
            a["actionId"]: ActionState(
                a["actionStatus"], printable(a.get(result, "")), printable(a.get("actionType", ""))
            ) for a in listed
        },
        errors=tuple(_error(e) for e in message["errors"]),
    )


def _maps(listed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    enabled = [entry["mapId"] for entry in listed if entry["mapStatus"] == "ENABLED"]
    return tuple(enabled or (entry["mapId"] for entry in listed))


def read_position(position: Mapping[str, Any] | None) -> tuple[tuple[float, float, float] | None, str, bool]:
    """Pose, map and whether the vehicle is localised; a vehicle that tells no position is not."""
    if position is None:
        return None, "", False
    localised = position.get("positionInitialized", position.get("localized", False))
    pose = (float(position["x"]), float(position["y"]), float(position["theta"]))
    return pose, position["mapId"], localised


def read_velocity(velocity: Mapping[str, Any] | None) -> tuple[float, float, float] | None:
    """vx, vy, omega. A vehicle that leaves out every component tells nothing; one that leaves out some stands in it."""
    if not velocity or not any(name in velocity for name in ("vx", "vy", "omega")):
        return None
    return tuple(float(velocity.get(name, 0.0)) for name in ("vx", "vy", "omega"))


def _error(entry: Mapping[str, Any]) -> VehicleError:
    references = tuple((r["referenceKey"], r["referenceValue"]) for r in entry.get("errorReferences", ()))
    text = printable(entry.get("errorDescription", ""))
    return VehicleError(printable(entry["errorType"]), entry["errorLevel"], text, references)
