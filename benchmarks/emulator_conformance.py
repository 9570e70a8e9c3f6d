"""`emulator_conformance`: do the calls of the stock `ur_rtde` clients have their effect on the emulated controller?

The table is `benchmarks/_conformance.py`; each generation runs in a process of its own, since a stock client that loses
its connection may end its process. `calls`: distinct calls over both generations; `calls_ok`: those whose effect was
found in every generation that has them. `failed`: call and generation -> why.
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from benchmarks import common
from benchmarks._conformance import BOTH, calls_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for one generation")


def outcomes(generation: str, limit_s: float) -> dict[str, str]:
    """Call -> failure, empty when its effect was there; a call that was not reached says so."""
    found = {entry.name: "not reached" for entry in calls_of(generation)}
    command = [sys.executable, "-m", "benchmarks._conformance", generation]
    try:
        done = subprocess.run(command, cwd=common.ROOT, capture_output=True, text=True, timeout=limit_s)
        output = done.stdout
    except subprocess.TimeoutExpired as error:
        output = (error.stdout or b"").decode()
    for line in output.splitlines():
        if line.startswith('{"call"'):
            row = json.loads(line)
            found[row["call"]] = "" if row["ok"] else row["failure"]
    return found


def run(args: argparse.Namespace) -> None:
    with common.alone():
        by_generation = {g: outcomes(g, args.limit) for g in BOTH}
    names = {name for found in by_generation.values() for name in found}
    failed = {f"{n} ({g})": why for g, found in by_generation.items() for n, why in found.items() if why}
    bad = {key.rsplit(" (", 1)[0] for key in failed}
    metrics = {
        "calls": len(names), "calls_ok": len(names - bad),
        **{g: {"calls": len(f), "calls_ok": sum(not why for why in f.values())} for g, f in by_generation.items()},
        "failed": failed, "names": sorted(names),
    }  # fmt: skip
    load = f"plant without physics; load average {os.getloadavg()[0]:.1f}"
    print(common.write("emulator_conformance", len(names), load, "SCHED_OTHER", metrics).read_text())
