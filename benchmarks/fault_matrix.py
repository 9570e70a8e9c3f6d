"""Faults on the real processes of the running graph, one cell per fault and phase of the task, measured from outside.

Each cell: bring the task into the phase, strike, measure at the controller's port and in the simulated plant, recover,
compare process ids, judge by the table (`steadyhand_cli.injection.table`). Resumable: one line a cell in
`out/bench/fault_matrix.jsonl`; cells that are there are not run again unless `--again` (all) or `--retry` (not ok).
A whole run takes hours: `nohup python -m benchmarks fault_matrix --retry &`. `--report` only writes what there is to
`out/bench/fault_matrix.json` and the matrix into `docs/fault_matrix.md`. Emulated controller, simulated cell.
"""
from __future__ import annotations

import argparse
import time
from collections import Counter
from pathlib import Path

from benchmarks import _kept, common
from steadyhand.errors import SteadyhandError
from steadyhand_cli.injection import judge
from steadyhand_cli.injection.table import MOTION_CRITICAL_S, PHASES, TABLE, Injection, Kind

DOCUMENT = common.ROOT / "docs" / "fault_matrix.md"
BEGIN, END = "<!-- matrix: begin -->\n", "<!-- matrix: end -->\n"
CELLS_A_GRAPH = 25  # then a new graph: what a fault leaves behind in an hour is found by `make run`, not here


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--faults", default="", help="some of the table, separated by commas (default: all)")
    parser.add_argument("--phases", default="", help=f"some of {', '.join(PHASES)} (default: all)")
    parser.add_argument("--again", action="store_true", help="forget the cells that are already written")
    parser.add_argument("--retry", action="store_true", help="run the cells again that are not ok")
    parser.add_argument("--report", action="store_true", help="run nothing")
    parser.add_argument("--seed", type=int, default=11)


def run(args: argparse.Namespace) -> None:
    """Run what is missing, then write result and document."""
    faults, phases = _chosen(args.faults, TABLE), _chosen(args.phases, PHASES)
    log = common.out_path("fault_matrix.jsonl")
    if args.again and not args.report:
        log.unlink(missing_ok=True)
    done = load(log)
    again = {cell for cell, record in done.items() if args.retry and not record["ok"]}
    wanted = [(f, p) for f in faults for p in phases if (f, p) not in done or (f, p) in again]
    if wanted and not args.report:
        with common.alone():
            _run_cells(wanted, args.seed, log)
    done = load(log)
    path = common.write("fault_matrix", len(done), "the graph itself", _scheduler(done), metrics(done))
    print(path.read_text())
    write_document(done, DOCUMENT)


def _chosen(text: str, known) -> list[str]:
    names = [n for n in text.split(",") if n] or list(known)
    for name in names:
        if name not in known:
            raise SystemExit(f"{name!r}: known are {', '.join(known)}")
    return names


def load(log: Path) -> dict[tuple[str, str], dict]:
    """Newest record of each cell; lines of faults that the table no longer has are left out."""
    return {(r["injection"], r["phase"]): r for r in _kept.read(log) if r["injection"] in TABLE}


def _run_cells(wanted: list[tuple[str, str]], seed: int, log: Path) -> None:
    from steadyhand_cli.injection.cells import Cells
    from steadyhand_cli.injection.running import RunningGraph

    left = list(wanted)
    failures = 0
    while left and failures < 3:
        folder = log.parent / "fault_matrix" / time.strftime("%Y%m%dT%H%M%S")
        try:
            with RunningGraph.of_launch_file(folder, cubes="3", seed=str(seed)) as graph:
                cells = Cells(graph)
                for _ in range(min(CELLS_A_GRAPH, len(left))):
                    fault, phase = left[0]
                    start = time.monotonic()
                    record = cells.run(TABLE[fault], phase)
                    wall_s = round(time.monotonic() - start, 1)
                    record |= {"wall_s": wall_s, "commit": common.commit(), "logs": folder.name}
                    record["scheduler"] = graph.watcher.state.scheduler if graph.watcher.state else ""
                    _kept.append(log, record)
                    left.pop(0)
                    failures = 0
                    said = "ok" if record["ok"] else record["problems"]
                    print(f"{fault} x {phase}: {said} ({record['wall_s']:.0f} s)", flush=True)
                    if not record["recovered"]:
                        break  # the next cell deserves a sound graph
        except SteadyhandError as error:
            failures += 1
            print(f"graph: {error}", flush=True)
    if left:
        print(f"{len(left)} cells left: the graph does not come up", flush=True)


def metrics(done: dict[tuple[str, str], dict]) -> dict:
    """Figures over the cells that have been run."""
    records = list(done.values())
    limits = {name: row.expect for name, row in TABLE.items()}
    stopped = [r for r in records if r["disarmed"] and r["decelerate_s"] is not None]
    moving = [r for r in stopped if (r["speed_rad_s"] or 0.0) > 0.05]
    critical = {n for n, e in limits.items() if e.kind is Kind.STOP and e.within_s == MOTION_CRITICAL_S}
    in_60 = [r for r in moving if r["injection"] in critical]
    judged_s = [judge.judged_s(r["accelerating"], r["brake_s"], r["decelerate_s"]) for r in in_60]
    at_port_s = [r["decelerate_s"] for r in in_60]
    return {
        "robot": "emulated controller, simulated cell", "faults": len({r["injection"] for r in records}),
        "phases": len({r["phase"] for r in records}), "cells": len(records), "cells_ok": sum(r["ok"] for r in records),
        "cells_of_table": len(TABLE) * len(PHASES), "stops": sum(r["disarmed"] for r in records),
        "stops_in_motion": len(moving), "decelerate_60_ms_max": _max_ms(judged_s), "decelerate_at_port_60_ms_max": _max_ms(at_port_s),
        "problems": dict(Counter(problem for r in records for problem in r["problems"]).most_common(20)),
        "commits": sorted({r["commit"] for r in records}),
    }


def _max_ms(times_s: list[float]) -> float | None:
    return round(max(times_s) * 1e3, 1) if times_s else None


def _scheduler(done: dict) -> str:
    return ", ".join(sorted({r.get("scheduler", "") for r in done.values()} - {""})) or "unknown"


def limit_text(row: Injection) -> str:
    """The expectation in a few words."""
    if row.expect.kind is Kind.STOP:
        return f"stop within {row.expect.within_s * 1e3:.0f} ms"
    return row.expect.kind.value + (f": {row.expect.degraded}" if row.expect.degraded else "")


def write_document(done: dict[tuple[str, str], dict], path: Path) -> None:
    """Put the matrix between the marks of the document; the text round it is written by hand."""
    figures, text = metrics(done), path.read_text()
    head, rest = text.split(BEGIN, 1)
    _, tail = rest.split(END, 1)
    matrix = judge.markdown(done, list(TABLE), PHASES, {name: limit_text(row) for name, row in TABLE.items()})
    said = f"{figures['cells']} of {figures['cells_of_table']} cells have been run, {figures['cells_ok']} are ok.\n\n"
    path.write_text(head + BEGIN + said + matrix + END + tail)
