"""Deterministic simulation testing: robot hours, faults, violations, and whether every planted defect is found.

Goes on from the logs of earlier runs (`out/bench/dst_log.N.json`, one of each worker, with seeds of its own): each run
adds `--minutes` of work on one core per worker. A log of another version of the code under test is set aside, and its
count begins anew. When only the simulator or its judges have changed, the hours stay, by version of the simulator
(`hours_by_simulator`), and every seed that failed is played again: `violations` counts those that still fail,
`mended_in_the_simulator` the others.
"""
from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import sys
import time
from pathlib import Path

from benchmarks import common
from steadyhand_cli.dst import campaign, defects, episode

HUNT_EPISODES, HUNT_LENGTH_S = 60, 120.0
SEEDS_PER_WORKER = 10_000_000
UNDER_TEST = ("steadyhand", "steadyhand_firmware_bridge", "steadyhand_motion")
SIMULATOR = ("steadyhand_cli.dst", "steadyhand_sim")


def versions() -> tuple[str, str]:
    """Hashes of the modules that the simulation has loaded: of the code under test, and of the simulator."""
    return _hash(UNDER_TEST), _hash(SIMULATOR)


def _hash(packages: tuple[str, ...]) -> str:
    within = tuple(f"{package}." for package in packages)
    loaded = [m for name, m in sys.modules.items() if f"{name}.".startswith(within) and getattr(m, "__file__", None)]
    ours = sorted({Path(m.__file__).resolve() for m in loaded})
    text = b"".join(f.relative_to(common.ROOT).as_posix().encode() + f.read_bytes() for f in ours)
    return hashlib.sha256(text).hexdigest()[:16]


def hunt(name: str) -> tuple[float, bool]:
    """Robot hours until a planted defect showed, and whether it did."""
    robot_s = 0.0
    with defects.planted(name):
        for seed in range(1, HUNT_EPISODES + 1):
            outcome = episode.run(seed, length_s=HUNT_LENGTH_S, every_s=episode.DENSE_S)
            robot_s += outcome.robot_s
            if not outcome.ok:
                return robot_s / 3600.0, defects.found(name, outcome)
    return robot_s / 3600.0, False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--minutes", type=float, default=10.0, help="time to add, by the clock on the wall")
    parser.add_argument("--workers", type=int, default=1, help="processes, each with seeds and a log of its own")
    parser.add_argument("--no-hunt", action="store_true", help="leave the planted defects out")


def log_of(worker: int) -> Path:
    """Where a worker keeps its sums."""
    return common.out_path(f"dst_log.{worker}.json")


def add_hours(worker: int, minutes: float, version: str, simulator: str) -> None:
    """Episodes of one worker's seeds, for so long; added to its log."""
    log = log_of(worker)
    totals = campaign.Totals.load(log)
    if totals.version not in ("", version):
        log.replace(log.with_suffix(f".{totals.version}.json"))
        totals = campaign.Totals()
    totals.version, totals.simulator = version, simulator
    end_s = time.monotonic() + 60.0 * minutes
    first_seed = max(SEEDS_PER_WORKER * worker + 1, totals.next_seed)
    for outcome in campaign.episodes(first_seed, lambda _: time.monotonic() < end_s, totals):
        if not outcome.ok:
            print(f"seed {outcome.seed}: {outcome.violations[0]}", flush=True)
        if outcome.seed % 20 == 0:
            totals.save(log)
    totals.save(log)


def summed(version: str) -> campaign.Totals:
    """All workers' logs of this version together."""
    total = campaign.Totals(version=version)
    worker = 0
    while log_of(worker).is_file():
        part = campaign.Totals.load(log_of(worker))
        if part.version == version:
            for name in ("episodes", "robot_s", "virtual_s", "block_s", "cpu_s", "stops", "arms", "fast", "faults"):
                setattr(total, name, getattr(total, name) + getattr(part, name))
            total.failed += part.failed
            total.kinds += part.kinds
            total.simulators += part.simulators
        worker += 1
    return total


def run(args: argparse.Namespace) -> None:
    """Add hours to the logs and write the result."""
    version, simulator = versions()
    work = [(k, args.minutes, version, simulator) for k in range(args.workers)]
    with multiprocessing.get_context("spawn").Pool(args.workers) as pool:
        pool.starmap(add_hours, work)
    totals = summed(version)
    totals.violations = sum(not episode.run(seed).ok for seed in totals.failed)
    metrics = totals.metrics() | {
        "mended_in_the_simulator": len(totals.failed) - totals.violations,
        "hours_by_simulator": {name: round(s / 3600.0, 3) for name, s in totals.simulators.items()},
    }
    if not args.no_hunt:
        hours = {name: hunt(name) for name in defects.DEFECTS}
        metrics |= {
            "planted": len(hours),
            "found": sum(found for _, found in hours.values()),
            "hours_to_find": {name: round(h, 3) for name, (h, _) in hours.items()},
            "not_found": [name for name, (_, found) in hours.items() if not found],
        }
    metrics["strikes"] = dict(sorted(totals.kinds.items()))
    print(common.write("dst", totals.episodes, "virtual time", "none", metrics))
    print({k: v for k, v in metrics.items() if not isinstance(v, dict)})
