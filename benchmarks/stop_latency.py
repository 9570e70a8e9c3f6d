"""Stops of a moving arm by every source: from the sender, from the guard's receipt, to deceleration and to rest.

`--n` stops by topic and stop channel, `--n-others` by each other source, in each condition: SCHED_FIFO and SCHED_OTHER,
quiet, all cores busy, and 10,000 packets a second into the command socket. Sources take turns, so that they are paired
in time. Resumable: one line a stop in `out/bench/stop_latency.jsonl`. A whole run takes hours
(`nohup python -m benchmarks stop_latency --n 3000 --n-others 500 &`); `--report` only writes what there is. `--rigs 3`
runs three whole systems side by side, each in a slot of its own: sooner done, and each is a load to the others.
Emulated controller, simulated cell.
"""
from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import signal
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np

from benchmarks import _kept, common
from steadyhand.errors import SteadyhandError
from steadyhand.slot import MAX_SLOT, current_slot

MANY = ("topic", "stop_channel")
DEATHS = ("guard_killed", "guard_frozen", "shell_killed", "shell_frozen")
COMMAND_SOURCE = ("source_killed", "source_frozen", "source_silent")
ROBOT = ("protective_stop", "safeguard_stop", "emergency_stop")
CONDITIONS = ("fifo_quiet", "fifo_loaded", "other_quiet", "other_loaded", "fifo_flood", "other_flood")
TIMES = (
    "sent_to_received_s", "received_to_braking_s", "received_to_setpoint_s", "sent_to_setpoint_s",
    "sent_to_decelerate_s", "received_to_decelerate_s", "received_to_withdrawn_s", "sent_to_rest_s",
)  # fmt: skip
STOPS_A_RIG = 60  # then new processes; and for a rig that fails the others wait no longer than that
FAILURES_A_CONDITION = 100
RIG_LIMIT_S, RIG_END_S = 3600.0, 60.0  # of a rig's share; to end its processes when it takes longer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of this benchmark."""
    parser.add_argument("--n", type=int, default=20, help="by topic and by stop channel, in each condition")
    parser.add_argument("--n-others", type=int, default=0, help="by each other source (default: as --n, at most 500)")
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--sources", default="", help="some of them (default: all)")
    parser.add_argument("--rigs", type=int, default=1, help="whole systems side by side, in this slot and the next ones")
    parser.add_argument("--fresh", action="store_true", help="forget the stops that are already written")
    parser.add_argument("--report", action="store_true", help="run nothing")


def run(args: argparse.Namespace) -> None:
    """Run what is missing, then write `stop_latency.json`."""
    log = common.out_path("stop_latency.jsonl")
    if args.fresh and not args.report:
        log.unlink(missing_ok=True)
    conditions = args.conditions.split(",")
    unknown = set(conditions) - set(CONDITIONS)
    if unknown:
        raise SystemExit(f"{', '.join(unknown)}: known are {', '.join(CONDITIONS)}")
    if not 1 <= args.rigs <= MAX_SLOT + 1 - current_slot().index:
        raise SystemExit(f"--rigs {args.rigs}: give 1 to {MAX_SLOT + 1 - current_slot().index}, one slot each from ours on")
    if not args.report:
        with common.alone():
            for condition in conditions:
                _run_condition(condition, args, log)
    records = _kept.read(log)
    path = common.write("stop_latency", len(records), load(records), "SCHED_FIFO; others by condition", metrics(records))
    print(path.read_text())


def load(records: list[dict]) -> str:
    """What else ran meanwhile, in words: other rigs too, where there were any."""
    others = max((r.get("rigs", 1) for r in records), default=1) - 1
    quiet = f"quiet but for up to {others} other rigs, in every condition" if others else "quiet"
    return f"{quiet}; loaded: {os.cpu_count()} busy processes; flood: 10000 packets/s into the command socket"


