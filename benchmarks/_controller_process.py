"""The emulated controller as a process, with its pendant, for benchmarks and for the tests that share their tables."""
from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks import common

PATIENCE = 4.0  # on a busy machine the emulated controller's time runs slower than ours


def until(condition: Callable[[], Any], limit_s: float = 5.0, what: str = "") -> Any:
    """Poll until `condition()` is true; its value. AssertionError, naming `what`, after the limit."""
    end_s = time.monotonic() + PATIENCE * limit_s
    while not (value := condition()):
        if time.monotonic() > end_s:
            raise AssertionError(f"not within {PATIENCE * limit_s:g} s: {what or 'condition'}")
        time.sleep(0.002)
    return value


class ControllerProcess:
    """Context manager. `pendant(line)` is one act of a person at the robot; its answer."""

    def __init__(self, host: str, *arguments: str):
        self.host = host
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", host, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment,
        )  # fmt: skip
        common.await_ready(self.process)

    def __enter__(self) -> ControllerProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.wait(5.0)
        self.process.stdin.close()
        self.process.stdout.close()

    def pendant(self, line: str) -> dict[str, Any]:
        """Act, or `state`. RuntimeError when the process has gone, ValueError when it knows no such act."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the emulated controller ended before it answered {line!r}")
        reply = json.loads(answer)
        if "error" in reply:
            raise ValueError(reply["error"])
        return reply

    @property
    def state(self) -> dict[str, Any]:
        """What the pendant shows."""
        return self.pendant("state")
