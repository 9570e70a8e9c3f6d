"""`steadyhand-agv-guard`: the process that alone commands the vehicle.

Exit codes: 0 ended at rest after SIGTERM or SIGINT, 1 wrong configuration or slot taken, 3 internal error. When it dies
the vehicle does what docs/agv.md says of its bridge.
"""
from __future__ import annotations

import argparse
import contextlib
import secrets
import signal
import sys
import time
from pathlib import Path

from steadyhand.agv import Agv
from steadyhand.errors import SteadyhandError
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.guard import memory, promises
from steadyhand_firmware_bridge.guard.agv_config import AgvFile, AgvGuardConfig, load
from steadyhand_firmware_bridge.guard.agv_core import AgvGuard
from steadyhand_firmware_bridge.guard.loop import Loop, set_scheduler
from steadyhand_firmware_bridge.guard.peers import PeerSocket
from steadyhand_firmware_bridge.guard.server import Server, private_folder
from steadyhand_firmware_bridge.service import Notifier, say, say_exception, say_where_it_hangs

EXAMPLES = {"vda5050": "agv.yaml", "ros": "agv_ros.yaml"}
FOLDER = "agv"  # of its sockets, below the slot's: an arm's guard runs beside it


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    args = _parse(argv)
    say_where_it_hangs()
    try:
        if args.bridge == "vda5050":
            file = load(args.config)
            agv, config = _vda5050(file, args.broker), file.guard
        elif args.bridge == "ros":
            agv, config = _ros(args.config)
        else:
            agv, config = _fake(), load(args.config).guard if args.config else AgvGuardConfig()
        harmless = args.bridge == "fake" or args.weaker_limits
        promises.check("steadyhand-agv-guard", args.config, config.weakened(), harmless)
        folder = Path(args.socket_dir) if args.socket_dir else _own_folder()
    except SteadyhandError as error:
        say(f"steadyhand-agv-guard: {error}", error=True)
        return 1
    return serve(agv, config, folder, args.sched)


def serve(agv: Agv, config: AgvGuardConfig, folder: Path, sched: str = "auto") -> int:
    """Guard this vehicle until SIGTERM or SIGINT, on the main thread. For whatever process holds a bridge."""
    with contextlib.ExitStack() as opened:
        try:
            server, peers = Server(folder), PeerSocket(folder, config.peers)
            for part in (server, peers, agv):  # the vehicle is let go first, the slot last
                opened.callback(part.close)
            server.open()
            peers.open()
            scheduler = set_scheduler(sched)
        except SteadyhandError as error:
            say(f"steadyhand-agv-guard: {error}", error=True)
            return 1
        loop = Loop(server, agv.period_s, peers)
        guard = AgvGuard(agv, config, server.credential, _fresh_token, server.send, time.monotonic())
        guard.scheduler = scheduler
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: setattr(loop, "ending", True))
        memory_said = memory.lock()
        loop.memory_locked = memory_said == memory.LOCKED
        notifier = Notifier(f"{scheduler}, {memory_said}")
        loop.turned = notifier.turned
        said = f"vehicle {agv.name}, {scheduler}, {memory_said}, sockets in {server.folder}"
        say(f"steadyhand-agv-guard ready: {said}")
        code = 0
        try:
            loop.run(guard)
        except Exception:  # the process's edge: one stop more, then nothing
            say_exception()
            code = 3
            try:
                agv.stop(time.monotonic())
            except Exception:  # what broke the loop may break this too
                say_exception()
        notifier.ending()
        say(f"steadyhand-agv-guard ended: mode {guard.state.mode.value}, {guard.seq} cycles")
        return code


def _own_folder() -> Path:
    """Below the slot's, which is made private here: an arm's guard of this slot may start later, or never."""
    slot_folder = current_slot().socket_dir
    private_folder(slot_folder)
    return slot_folder / FOLDER


def _fresh_token() -> int:
    return secrets.randbelow(2**31 - 2) + 1


def _vda5050(file: AgvFile, at: str) -> Agv:
    from steadyhand_firmware_bridge.vda5050.agv import VdaAgv

    return VdaAgv(file.vehicle, file.broker.at(at) if at else file.broker)


def _ros(path: str) -> tuple[Agv, AgvGuardConfig]:
    """No ROS in this process: the bridge starts a link process that carries it."""
    from steadyhand_firmware_bridge.agv_ros import config, link_process
    from steadyhand_firmware_bridge.agv_ros.agv import RosAgv

    file = config.load(path)
    link_process.check_packages(file.vehicle)
    return RosAgv(file.vehicle, link_process.LinkProcess), file.guard


def _fake() -> Agv:
    from steadyhand_firmware_bridge.fake_agv import FakeAgv

    return FakeAgv()


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="steadyhand-agv-guard", description=__doc__.splitlines()[0])
    parser.add_argument("--bridge", choices=("vda5050", "ros", "fake"), default="vda5050")
    parser.add_argument("--config", default="", help="YAML file of parameters, such as config/agv.yaml or agv_ros.yaml")
    parser.add_argument("--broker", default="", help="HOST[:PORT] of VDA 5050's broker, instead of the configuration's")
    parser.add_argument("--sched", choices=("auto", "fifo", "other"), default="other")
    parser.add_argument("--socket-dir", default="", help="folder of the sockets (default: agv in the slot's)")
    parser.add_argument("--weaker-limits", action="store_true", help="take limits weaker than promised: no real robot moves")
    args = parser.parse_args(argv)
    if args.bridge != "fake" and not args.config:
        parser.error(f"--bridge {args.bridge} needs --config, such as config/{EXAMPLES[args.bridge]}")
    return args


if __name__ == "__main__":
    sys.exit(main())
