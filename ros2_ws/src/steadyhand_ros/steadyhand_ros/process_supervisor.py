"""Runs the processes of a launch file: own process group each, one log file each, respawn as the file says.

Every wait has a limit: a process gets SIGINT, then SIGTERM, then its whole group SIGKILL. The supervisor never restarts
a process that the file does not mark `respawn`, and never more often than its delay allows. A disk that is full costs
lines of the logs, no process.
"""
from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from steadyhand.errors import ConfigError
from steadyhand_ros.launch_xml import ProcessSpec

STOP_STEPS = ((signal.SIGINT, 3.0), (signal.SIGTERM, 2.0), (signal.SIGKILL, 2.0))


@dataclass
class Running:
    """A process under supervision."""

    spec: ProcessSpec
    command: list[str]
    log_path: Path
    process: subprocess.Popen | None = None
    starts: int = 0
    returncode: int | None = None
    restart_at_s: float | None = None


class ProcessSupervisor:
    """`start`, then `poll` often; `stop` always. `command_of` turns a spec into an argument list."""

    def __init__(
        self,
        specs: list[ProcessSpec],
        command_of: Callable[[ProcessSpec], list[str]],
        environment: Mapping[str, str],
        log_dir: Path,
        report: Callable[[str], None],
    ):
        self._environment = dict(environment)
        self._report = report
        try:
            log_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            report(f"no logs: {log_dir}: {error.strerror}")
        self.running = [Running(s, command_of(s), log_dir / f"{s.name.replace('/', '_')}.log") for s in specs]

    def start(self) -> None:
        """Start every process; ConfigError when one cannot be started at all."""
        for item in self.running:
            self._start(item)

    def poll(self, now_s: float) -> list[Running]:
        """Notice deaths and restart what is due; returns the processes that died since the last call."""
        died = []
        for item in self.running:
            if item.process is not None and item.process.poll() is not None:
                item.returncode, item.process = item.process.returncode, None
                died.append(item)
                self._report(f"{item.spec.name} ended with {describe(item.returncode)}; log: {item.log_path}")
                if item.spec.respawn:
                    item.restart_at_s = now_s + item.spec.respawn_delay_s
            if item.restart_at_s is not None and now_s >= item.restart_at_s:
                item.restart_at_s = None
                self._report(f"{item.spec.name}: starting again")
                self._start(item)
        return died

    def stop(self) -> None:
        """End every process and its children, in reverse order of starting, within the limits of STOP_STEPS."""
        alive = [item for item in reversed(self.running) if item.process is not None]
        for item in self.running:
            item.restart_at_s = None
        for signum, patience_s in STOP_STEPS:
            for item in alive:
                _signal_group(item.process, signum)
            deadline = time.monotonic() + patience_s
            while alive and time.monotonic() < deadline:
                alive = [item for item in alive if item.process.poll() is None]
                if alive:
                    time.sleep(0.02)
        for item in self.running:
            if item.process is not None:
                _signal_group(item.process, signal.SIGKILL)  # children that outlived their parent
                item.returncode = item.process.poll()
                item.process = None

    def pids(self) -> dict[str, int]:
        """Process ids by name, of those alive."""
        return {item.spec.name: item.process.pid for item in self.running if item.process is not None}

    def _start(self, item: Running) -> None:
        item.starts += 1
        environment = self._environment | dict(item.spec.environment)
        with self._log_of(item) as log:
            try:
                item.process = subprocess.Popen(
                    item.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    env=environment, cwd=item.spec.cwd or None, start_new_session=True,
                )
            except OSError as error:
                raise ConfigError(f"{item.spec.name}: cannot start {item.command[0]!r}: {error}") from error

    def _log_of(self, item: Running) -> BinaryIO:
        """Appended to, by the process itself; whoever cuts it does so in place."""
        try:
            return item.log_path.open("ab")
        except OSError as error:
            self._report(f"{item.spec.name}: no log: {item.log_path}: {error.strerror}")
            return open(os.devnull, "wb")


def describe(returncode: int) -> str:
    """'exit code 2' or the name of the signal."""
    return f"signal {signal.Signals(-returncode).name}" if returncode < 0 else f"exit code {returncode}"


def _signal_group(process: subprocess.Popen, signum: int) -> None:
    try:
        os.killpg(process.pid, signum)
    except ProcessLookupError:
        pass
