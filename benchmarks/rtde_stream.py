"""Punctuality of our RTDE stream beside a bare ur_rtde script: same scheduler, blocks in turn, emulated controller.

Deviation of a state: |time since the state before, as it reached the loop - the same by the controller's stamps|. The
jitter of the emulated controller and of this machine is in both sides; how busy the cores were stands with the result.
Missed: controller cycles whose state never reached the loop, or not before the next one. 500 Hz is one block a round of
its own. Each block is a line of `out/bench/rtde_stream.jsonl`; an interrupted run goes on with the next one.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import _rtde_stream_side, common
from benchmarks._kept import Kept, identity
from steadyhand.slot import current_slot

BIN_S = 1e-5  # of the histogram that a block's line holds
SETTLING = 0.05  # share of a block, at its start, that is connecting and starting and is left out
CONTROLLER_PRIORITY = 10
ROUND = (("ours", 125), ("bare", 125), ("bare", 125), ("ours", 125), ("ours", 500))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--hours", type=float, default=1.0, help="of our stream at 125 Hz; the bare one gets as much")
    parser.add_argument("--block", type=float, default=60.0, help="seconds of a block")
    parser.add_argument("--fresh", action="store_true", help="forget the blocks of an interrupted run")


def run(args: argparse.Namespace) -> None:
    """Measure what is missing and write `rtde_stream.json`."""
    wanted = max(1, round(args.hours * 3600 / args.block))
    kept = Kept("rtde_stream", f"{identity(sys.modules[__name__], _rtde_stream_side)} {args.block}", args.fresh)
    plan = [ROUND[k % len(ROUND)] for k in range(len(ROUND) * ((wanted + 1) // 2))]
    with common.alone():
        for side, hz in plan[len(kept.lines):]:
            kept.add(block(side, hz, args.block))
            print({k: v for k, v in kept.lines[-1].items() if k != "bins"}, flush=True)
    schedulers = {line["scheduler"] for line in kept.lines}
    busy = sorted(line["busy_share"] for line in kept.lines)
    load = f"all cores {busy[0]:.0%} to {busy[-1]:.0%} busy (with ours), median {busy[len(busy) // 2]:.0%}"
    common.write(
        "rtde_stream", sum(line["n"] for line in kept.lines), f"guard's loop, disarmed; emulated controller; {load}",
        " and ".join(sorted(schedulers)), summary(kept.lines),
    )  # fmt: skip


def block(side: str, hz: int, seconds: float) -> dict:
    """One block against a controller of its own: counts, and the histogram of deviations."""
    busy, ticks = common.processor_ticks()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "states.npz"
        with _controller(hz) as controller:
            try:
                command = [side, current_slot().robot_host, str(hz), str(seconds), str(file)]
                child = subprocess.run(
                    [sys.executable, "-m", "benchmarks._rtde_stream_side", *command],
                    stdout=subprocess.PIPE, text=True, timeout=seconds + 30.0, check=True,
                )  # fmt: skip
            finally:
                controller.kill()
        states = np.load(file)
    busy_after, ticks_after = common.processor_ticks()
    return {
        "side": side, "hz": hz, "seconds": seconds, "scheduler": child.stdout.split()[1],
        "busy_share": (busy_after - busy) / (ticks_after - ticks), **judge(states, hz),
    }


def _controller(hz: int) -> subprocess.Popen:
    """The emulated controller, of the generation that streams at this rate; as punctual as the machine allows."""
    child = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_sim.ur_controller", "--host", current_slot().robot_host,
         *(["--e-series"] if hz > 125 else [])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    common.await_ready(child)
    try:
        os.sched_setscheduler(child.pid, os.SCHED_FIFO, os.sched_param(CONTROLLER_PRIORITY))
    except PermissionError:
        pass
    return child


def judge(states, hz: int) -> dict:
    """Deviations, missed cycles and length of the states that one block saw, without its start."""
    begin = int(len(states["stamps_s"]) * SETTLING)
    stamps, received = states["stamps_s"][begin:], states["received_s"][begin:]
    if len(stamps) < 0.5 * hz:
        raise RuntimeError(f"{len(stamps)} states at {hz} Hz: the stream did not start; is the slot's address free?")
    steps = np.diff(stamps)
    bins = Counter((np.abs(np.diff(received) - steps) / BIN_S).astype(int).tolist())
    missed = int((np.round(steps * hz) - 1).clip(0).sum())
    return {
        "n": len(steps), "missed": missed, "streamed_s": float(stamps[-1] - stamps[0]),
        "bins": {str(k): n for k, n in sorted(bins.items())},
    }


def summary(lines: list[dict]) -> dict:
    """The figures of all blocks together."""
    of = {(side, hz): [x for x in lines if (x["side"], x["hz"]) == (side, hz)] for side, hz in ROUND}
    ours, bare, fast = of["ours", 125], of["bare", 125], of["ours", 500]
    hours = sum(line["streamed_s"] for line in ours) / 3600
    metrics = {
        "hz125_p999_ms": percentile_ms(ours, 0.999), "hz500_p999_ms": percentile_ms(fast, 0.999),
        "missed_per_hour_125": round(sum(line["missed"] for line in ours) / hours, 3),
        "bare_hz125_p999_ms": percentile_ms(bare, 0.999), "hours": round(hours, 4),
    }
    for name, some in (("hz125", ours), ("bare_hz125", bare), ("hz500", fast)):
        metrics |= {
            f"{name}_p50_ms": percentile_ms(some, 0.5), f"{name}_max_ms": percentile_ms(some, 1.0),
            f"{name}_missed": sum(line["missed"] for line in some), f"{name}_n": sum(line["n"] for line in some),
        }
    return metrics


def percentile_ms(lines: list[dict], share: float) -> float:
    """Of all the blocks' deviations; the upper edge of the bin, so never too good."""
    bins: Counter[int] = Counter()
    for line in lines:
        bins.update({int(k): n for k, n in line["bins"].items()})
    left = share * sum(bins.values())
    for k, n in sorted(bins.items()):
        left -= n
        if left <= 1e-9:
            return round((k + 1) * BIN_S * 1e3, 3)
    raise ValueError("no deviations")
