"""`steadyhand storage`: what the output of this slot takes on the disk, against its budgets; `--sweep` enforces them."""
from __future__ import annotations

import argparse

from steadyhand.retention import MB
from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import storage


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("--sweep", action="store_true", help="delete now what the budgets do not allow, oldest first")


def run(args: argparse.Namespace) -> int:
    """Exit code 1 when recording has no room."""
    config, out = storage.load(), current_slot().out_dir
    if args.sweep:
        print(f"deleted: {storage.sweep(out, config)}")
    for kind, budget in config.budgets.items():
        entries = storage.scan(out / kind, kind in storage.AS_FOLDERS)
        used_mb = sum(e.size_bytes for e in entries) / MB
        limits = f"of {budget.max_mb:g} MB, {budget.max_age_days:g} days"
        print(f"{kind:14} {used_mb:9.1f} {limits:26} {len(entries)} entries")
    free_mb = storage.free_bytes(out) / MB
    enough = free_mb >= config.min_free_mb
    print(f"free: {free_mb:.0f} MB; recording {'goes on' if enough else 'STOPS'} (min_free_mb {config.min_free_mb:g})")
    return 0 if enough else 1
