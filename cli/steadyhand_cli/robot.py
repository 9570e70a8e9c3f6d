"""`steadyhand robot ACT`: power on, release the brakes, unlock: an operator's word to the robot, through the guard.

The guard takes it from this user only, with the credential of its start, and not while anything is armed. Nothing moves
by it: the program before is stopped first, and a new one starts at the next `steadyhand rearm` only.
"""
from __future__ import annotations

import argparse
import sys

from steadyhand.errors import RobotError
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.operator_acts import GRIPPER_ACT

# what a person has to have looked at before saying yes
QUESTIONS = {
    "power-on": "power on the arm",
    "brake-release": "release the brakes (the joints move a little)",
    "unlock": "unlock the protective stop (its cause has been seen and removed)",
    GRIPPER_ACT: "activate the gripper (its fingers open and close fully: what they hold falls)",
    "power-off": "power off the arm",
    "restart-safety": "restart the safety system (its cause has been seen and removed; the arm will be powered off)",
}


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("act", choices=sorted(QUESTIONS))
    parser.add_argument("--yes", action="store_true", help="the operator's word, given in advance: do not ask")


def run(args: argparse.Namespace) -> int:
    if not args.yes:
        print(f"{QUESTIONS[args.act]}? Nobody may be within reach of the arm. [y/N] ", end="", flush=True)
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            print("not done")
            return 1
    try:
        reply = operator.robot_act(args.act)
    except RobotError as error:
        print(f"not done: {error}")
        return 1
    print(f"{'done' if reply.ok else 'refused'}: {reply.message}")
    for cause in reply.causes:
        print(f"  cause: {cause}")
    return 0 if reply.ok else 1
