"""`steadyhand launch FILE name:=value ...`: run a launch file until Ctrl+C."""
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from steadyhand.errors import ConfigError
from steadyhand.slot import current_slot
from steadyhand_ros.launch_runner import (
    child_environment, command_of, find_share, parse_arguments, read_launch, real_launch_available,
)
from steadyhand_ros.process_supervisor import ProcessSupervisor


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("file", help="ur5, agv, cell, or the path of a launch file")
    parser.add_argument("arguments", nargs="*", help="name:=value")


def launch_path(name: str) -> Path:
    """A launch file by path or by short name (`ur5`)."""
    candidates = [Path(name), Path(find_share("steadyhand")) / "launch" / f"{name}.launch.xml"]
    for path in candidates:
        if path.is_file():
            return path
    raise ConfigError(f"launch file {name!r}: not found as {' or '.join(map(str, candidates))}")


def run(args: argparse.Namespace) -> int:
    path, given = launch_path(args.file), parse_arguments(args.arguments)
    environment = child_environment()
    if real_launch_available():
        return subprocess.call(["ros2", "launch", str(path), *args.arguments], env=environment)
    specs = read_launch(path, given)
    supervisor = ProcessSupervisor(
        specs, lambda spec: command_of(spec, environment), environment,
        current_slot().out_dir / "log", lambda line: print(line, file=sys.stderr, flush=True),
    )
    stopping = []
    for signum in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signum, lambda *_: stopping.append(True))
    try:
        supervisor.start()
        logs = os.path.relpath(current_slot().out_dir / "log")
        print(f"started {', '.join(supervisor.pids())}; logs in {logs}", flush=True)
        while not stopping:
            supervisor.poll(time.monotonic())
            time.sleep(0.05)
    finally:
        supervisor.stop()
    return 0
