"""`clock_steps`: the machine's clock is set by -5 s, +5 s and +1 h, and back, again and again while the main job runs.

It sets the clock of the whole machine (CAP_SYS_TIME), and sets it back by CLOCK_MONOTONIC: not on a machine where others
work, hence `--set-the-clock`. Everything counts that comes of it: stops that nobody asked for, broken invariants, cubes.
"""
from __future__ import annotations

import argparse
import itertools
import sys
import threading
import time

from benchmarks import common
from steadyhand_cli.job import JobConfig, run_job

STEPS_S = (-5.0, 5.0, 3600.0)
FIRST_S, EVERY_S, HELD_S = 10.0, 5.0, 2.5  # from the job's start; between steps; how long a wrong time lasts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--set-the-clock", action="store_true", help="yes, set the clock of this machine")
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=3000)


def run(args: argparse.Namespace) -> None:
    """Run the jobs and write `clock_steps.json`."""
    if not args.set_the_clock:
        sys.exit("clock_steps sets the clock of this machine: say --set-the-clock if nobody else works on it")
    set_by(0.0, *readings())  # PermissionError now rather than in a thread
    runs, settings = [], 0
    with common.alone():
        for seed in range(args.first_seed, args.first_seed + args.runs):
            over = threading.Event()
            stepper = Stepper(over)
            stepper.start()
            try:
                runs.append(run_job(JobConfig(cubes=args.cubes, seed=seed)))
            finally:
                over.set()
                stepper.join(10.0)  # it waits for `over` alone
            settings += stepper.settings
            print(f"seed {seed}: {runs[-1]['cubes_placed']} placed, {runs[-1]['messages']}", flush=True)
    metrics = {
        "runs": len(runs), "settings": settings, "steps_s": STEPS_S,
        "stops_nobody_asked_for": sum(r["stops"] - bool(r["stop"]) for r in runs),
        "invariant_violations": sum(len(r["violations"]) for r in runs),
        "cubes_placed": sum(r["cubes_placed"] for r in runs),
        "cubes_attempted": sum(r["cubes_attempted"] for r in runs),
        "processes_died": sum(len(r["processes"]["died"]) for r in runs),
    }
    scheduler = " and ".join(sorted({r["scheduler"] for r in runs}))
    print(common.write("clock_steps", settings, "the graph itself", scheduler, metrics).read_text())


class Stepper(threading.Thread):
    """Sets the clock and sets it back, until told that it is over; it is right again when the thread has ended."""

    def __init__(self, over: threading.Event):
        super().__init__(name="clock", daemon=True)
        self.settings = 0
        self._over = over

    def run(self) -> None:
        right = readings()
        self._over.wait(FIRST_S)
        for step_s in itertools.cycle(STEPS_S):
            if self._over.is_set():
                return
            try:
                set_by(step_s, *right)
                self._over.wait(HELD_S)
            finally:
                set_by(0.0, *right)
            self.settings += 2
            self._over.wait(EVERY_S)


def readings() -> tuple[int, int]:
    """The clock that can be set and the one that cannot, ns."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME), time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def set_by(step_s: float, wall_ns: int, steady_ns: int) -> None:
    """Set the clock to so much off what it would be, by two readings taken when it was right."""
    right_ns = wall_ns + time.clock_gettime_ns(time.CLOCK_MONOTONIC) - steady_ns
    time.clock_settime_ns(time.CLOCK_REALTIME, right_ns + round(step_s * 1e9))
