"""A stranger at the controller's port: a process of its own that writes down every state package it gets.

`python -m steadyhand_cli.injection.observer --host H --file F` reads RTDE at the controller's rate, above the graph's
priorities where SCHED_FIFO is permitted, and appends one record per package. It writes nothing to the controller, and
comes back by itself when the controller dies; then the record shows a gap. `Observer` starts it, `read` reads its file.
"""
from __future__ import annotations

import argparse
import bisect
import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import numpy as np

from steadyhand.errors import RobotError
from steadyhand_cli.injection import children
from steadyhand_cli.injection.onset import Trace
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig

PRIORITY = 40  # SCHED_FIFO: above guard (20), nodes and controller (10); it sleeps nearly always
RETRY_S = 0.05
FIELDS = (
    "timestamp", "target_qd", "actual_qd", "runtime_state", "safety_mode", "robot_mode", "input_int_register_24",
    "output_int_register_24", "input_int_register_27", *(f"input_double_register_{i}" for i in range(24, 30)),
    "target_q", "actual_digital_output_bits",
)  # fmt: skip
RECORD = np.dtype([
    ("received_s", "f8"), ("timestamp", "f8"), ("target_qd", "f8", 6), ("actual_qd", "f8", 6), ("runtime_state", "i4"),
    ("safety_mode", "i4"), ("robot_mode", "i4"), ("input_int_register_24", "i4"), ("output_int_register_24", "i4"),
    ("input_int_register_27", "i4"), ("setpoint", "f8", 6), ("target_q", "f8", 6),
    ("actual_digital_output_bits", "u8"),
])  # fmt: skip


def record(received_s: float, values: dict) -> bytes:
    """One package as it is written; `setpoint` is what the guard sent last, as the controller holds it."""
    row = np.zeros(1, RECORD)
    row["received_s"] = received_s
    row["setpoint"] = [values[f"input_double_register_{i}"] for i in range(24, 30)]
    for name in RECORD.names:
        if name in values:
            row[name] = np.asarray(values[name]).astype(RECORD[name].base, casting="unsafe")
    return row.tobytes()


def read(path: Path, since_s: float = -np.inf) -> np.ndarray:
    """Records (N,) of `RECORD` received since then. A record that is being written is left out."""
    count = path.stat().st_size // RECORD.itemsize if path.exists() else 0
    with path.open("rb") if count else contextlib.nullcontext() as file:
        first = bisect.bisect_left(range(count), since_s, key=lambda i: _received_s(file, i))
        if first >= count:
            return np.zeros(0, RECORD)
        file.seek(first * RECORD.itemsize)
        return np.frombuffer(file.read((count - first) * RECORD.itemsize), RECORD)


def _received_s(file: BinaryIO, index: int) -> float:
    file.seek(index * RECORD.itemsize)
    return float(np.frombuffer(file.read(8), "f8")[0])


def trace(rows: np.ndarray) -> Trace:
    """Speeds of records, for `onset`."""
    return Trace(rows["received_s"].copy(), rows["target_qd"].copy(), rows["actual_qd"].copy())


def setpoint_trace(rows: np.ndarray, period_s: float) -> Trace:
    """Speeds of the set-points that came in, by their sequence numbers: a missed or doubled one is no change of speed.

    The servo law smooths what a set-point begins; here its very first sign shows.
    """
    step = np.diff(rows["input_int_register_27"])
    new = np.flatnonzero((step > 0) & (step < 10)) + 1
    qd = (rows["setpoint"][new] - rows["setpoint"][new - 1]) / (step[new - 1] * period_s)[:, None]
    return Trace(rows["received_s"][new].copy(), qd, rows["actual_qd"][new].copy())


class Observer:
    """Context manager around the process. `scheduler` says what it got."""

    def __init__(self, host: str, path: Path):
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "steadyhand_cli.injection.observer", "--host", host, "--file", str(path)],
            stdout=subprocess.PIPE, text=True, env=children.environment(),
        )
        said = select.select([self._process.stdout], [], [], 10.0)[0]
        self.scheduler = self._process.stdout.readline().strip() if said else ""
        if not self.scheduler:
            self.close()
            why = "ended at once" if said else "did not start within 10 s"
            raise RobotError(f"the observer of the controller's port at {host} {why}")

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *exc) -> None:
        self.close()

    def rows(self, since_s: float = -np.inf) -> np.ndarray:
        """What has been written so far."""
        return read(self.path, since_s)

    def trace(self, since_s: float = -np.inf) -> Trace:
        """Speeds so far."""
        return trace(self.rows(since_s))

    def close(self) -> None:
        """End the process; the file stays."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(5.0)
        if self._process.stdout is not None:
            self._process.stdout.close()


def observe(host: str, path: Path, ending) -> None:
    """Until `ending()`: connect, record, connect again."""
    client = RtdeClient(RtdeConfig(host, FIELDS))
    with path.open("ab", buffering=0) as file:
        while not ending():
            if client.fileno() < 0:
                try:
                    client.connect(1.0)
                except RobotError:
                    time.sleep(RETRY_S)
                    continue
            select.select([client], [], [], 0.1)
            sample = client.poll(time.monotonic())
            if sample is not None:
                file.write(record(sample.received_s, sample.values))
    client.close()


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", required=True)
    parser.add_argument("--file", type=Path, required=True)
    args = parser.parse_args(argv)
    ending = False

    def end(*_) -> None:
        nonlocal ending
        ending = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        print("SCHED_FIFO", flush=True)
    except PermissionError:
        print("SCHED_OTHER", flush=True)
    observe(args.host, args.file, lambda: ending)
    return 0


if __name__ == "__main__":
    sys.exit(main())
