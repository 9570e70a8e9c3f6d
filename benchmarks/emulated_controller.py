"""`emulated_controller`: is the emulated controller punctual, cheap, and as late in answering as the published robots?

Real sockets, real time, the plant without physics, our own client and our own program, both generations:
`interval_*`: time between state packages at the client. `cpu_share`: of one core, controller process alone.
`lag_ms`: by how much the measured position lags the commanded one (sine, best shift), with the usual driver's servoj
parameters (lookahead 0.03 s, gain 2000; published 34-35 ms) and with ours. `silence_to_stopped_ms`: from the last
package sent to the program's own report that it stopped for a missed heartbeat (limit 40 ms and a cycle).
"""
from __future__ import annotations

import argparse
import math
import os
import select
import socket
import subprocess
import sys
import time

import numpy as np

from benchmarks import common
from steadyhand.protocols import ALIVE, Command, ProgramState
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import urscript
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig

OUTPUTS = ("timestamp", "actual_q", "target_qd", "output_int_register_24", "output_int_register_25")
SETPOINT = (
    *(f"input_int_register_{i}" for i in range(24, 28)), *(f"input_double_register_{i}" for i in range(24, 30)),
)  # fmt: skip
TOKEN, PERIOD_S, AMPLITUDE_RAD, FREQUENCY_HZ = 99, 0.008, 0.15, 0.5
TRIES = 4  # a run in which the load kept us from a heartbeat for 40 ms is counted, not used
DRIVER = urscript.ProgramConfig(servo_lookahead_s=0.03, servo_gain=2000.0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seconds", type=float, default=20.0, help="of motion, each generation and parameter set")


class Run:
    """One program on one controller process: sine, then silence."""

    def __init__(self, host: str, hz: float, config: urscript.ProgramConfig, seconds: float):
        self.client = RtdeClient(RtdeConfig(host, OUTPUTS, {"setpoint": SETPOINT}, hz))
        self.client.connect(10.0)
        self.received, self.moved, self.sent = [], [], []
        self.servoing, self.stopped_s, self.beat = False, None, 0
        self.q = self._wait().values["actual_q"]
        with socket.create_connection((host, 30002), timeout=5.0) as peer:
            peer.sendall(urscript.render(TOKEN, config).encode())
            self._drive(seconds)
        last_s = self.sent[-1][0]
        self.starved = self.stopped_s is not None  # the load kept us from a heartbeat for 40 ms
        while self.stopped_s is None and time.monotonic() < last_s + 2.0:
            self._service(time.monotonic() + 0.001)
        self.silence_s = math.inf if self.stopped_s is None else self.stopped_s - last_s
        self.client.close()

    def _wait(self, timeout_s: float = 5.0):
        end_s = time.monotonic() + timeout_s
        while time.monotonic() < end_s:
            select.select([self.client], [], [], 0.1)
            if (sample := self.client.poll(time.monotonic())) is not None:
                return sample
        raise RuntimeError(f"the controller sent no state within {timeout_s} s")

    def _drive(self, seconds: float) -> None:
        start_s = next_s = time.monotonic()
        while (now_s := time.monotonic()) < start_s + seconds:
            angle = 2 * math.pi * FREQUENCY_HZ * max(0.0, now_s - start_s - 0.5)
            q = self.q + np.array([AMPLITUDE_RAD * (1 - math.cos(angle)) / 2, 0, 0, 0, 0, 0])
            self.beat = urscript.next_heartbeat(self.beat)
            self.client.send("setpoint", [self.beat, TOKEN, Command.SERVO, self.beat, *q])
            self.sent.append((now_s, q[0]))
            next_s += PERIOD_S
            self._service(next_s)

    def _service(self, until_s: float) -> None:
        while (left_s := until_s - time.monotonic()) > 0:
            select.select([self.client], [], [], left_s)
            now_s = time.monotonic()
            sample = self.client.poll(now_s)
            if sample is None:
                continue
            self.received.append(now_s)
            self.moved.append((now_s, sample.values["actual_q"][0]))
            state = sample.values["output_int_register_24"]
            self.servoing |= state == ProgramState.SERVOING  # before that the register shows the program before ours
            if self.servoing and state not in ALIVE and self.stopped_s is None:
                self.stopped_s = now_s

    def lag_ms(self) -> float:
        """Shift of least squared difference between what was sent and what was measured."""
        sent, moved = np.array(self.sent), np.array(self.moved)
        at = moved[(moved[:, 0] > sent[0, 0] + 1.5) & (moved[:, 0] < sent[-1, 0])]
        shifts = np.arange(0.0, 0.2, 0.0005)
        errors = [np.mean((np.interp(at[:, 0] - s, sent[:, 0], sent[:, 1]) - at[:, 1]) ** 2) for s in shifts]
        return round(float(shifts[int(np.argmin(errors))]) * 1e3, 1)


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(generation: str, seconds: float) -> tuple[dict, int]:
    """Figures of one generation, and the number of state packages they rest on."""
    host, hz = current_slot().robot_host, 500.0 if generation == "e_series" else 125.0
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", host]
        + (["--e-series"] if generation == "e_series" else []),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    common.await_ready(process)
    try:
        cpu_s, wall_s = _cpu_s(process.pid), time.monotonic()
        runs, starved = [], 0
        for config in (DRIVER, urscript.ProgramConfig()):
            for _ in range(TRIES):
                runs.append(Run(host, hz, config, seconds))
                if not runs[-1].starved:
                    break
                starved += 1
                runs.pop()
            else:
                raise RuntimeError(f"{TRIES} runs in a row were starved of a heartbeat: the machine is too busy")
        share = (_cpu_s(process.pid) - cpu_s) / (time.monotonic() - wall_s)
    finally:
        process.stdin.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
    intervals = np.concatenate([np.diff(r.received) for r in runs])
    figures = {"starved_runs": starved} | {f"interval_{k}": v for k, v in common.percentiles_ms(intervals).items()} | {
        "missed": sum(r.client.counters.missed for r in runs), "cpu_share": round(share, 4),
        "lag_driver_parameters_ms": runs[0].lag_ms(), "lag_ours_ms": runs[1].lag_ms(),
        "silence_to_stopped_ms": [round(r.silence_s * 1e3, 1) for r in runs],
    }  # fmt: skip
    return figures, len(intervals)


def _scheduler() -> str:
    """SCHED_FIFO for us and the controller process where permitted, as on a robot host."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    except OSError:
        return "SCHED_OTHER"
    return "SCHED_FIFO"


def run(args: argparse.Namespace) -> None:
    with common.alone():
        scheduler = _scheduler()
        metrics, total = {}, 0
        for generation in ("cb3", "e_series"):
            metrics[generation], count = measure(generation, args.seconds)
            total += count
    load = f"plant without physics; load average {os.getloadavg()[0]:.1f}"
    path = common.write("emulated_controller", total, load, scheduler, metrics)
    print(path.read_text())
