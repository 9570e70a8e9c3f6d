"""What the vehicle says: state, visualization, connection and factsheet, in the words of VDA 5050 2.1 or 3.0.

Pure: a vehicle in, the message without its header out. The codec checks each by its schema before it is sent.
"""
from __future__ import annotations

import math
from typing import Any

from steadyhand.vda5050.dialect import CONNECTION_BROKEN
from steadyhand_sim.agv.actions import ACTIONS, NUMBER, Entry
from steadyhand_sim.agv.order import MAX_ID_BYTES, Edge, Node
from steadyhand_sim.agv.vehicle import Vehicle

ONLINE, OFFLINE = "ONLINE", "OFFLINE"
STATE_INTERVAL_S, VISUALIZATION_INTERVAL_S = 10.0, 0.25
_MODE_3 = {"TEACHIN": "TEACH_IN"}


def is_2(version: str) -> bool:
    """Whether a version is of the 2.x family."""
    return version.startswith("2.")


def connection(version: str, state: str) -> dict[str, Any]:
    """`state` is ONLINE, OFFLINE or "broken" (the last will)."""
    return {"connectionState": CONNECTION_BROKEN[version] if state == "broken" else state}


def _position(vehicle: Vehicle, version: str) -> dict[str, Any]:
    x, y, heading = vehicle.localisation.pose()
    known = vehicle.localisation.initialised and not vehicle.localisation.lost
    deviation = vehicle.localisation.deviation_m()
    return {
        "x": round(x, 4), "y": round(y, 4), "theta": round(max(-math.pi, min(math.pi, heading)), 5),
        "mapId": vehicle.site.map_id, "deviationRange": round(min(deviation, 1e4), 4),
        "localizationScore": round(math.exp(-deviation) if known else 0.0, 3),
        "positionInitialized" if is_2(version) else "localized": known,
    }  # fmt: skip


def _velocity(vehicle: Vehicle) -> dict[str, float]:
    return {
        "vx": round(vehicle.localisation.speed_m_s, 3), "vy": 0.0,
        "omega": round(vehicle.localisation.rotation_rad_s, 3),
    }  # fmt: skip


def visualization(vehicle: Vehicle, version: str, state_header_id: int) -> dict[str, Any]:
    """Pose and velocity; 3.0 names the state that it belongs to."""
    if is_2(version):
        return {"agvPosition": _position(vehicle, version), "velocity": _velocity(vehicle)}
    return {
        "referenceStateHeaderId": state_header_id, "mobileRobotPosition": _position(vehicle, version),
        "velocity": _velocity(vehicle),
    }  # fmt: skip


def _node(node: Node) -> dict[str, Any]:
    found: dict[str, Any] = {"nodeId": node.node_id, "sequenceId": node.sequence_id, "released": node.released}
    if node.place is not None:
        found["nodePosition"] = {"x": node.place.x_m, "y": node.place.y_m, "mapId": node.place.map_id}
        if node.place.theta_rad is not None:
            found["nodePosition"]["theta"] = node.place.theta_rad
    return found


def _edge(edge: Edge) -> dict[str, Any]:
    return {"edgeId": edge.edge_id, "sequenceId": edge.sequence_id, "released": edge.released}


def _action(entry: Entry, version: str) -> dict[str, Any]:
    status = "RUNNING" if entry.status == "PAUSED" and is_2(version) else entry.status  # 2.1's schema has no PAUSED
    found = {"actionId": entry.action.action_id, "actionType": entry.action.action_type, "actionStatus": status}
    if entry.text:
        found["resultDescription" if is_2(version) else "actionResult"] = entry.text[:500]
    return found


def state(vehicle: Vehicle, version: str) -> dict[str, Any]:
    """The whole state."""
    book, battery, safety = vehicle.book, vehicle.battery, vehicle.safety
    of_order = [_action(e, version) for e in book.queue.entries]
    of_instant = [_action(e, version) for e in vehicle.instant.entries]
    power = {"batteryVoltage": round(battery.voltage_v, 2), "charging": battery.charging}
    charge = round(battery.percent, 2)
    found: dict[str, Any] = {
        "maps": [{"mapId": vehicle.site.map_id, "mapVersion": vehicle.site.map_version, "mapStatus": "ENABLED"}],
        "orderId": book.order_id,
        "orderUpdateId": book.update_id,
        "lastNodeId": book.last_node_id,
        "lastNodeSequenceId": book.last_node_sequence_id,
        "nodeStates": [_node(n) for n in book.nodes],
        "edgeStates": [_edge(e) for e in book.edges],
        "driving": not vehicle.at_rest,
        "paused": safety.hold,
        "newBaseRequest": vehicle.new_base_request,
        "distanceSinceLastNode": round(vehicle.since_node_m, 3),
        "velocity": _velocity(vehicle),
        "loads": [] if vehicle.load_kg <= 0 else [{"loadId": vehicle.load_id, "weight": round(vehicle.load_kg, 2)}],
        "errors": [e.message(version) for e in vehicle.errors],
        "information": [],
    }
    if is_2(version):
        return found | {
            "agvPosition": _position(vehicle, version),
            "actionStates": of_order + of_instant,
            "operatingMode": safety.mode,
            "batteryState": power | {"batteryCharge": charge, "reach": int(battery.reach_m)},
            "safetyState": {"eStop": safety.e_stop_kind(version), "fieldViolation": safety.field_violation},
        }
    return found | {
        "mobileRobotPosition": _position(vehicle, version),
        "actionStates": of_order,
        "instantActionStates": of_instant,
        "operatingMode": _MODE_3.get(safety.mode, safety.mode),
        "powerSupply": power | {"stateOfCharge": charge, "range": int(battery.reach_m)},
        "safetyState": {"activeEmergencyStop": safety.e_stop_kind(version), "fieldViolation": safety.field_violation},
    }


