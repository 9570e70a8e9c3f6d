"""A guard process, an emulated controller process, a commander, and an outside observer of the controller's port."""
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from steadyhand import ur5
from steadyhand.guard_protocol import Chunk, State, Verdict
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from tests.support.emulated_controller import Controller, host
from tests.support.first_line import first_line

STREAM_S = 0.05
PATIENT = {"shell_timeout_s": 1.0, "command_timeout_s": 1.0}


def _die_with_parent():
    """A guard outlives its clients on purpose; a test's guard must not outlive a killed test run."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Observer:
    """Reads the controller's own port, as a stranger would."""

    REGISTERS = tuple(f"output_int_register_{i}" for i in range(24, 28))
    FIELDS = ("timestamp", "target_qd", "actual_qd", "runtime_state", *REGISTERS)

    def __init__(self, at: str = ""):
        self.rtde = RtdeClient(RtdeConfig(at or host(), self.FIELDS))
        self.rtde.connect(5.0)

    def watch(self, seconds, until=lambda v: False):
        """Samples for up to `seconds`, until one satisfies `until`."""
        samples, end_s = [], time.monotonic() + seconds
        while time.monotonic() < end_s:
            sample = self.rtde.poll(time.monotonic())
            if sample is None:
                time.sleep(0.001)
                continue
            samples.append(sample.values)
            if until(sample.values):
                return samples
        return samples

    def close(self):
        self.rtde.close()


def target_speed(values):
    return float(np.abs(values["target_qd"]).max())


class Rig:
    """Everything of one test; `close` ends what it started."""

    def __init__(
        self,
        folder: Path,
        controller: bool = True,
        config: dict | None = None,
        robot: tuple[str, ...] = (),
        at: str = "",
    ):
        """`robot` are arguments of the emulated controller, `at` its address instead of the slot's."""
        self.folder, self.at = folder / "slot", at or host()
        self.config = folder / "guard.yaml"
        # A test's commander shares a busy machine with everything else: patient limits, unless the limit is the test.
        self.config.write_text(json.dumps(PATIENT if config is None else config))
        self.guard = self.client = self.controller = self.observer = None
        self.verdicts = []
        self.count = 0
        try:
            if controller:
                self.controller = Controller(*robot, at=self.at)
                self.observer = Observer(self.at)
            self.start()
            if controller:
                self.until(lambda s: s.at_rest, 5.0)
        except BaseException:
            self.close()
            raise

    def start(self, *extra):
        """Start the guard and connect the commander."""
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        command = [sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "ur5"]
        self.guard = subprocess.Popen(
            [*command, "--robot-ip", self.at, "--socket-dir", str(self.folder), "--config", str(self.config), *extra],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env, preexec_fn=_die_with_parent,
        )
        line = first_line(self.guard)
        assert "ready" in line, self.guard.stderr.read()
        self.client = GuardClient("commander", commander=True, folder=self.folder)
        self.client.connect()
        assert self.client.wait(lambda m: isinstance(m, State), 5.0)

    def arm(self, mode="auto"):
        reply = operator.rearm(mode, folder=self.folder)
        assert reply.ok, reply
        self.until(lambda s: s.mode.startswith("ARMED"), 2.0)
        return reply

    def poll(self):
        for message in self.client.poll():
            if isinstance(message, Verdict):
                self.verdicts.append(message)

    def until(self, wanted, seconds):
        """Poll until the newest state is `wanted`; that state."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.poll()
            if self.client.state is not None and wanted(self.client.state):
                return self.client.state
            time.sleep(0.002)
        raise AssertionError(f"not within {seconds} s: {self.client.state}")

    def chunk(self, step_rad=0.015, **changes):
        """Joint 0 moves on by `step_rad` each 50 ms from the commanded state; 400 ms."""
        s = self.client.state
        q = np.array(s.q_commanded_rad) + np.outer(np.arange(1, 9) * step_rad, [1, 0, 0, 0, 0, 0])
        self.count += 1
        fields = dict(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=f"t{self.count}", source="policy",
            joint_names=list(ur5.JOINT_NAMES), period_s=STREAM_S, q_rad=q.tolist(),
        )  # fmt: skip
        return Chunk(**(fields | changes))

    def move(self, seconds, step_rad=0.015):
        """Stream chunks for so long."""
        next_s = time.monotonic()
        end_s = next_s + seconds
        while time.monotonic() < end_s:
            self.poll()
            if time.monotonic() >= next_s:
                next_s += STREAM_S
                self.client.send(self.chunk(step_rad))
            time.sleep(0.001)

    def verdict(self, message):
        """Send one command and wait for its verdict."""
        self.client.send(message)
        end_s = time.monotonic() + 2.0
        while time.monotonic() < end_s:
            self.poll()
            for verdict in self.verdicts:
                if verdict.trace_id == message.trace_id:
                    return verdict
            time.sleep(0.001)
        raise AssertionError("no verdict within 2 s")

    def kill(self, process):
        if process is not None and process.poll() is None:
            process.kill()
            process.wait(5)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()

    def close(self):
        if self.client is not None:
            self.client.close()
        if self.guard is not None:
            self.kill(self.guard)
        if self.observer is not None:
            self.observer.close()
        if self.controller is not None:
            self.controller.end()
