"""Lateness of the guard's cycles: armed, moving under chunks at 20 Hz against the emulated controller.

Quiet, and loaded: as many busy processes as cores, and 10,000 packets a second into the command socket. SCHED_FIFO and
SCHED_OTHER. Lateness = start of a cycle minus its absolute deadline, measured inside the guard, moving cycles only.
"""
from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import common
from steadyhand import ur5
from steadyhand.guard_protocol import COMMAND_SOCKET, Chunk, State, Verdict
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient

FLOOD_HZ = 10_000
STREAM_S = 0.05
BUSY = "while True: pass"
FLOOD = f"""
import socket, sys, time
from steadyhand.guard_protocol import Hello, Heartbeat, encode
sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
sock.connect(sys.argv[1])
sock.send(encode(Hello("flood")))
packets = [encode(Heartbeat("flood", True)), b"\\xc1 not a message"]
begin, tried, sent = time.monotonic(), 0, 0
sock.setblocking(False)
while True:
    while tried < {FLOOD_HZ} * (time.monotonic() - begin):
        tried += 1
        try:
            sock.send(packets[tried % 2])
            sent += 1
        except BlockingIOError:
            pass
        except OSError:
            sys.exit()  # the guard has ended
    time.sleep(0.0005)
"""
# The commander and the loaded machine are not what is measured: patient limits keep the arm moving.
CONFIG = {"shell_timeout_s": 2.0, "command_timeout_s": 2.0}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--seconds", type=float, default=60.0, help="of motion in each of the four runs")
    parser.add_argument("--sched", default="fifo,other", help="schedulers to measure")


def run(args: argparse.Namespace) -> None:
    """Measure and write `control_loop.json`."""
    results = {}
    with common.alone():
        for sched in args.sched.split(","):
            for loaded in (False, True):
                key = "loaded" if loaded else "quiet"
                measured = _measure(sched, loaded, args.seconds)
                results.setdefault(measured["sched"], {"sched": measured["sched"]}).update(
                    {f"{key}_{name}": value for name, value in measured.items() if name != "sched"}
                )
                print(f"{sched} {key}: {measured}", flush=True)
    first = next(iter(results.values()))
    others = {name.removeprefix("SCHED_").lower(): r for name, r in list(results.items())[1:]}
    common.write(
        "control_loop", int(first["quiet_n"] + first["loaded_n"]),
        f"quiet; loaded: {os.cpu_count()} busy processes and {FLOOD_HZ} packets/s into the command socket",
        first["sched"], {**first, **others},
    )  # fmt: skip


def _measure(sched: str, loaded: bool, seconds: float) -> dict:
    children: list[subprocess.Popen] = []
    with tempfile.TemporaryDirectory() as folder:
        stats = Path(folder) / "stats.json"
        sockets = Path(folder) / "slot"
        try:
            children.append(_controller())
            guard = _guard(sched, sockets, stats, Path(folder) / "guard.yaml")
            children.append(guard)
            client = GuardClient("bench", commander=True, folder=sockets)
            client.connect()
            client.wait(lambda m: isinstance(m, State) and m.at_rest, 5.0)
            if loaded:
                children += [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(os.cpu_count() or 1)]
                flood = [sys.executable, "-c", FLOOD, str(sockets / COMMAND_SOCKET)]
                children.append(subprocess.Popen(flood))
            driven = _drive(client, sockets, seconds)
            guard.terminate()
            _drain(client, guard)
        finally:
            for child in children:
                child.kill()
                child.wait(5)
        raw = json.loads(stats.read_text())
    late = {name: float(value) for name, value in common.percentiles_ms(raw["lateness_s"]).items()}
    counters = raw["counters"]
    return {
        "sched": raw["scheduler"], **late, "n": len(raw["lateness_s"]), "duration_s": round(seconds, 1),
        "admission_p50_ms": float(common.percentiles_ms(raw["admission_s"])["p50_ms"]),
        "admission_p99_ms": float(common.percentiles_ms(raw["admission_s"])["p99_ms"]),
        "late_cycles": counters["late_cycles"], "flood_packets_seen": counters.get("malformed", 0) * 2, **driven,
    }  # fmt: skip


def _controller() -> subprocess.Popen:
    """The emulated controller; a real one is not starved by this machine's load, so it asks for SCHED_FIFO too."""
    child = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", current_slot().robot_host],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    common.await_ready(child)
    try:
        os.sched_setscheduler(child.pid, os.SCHED_FIFO, os.sched_param(10))
    except PermissionError:
        pass
    return child


def _guard(sched: str, sockets: Path, stats: Path, config: Path) -> subprocess.Popen:
    config.write_text(json.dumps(CONFIG))
    guard = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "ur5", "--sched", sched,
         "--socket-dir", str(sockets), "--stats", str(stats), "--config", str(config)],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    common.await_ready(guard)
    return guard


def _drive(client: GuardClient, sockets: Path, seconds: float) -> dict:
    """Stream chunks along a slow sine of two joints for so long; after a stop (counted) arm again."""
    accepted = refused = stops = 0
    begin = next_s = time.monotonic()
    armed = False
    while time.monotonic() - begin < seconds:
        if not client.connected:
            raise RuntimeError(f"the guard has ended after {time.monotonic() - begin:.1f} s: see its message above")
        for message in client.poll():
            if isinstance(message, Verdict):
                accepted += message.accepted
                refused += not message.accepted
        state = client.state
        if state.mode != "ARMED_AUTO":
            stops += armed
            armed = False
            if state.at_rest:
                armed = operator.rearm("auto", folder=sockets).ok
                client.poll()
            time.sleep(0.02)
        elif time.monotonic() >= next_s:
            next_s = max(next_s + STREAM_S, time.monotonic())
            client.send(_chunk(state, begin))
        time.sleep(0.001)
    return {"chunks_accepted": accepted, "chunks_refused": refused, "stops": stops}


def _chunk(state: State, begin_s: float) -> Chunk:
    times = time.monotonic() - begin_s + STREAM_S * np.arange(1, 9)
    speed = 0.25 * np.cos(2 * math.pi * times / 4.0)  # rad/s: +-0.16 rad, never at rest for long
    path = np.cumsum(speed * STREAM_S)
    q = np.array(state.q_commanded_rad) + np.outer(path, [1, 0, 0, 0, 0, 1])
    return Chunk(
        state.token, state.seq, state.stamp_s, "bench", "policy", list(ur5.JOINT_NAMES), STREAM_S, q.tolist()
    )


def _drain(client: GuardClient, guard: subprocess.Popen) -> None:
    deadline = time.monotonic() + 8.0
    while guard.poll() is None and time.monotonic() < deadline:
        client.poll()
        time.sleep(0.01)
    client.close()
