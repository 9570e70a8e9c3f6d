"""Valid messages of both versions for tests, written from the standard's tables."""
from steadyhand.vda5050.header import Identity

IDENTITY = {version: Identity("acme", "agv-1", version) for version in ("2.1.0", "3.0.0")}


def state(version="2.1.0", /, header_id=0, wall_s=1_700_000_000.0, **changes):
    """A vehicle that stands idle, localised and automatic."""
    position = {"x": 1.0, "y": 2.0, "theta": 0.5, "mapId": "hall"}
    message = IDENTITY[version].header(header_id, wall_s) | {
        "orderId": "", "orderUpdateId": 0, "lastNodeId": "n0", "lastNodeSequenceId": 0, "nodeStates": [],
        "edgeStates": [], "driving": False, "actionStates": [], "operatingMode": "AUTOMATIC", "errors": [],
        "velocity": {"vx": 0.0, "vy": 0.0, "omega": 0.0},
    }  # fmt: skip
    if version == "2.1.0":
        message |= {
            "agvPosition": position | {"positionInitialized": True},
            "batteryState": {"batteryCharge": 80.0, "charging": False},
            "safetyState": {"eStop": "NONE", "fieldViolation": False},
        }
    else:
        message |= {
            "mobileRobotPosition": position | {"localized": True},
            "powerSupply": {"stateOfCharge": 80.0, "charging": False},
            "safetyState": {"activeEmergencyStop": "NONE", "fieldViolation": False},
            "instantActionStates": [],
        }
    return message | changes


def connection(version="2.1.0", /, header_id=0, wall_s=1_700_000_000.0, said="ONLINE"):
    return IDENTITY[version].header(header_id, wall_s) | {"connectionState": said}
