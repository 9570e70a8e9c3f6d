"""`steadyhand stop | rearm | status`: the operator's acts on the guard of this slot."""
from __future__ import annotations

import argparse
import json

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Reply, State
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    if name == "stop":
        parser.add_argument("--reason", default="", help="kept with the stop")
    if name == "rearm":
        parser.add_argument("--mode", default="auto", choices=["auto", "manual", "recover"])
    if name == "status":
        parser.add_argument("--json", action="store_true", help="the whole state as JSON")


def run(args: argparse.Namespace) -> int:
    return {"stop": _stop, "rearm": _rearm, "status": _status}[args.command](args)


def _stop(args: argparse.Namespace) -> int:
    operator.stop("cli", args.reason)
    state = operator.wait_rest()
    print(f"{state.mode}: {'at rest' if state.at_rest else 'rest is NOT known: use the wired emergency stop'}")
    return 0 if state.at_rest else 1


def _rearm(args: argparse.Namespace) -> int:
    for cause in read_state().causes:
        print(f"stopped by: {cause}")
    reply = operator.rearm(args.mode)
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
    state = read_state()
    if args.json:
        print(json.dumps({k: getattr(state, k) for k in State.__dataclass_fields__}, indent=2))
        return 0
    print(f"{state.mode}  {'at rest' if state.at_rest else 'moving'}  {state.scheduler}")
    gripper = f"gripper {state.gripper_width_m * 1e3:.1f} mm"
    print(f"robot mode {state.robot_mode}, safety mode {state.safety_mode}, {gripper}")
    if "clock_drift_ppb" in state.counters:
        print(link_line(state.counters))
    for cause in state.causes:
        print(f"  cause: {cause}")
    return 0


def read_state(timeout_s: float = 2.0) -> State:
    """The guard's newest state; RobotError when none runs in this slot."""
    client = GuardClient("status")
    client.connect(timeout_s)
    try:
        state = client.wait(lambda m: isinstance(m, State), timeout_s)
    finally:
        client.close()
    if state is None:
        raise RobotError(f"the guard sent no state within {timeout_s} s")
    return state
