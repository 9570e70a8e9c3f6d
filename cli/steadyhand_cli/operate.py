"""`steadyhand stop | rearm | status`: the operator's acts on the guard of this slot; `--agv`: on a vehicle's."""
from __future__ import annotations

import argparse
import json
from dataclasses import fields
from pathlib import Path

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import STATES, AgvState, Reply, State
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--agv", action="store_true", help="the guard of the vehicle (steadyhand-agv-guard)")
    if name == "stop":
        parser.add_argument("--reason", default="", help="kept with the stop")
    if name == "rearm":
        parser.add_argument("--mode", default="auto", choices=["auto", "manual", "recover"])
    if name == "status":
        parser.add_argument("--json", action="store_true", help="the whole state as JSON")


def run(args: argparse.Namespace) -> int:
    return {"stop": _stop, "rearm": _rearm, "status": _status}[args.command](args)


def _stop(args: argparse.Namespace) -> int:
    operator.stop("cli", args.reason, _folder(args))
    state = operator.wait_rest(folder=_folder(args))
    print(f"{state.mode}: {'at rest' if state.at_rest else 'rest is NOT known: use the wired emergency stop'}")
    return 0 if state.at_rest else 1


def _rearm(args: argparse.Namespace) -> int:
    for cause in read_state(folder=_folder(args)).causes:
        print(f"stopped by: {cause}")
    reply = operator.rearm(args.mode, folder=_folder(args))
    if not reply.ok:
        return print_refusal(reply)
    _print_snapshot(reply)
    print(f"armed: {args.mode}")
    return 0


def print_refusal(reply: Reply) -> int:
    """An arming that was refused, with what was in progress and what forbids it; exit code 1."""
    _print_snapshot(reply)
    print(f"not armed: {reply.message}")
    for cause in reply.causes:
        print(f"  cause: {cause}")
    return 1


def _print_snapshot(reply: Reply) -> None:
    if reply.snapshot:
        print("in progress when it stopped (not resumed):", json.dumps(reply.snapshot))


def link_line(counters: dict) -> str:
    """The controller's clock and the link to it in a line, from the guard's counters."""
    c = counters
    return (
        f"controller's clock {c['clock_offset_us'] * 1e-6:+.6f} s, drift {c['clock_drift_ppb'] * 1e-3:+.2f} ppm, "
        f"{c['clock_resets']} resets; link: jitter p99 {c['link_jitter_p99_us'] * 1e-3:.2f} ms, "
        f"{c['link_missed']} of {c['link_states']} cycles missed, {c['link_gaps']} gaps"
    )


def _status(args: argparse.Namespace) -> int:
    state = read_state(folder=_folder(args))
    if args.json:
        print(json.dumps({f.name: getattr(state, f.name) for f in fields(state)}, indent=2))
        return 0
    memory = "memory locked" if state.counters.get("memory_locked") else "memory not locked (steadyhand doctor)"
    print(f"{state.mode}  {'at rest' if state.at_rest else 'moving'}  {state.scheduler}, {memory}")
    if isinstance(state, AgvState):
        print(f"{state.vehicle}: {state.operating_mode or 'not heard of'}, battery {state.battery_percent:.0f} %")
        if state.task_id:
            print(f"task {state.task_id}: {state.task_state} {state.task_detail}".rstrip())
        for cause in [*state.causes, *([f"may not leave: {state.interlock}"] if state.interlock else [])]:
            print(f"  cause: {cause}")
        return 0
    gripper = f"gripper {state.gripper_width_m * 1e3:.1f} mm"
    told_g = state.counters.get("payload_told_g", -1)
    payload = f", payload {told_g * 1e-3:.3f} kg" if told_g >= 0 else ""
    print(f"robot mode {state.robot_mode}, safety mode {state.safety_mode}, {gripper}{payload}")
    if "clock_drift_ppb" in state.counters:
        print(link_line(state.counters))
    for cause in state.causes:
        print(f"  cause: {cause}")
    return 0


def _folder(args: argparse.Namespace) -> Path | None:
    return current_slot().socket_dir / "agv" if args.agv else None


def read_state(timeout_s: float = 2.0, folder: Path | None = None) -> State | AgvState:
    """The guard's newest state; RobotError when none runs in this slot."""
    client = GuardClient("status", folder=folder)
    client.connect(timeout_s)
    try:
        state = client.wait(lambda m: isinstance(m, STATES), timeout_s)
    finally:
        client.close()
    if state is None:
        raise RobotError(f"the guard sent no state within {timeout_s} s")
    return state
