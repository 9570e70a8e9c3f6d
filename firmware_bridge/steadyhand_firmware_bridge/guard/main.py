"""`steadyhand-guard`: the process that alone reaches the robot.

Exit codes: 0 ended at rest after SIGTERM or SIGINT, 1 wrong configuration or slot taken, 3 internal error (the robot
stops by the missed heartbeat).
"""
from __future__ import annotations

import os

# Before numpy is imported: a pool of BLAS threads at normal priority would make a SCHED_FIFO loop wait for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import contextlib
import functools
import ipaddress
import json
import secrets
import signal
import socket
import sys
import time
from pathlib import Path

from steadyhand.errors import ConfigError, SteadyhandError
from steadyhand.protocols import Robot
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge.guard import memory, promises
from steadyhand_firmware_bridge.guard.config import GuardConfig, load
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.loop import Loop, set_scheduler
from steadyhand_firmware_bridge.guard.peers import PeerSocket
from steadyhand_firmware_bridge.guard.server import Server
from steadyhand_firmware_bridge.service import Notifier, say, say_exception, say_where_it_hangs


def fresh_token() -> int:
    """A random arming token: positive, fits a controller's 32-bit register."""
    return secrets.randbelow(2**31 - 2) + 1


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    args = _parse(argv)
    say_where_it_hangs()
    with contextlib.ExitStack() as opened:
        try:
            slot = current_slot()
            config = load(args.config) if args.config else GuardConfig()
            _check_promises(args, config, slot.robot_host)
            server = Server(Path(args.socket_dir) if args.socket_dir else slot.socket_dir)
            peers = PeerSocket(server.folder, config.peers)
            robot = _robot(args, config, slot.robot_host)
            for part in (server, peers, robot):  # the robot is let go first, the slot last
                opened.callback(part.close)
            server.open()
            peers.open()
            scheduler = set_scheduler(args.sched)
        except SteadyhandError as error:
            say(f"steadyhand-guard: {error}", error=True)
            return 1
        return _run(args, config, robot, server, peers, scheduler)


def _run(
    args: argparse.Namespace, config: GuardConfig, robot: Robot, server: Server, peers: PeerSocket, scheduler: str
) -> int:
    loop = Loop(server, robot.period_s, peers)
    limits = config.limits()
    guard = Guard(robot, config, server.credential, fresh_token, server.send, time.monotonic(), limits)
    guard.scheduler = scheduler
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: setattr(loop, "ending", True))
    rate = f"{1 / robot.period_s:.0f} Hz, {scheduler}"
    memory_said = memory.lock()
    loop.memory_locked = memory_said == memory.LOCKED
    notifier = Notifier(f"{scheduler}, {memory_said}")
    loop.turned = notifier.turned
    said = f"robot {robot.name}, {rate}, {memory_said}, sockets in {server.folder}"
    say(f"steadyhand-guard ready: {said}")
    code = 0
    try:
        loop.run(guard)
    except Exception:  # the process's edge: nothing more is sent, so the program on the controller stops by itself
        say_exception()
        code = 3
    notifier.ending()
    if args.stats:
        _write_stats(Path(args.stats), loop, guard)
    say(f"steadyhand-guard ended: mode {guard.state.mode.value}, {guard.seq} cycles")
    return code


def _check_promises(args: argparse.Namespace, config: GuardConfig, slot_host: str) -> None:
    """An emulated controller on this machine may have weaker limits too."""
    if weakened := config.weakened():
        loopback = args.robot == "ur5" and ipaddress.ip_address(_address(args.robot_ip or slot_host)).is_loopback
        harmless = args.robot == "fake" or loopback or args.weaker_limits
        promises.check("steadyhand-guard", args.config, weakened, harmless)


