"""One side of `rtde_stream`, a process of its own: `python -m benchmarks._rtde_stream_side SIDE HOST HZ SECONDS FILE`.

SIDE `ours`: the guard's own loop, client and decisions, as `steadyhand-guard` runs them. SIDE `bare`: ur_rtde's receive
client and nothing else, asked for its stamp every 0.1 ms: it offers no way to wait for a state. Both ask for the same
scheduler. FILE (.npz): `stamps_s` of the controller, `received_s` on the monotonic clock, one of each per state seen.
"""
from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the guard does, before numpy is imported

import functools
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.loop import Loop, set_scheduler
from steadyhand_firmware_bridge.guard.main import fresh_token
from steadyhand_firmware_bridge.guard.server import Server
from steadyhand_firmware_bridge.ur5 import Ur5Config, Ur5Robot
from steadyhand_firmware_bridge.urscript import ProgramConfig, render

ASKED_EVERY_S = 1e-4


class Noted(Ur5Robot):
    """The driver, with a note of each state that it takes."""

    def __init__(self, config: Ur5Config):
        super().__init__(config)
        self.noted: list[tuple[float, float]] = []
        self._last = None

    def service(self, now_s: float) -> None:
        super().service(now_s)
        feedback = self.feedback()
        if feedback is not self._last:
            self._last = feedback
            self.noted.append((feedback.controller_stamp_s, feedback.stamp_s))


def ours(host: str, hz: float, seconds: float) -> list[tuple[float, float]]:
    """The guard, disarmed: it reads, decides and publishes; nobody listens."""
    program = functools.partial(render, config=ProgramConfig(heartbeat_period_s=1.0 / hz))
    robot = Noted(Ur5Config(host, program, hz))
    with tempfile.TemporaryDirectory() as folder:
        server = Server(Path(folder) / "slot")
        server.open()
        loop = Loop(server, robot.period_s)
        guard = Guard(robot, GuardConfig(), server.credential, fresh_token, server.send, time.monotonic())
        signal.signal(signal.SIGALRM, lambda *_: setattr(loop, "ending", True))
        signal.setitimer(signal.ITIMER_REAL, seconds)
        loop.run(guard)
        robot.close()
        server.close()
    return robot.noted


def bare(host: str, hz: float, seconds: float) -> list[tuple[float, float]]:
    """What a script of a few lines sees."""
    import rtde_receive

    client = rtde_receive.RTDEReceiveInterface(host, hz)
    noted, last = [], None
    end_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < end_s:
        stamp_s = client.getTimestamp()
        if stamp_s != last:
            last = stamp_s
            noted.append((stamp_s, now_s))
        time.sleep(ASKED_EVERY_S)
    client.disconnect()
    return noted


def main(argv: list[str]) -> int:
    """Entry point; the first line of output names the scheduler."""
    side, host, hz, seconds, path = argv
    print("ready", set_scheduler("auto"), flush=True)
    noted = {"ours": ours, "bare": bare}[side](host, float(hz), float(seconds))
    stamps, received = np.array(noted).reshape(-1, 2).T
    np.savez(path, stamps_s=stamps, received_s=received)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
