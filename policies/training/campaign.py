"""All runs that the published figures need, one after the other, in the background and resumable.

    python -m policies.training.campaign --estimate          # core-hours of each run, measured here
    python -m policies.training.campaign --detach            # start; logs to <out>/training/campaign.log
    python -m policies.training.campaign --status            # what is done, what runs, what is left
    python -m policies.training.campaign --smoke             # a few steps of every run

It gives way to everything else on the machine (SCHED_IDLE). Killed, or stopped with SIGTERM, it goes on where it was:
a run that is done is not run again, one that was under way continues. Done runs are copied to the committed
checkpoints (`--keep`), which `python -m benchmarks policy_success` evaluates.
"""
from __future__ import annotations

import argparse
import csv
import fcntl
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

from policies.training.config import RunConfig, identity
from policies.training.schema import read
from steadyhand.errors import ConfigError
from steadyhand.slot import current_slot

CONFIGS = Path(__file__).with_name("configs")
SEEDS = (1, 2, 3)
STOPPED = 3  # what a run returns that was told to stop
# in the order in which figures depend on them
ORDER = (
    "grasp_cartesian", "grasp_joint", "grasp_joint_random", "grasp_joint_curve", "grasp_joint_passes4",
    "insert_cartesian", "dock",
)
ONCE = ("insert_cartesian", "dock")  # a trained policy is wanted of them, no figure over training seeds


@dataclass(frozen=True)
class Run:
    """One configuration with one seed."""

    path: Path
    seed: int

    def config(self) -> RunConfig:
        return replace(read(RunConfig, self.path), seed=self.seed)

    def name(self) -> str:
        return f"{self.path.stem} seed {self.seed}"


def all_runs(only: list[str], seeds: tuple[int, ...]) -> list[Run]:
    """Every run, seed by seed, so that each figure has one seed before any has two."""
    names = [n for n in ORDER if not only or n in only]
    unknown = set(only) - set(ORDER)
    if unknown:
        raise ConfigError(f"--only {sorted(unknown)[0]}: known are {', '.join(ORDER)}")
    return [Run(CONFIGS / f"{name}.yaml", seed) for seed in seeds for name in names
            if seed == seeds[0] or name not in ONCE]


def folder_of(run: Run, out: Path) -> Path:
    """Where it leaves what it makes."""
    return out / run.path.stem / f"seed{run.seed}"


def is_done(run: Run, out: Path) -> bool:
    """Whether the result of this very configuration is there."""
    path = folder_of(run, out) / "result.json"
    try:
        return json.loads(path.read_text())["identity"] == identity(run.config())
    except (OSError, ValueError, KeyError):
        return False


def standing(run: Run, out: Path) -> str:
    """How far it is, in words."""
    if is_done(run, out):
        return "done"
    try:
        with (folder_of(run, out) / "ppo.csv").open(newline="") as file:
            last = list(csv.DictReader(file))[-1]
    except (OSError, IndexError):
        return "begun" if folder_of(run, out).exists() else "to do"
    return f"{int(last['steps']):,} of {run.config().ppo.steps:,} steps, success {last['success']}"


def carry_out(runs: list[Run], out: Path, smoke: bool, keep: bool) -> int:
    """Each run that is not done, in a process of its own. The number of those that failed."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    out.mkdir(parents=True, exist_ok=True)
    failed = 0
    with (out / "campaign.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{lock.name}: a campaign is running; wait for it, or end it") from None
        for run in runs:
            if not smoke and is_done(run, out):
                continue
            start_s = time.monotonic()
            print(f"{time.strftime('%F %T')} {run.name()}: start", flush=True)
            options = ["--smoke"] if smoke else ["--keep"] if keep else []
            command = [sys.executable, "-m", "policies.training.run", str(run.path), "--seed", str(run.seed)]
            code = subprocess.run([*command, "--out", str(out), *options]).returncode
            said = {0: "done", STOPPED: "stopped"}.get(code, f"failed ({code})")
            print(f"{time.strftime('%F %T')} {run.name()}: {said}, {time.monotonic() - start_s:.0f} s", flush=True)
            if code == STOPPED or code < 0:
                break
            failed += code != 0
    return failed


def detach(arguments: list[str], out: Path) -> int:
    """Start this again in a session of its own; its process id."""
    out.mkdir(parents=True, exist_ok=True)
    with (out / "campaign.log").open("ab") as log:
        command = [sys.executable, "-m", "policies.training.campaign", *(a for a in arguments if a != "--detach")]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    return process.pid


def main(argv: list[str] | None = None) -> int:
    """0 when every run is done."""
    arguments = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="policies.training.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="configuration; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=list(SEEDS))
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--no-keep", action="store_true", help="do not copy to the committed checkpoints")
    for name in ("estimate", "status", "smoke", "detach"):
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args(arguments)
    out = options.out or current_slot().out_dir / "training"
    try:
        runs = all_runs(options.only, tuple(options.seeds))
        if options.status:
            for run in runs:
                print(f"{run.name():32} {standing(run, out)}")
            return 0
        if options.estimate:
            from policies.training import estimate

            return estimate.tell(runs)
        if options.detach:
            print(f"process {detach(arguments, out)}, log {out / 'campaign.log'}")
            return 0
        return min(1, carry_out(runs, out, options.smoke, not options.no_keep))
    except ConfigError as error:
        print(f"ConfigError: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
