"""`steadyhand run`: the main job with a live display, and a summary that a person can read."""
from __future__ import annotations

import argparse
import os
import time

from rich.console import Console
from rich.live import Live
from rich.table import Table

from steadyhand import cell
from steadyhand.slot import current_slot
from steadyhand_cli.job import JobConfig, JobProgress, run_job
from steadyhand_ros.launch_runner import parse_arguments


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--cubes", type=int, default=5, help=f"cubes in the tray, 1 to {cell.MAX_CUBES} (5)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scene (0)")
    parser.add_argument("--no-triton", action="store_true", help="serve the policy in process only")
    parser.add_argument("--no-stop", action="store_true", help="leave out the operator stop in the middle")
    parser.add_argument("arguments", nargs="*", metavar="name:=value", help="arguments of launch/ur5.launch.xml")
    parser.add_argument("--view", action="store_true", help="write a GIF and a PNG strip of the run to out/run/")


def run(args: argparse.Namespace) -> int:
    config = JobConfig(
        cubes=args.cubes, seed=args.seed, triton=not args.no_triton, operator_stop=not args.no_stop,
        launch_arguments=tuple(parse_arguments(args.arguments).items()),
    )
    console = Console()
    record = None
    if args.view:
        from steadyhand_cli.view import Recorder

        record = Recorder()
    display = _Display(console)
    try:
        with display:
            summary = run_job(config, display.show, record)
    finally:
        if record is not None:
            record.close()
    print_summary(console, summary)
    out = current_slot().out_dir / "run"
    if record is not None:
        for path in record.write(out):
            console.print(f"view: {os.path.relpath(path)}")
    console.print(f"summary: {os.path.relpath(out / 'summary.json')}")
    return 0 if summary["ok"] else 1


class _Display:
    """Live on a terminal; otherwise one line for each new thing, so that logs stay readable."""

    def __init__(self, console: Console):
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._said = 0
        self._placed = -1
        self._start = time.monotonic()

    def __enter__(self):
        if self._live:
            self._live.__enter__()
        return self

    def __exit__(self, *exc):
        if self._live:
            self._live.__exit__(*exc)

    def show(self, progress: JobProgress) -> None:
        for line in progress.log[self._said:]:
            self._console.print(f"[dim]{time.monotonic() - self._start:6.1f} s[/dim]  {line}", highlight=False)
        self._said = len(progress.log)
        if self._live:
            table = Table.grid(padding=(0, 2))
            table.add_row("phase", progress.phase, "guard", progress.mode)
            table.add_row("placed", f"{progress.placed} (tried {progress.attempted})", "agent", progress.executor)
            self._live.update(table)
        elif progress.placed != self._placed:
            self._placed = progress.placed
            if self._placed:
                self._console.print(f"{time.monotonic() - self._start:6.1f} s  placed {self._placed}", highlight=False)


def print_summary(console: Console, summary: dict) -> None:
    """The table at the end."""
    policy, stop, times = summary["policy"], summary["stop"], summary["times"]
    table = Table(title="Clear the tray (simulated cell, emulated controller)", show_header=False)
    table.add_row("cubes in the box", f"{summary['cubes_placed']} of {summary['cubes_attempted']}")
    table.add_row("results", ", ".join(summary["results"]))
    armed, job = times.get("armed_s", 0), times.get("job_s", 0)
    table.add_row("time", f"armed after {armed:.1f} s, job {job:.1f} s, {summary['cycle_time_s']:.1f} s a cube")
    latency = policy.get("policy_latency_ms", {})
    said = ", ".join(f"{k} {latency.get(k, 0):.2f}" for k in ("p50", "p99", "max"))
    table.add_row("policy calls", f"{policy.get('policy_calls', 0)}: {said} ms")
    served = policy.get("served_by", {})
    table.add_row("served by", ", ".join(f"{k} {v}" for k, v in served.items()) or "nobody")
    if stop:
        rest = "rest not seen" if stop["rest_after_s"] is None else f"at rest after {stop['rest_after_s']:.2f} s"
        moving = f"at {stop['speed_before_rad_s']:.2f} rad/s"
        table.add_row("operator stop", f"{moving}, {rest}, re-armed: {stop['rearmed']}")
    table.add_row("guard", f"{summary['scheduler']}, {summary['stops']} stops, {summary['armings']} armings")
    refused = {k: v for k, v in summary["guard_counters"].items() if k.startswith("refused") and v}
    table.add_row("refused", ", ".join(f"{k} {v}" for k, v in refused.items()) or "nothing")
    table.add_row("faults", ", ".join(summary["faults"]) or "none")
    table.add_row("invariants", f"{len(summary['violations'])} broken in {summary['states_checked']} states")
    for violation in summary["violations"][:5]:
        table.add_row("", f"{violation['invariant']} at {violation['stamp_s']:.3f}: {violation['detail']}")
    died = summary["processes"]["died"]
    ended = f"{', '.join(died)} died" if died else "none died"
    table.add_row("processes", f"{len(summary['processes']['pids'])} started, {ended}")
    console.print(table)
    if summary["ok"]:
        console.print("[bold green]OK[/bold green]: every cube is in the box and no invariant was broken")
    else:
        console.print("[bold red]NOT OK[/bold red]: " + "; ".join(summary["problems"]))
