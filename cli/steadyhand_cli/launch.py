"""`steadyhand launch FILE name:=value ...`: run a launch file until Ctrl+C, and keep its output within its budgets."""
from __future__ import annotations

import argparse
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from steadyhand.errors import ConfigError
from steadyhand.retention import StorageConfig
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import storage
from steadyhand_firmware_bridge.service import Notifier, say
from steadyhand_ros.background import Background
from steadyhand_ros.launch_runner import (
    child_environment, command_of, find_share, parse_arguments, read_launch, real_launch_available,
)
from steadyhand_ros.process_supervisor import ProcessSupervisor

ROS2_END_S = 12.0  # its own steps: SIGINT, 5 s, SIGTERM, 5 s, SIGKILL


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
    environment, storage_config = child_environment(), storage.load()
    keeper = Background("storage", lambda stopping: _keep_budgets(storage_config, stopping))
    try:
        if real_launch_available():
            return _ros2_launch(["ros2", "launch", str(path), *args.arguments], environment)
        return _supervise(path, given, environment)
    finally:
        keeper.close()


def _keep_budgets(config: StorageConfig, stopping: threading.Event) -> None:
    """Every ten seconds, in a thread of its own: who watches processes waits for no disk."""
    while True:
        try:
            storage.sweep(current_slot().out_dir, config)
        except OSError as error:  # the next time may go better
            say(f"storage: {error}", error=True)
        if stopping.wait(storage.SCAN_S):
            return


def _stopping() -> list[bool]:
    """Becomes non-empty at SIGINT, SIGTERM or a closed terminal: what is launched is in sessions of its own."""
    asked: list[bool] = []
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signum != signal.SIGHUP or signal.getsignal(signum) != signal.SIG_IGN:  # nohup
            signal.signal(signum, lambda *_: asked.append(True))
    return asked


def _ros2_launch(command: list[str], environment: Mapping[str, str]) -> int:
    """ROS 2's own launcher, ended in order: what it starts may have an arm to bring to rest."""
    stopping, notifier = _stopping(), Notifier("ros2 launch")
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    while process.poll() is None and not stopping:
        notifier.turned(time.monotonic())
        time.sleep(0.05)
    notifier.ending()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(ROS2_END_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return 0 if stopping else process.wait()


def _supervise(path: Path, given: Mapping[str, str], environment: Mapping[str, str]) -> int:
    specs = read_launch(path, given)
    supervisor = ProcessSupervisor(
        specs, lambda spec: command_of(spec, environment), environment,
        current_slot().out_dir / "log", lambda line: say(line, error=True),
    )
    stopping, notifier = _stopping(), Notifier(f"{len(specs)} processes")
    try:
        supervisor.start()
        logs = os.path.relpath(current_slot().out_dir / "log")
        say(f"started {', '.join(supervisor.pids())}; logs in {logs}")
        while not stopping:
            now_s = time.monotonic()
            supervisor.poll(now_s)
            notifier.turned(now_s)
            time.sleep(0.05)
        notifier.ending()
    finally:
        supervisor.stop()
    return 0
