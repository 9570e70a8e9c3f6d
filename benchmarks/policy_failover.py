"""`policy_failover`: an arm in steady motion under the policy while its server dies, hangs, lies or is exchanged.

Real processes: a Triton server with its supervisor, the guard, an emulated controller, and an observer at the
controller's port. This process leads as the agent does: every 50 ms it asks the policy and sends the chunk. The arm
circles over the tray and never stands, so that every held set-point shows. Each kind of trouble strikes `--trials`
times; between client and server stands a cable that can be cut, delayed, and made to hold, swallow or cut off bytes.

`missed_cycles`: control cycles whose set-point is the one before (repeated or held), by the guard's own states and by
the observer, whichever is more. `stale_executed`: accepted chunks that answer a state older than 50 ms, or whose
actions are not what the model answers to that very observation. `next_action_*`: from a request to its chunk's sending,
of every request within three seconds of a strike. Emulated controller.
"""
from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from benchmarks.failover import driver as drivers
from benchmarks.failover import rig as rigs
from benchmarks.failover import troubles
from benchmarks.failover.driver import EXPIRY_S, Asked, Driver, moving
from benchmarks.failover.rig import CALM_S, Rig, rig_in, until
from benchmarks.failover.troubles import KINDS, WINDOW_S, none_under_way
from steadyhand_cli.injection import observer
from steadyhand_policies import repository as repositories
from steadyhand_policies.local_onnx import LocalOnnxPolicy

SAME_RAD = 1e-9
WRONG = 1e-3  # of an action's unit
COUNTED = ("disarmed", "refused", "expired", "overtaken", "served_triton", "served_local")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trials", type=int, default=5, help="of each kind")
    parser.add_argument("--kinds", default="", help=f"some of {', '.join(KINDS)} (default: all)")
    parser.add_argument("--fresh", action="store_true", help="forget the trials that are already written")


def run(args: argparse.Namespace) -> None:
    wanted = [k for k in args.kinds.split(",") if k] or list(KINDS)
    if set(wanted) - set(KINDS):
        raise SystemExit(f"{args.kinds}: known are {', '.join(KINDS)}")
    kept = _kept.Kept("policy_failover", _kept.identity(sys.modules[__name__], drivers, rigs, troubles), args.fresh)
    with common.alone(), tempfile.TemporaryDirectory() as folder, rig_in(Path(folder)) as (rig, witness, scheduler):
        for k in range(args.trials):
            for kind in wanted:
                if sum(line["kind"] == kind for line in kept.lines) > k:
                    continue
                line = {"kind": kind, "scheduler": scheduler} | trial(kind, rig, witness)
                kept.add(line)
                print({n: v for n, v in line.items() if not isinstance(v, list)}, flush=True)
    report(kept.lines)


def trial(kind: str, rig: Rig, witness: observer.Observer) -> dict:
    """Calm, strike, watch; then wait until all is well again."""
    driver = rig.driver
    until(lambda: driver.live.statistics().primary_healthy, "served by Triton")
    until(lambda: moving(driver, CALM_S), "the arm circles", driver.said)
    before, stopped_by = Counter(driver.counts), Counter(driver.stopped_by)
    start_s = time.monotonic()
    KINDS[kind](rig)
    time.sleep(max(0.0, start_s + WINDOW_S - time.monotonic()))
    end_s = time.monotonic()
    time.sleep(0.2)  # verdicts
    line = judge(driver, witness, start_s, end_s)
    changed = driver.counts - before
    line |= {name: changed[name] for name in COUNTED} | {"stopped_by": dict(driver.stopped_by - stopped_by)}
    line["rollback_ms"] = driver.counts["rollback_ms_max"] if kind == "rolled_back" else 0
    line["primary_failures"] = dict(driver.live.statistics().failures)
    if kind in ("candidate_released", "rolled_back"):
        rig.file.update(lambda now: none_under_way(now))
    until(lambda: driver.live.statistics().primary_healthy, "served by Triton again")
    return line


