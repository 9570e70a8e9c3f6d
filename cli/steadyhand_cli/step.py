"""`steadyhand step on | off | next`: let the agent wait before each step of its task until the operator says next."""
from __future__ import annotations

import argparse

from steadyhand.errors import RobotError
from steadyhand_cli.session import Session

TIMEOUT_S = 10.0  # finding a service among many participants takes seconds on a busy machine


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("what", nargs="?", default="next", choices=["on", "off", "next"])


def run(args: argparse.Namespace) -> int:
    from std_srvs.srv import SetBool, Trigger

    with Session("steadyhand_step") as session:
        if args.what == "next":
            answer = session.call(Trigger, "next_step", Trigger.Request(), TIMEOUT_S)
        else:
            answer = session.call(SetBool, "single_step", SetBool.Request(data=args.what == "on"), TIMEOUT_S)
    if not answer.success:
        raise RobotError(answer.message)
    print(answer.message)
    return 0
