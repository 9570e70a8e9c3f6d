"""The emulated controller as a process of its own, with its pendant on standard input."""
from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from steadyhand.slot import current_slot

ROOT = Path(__file__).parents[2]
START_LIMIT_S = 20.0


class ControllerProcess:
    """Context manager; `pendant` acts on the controller and returns its answer."""

    def __init__(self, *arguments: str):
        self.host = current_slot().robot_host
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(str(ROOT / p) for p in (".", "sim")))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", self.host, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, bufsize=0,
        )  # fmt: skip
        self._buffer = b""

    def __enter__(self) -> ControllerProcess:
        try:
            assert self._line(START_LIMIT_S)["ready"] == self.host
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5.0)
        self._process.stdout.close()

    def pendant(self, command: str) -> dict:
        """One act of a person at the robot, or `state`."""
        self._process.stdin.write(command.encode() + b"\n")
        return self._line(5.0)

    def _line(self, limit_s: float) -> dict:
        deadline_s = time.monotonic() + limit_s
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline_s - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 65536) if ready else b""
            assert data, f"the controller process said nothing within {limit_s} s"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(line)


def wait_for(condition: Callable[[], object], limit_s: float = 5.0) -> object:
    """Poll until `condition()` is true; its value. Fails after the limit."""
    deadline_s = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, "not reached within the limit"
        time.sleep(0.002)
    return value
