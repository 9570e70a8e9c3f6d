"""The emulated controller (kinematic plant) as a process of its own, for contract and process tests."""
import json
import os
import subprocess
import sys
import threading
import time

from steadyhand.slot import current_slot

ANSWER_LIMIT_S = 60.0


def host() -> str:
    """Address of this slot's controller (the slot is set before any test runs)."""
    return current_slot().robot_host


def wait_for(condition, limit_s: float = 5.0):
    """Poll until `condition()` is true; its value. Fails after the limit."""
    deadline_s = time.monotonic() + limit_s
    while not (value := condition()):
        assert time.monotonic() < deadline_s, "not reached within the limit"
        time.sleep(0.002)
    return value


class Controller:
    """The emulated controller as a process; `pendant` acts on it. Ended by `end`, or at the end of a `with`."""

    def __init__(self, *arguments: str, at: str = ""):
        """`arguments` go to the process; `at` is its address instead of the slot's."""
        self.host = at or host()
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", self.host, *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env,
        )  # fmt: skip
        line = self._line()
        if "ready" not in line:
            self.end()
            raise AssertionError(f"the emulated controller did not start: {line!r}")
        try:  # a real controller is not starved by the tests that run beside it
            os.sched_setscheduler(self.process.pid, os.SCHED_FIFO, os.sched_param(10))
        except PermissionError:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def pendant(self, command):
        """One act of a person at the robot, or `state`; its answer."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self._line()
        assert line, f"the emulated controller did not answer {command!r} within {ANSWER_LIMIT_S:g} s"
        return json.loads(line)

    def _line(self) -> str:
        """Its next line; empty when it has ended, or was ended because none came within the limit."""
        limit = threading.Timer(ANSWER_LIMIT_S, self.process.kill)
        limit.start()
        try:
            return self.process.stdout.readline()
        finally:
            limit.cancel()

    def end(self):
        self.process.kill()
        self.process.wait(5)
        self.process.stdin.close()
        self.process.stdout.close()
