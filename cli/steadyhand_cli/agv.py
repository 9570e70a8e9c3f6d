"""`steadyhand agv ACT`: what an operator sees of the vehicle, asks of it and tells it, through its guard.

    state       everything that the guard and the vehicle say: mode, place, battery, safety, errors, loads, task
    factsheet   asks the vehicle what it is and what actions it knows
    position    X,Y,HEADING --map MAP: tells a vehicle that rests, unarmed, where it is
    pause       it comes to rest and keeps its task;  resume  goes on with it
    cancel      it comes to rest and gives its task up; the guard stays armed (`steadyhand stop --agv` disarms)

Pausing and cancelling need no credential: to stand is always allowed.
"""
from __future__ import annotations

import argparse
import json
import time
from dataclasses import fields
from pathlib import Path

from steadyhand.agv import TaskState
from steadyhand.errors import ConfigError, RobotError
from steadyhand.guard_protocol import AgvState, Reply
from steadyhand.slot import current_slot
from steadyhand.vda5050.strict_json import printable
from steadyhand_cli.drive import parse_pose
from steadyhand_cli.operate import read_state
from steadyhand_firmware_bridge import operator

ACTS = ("state", "factsheet", "position", "pause", "resume", "cancel")
LISTED = {"errors": "error", "loads": "aboard", "actions": "action", "requests": "asks leave for"}
POLL_S = 0.05


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.formatter_class, parser.description = argparse.RawDescriptionHelpFormatter, __doc__
    parser.add_argument("act", choices=ACTS)
    parser.add_argument("pose", nargs="?", default="", metavar="X,Y,HEADING", help="of `position`: in m and rad")
    parser.add_argument("--map", default="", help="of `position`: the map that the pose is in")
    parser.add_argument("--node", default="", help="of `position`: the node that it stands on, if any")
    parser.add_argument("--vehicle", default="", help="MANUFACTURER/SERIAL that is meant; another one is refused")
    parser.add_argument("--json", action="store_true", help="of `state` and `factsheet`: as JSON")
    parser.add_argument("--timeout", type=float, default=30.0, help="of `pause` and `cancel`: seconds until rest (30)")


def run(args: argparse.Namespace) -> int:
    if args.pose and args.act != "position":
        raise ConfigError(f"{args.act} takes no pose: {args.pose!r}")
    if not 0.0 < args.timeout <= 3600.0:
        raise ConfigError(f"--timeout {args.timeout}: give more than 0, at most 3600")
    folder = current_slot().socket_dir / "agv"
    if args.act == "state":
        state = read_state(folder=folder)
        _check_vehicle(state, args.vehicle)
        print(as_json(state) if args.json else describe(state))
        return 0
    place = {}
    if args.act == "position":
        pose = parse_pose(args.pose)
        if pose is None or len(pose) != 3:
            raise ConfigError(f"pose {args.pose!r}: give X,Y,HEADING in m and rad")
        if not args.map:
            raise ConfigError("--map: give the map that the pose is in; `steadyhand agv state` lists the vehicle's")
        place = {"place": pose, "map_id": args.map, "node": args.node}
    reply = operator.vehicle_act(args.act, folder=folder, vehicle=args.vehicle, **place)
    print(f"{'done' if reply.ok else 'refused'}: {reply.message}")
    for cause in reply.causes:
        print(f"  cause: {cause}")
    if reply.ok and args.act == "factsheet":
        _show_factsheet(reply, args.json)
    if reply.ok and args.act in ("pause", "cancel"):
        return _at_rest(folder, args.act, args.timeout)
    return 0 if reply.ok else 1


def as_json(state: AgvState) -> str:
    """The whole state."""
    return json.dumps({f.name: getattr(state, f.name) for f in fields(state)}, indent=2)


def _check_vehicle(state: AgvState, wanted: str) -> None:
    if wanted not in ("", state.vehicle):
        raise RobotError(f"vehicle {wanted!r}: this guard's is {state.vehicle}")


def describe(state: AgvState) -> str:
    """A state for a person: what matters first."""
    report = state.report
    moves = "at rest" if state.at_rest else "driving" if state.driving else "not known to rest"
    lines = [
        f"{state.vehicle}: {state.mode}, {moves}{', paused' if state.paused else ''}",
        f"vehicle's mode {state.operating_mode or 'not heard of'}, battery {_number(state.battery_percent, '.0f')} %"
        f"{', charging' if report.get('charging') else ''}",
    ]
    if "e_stop" in report:
        field = "VIOLATED" if report["field_violation"] else "clear"
        lines.append(f"emergency stop {report['e_stop']}, protective field {field}")
    if state.pose_m_rad:
        x, y, heading = state.pose_m_rad
        known = "" if report.get("localised", True) else ", NOT LOCALISED"
        lines.append(f"at {x:.2f}, {y:.2f} m, {heading:.3f} rad in map {state.map_id or '-'}{known}; "
                     f"last node {state.last_waypoint or '-'}")  # fmt: skip
    if report.get("maps"):
        lines.append(f"maps: {', '.join(report['maps'])}")
    if state.task_id:
        left = f", {state.waypoints_left} places left" if state.waypoints_left else ""
        lines.append(f"task {state.task_id}: {state.task_state} {state.task_detail}".rstrip() + left)
    for name, word in LISTED.items():
        lines += [f"  {word}: {text}" for text in report.get(name, ())]
    lines += [f"  cause: {cause}" for cause in state.causes]
    if state.interlock:
        lines.append(f"  may not leave: {state.interlock}")
    return "\n".join(map(printable, lines))


def _number(value: float, form: str) -> str:
    return format(value, form) if value == value else "unknown"


def _show_factsheet(reply: Reply, as_it_is: bool) -> None:
    if as_it_is:
        return print(json.dumps(reply.snapshot, indent=2))
    for name, value in reply.snapshot.items():
        if name == "actions":
            for kind, scopes in value.items():
                print(f"  action {kind}: {', '.join(scopes)}")
        else:
            print(f"  {name}: {', '.join(value) or 'none' if isinstance(value, list) else value}")
    return None


def _at_rest(folder: Path, act: str, timeout_s: float) -> int:
    """Wait until it stands, and shows the pause, or its cancelled task has ended; 1 when not in time, or stopped instead.

    Rest alone is no pause: a vehicle may stand for an action, and drive on.
    """
    end_s = time.monotonic() + timeout_s
    while time.monotonic() < end_s:
        state = read_state(folder=folder)
        ended = state.task_state not in (TaskState.SENT.value, TaskState.UNDER_WAY.value)
        if act == "pause":
            ended = state.paused or not state.mode.startswith("ARMED")
        if state.at_rest and ended:
            print(f"at rest; task {state.task_id or '-'}: {state.task_state} {state.task_detail}".rstrip())
            for cause in state.causes:
                print(f"  cause: {cause}")
            return 0 if state.mode.startswith("ARMED") else 1
        time.sleep(POLL_S)
    print(f"rest was not seen within {timeout_s:g} s: steadyhand stop --agv, or the vehicle's own emergency stop")
    return 1
