"""`fuzz`: hostile inputs through every way in; nothing may crash and nothing may move.

Inputs are malformed, expired, of a foreign token, out of order or unauthorised by construction (`_hostile`); most are
valid messages with one field changed, sent while the gate is armed and the arm at rest. Ways in: `core` (decoder, guard
and gate in this process: each input is judged), `process` (a guard process's sockets: its commander and strangers),
`rtde` and `script` (parsers of the emulated controller, and of our client), `ros` (the shell's conversions, then the
armed guard), `shell` (the running ROS shell, over DDS: topics, services, the action, with guard and nodes as processes).
A motion is any change of a commanded joint, an accepted command or a gripper write that no valid command explains; for
`shell` it is judged at the controller's port. `proofs` counts valid commands in between that were accepted and moved the
arm: the gate was armed. Blocks are seeded by way and number; those done are kept, so that a long run can go on. What the
shell was sent before something went wrong is written to `out/bench/fuzz-failures`.
"""
from __future__ import annotations

import argparse
import time
from collections import Counter

from benchmarks import _fuzz_guard, _fuzz_parsers, _fuzz_ros, _hostile, _hostile_ros, common
from benchmarks._fuzz_guard import CoreTarget, Outcome, ProcessTarget
from benchmarks._fuzz_parsers import RosTarget, RtdeTarget, ScriptTarget
from benchmarks._fuzz_ros import ShellTarget
from benchmarks._kept import Kept, identity

# Way in -> inputs of a whole run, inputs of a block.
WAYS = {
    "core": (CoreTarget, 620_000, 10_000),
    "process": (ProcessTarget, 120_000, 12_000),
    "rtde": (RtdeTarget, 150_000, 10_000),
    "script": (ScriptTarget, 15_000, 1_000),
    "ros": (RosTarget, 120_000, 10_000),
    "shell": (ShellTarget, 120_000, 20_000),
}
ARMED = ("core", "process", "ros", "shell")  # ways on which the gate is armed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--share", type=float, default=1.0, help="share of the inputs of a whole run")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--budget-s", type=float, default=7200.0, help="stop early after so long; the result says so")
    parser.add_argument("--fresh", action="store_true", help="forget the blocks of an earlier run")


def block(way: str, number: int, size: int) -> Outcome:
    """One block of inputs, from its own seed."""
    target = WAYS[way][0](1_000_003 * list(WAYS).index(way) + number)
    try:
        return target.run(size)
    finally:
        if hasattr(target, "close"):
            target.close()


def summary(lines: list[dict]) -> dict:
    """The metrics."""
    ways = {}
    for way in WAYS:
        total: Counter[str] = Counter()
        for line in lines:
            if line["way"] == way:
                total.update(line["outcome"])
        ways[way] = dict(total)
    def total_of(name: str, among=WAYS) -> int:
        return sum(ways[way].get(name, 0) for way in among)
    return {
        "messages": total_of("messages"), "crashes": total_of("crashes"), "motions": total_of("motions"),
        "mutations": total_of("mutations"), "mutations_armed": total_of("mutations", ARMED),
        "proofs": total_of("proofs"), "ways": ways,
    }


def run(args: argparse.Namespace) -> None:
    kept = Kept("fuzz-blocks", identity(_hostile, _hostile_ros, _fuzz_guard, _fuzz_parsers, _fuzz_ros), args.fresh)
    done, end_s = {(line["way"], line["block"]) for line in kept.lines}, time.monotonic() + args.budget_s
    for way in args.ways:
        _, inputs, size = WAYS[way]
        for number in range(max(1, round(inputs * args.share / size))):
            if (way, number) in done or time.monotonic() > end_s:
                continue
            started_s = time.monotonic()
            outcome = block(way, number, size)
            kept.add({"way": way, "block": number, "outcome": dict(outcome)})
            print(f"{way} {number}: {outcome['messages']} inputs in {time.monotonic() - started_s:.1f} s, "
                  f"{outcome['crashes']} crashes, {outcome['motions']} motions", flush=True)
    metrics = summary(kept.lines)
    metrics["complete"] = metrics["messages"] >= 1_000_000 and metrics["mutations_armed"] >= metrics["messages"] / 2
    path = common.write("fuzz", metrics["messages"], "one process", "SCHED_OTHER", metrics)
    print(f"{metrics['messages']} inputs, {metrics['crashes']} crashes, {metrics['motions']} motions\n{path}")
