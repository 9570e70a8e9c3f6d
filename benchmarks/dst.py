"""Deterministic simulation testing: robot hours, faults, violations, and whether every planted defect is found.

Goes on from the log of earlier runs (`out/bench/dst_log.json`): each run adds `--minutes` of work on one core. A log of
another version of the code is set aside, and the count begins anew.
"""
from __future__ import annotations

import argparse
import hashlib
import sys
import time
from pathlib import Path

from benchmarks import common
from steadyhand_cli.dst import campaign, defects, episode

HUNT_EPISODES, HUNT_LENGTH_S = 60, 120.0


def code_version() -> str:
    """Hash of every module of ours that the simulation has loaded: the code under test, the simulator, its checker."""
    loaded = [m for name, m in sys.modules.items() if name.startswith("steadyhand") and getattr(m, "__file__", None)]
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
                return robot_s / 3600.0, True
    return robot_s / 3600.0, False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--minutes", type=float, default=10.0, help="time to add, by the clock on the wall")
    parser.add_argument("--no-hunt", action="store_true", help="leave the planted defects out")


def run(args: argparse.Namespace) -> None:
    """Add hours to the log and write the result."""
    log = common.out_path("dst_log.json")
    totals = campaign.Totals.load(log)
    if totals.version not in ("", code_version()):
        log.replace(log.with_suffix(f".{totals.version}.json"))
        totals = campaign.Totals()
    totals.version = code_version()
    end_s = time.monotonic() + 60.0 * args.minutes
    for outcome in campaign.episodes(max(1, totals.next_seed), lambda _: time.monotonic() < end_s, totals):
        if not outcome.ok:
            print(f"seed {outcome.seed}: {outcome.violations[0]}")
        if outcome.seed % 20 == 0:
            totals.save(log)
    totals.save(log)
    metrics = totals.metrics()
    if not args.no_hunt:
        hours = {name: hunt(name) for name in defects.DEFECTS}
        metrics |= {
            "planted": len(hours),
            "found": sum(found for _, found in hours.values()),
            "hours_to_find": {name: round(h, 3) for name, (h, _) in hours.items()},
            "not_found": [name for name, (_, found) in hours.items() if not found],
        }
    metrics["strikes"] = dict(sorted(totals.kinds.items()))
    print(common.write("dst", totals.episodes, "virtual time, one core", "none", metrics))
    print({k: v for k, v in metrics.items() if not isinstance(v, dict)})
