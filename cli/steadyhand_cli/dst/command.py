"""`steadyhand dst`: deterministic simulation testing of the guard.

`--seed N` replays one episode; a failing one is shrunk and printed. `--hours H` runs episodes until H robot hours are
simulated. `--defect NAME` plants a defect first, to see that it is found.
"""
from __future__ import annotations

import argparse
import contextlib
import math
import time

from steadyhand.errors import ConfigError
from steadyhand_cli.dst import campaign, defects, episode
from steadyhand_cli.dst.episode import Outcome


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--seed", type=int, help="replay this episode (with --hours: the first one)")
    parser.add_argument("--hours", type=float, help="robot hours to simulate")
    parser.add_argument("--minutes", type=float, help="longest time to take, by the clock on the wall")
    parser.add_argument("--defect", help=f"plant a defect first: {', '.join(sorted(defects.DEFECTS))}")
    parser.add_argument("--dense", action="store_true", help="faults six times as often, as for planted defects")
    parser.add_argument("--no-shrink", action="store_true", help="do not look for the smallest failing schedule")


def run(args: argparse.Namespace) -> int:
    if args.seed is None and args.hours is None and args.minutes is None:
        raise ConfigError("dst: give --seed N, or --hours H, or --minutes M")
    if args.defect is not None and args.defect not in defects.DEFECTS:
        raise ConfigError(f"--defect {args.defect!r}: known are {', '.join(sorted(defects.DEFECTS))}")
    for name in ("hours", "minutes"):
        value = getattr(args, name)
        if value is not None and not 0.0 < value < math.inf:
            raise ConfigError(f"--{name} {value}: give a number above 0")
    with defects.planted(args.defect) if args.defect else contextlib.nullcontext():
        if args.hours is None and args.minutes is None:
            outcome = episode.run(args.seed, every_s=_every_s(args))
            print(summary(outcome))
            return 0 if outcome.ok else _show(outcome, args)
        return _campaign(args)


def _campaign(args: argparse.Namespace) -> int:
    totals, begun_s = campaign.Totals(), time.monotonic()

    def more(so_far: campaign.Totals) -> bool:
        in_time = args.minutes is None or time.monotonic() - begun_s < 60.0 * args.minutes
        return in_time and (args.hours is None or so_far.robot_s < 3600.0 * args.hours)

    for outcome in campaign.episodes(1 if args.seed is None else args.seed, more, totals, _every_s(args)):
        if not outcome.ok:
            print(summary(outcome))
            _show(outcome, args)
            return 1
    for name, value in totals.metrics().items():
        print(f"{name}: {value}")
    return 0


def summary(outcome: Outcome) -> str:
    """One line."""
    verdict = "every invariant held" if outcome.ok else f"{len(outcome.violations)} violation(s)"
    return (
        f"seed {outcome.seed}: {verdict}; {outcome.robot_s:.0f} s armed and moving of {outcome.virtual_s:.0f} s, "
        f"{sum(outcome.injected.values())} faults of {len(outcome.injected)} kinds, {outcome.stops} stops"
    )


def _every_s(args: argparse.Namespace) -> float:
    return episode.DENSE_S if args.dense else episode.EVERY_S


def _show(outcome: Outcome, args: argparse.Namespace) -> int:
    for violation in outcome.violations[:5]:
        print(f"  {violation.invariant} at {violation.stamp_s:.3f} s: {violation.detail}")
    if not args.no_shrink:
        injections = episode.shrink(outcome.seed, every_s=_every_s(args))
        print(f"  smallest schedule that still breaks it ({len(injections)} injections):")
        for i in injections:
            print(f"    {i.at_s + episode.START_S:9.4f} s  {i.kind}")
    print(f"  replay: steadyhand dst --seed {outcome.seed}{' --dense' if args.dense else ''}")
    return 1