def signature(vehicle: Vehicle) -> tuple:
    """What a state is sent for when it changes (2.1 section 6.10, 3.0 section 6.6): all but measurements."""
    book, safety = vehicle.book, vehicle.safety
    return (
        book.order_id, book.update_id, book.last_node_id, book.last_node_sequence_id,
        tuple((n.sequence_id, n.released) for n in book.nodes), tuple((e.sequence_id, e.released) for e in book.edges),
        tuple((e.action.action_id, e.status) for e in (*book.queue.entries, *vehicle.instant.entries)),
        vehicle.at_rest, safety.hold, safety.mode, safety.e_stop, safety.field_violation, vehicle.new_base_request,
        vehicle.load_kg, vehicle.battery.charging, vehicle.localisation.initialised,
        tuple((e.kind, e.references) for e in vehicle.errors),
    )  # fmt: skip


def _lengths(version: str) -> dict[str, int]:
    limits = {"order.nodes": 256, "order.edges": 255, "node.actions": 64, "edge.actions": 64, "instantActions": 64,
              "actions.actionsParameters": 32, "state.actionStates": 256, "state.loads": 1}  # fmt: skip
    return limits if is_2(version) else limits | {"state.instantActionStates": 40}


def _actions(version: str) -> list[dict[str, Any]]:
    other = "initializePosition" if is_2(version) else "initPosition"
    found = []
    for name, spec in ACTIONS.items():
        if name == other:
            continue
        entry: dict[str, Any] = {
            "actionType": name, "actionDescription": spec.text, "actionScopes": list(spec.scopes),
            "actionParameters": [
                {"key": key.removeprefix("?"), "isOptional": key.startswith("?"),
                 "valueDataType": "NUMBER" if types is NUMBER else "STRING"}
                for key, types in spec.parameters.items()
            ],
        }  # fmt: skip
        if not is_2(version):
            entry |= {"pauseAllowed": spec.duration_s != 0.0, "cancelAllowed": spec.cancel_allowed}
        found.append(entry)
    return found


def factsheet(vehicle: Vehicle, version: str) -> dict[str, Any]:
    """What kind of vehicle this is."""
    c, two = vehicle.config, is_2(version)

    def name(in_2: str, in_3: str) -> str:
        return in_2 if two else in_3

    wheels = [
        {"type": "DRIVE", "isActiveDriven": True, "isActiveSteered": False, "diameter": 2 * c.wheel_radius_m,
         "width": 0.04, "position": {"x": 0.0, "y": side * c.track_m / 2}}
        for side in (1, -1)
    ]  # fmt: skip
    timing = {
        name("minOrderInterval", "minimumOrderInterval"): 0.0,
        name("minStateInterval", "minimumStateInterval"): c.period_s,
        "defaultStateInterval": STATE_INTERVAL_S,
        "visualizationInterval": VISUALIZATION_INTERVAL_S,
    }
    physical = {
        name("speedMin", "minimumSpeed"): 0.0,
        name("speedMax", "maximumSpeed"): c.max_speed_m_s,
        name("accelerationMax", "maximumAcceleration"): c.acceleration_m_s2,
        name("decelerationMax", "maximumDeceleration"): c.emergency_m_s2,
        name("heightMin", "minimumHeight"): c.height_m,
        name("heightMax", "maximumHeight"): c.height_m,
        "width": c.width_m, "length": c.length_m,
    }  # fmt: skip
    laden = {
        "setName": "box", "loadType": "box",
        name("maxWeight", "maximumWeight"): c.max_load_kg,
        name("agvAccelerationLimit", "maximumAcceleration"): round(c.acceleration_m_s2 * c.share(c.max_load_kg), 3),
        name("agvDecelerationLimit", "maximumDeceleration"): round(c.deceleration_m_s2(c.max_load_kg), 3),
    }  # fmt: skip
    return {
        "typeSpecification": {
            "seriesName": "steadyhand-sim-agv", "seriesDescription": "simulated differential-drive carrier",
            name("agvKinematic", "mobileRobotKinematics"): name("DIFF", "DIFFERENTIAL"),
            name("agvClass", "mobileRobotClass"): "CARRIER",
            name("maxLoadMass", "maximumLoadMass"): c.max_load_kg,
            "localizationTypes": ["REFLECTOR"], "navigationTypes": ["VIRTUAL_LINE_GUIDED"],
            **({} if two else {"supportedZones": []}),
        },
        "physicalParameters": physical,
        "protocolLimits": {
            name("maxStringLens", "maximumStringLengths"): {
                name("idLen", "maximumIdLength"): MAX_ID_BYTES, name("loadIdLen", "maximumLoadIdLength"): MAX_ID_BYTES,
            },
            name("maxArrayLens", "maximumArrayLengths"): _lengths(version),
            "timing": timing,
        },
        "protocolFeatures": {
            "optionalParameters": [
                {"parameter": f"order.edges.{n}", "support": "SUPPORTED"}
                for n in (name("maxSpeed", "maximumSpeed"), "maxRotationSpeed", "orientation")
            ],
            name("agvActions", "mobileRobotActions"): _actions(version),
        },
        name("agvGeometry", "mobileRobotGeometry"): {"wheelDefinitions": wheels},
        "loadSpecification": {"loadPositions": ["deck"], "loadSets": [laden]},
    }  # fmt: skip