def left(records: list[dict], condition: str, sources: list[str], n: int, n_others: int) -> list[str]:
    """Sources of the stops that are still to be made in a condition, taking turns."""
    done = Counter(r["source"] for r in records if r["condition"] == condition and not r.get("error"))
    wanted = {s: (n if s in MANY else n_others) - done[s] for s in sources}
    return [s for i in range(max(wanted.values(), default=0)) for s in sources if i < wanted[s]]


def _run_condition(condition: str, args: argparse.Namespace, log: Path) -> None:
    from steadyhand_cli.injection.stops import SOURCES

    sources = [s for s in args.sources.split(",") if s] or list(SOURCES)
    if set(sources) - set(SOURCES):
        raise SystemExit(f"{args.sources}: known are {', '.join(SOURCES)}")
    failures = 0
    spawn = multiprocessing.get_context("spawn")
    while failures < FAILURES_A_CONDITION:
        records = _kept.read(log)
        todo = left(records, condition, sources, args.n, args.n_others or min(args.n, 500))
        if not todo:
            return
        size = min(STOPS_A_RIG, -(-len(todo) // args.rigs))
        shares = [todo[i * size:(i + 1) * size] for i in range(args.rigs) if todo[i * size:(i + 1) * size]]
        print(f"{condition}: {sum(map(len, shares))} stops of {len(todo)}", flush=True)
        rigs = [
            spawn.Process(target=_rig, args=(current_slot().index + i, condition, share, len(records) + i, log, len(shares)))
            for i, share in enumerate(shares)
        ]
        for rig in rigs:
            rig.start()
        for rig in rigs:
            rig.join(RIG_LIMIT_S)
            for end in (rig.terminate, rig.kill):  # killed at once, it would leave its processes behind
                if rig.is_alive():
                    print(f"{condition}: a rig takes more than {RIG_LIMIT_S:.0f} s, it is ended", flush=True)
                    end()
                    rig.join(RIG_END_S)
        failures += sum(bool(rig.exitcode) for rig in rigs)


def _rig(slot: int, condition: str, sources: list[str], seed: int, log: Path, rigs: int) -> None:
    """A process of its own: one rig in its slot, its share of the stops. Exit code 1 after a failure."""
    os.environ["STEADYHAND_SLOT"] = str(slot)
    os.environ.update(current_slot().environment())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{condition}: told to end"))  # in order, with all its processes
    from steadyhand_cli.injection.stops import StopRig

    sched, _, load_name = condition.partition("_")
    folder = log.parent / "stop_latency" / f"{time.strftime('%Y%m%dT%H%M%S')}-{slot}"
    commit = common.commit()
    try:
        with StopRig(folder, sched, seed) as rig, burden(rig, load_name):
            for source in sources:
                record = _fire(rig, source) | {"condition": condition, "rigs": rigs, "commit": commit}
                _kept.append(log, record)
                if "error" in record:  # a new rig: whatever it was, it does not touch the next stops
                    raise SteadyhandError(f"{source}: {record['error']}")
    except SteadyhandError as error:
        raise SystemExit(f"{condition}: {error}") from error


def _fire(rig, source: str) -> dict:
    try:
        record = rig.fire(source)
    except SteadyhandError as error:
        return {"source": source, "error": str(error)}
    return record | {"scheduler": rig.graph.watcher.state.scheduler}


@contextlib.contextmanager
def burden(rig, name: str):
    """Load beside the rig: none, as many busy processes as cores, or a flood."""
    children = []
    if name == "loaded":
        children = [rig.graph.helper("-c", "while True: pass") for _ in range(os.cpu_count() or 1)]
    elif name == "flood":
        children = [rig.graph.helper("-u", "-m", "steadyhand_cli.injection.flood", "command_socket", "10000", "86400")]
    try:
        yield
    finally:
        for child in children:
            child.kill()
            child.wait(5.0)


def metrics(records: list[dict]) -> dict:
    """Figures of all stops: the ones that are asked for on top, then every condition and source."""
    good = [r for r in records if not r.get("error")]
    groups: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for record in good:
        groups[record["condition"], record["source"]].append(record)

    def figure(condition: str, sources: tuple[str, ...], name: str, percentile: float) -> float | None:
        values = [r[name] for s in sources for r in groups.get((condition, s), ()) if r.get(name) is not None]
        unit = 1e3 if name.endswith("_s") else 1.0
        return round(float(np.percentile(values, percentile)) * unit, 3) if values else None

    stops = ("topic", "service", "stop_channel", "operator_link")
    return {
        "robot": "emulated controller, simulated cell",
        "n": min((len(groups.get((c, s), ())) for c in ("fifo_quiet", "fifo_loaded") for s in MANY), default=0),
        # from the guard's receipt to the first braking set-point, as the controller's port shows it
        "topic_p999_ms": figure("fifo_quiet", ("topic",), "received_to_setpoint_s", 99.9),
        "topic_max_ms": figure("fifo_quiet", ("topic",), "received_to_setpoint_s", 100),
        "service_p999_ms": figure("fifo_quiet", ("service",), "received_to_setpoint_s", 99.9),
        "stop_channel_p999_ms": figure("fifo_quiet", ("stop_channel",), "received_to_setpoint_s", 99.9),
        "operator_link_p999_ms": figure("fifo_quiet", ("operator_link",), "received_to_setpoint_s", 99.9),
        "loaded_topic_p999_ms": figure("fifo_loaded", ("topic",), "received_to_setpoint_s", 99.9),
        "loaded_stop_channel_p999_ms": figure("fifo_loaded", ("stop_channel",), "received_to_setpoint_s", 99.9),
        # the same from the sender
        "topic_from_sender_p999_ms": figure("fifo_quiet", ("topic",), "sent_to_setpoint_s", 99.9),
        "service_from_sender_p999_ms": figure("fifo_quiet", ("service",), "sent_to_setpoint_s", 99.9),
        "stop_channel_from_sender_p999_ms": figure("fifo_quiet", ("stop_channel",), "sent_to_setpoint_s", 99.9),
        # the robot brakes by itself; the guard withdraws: from its receipt to its last heartbeat at the port
        "robot_status_p999_ms": figure("fifo_quiet", ROBOT, "received_to_withdrawn_s", 99.9),
        "process_death_decel_p99_ms": figure("fifo_quiet", DEATHS, "sent_to_decelerate_s", 99),
        "command_source_decel_p99_ms": figure("fifo_quiet", COMMAND_SOURCE, "sent_to_decelerate_s", 99),
        "rest_over_minimum_p99": figure("fifo_quiet", stops, "rest_over_minimum", 99),
        "rest_from_sender_over_minimum_p99": figure("fifo_quiet", stops, "rest_from_sender_over_minimum", 99),
        "minimum_ms": figure("fifo_quiet", stops, "minimum_s", 50),
        "failed": len(records) - len(good),
        "conditions": {
            c: {s: _summary(rows) for (of, s), rows in sorted(groups.items()) if of == c} for c in CONDITIONS
        },
        "rigs_side_by_side": sorted({r.get("rigs", 1) for r in records}),
        "commits": sorted({r["commit"] for r in records}),
    }  # fmt: skip


def _summary(records: list[dict]) -> dict:
    found: dict = {"n": len(records), "causes": dict(Counter(r["cause"] for r in records))}
    found["schedulers"] = sorted({r["scheduler"] for r in records})
    for name in TIMES:
        values = [r[name] for r in records if r.get(name) is not None]
        if values:
            found[name.removesuffix("_s")] = common.percentiles_ms(values) | {"n": len(values)}
    ratios = [r["rest_over_minimum"] for r in records if r.get("rest_over_minimum") is not None]
    if ratios:
        p50, p99 = np.percentile(ratios, [50, 99])
        found["rest_over_minimum"] = {"p50": round(float(p50), 3), "p99": round(float(p99), 3)}
    return found
