"""`steadyhand link`: an operator is in control. Its beats reach the guard; 500 ms of silence stop the arm (S1)."""
from __future__ import annotations

import argparse
import getpass
import secrets
import select
import signal

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Link, Reply
from steadyhand_firmware_bridge.client import GuardClient

BEAT_S = 0.1


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--name", default="", help="of the operator, for the record (default: the user)")


def run(args: argparse.Namespace) -> int:
    ending = False

    def end(*_) -> None:
        nonlocal ending
        ending = True

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    name = args.name or getpass.getuser()
    client = GuardClient(f"link-{name}", states=False)
    client.connect()
    try:
        request = secrets.token_hex(8)
        client.send(Link(name, True, request))
        if client.wait(lambda m: isinstance(m, Reply) and m.request_id == request, 2.0) is None:
            raise RobotError("the guard did not answer the operator link within 2 s")
        print(f"{name} in control; Ctrl-C ends it in an orderly way, anything else stops the arm", flush=True)
        while not ending:
            select.select([client], [], [], BEAT_S)
            client.poll()
            if not client.send(Link(name, True)) and not client.connected:
                raise RobotError("the guard has gone; a moving arm was stopped by the controller program")
        client.send(Link(name, False))
    finally:
        client.close()
    print(f"{name} not in control any more")
    return 0
