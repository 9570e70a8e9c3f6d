"""`main_job`: the whole graph clears the tray, seed after seed, each run with an operator stop and a re-arm.

Rate of cubes placed with its Wilson interval, and broken invariants. Resumable: one line a seed in
`out/bench/main_job.jsonl`; a seed that is there, of this commit or not, is not run again unless `--fresh`.
"""
from __future__ import annotations

import argparse
import os
import time

import numpy as np

from benchmarks import _kept, common
from steadyhand.errors import SteadyhandError
from steadyhand_cli.job import JobConfig, run_job


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--cubes", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=1000)
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are already written")


def run(args: argparse.Namespace) -> None:
    log = common.out_path("main_job.jsonl")
    if args.fresh:
        log.unlink(missing_ok=True)
    done = {r["seed"]: r for r in _kept.read(log)}
    with common.alone():
        for seed in range(args.first_seed, args.first_seed + args.runs):
            if seed in done:
                continue
            start, load = time.monotonic(), os.getloadavg()[0]
            try:
                summary = run_job(JobConfig(cubes=args.cubes, seed=seed))
            except SteadyhandError as error:  # a run that cannot start counts as one that placed nothing
                summary = {"cubes_placed": 0, "cubes_attempted": args.cubes, "violations": [], "error": str(error)}
            done[seed] = {
                "seed": seed, "wall_s": time.monotonic() - start, "load_before": load, "commit": common.commit(),
                **summary,
            }
            _kept.append(log, done[seed])
            said = summary.get("problems", summary.get("error", ""))
            placed = f"{summary['cubes_placed']}/{args.cubes}"
            print(f"seed {seed}: {placed} in {done[seed]['wall_s']:.0f} s {said}", flush=True)
    runs = [done[s] for s in range(args.first_seed, args.first_seed + args.runs) if s in done]
    busiest = max((r.get("load_before", 0.0) for r in runs), default=0.0)
    load = f"the graph itself; 1-minute load before a run up to {busiest:.1f}"
    path = common.write("main_job", len(runs), load, _scheduler(runs), metrics(runs))
    print(path.read_text())


def metrics(runs: list[dict]) -> dict:
    """Figures over the runs."""
    placed = sum(r["cubes_placed"] for r in runs)
    attempted = sum(r["cubes_attempted"] for r in runs)
    cycle = [r["cycle_time_s"] for r in runs if "cycle_time_s" in r]
    stops = [r["stop"]["rest_after_s"] for r in runs if r.get("stop") and r["stop"].get("rest_after_s")]
    return {
        "runs": len(runs), "cubes_placed": placed, "cubes_attempted": attempted,
        "wilson_low": round(common.wilson(placed, attempted)[0], 4),
        "invariant_violations": sum(len(r["violations"]) for r in runs),
        "runs_all_placed": sum(r["cubes_placed"] == r["cubes_attempted"] for r in runs),
        "stops": sum(r.get("stops", 0) for r in runs),
        "operator_stops_rearmed": sum(bool(r.get("stop", {}).get("rearmed")) for r in runs),
        "cycle_time_s_p50": round(float(np.median(cycle)), 2) if cycle else None,
        "stop_to_rest_s_max": round(max(stops), 3) if stops else None,
        "triton_share_min": round(min((r.get("triton_share", 0.0) for r in runs), default=0.0), 4),
        "commits": sorted({r["commit"] for r in runs}),
    }


def _scheduler(runs: list[dict]) -> str:
    return ", ".join(sorted({r.get("scheduler", "") for r in runs} - {""})) or "unknown"
