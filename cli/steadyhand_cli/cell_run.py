"""`steadyhand cell`: the job of arm and vehicle in simulation (`cell_job`), and a summary that a person can read."""
from __future__ import annotations

import argparse
import os
import time

from rich.console import Console
from rich.table import Table

from steadyhand.slot import current_slot
from steadyhand_cli import broker
from steadyhand_cli.cell_job import MAX_LOADS, CellJobConfig, run_cell


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--loads", type=int, default=2, help=f"cubes that the vehicle carries away, 1 to {MAX_LOADS} (2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the scene (0)")
    parser.add_argument("--no-stop", action="store_true", help="leave out the operator stop in the middle")
    parser.add_argument("--patient", action="store_true", help="wide time limits, for a machine with other work")


def run(args: argparse.Namespace) -> int:
    config = CellJobConfig(args.loads, args.seed, not args.no_stop, args.patient)
    broker.require()  # told now, not by a process that starts again and again
    console, start_s = Console(), time.monotonic()

    def say(line: str) -> None:
        console.print(f"[dim]{time.monotonic() - start_s:6.1f} s[/dim]  {line}", highlight=False)

    summary = run_cell(config, say)
    print_summary(console, summary)
    console.print(f"summary: {os.path.relpath(current_slot().out_dir / 'cell' / 'summary.json')}")
    return 0 if summary["ok"] else 1


def print_summary(console: Console, summary: dict) -> None:
    """The table at the end."""
    table = Table(title="Arm and vehicle (simulated cell, emulated controller, simulated AGV)", show_header=False)
    loads, way, docking, stop = (summary[name] for name in ("loads", "way", "docking", "operator_stop"))
    table.add_row("loaded, carried", f"{loads['loaded']} and {loads['carried']} of {loads['wanted']}")
    table.add_row("driven", f"{way['driven_m']:.1f} m, {way['loaded_m']:.1f} m of it loaded")
    if docking:
        table.add_row("docked", f"{docking['along_mm']:+.1f} mm along, {docking['across_mm']:+.1f} mm across, "
                                f"{docking['turned_mrad']:+.1f} mrad")  # fmt: skip
    if stop:
        rest = stop["rest_after_s"]
        table.add_row("operator stop", f"arm at {stop['arm_rad_s']:.2f} rad/s at rest after {rest['arm']:.2f} s, "
                      f"vehicle at {stop['vehicle_m_s']:.2f} m/s after {rest['vehicle']:.2f} s, "
                      f"re-armed: {stop.get('rearmed', False)}")  # fmt: skip
    for what in ("stops", "armings"):
        table.add_row(what, f"arm {summary[what]['arm']}, vehicle {summary[what]['vehicle']}")
    waits = summary["waits"]
    table.add_row("interlock waits", ", ".join(f"{who} {w['n']} ({w['seconds']:.1f} s)" for who, w in waits.items()))
    for who, refused in summary["refused"].items():
        table.add_row(f"refused by the {who}'s guard", ", ".join(f"{k} {n}" for k, n in refused.items()) or "nothing")
    checked = summary["checked"]
    seen = (checked["arm_states"], checked["vehicle_states"], checked["looks_at_the_world"])
    table.add_row("invariants", f"{len(summary['violations'])} broken in {seen[0]} states of the arm, {seen[1]} of the "
                                f"vehicle, {seen[2]} looks at the world")  # fmt: skip
    for violation in summary["violations"][:5]:
        table.add_row("", f"{violation['invariant']} at {violation['stamp_s']:.3f}: {violation['detail']}")
    times = summary["times"]
    table.add_row("time", f"armed after {times['armed_s']:.1f} s, job {times['job_s']:.1f} s")
    console.print(table)
    if summary["ok"]:
        console.print("[bold green]OK[/bold green]: every load was carried away and no invariant was broken")
    else:
        console.print("[bold red]NOT OK[/bold red]: " + "; ".join(summary["problems"]))