def _robot(args: argparse.Namespace, config: GuardConfig, slot_host: str) -> Robot:
    if config.payload and args.robot == "ur_driver":
        raise ConfigError("payload: ur_robot_driver takes none from the guard; leave it out and set it at the pendant")
    if args.robot == "fake":
        from steadyhand_firmware_bridge.fake import FakeRobot

        return FakeRobot(1.0 / args.hz)
    if args.robot == "ur_driver":
        from steadyhand_firmware_bridge.ur_driver import UrDriverRobot
        from steadyhand_firmware_bridge.ur_driver_link import UrDriverConfig, link_type

        return UrDriverRobot(
            UrDriverConfig(
                args.driver_namespace, args.driver_joint_prefix, args.hz, args.driver_restart, args.driver_full_speed,
                arming_timeout_s=config.arming_timeout_s,
            ),
            link_type(),
        )
    from steadyhand_firmware_bridge.ur5 import Ur5Config, Ur5Robot
    from steadyhand_firmware_bridge.urscript import ProgramConfig, program_text, render

    program_text()
    program = functools.partial(render, config=ProgramConfig(heartbeat_period_s=1.0 / args.hz))
    host = _address(args.robot_ip or slot_host)
    gripper = None
    if config.gripper == "robotiq":
        from steadyhand_firmware_bridge.robotiq import config as robotiq_config
        from steadyhand_firmware_bridge.robotiq.handle import RobotiqGripper

        gripper = RobotiqGripper(robotiq_config.of(config.robotiq), host)
    ur5 = Ur5Config(
        host, program, args.hz, arming_timeout_s=config.arming_timeout_s, payload=bool(config.payload)
    )
    return Ur5Robot(ur5, gripper)


def _address(host: str) -> str:
    """IPv4 address of `host`, looked up now: no name server is waited for while the loop runs. Raises ConfigError."""
    try:
        return socket.gethostbyname(host)
    except (OSError, UnicodeError) as error:
        said = getattr(error, "strerror", None) or error
        raise ConfigError(f"--robot-ip {host!r}: {said}; give the controller's address") from error


def _parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="steadyhand-guard", description=__doc__.splitlines()[0])
    parser.add_argument("--robot", choices=("ur5", "ur_driver", "fake"), default="ur5")
    parser.add_argument("--robot-ip", default="", help="address of the controller (default: the slot's simulated one)")
    driver = parser.add_argument_group("ur_driver", "how the stock ur_robot_driver was started (docs/ur_robot_driver.md)")
    driver.add_argument("--driver-namespace", default="", help="of its nodes, such as /left")
    driver.add_argument("--driver-joint-prefix", default="", help="its tf_prefix")
    driver.add_argument("--driver-restart", choices=("resend", "play"), default="resend", help="resend: headless_mode")
    driver.add_argument("--driver-full-speed", type=float, default=100.0, help="what speed_scaling says then: 100 or 1")
    parser.add_argument("--config", default="", help="YAML file of parameters, such as config/guard_ur5.yaml")
    parser.add_argument("--weaker-limits", action="store_true", help="take limits weaker than promised: no real robot moves")
    parser.add_argument("--hz", type=float, choices=(125.0, 500.0), default=125.0, help="125 for CB3, 500 for e-Series")
    parser.add_argument("--sched", choices=("auto", "fifo", "other"), default="auto")
    parser.add_argument("--socket-dir", default="", help="folder of the sockets (default: the slot's)")
    parser.add_argument("--stats", default="", help="write the lateness of every cycle to this JSON file at the end")
    return parser.parse_args(argv)


def _write_stats(path: Path, loop: Loop, guard: Guard) -> None:
    path.write_text(
        json.dumps(
            {
                "scheduler": guard.scheduler,
                "period_s": loop.period_s,
                "lateness_s": list(loop.lateness.samples_s),
                "admission_s": list(loop.admissions_s.samples_s),
                "counters": guard.counters()
                | {"malformed": loop.server.malformed, "dropped_states": loop.server.dropped_states},
                "pid": os.getpid(),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