def judge(driver: Driver, witness: observer.Observer, start_s: float, end_s: float) -> dict:
    """What the window shows."""
    cycles = [c for c in list(driver.cycles) if start_s <= c[0] <= end_s]
    held = sum(
        a[3] and b[3] and np.abs(np.subtract(a[2], b[2])).max() < SAME_RAD for a, b in zip(cycles, cycles[1:])
    )
    stood = sum(not c[3] for c in cycles)
    rows = witness.rows(start_s)
    rows = rows[rows["received_s"] <= end_s]
    step = np.diff(rows["input_int_register_27"])
    new = np.flatnonzero(step > 0) + 1
    same = np.abs(rows["setpoint"][new] - rows["setpoint"][new - 1]).max(axis=1) < SAME_RAD if len(new) else np.zeros(0)
    cycles_there = (rows["timestamp"][-1] - rows["timestamp"][0]) / 0.008 if len(rows) > 1 else 0.0
    behind = max(0, round(cycles_there) - int(step.sum()) - 1) if len(rows) > 1 else 0
    asked = [a for a in list(driver.asked.values()) if start_s <= a.at_s <= end_s]
    executed = [a for a in asked if a.accepted]
    local = _reference()
    wrong = sum(
        np.abs(local.infer(a.observation, "r", 1.0).actions - a.actions).max() > WRONG for a in executed
    )
    old = sum(a.sent_s - a.at_s > EXPIRY_S for a in executed)
    answered = [a.sent_s - a.at_s for a in asked if np.isfinite(a.sent_s)]
    return {
        "missed_cycles": int(max(held + stood, int(same.sum()) + behind)), "held": int(held), "stood": int(stood),
        "witness_held": int(same.sum()), "witness_behind": int(behind), "cycles": len(cycles),
        "witness_rows": len(rows),
        "stale_executed": int(wrong + old), "requests": len(asked), "unanswered": len(asked) - len(answered),
        "next_action_s": [round(v, 5) for v in answered],
        "chunk_gap_max_ms": round(_gap_s(asked) * 1e3, 1),
    }


_REFERENCE: list[LocalOnnxPolicy] = []


def _reference() -> LocalOnnxPolicy:
    """The same weights, in this process, asked after the fact."""
    if not _REFERENCE:
        _REFERENCE.append(LocalOnnxPolicy(repositories.policy_files(version=0)).open())
    return _REFERENCE[0]


def _gap_s(asked: list[Asked]) -> float:
    sent = sorted(a.sent_s for a in asked if a.accepted)
    return float(max(np.diff(sent), default=np.nan))


def report(lines: list[dict]) -> Path:
    """Write the figures."""
    by_kind = {kind: [line for line in lines if line["kind"] == kind] for kind in KINDS}
    by_kind = {kind: found for kind, found in by_kind.items() if found}
    waits_ms = np.array([v for line in lines for v in line["next_action_s"]]) * 1e3
    metrics = {
        "kinds": len(by_kind), "trials": len(lines),
        "missed_cycles": sum(line["missed_cycles"] for line in lines),
        "stale_executed": sum(line["stale_executed"] for line in lines),
        "next_action_p99_ms": round(float(np.percentile(waits_ms, 99)), 2) if len(waits_ms) else None,
        "next_action_max_ms": round(float(waits_ms.max()), 2) if len(waits_ms) else None,
        "requests": sum(line["requests"] for line in lines), "unanswered": sum(line["unanswered"] for line in lines),
        "cycles": sum(line["cycles"] for line in lines), "stops": sum(line["disarmed"] for line in lines),
        "chunk_gap_max_ms": max((line["chunk_gap_max_ms"] for line in lines), default=None),
        "rollback_max_ms": max((line["rollback_ms"] for line in lines), default=0),
        "by_kind": {
            kind: {
                "trials": len(found), "missed_cycles": sum(f["missed_cycles"] for f in found),
                "served_triton": sum(f["served_triton"] for f in found),
                "served_local": sum(f["served_local"] for f in found),
                "next_action_max_ms": round(max((max(f["next_action_s"], default=0.0) for f in found)) * 1e3, 2),
            }
            for kind, found in by_kind.items()
        },
    }
    schedulers = ", ".join(sorted({line["scheduler"] for line in lines}))
    path = common.write("policy_failover", len(lines), "the processes themselves", f"guard {schedulers}", metrics)
    print(path, {n: metrics[n] for n in ("kinds", "missed_cycles", "stale_executed", "next_action_p99_ms")})
    return path
