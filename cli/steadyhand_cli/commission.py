"""`steadyhand commission ur5`: look at a robot before it is used, and keep a report. Run it with no guard running.

Nothing moves but with `--dry-run`, and then only on a typed yes (or `--yes`, the operator's word in advance).
"""
from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import commissioning

QUESTION = "wrist 3 will turn by 3 degrees and back at 10 % speed; is nobody within reach of the arm? [y/N] "


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("robot", choices=["ur5"])
    parser.add_argument("--robot-ip", default="", help="address of the controller (default: the slot's simulated one)")
    for field in commissioning.DECLARED:
        option = f"--{field.replace('_', '-')}"
        parser.add_argument(option, default="", help="as the pendant shows it; kept as declared")
    parser.add_argument("--dry-run", action="store_true", help="also move: wrist 3 by 0.05 rad and back, slowly")
    parser.add_argument("--yes", action="store_true", help="the operator's word for the dry run, given in advance")
    parser.add_argument("--out", default="", help="folder of the report (default: out/commissioning of the slot)")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds for each answer of the controller")


def run(args: argparse.Namespace) -> int:
    host = args.robot_ip or current_slot().robot_host
    declared = {field: getattr(args, field) for field in commissioning.DECLARED}
    report = commissioning.commission(host, declared, args.timeout)
    if args.dry_run and report.ok:
        check = commissioning.dry_run(report.address, lambda: args.yes or _confirmed())
        report = replace(report, checks=(*report.checks, check))
    elif args.dry_run:
        print("no dry run: something is wrong")
    for check in report.checks:
        print(f"{check.verdict:12} {check.name}: {check.found}")
        if check.remedy:
            print(f"{'':14}-> {check.remedy}")
    now = datetime.now().astimezone()
    folder = Path(args.out) if args.out else current_slot().out_dir / "commissioning"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{now:%Y%m%dT%H%M%S}-{args.robot}.md"
    path.write_text(report.markdown(f"{now:%Y-%m-%d %H:%M %Z}"))
    path.with_suffix(".json").write_text(json.dumps({"when": now.isoformat(), **report.as_dict()}, indent=2) + "\n")
    print(f"{'ready' if report.ok else 'NOT ready'}; report: {path}")
    return 0 if report.ok else 1


def _confirmed() -> bool:
    print(QUESTION, end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
