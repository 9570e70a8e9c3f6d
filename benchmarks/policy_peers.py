"""`policy_peers`: the shipped policy behind our client, openpi's and LeRobot's: how fast, and what each does when its
server fails. docs/peers.md says what is compared with what.

Latency: an observation in hand to its actions in hand, one a policy period (20 Hz), in blocks of 200 after 20 that warm
up; the arms take turns block by block, quiet and with every core loaded. Faults: from 2 s after the start of a run the
server stalls for 2 s, or dies and comes back, or for 2 s answers late, with its previous reply, or with NaN; counted as
`benchmarks.peers.accounting` says. Two more are shown and not summed: a previous reply under the right label
(`mislabelled`), and a caught Ctrl+C during a slow call (`interrupt`). Blocks and runs done are kept.

`ours_*` of the sums is the client as shipped: Triton first, the local model behind it. `ours_no_fallback_*` is the same
without the local model. Needs `make setup-peers`.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import common, policy_call
from benchmarks._kept import Kept, identity
from benchmarks.peers import accounting, arms, client_arms, faults, loop, scene
from benchmarks.peers.side import Command

WARM_UP, BLOCK = 20, 200
ONSET_S, FAULT_S, AFTER_S, AWAY_S = 2.0, 2.0, 3.0, 1.0
RETURN_S = {"lerobot_default": 30.0}  # a run in which a server dies has so much more: this one imports torch first
_RETURN_S = 8.0
KINDS = ("stall", "dies", faults.LATE, faults.PREVIOUS, faults.NAN)  # those that are summed
SHOWN = ("none", faults.MISLABELLED, "interrupt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--blocks", type=int, default=25, help="of 200 calls, for each arm, quiet and loaded each")
    parser.add_argument("--runs", type=int, default=3, help="of each fault with each client")
    parser.add_argument("--fresh", action="store_true", help="forget what an earlier run has kept")


def run(args: argparse.Namespace) -> None:
    if absent := arms.missing():
        raise SystemExit(f"policy_peers: no environment for {', '.join(absent)}; make setup-peers")
    mark = identity(sys.modules[__name__], accounting, arms, client_arms, faults, loop, scene)
    kept = Kept("policy_peers", mark, args.fresh)
    with common.alone():
        _latency(kept, args.blocks)
        _faults(kept, args.runs)
    metrics = summary(kept.lines)
    n = sum(len(line["ms"]) for line in kept.lines if line["part"] == "latency")
    path = common.write(
        "policy_peers", n, f"quiet; loaded: {os.cpu_count()} busy processes on {os.cpu_count()} cores", "SCHED_OTHER",
        metrics,
    )
    print(path)


def _latency(kept: Kept, blocks: int) -> None:
    done = {(line["arm"], line["load"], line["block"]) for line in kept.lines if line["part"] == "latency"}
    wanted = [
        (load, block, arm) for load in ("quiet", "loaded") for block in range(blocks) for arm in client_arms.LATENCY
        if (arm, load, block) not in done
    ]  # fmt: skip
    if not wanted:
        return
    with contextlib.ExitStack() as stack, client_arms.Arms(stack, None) as each:
        _keep_versions(kept, each)
        for load in ("quiet", "loaded"):
            todo = [(block, arm) for at, block, arm in wanted if at == load]
            with _busy() if load == "loaded" and todo else contextlib.nullcontext():
                for block, arm in todo:
                    command = Command(arm, "", (WARM_UP + BLOCK) * accounting.PERIOD_S, block, accounting.PERIOD_S)
                    reply, _ = each.run(arm, command)
                    ms = [round(s * 1e3, 4) for s in reply["latency_s"][WARM_UP:]]
                    line = {"part": "latency", "arm": arm, "load": load, "block": block, "ms": ms}
                    kept.add({**line, "ticks": reply["ticks"], "errors": reply["errors"]})
                    print(arm, load, block, json.dumps(common.percentiles_ms([x / 1e3 for x in ms])), flush=True)


def _faults(kept: Kept, runs: int) -> None:
    done = {(line["arm"], line["kind"], line["run"]) for line in kept.lines if line["part"] == "fault"}
    wanted = [
        (kind, i, arm) for i in range(runs) for kind in (*KINDS, *SHOWN) for arm in client_arms.FAULTS
        if (arm, kind, i) not in done and not (kind == "interrupt" and arm not in client_arms.INTERRUPTIBLE)
    ]  # fmt: skip
    if not wanted:
        return
    fault_file = arms.folder() / "fault"
    fault_file.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack, client_arms.Arms(stack, fault_file) as each:
        _keep_versions(kept, each)
        for kind, i, arm in wanted:
            seconds = ONSET_S + FAULT_S + AFTER_S + (RETURN_S.get(arm, _RETURN_S) if kind == "dies" else 0.0)
            interrupt_s = ONSET_S + accounting.PERIOD_S if kind == "interrupt" else None
            command = Command(arm, "", seconds, 1000 + i, accounting.PERIOD_S, interrupt_s)
            reply, (onset_s, cleared_s) = each.run(arm, command, kind, _act(kind, fault_file, each.server(arm)))
            found = accounting.account(accounting.run_of(reply, onset_s, cleared_s))
            found |= {"held_up": reply["held_up"], "errors": reply["errors"]}
            if not found["recovers"]:
                found["new_client_works"] = _works(each, arm, i)
            kept.add({"part": "fault", "arm": arm, "kind": kind, "run": i, **found})
            print(kind, i, arm, json.dumps(found), flush=True)


def _works(each: client_arms.Arms, arm: str, i: int) -> bool:
    """Whether the same program recovers by making a new client."""
    start = lambda start_s: (start_s, start_s)  # noqa: E731
    try:
        reply, times = each.run(arm, Command(arm, "", 2.0, 2000 + i, accounting.PERIOD_S), "none", start)
    except RuntimeError:
        return False
    return accounting.account(accounting.run_of(reply, *times))["recovers"]


def _act(kind: str, fault_file: Path, server) -> Callable[[float], tuple[float, float]]:
    """What is done while a client runs; returns when the fault began and when it was over."""

    def act(start_s: float) -> tuple[float, float]:
        _sleep_until(start_s + ONSET_S)
        onset_s = time.monotonic()
        if kind == "stall":
            server.signal(signal.SIGSTOP)
            _sleep_until(onset_s + FAULT_S)
            server.signal(signal.SIGCONT)
        elif kind == "dies":
            server.die_and_return(AWAY_S)
        elif kind != "none":
            fault_file.write_text(faults.LATE if kind == "interrupt" else kind)
            _sleep_until(onset_s + FAULT_S)
            fault_file.unlink()
        return onset_s, time.monotonic()

    return act


def summary(lines: list[dict]) -> dict:
    """The metrics: latency by arm and load, sums over the faults by client, each fault by client."""
    metrics: dict = {}
    for load, mark in (("quiet", ""), ("loaded", "loaded_")):
        for arm in client_arms.LATENCY:
            blocks = [x for x in lines if x["part"] == "latency" and (x["arm"], x["load"]) == (arm, load)]
            ms = [m for x in blocks for m in x["ms"]]
            if ms:
                found = common.percentiles_ms([m / 1e3 for m in ms])
                metrics |= {f"{arm}_{mark}{key}": value for key, value in found.items()} | {f"{arm}_{mark}n": len(ms)}
    runs = [x for x in lines if x["part"] == "fault"]
    for arm, name in client_arms.FAULTS.items():
        if of_arm := [x for x in runs if x["arm"] == arm and x["kind"] in KINDS]:
            metrics |= {f"{name}_{key}": value for key, value in accounting.total(of_arm).items()}
    for kind in (*KINDS, *SHOWN):
        for arm, name in client_arms.FAULTS.items():
            if of_kind := [x for x in runs if (x["arm"], x["kind"]) == (arm, kind)]:
                found = accounting.total(of_kind)
                back = [x["recovery_ms"] for x in of_kind if x["recovery_ms"] is not None]
                found |= {"recovery_ms": max(back) if back else None}
                metrics.setdefault(kind, {}).update({f"{name}_{key}": value for key, value in found.items()})
    metrics["versions"] = {key: value for x in lines if x["part"] == "versions" for key, value in x["versions"].items()}
    return metrics


def _keep_versions(kept: Kept, each: client_arms.Arms) -> None:
    if not any(line["part"] == "versions" for line in kept.lines):
        kept.add({"part": "versions", "versions": each.versions()})


@contextlib.contextmanager
def _busy():
    processes = policy_call.busy_cores()
    try:
        yield
    finally:
        for process in processes:
            process.kill()


def _sleep_until(stamp_s: float) -> None:
    time.sleep(max(0.0, stamp_s - time.monotonic()))
