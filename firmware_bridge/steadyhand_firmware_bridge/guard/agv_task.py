"""A `Drive` message as a task. What has no place in one is named here, all else by `steadyhand.agv.check_command`."""
from __future__ import annotations

import math

from steadyhand import agv_action
from steadyhand.agv import DriveTo, Waypoint
from steadyhand.agv_action import Action
from steadyhand.guard_protocol import Drive

PLACES = {"at", "on_way"}


def read(message: Drive) -> DriveTo | str:
    """The task, or what is wrong with the message, naming field and value."""
    names, poses, deviations = len(message.names), len(message.poses), len(message.deviations)
    if names != poses:
        return f"names: {names}, poses: {poses}; give a name and a pose for each way-point"
    if deviations not in (0, names):
        return f"deviations: {deviations}, way-points: {names}; give one for each, or none"
    at_nodes: list[list[Action]] = [[] for _ in message.names]
    on_ways: list[list[Action]] = [[] for _ in message.names]
    for number, entry in enumerate(message.actions):
        at, on_way = entry.get("at"), entry.get("on_way", False)
        if not isinstance(at, int) or isinstance(at, bool) or not 0 <= at < names:
            return f"actions[{number}].at={agv_action.shown(at)}: give the index of a way-point, 0 to {names - 1}"
        if not isinstance(on_way, bool):
            return f"actions[{number}].on_way={agv_action.shown(on_way)}: give true or false"
        action = agv_action.read({key: value for key, value in entry.items() if key not in PLACES})
        if isinstance(action, str):
            return f"actions[{number}].{action}"
        (on_ways if on_way else at_nodes)[at].append(action)
    points = tuple(_waypoint(message, k, tuple(at_nodes[k]), tuple(on_ways[k])) for k in range(names))
    return DriveTo(message.task_id, points, message.speed_m_s or None)


def _waypoint(message: Drive, k: int, actions: tuple[Action, ...], way_actions: tuple[Action, ...]) -> Waypoint:
    pose, deviation = message.poses[k], message.deviations[k] if message.deviations else []
    x_m, y_m = pose[:2] if len(pose) in (2, 3) else (math.nan, math.nan)
    allowed = [*deviation, None, None][:2] if len(deviation) <= 2 else (math.nan, None)
    return Waypoint(
        message.names[k], x_m, y_m, pose[2] if len(pose) == 3 else None, message.map_id, actions, way_actions, *allowed
    )
