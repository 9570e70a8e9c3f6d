"""`resume`: a training killed at random points (SIGKILL) resumes and has lost no sample that was acknowledged.

A real process (`_resume_trainer`) trains PPO on one of our environments through the store of `policies.training.store`,
with a sync before every acknowledgement. It is killed at a random moment, started anew, and so on, always on the same
store. Four kills in five strike at a uniformly random moment of its work; the fifth strikes at a random moment since
its start, opening and resuming included. What it had said was acknowledged is then looked up in the store, batch by
batch, by checksum; at the end all of it once more. The first new sample is timed from the start of the process to its
acknowledgement, in the runs that were let live until then, interpreter, physics and all. Kills done are kept, so that a
long run can go on.
"""
from __future__ import annotations

import argparse
import os
import pickle
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

from benchmarks import _resume_trainer, _small_ppo, common
from benchmarks._kept import Kept, identity
from benchmarks._resume_trainer import PHASES, checksum
from policies.training.store import checkpoints, files, frames, log, samples, segments
from policies.training.store.log import LogConfig
from policies.training.store.samples import SampleStore, transition_schema

SOURCES = "policies firmware_bridge sim calibration perception motion"
SPOKE_WITHIN_S = 300.0  # a machine that is busy with more urgent work starts a process slowly


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--env", default="Steadyhand/UR5PickPlace-v0")
    parser.add_argument("--work-s", type=float, default=0.6, help="a kill strikes so soon after the first sample")
    parser.add_argument("--start-s", type=float, default=1.0, help="every fifth kill: so soon after the start")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget-s", type=float, default=3600.0, help="stop early after so long; the result says so")
    parser.add_argument("--fresh", action="store_true", help="forget the kills of an earlier run")


class Training:
    """One life of the trainer, and what it said."""

    def __init__(self, folder: Path, env_id: str, seed: int):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        roots = [common.ROOT, *(common.ROOT / source for source in SOURCES.split())]
        environment["PYTHONPATH"] = os.pathsep.join(map(str, roots))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "phase").write_bytes(b"\0")  # not the last life's
        command = [sys.executable, "-m", "benchmarks._resume_trainer", str(folder), env_id, str(seed)]
        self.errors = (folder.parent / "resume-errors.log").open("ab")
        self.began_s = time.monotonic()
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=self.errors, cwd=common.ROOT, env=environment
        )  # fmt: skip
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest = b""
        self.acks: list[list[int]] = []
        self.resumed: list[int] | None = None
        self.resumed_s = self.first_sample_s = float("nan")

    def listen(self, until_s: float) -> None:
        """Take in what it says until then, or until it ends."""
        fd = self._process.stdout.fileno()
        while (wait_s := until_s - time.monotonic()) > 0:
            if select.select([fd], [], [], wait_s)[0] and not self._take(fd):
                raise RuntimeError(f"the trainer ended by itself ({self._process.wait()}): see {self.errors.name}")

    def listen_for_first(self) -> None:
        """Until its first new sample was acknowledged."""
        end_s = time.monotonic() + SPOKE_WITHIN_S
        while not self.acks:
            if time.monotonic() > end_s:
                raise RuntimeError(f"no sample within {SPOKE_WITHIN_S} s: see {self.errors.name}")
            self.listen(min(end_s, time.monotonic() + 0.005))

    def kill(self) -> None:
        """SIGKILL, then everything that it still had said."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        while self._take(self._process.stdout.fileno()):
            pass
        self._process.stdout.close()
        self.errors.close()

    def _take(self, fd: int) -> bool:
        try:
            content = os.read(fd, 1 << 16)
        except BlockingIOError:
            return False
        now_s = time.monotonic() - self.began_s
        *lines, self._rest = (self._rest + content).split(b"\n")
        for word, *numbers in (line.decode(errors="replace").split() for line in lines if line.strip()):
            if word == "ack":
                if not self.acks:
                    self.first_sample_s = now_s
                self.acks.append([int(n) for n in numbers])
            elif word == "resumed":
                self.resumed, self.resumed_s = [int(n) for n in numbers], now_s
        return bool(content)


def one_kill(folder: Path, args: argparse.Namespace, number: int) -> dict:
    """Start, wait, kill; what was seen."""
    rng = np.random.default_rng([args.seed, number])
    training = Training(folder, args.env, args.seed)
    at_work = bool(number % 5)
    try:
        if at_work:
            training.listen_for_first()
            training.listen(time.monotonic() + rng.uniform(0.0, args.work_s))
        else:
            training.listen(training.began_s + rng.uniform(0.0, args.start_s))
    finally:
        training.kill()
    phase = PHASES[(folder / "phase").read_bytes()[0]]
    return {
        "kill": number, "at_work": at_work, "phase": phase, "acks": training.acks, "resumed": training.resumed,
        "resumed_s": training.resumed_s, "first_sample_s": training.first_sample_s,
    }  # fmt: skip


def missing(folder: Path, acks: list[list[int]]) -> int:
    """How many of the acknowledged samples are not in the store as they were acknowledged."""
    if not acks:
        return 0
    schema, first = samples.schema_of(folder), acks[0][0] - acks[0][1]
    wanted = {end - count: (count, crc) for end, count, crc in acks}
    lost, at = sum(count for count, _ in wanted.values()), first
    for batch in samples.read(folder, schema, first):
        count = len(batch["reward"])
        if wanted.get(at) == (count, checksum(batch, schema)):
            lost -= count
        at += count
    return lost


def throughput(folder: Path, batches: int = 2000, count: int = 64) -> dict:
    """Samples per second to and from the disk cache, by the store and by pickle; neither syncs here."""
    schema, rng = transition_schema(14, 5), np.random.default_rng(1)
    batch = {f.name: rng.standard_normal((count, *f.shape)).astype(f.dtype) for f in schema.fields}
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    times_s, total = [], batches * count
    with SampleStore(folder / "samples", schema, LogConfig(durability="process")) as store:
        times_s.append(time.monotonic())
        for _ in range(batches):
            store.append(batch)
    times_s.append(time.monotonic())
    read = sum(len(b["reward"]) for b in samples.read(folder / "samples", schema))
    times_s.append(time.monotonic())
    with (folder / "pickle").open("wb", buffering=0) as file:
        for _ in range(batches):
            file.write(pickle.dumps(batch, protocol=5))
    times_s.append(time.monotonic())
    with (folder / "pickle").open("rb") as file:
        unpickled = sum(len(pickle.load(file)["reward"]) for _ in range(batches))
    times_s.append(time.monotonic())
    if not read == unpickled == total:
        raise RuntimeError(f"{read} samples read, {unpickled} unpickled, {total} written")
    shutil.rmtree(folder)
    names = ("append_samples_per_s", "read_samples_per_s", "pickle_samples_per_s", "unpickle_samples_per_s")
    return {name: round(total / s) for name, s in zip(names, np.diff(times_s))}


def summary(kills: list[dict], lost: int) -> dict:
    """The metrics."""
    first_s = np.array([k["first_sample_s"] for k in kills if k["at_work"]])
    resumed = [k["resumed"] for k in kills if k["resumed"]]
    p50, p99 = np.percentile(first_s, [50, 99])
    return {
        "kills": len(kills), "lost": lost, "first_sample_p99_s": round(float(p99), 3),
        "first_sample_p50_s": round(float(p50), 3), "first_sample_max_s": round(float(first_s.max()), 3),
        "first_samples": len(first_s),
        "resumed_p50_s": round(float(np.nanmedian([k["resumed_s"] for k in kills])), 3),
        "acknowledged": sum(count for k in kills for _, count, _ in k["acks"]),
        "updates": max((r[5] for r in resumed), default=0),
        "replayed_samples": sum(r[1] for r in resumed), "torn_tails": sum(r[2] > 0 for r in resumed),
        "unacknowledged_kept": sum(r[3] > 0 for r in resumed), "checkpoints_passed_over": sum(r[4] for r in resumed),
        "killed_while": dict(sorted(Counter(k["phase"] for k in kills).items())),
    }  # fmt: skip


def run(args: argparse.Namespace) -> None:
    mark = identity(
        sys.modules[__name__], _resume_trainer, _small_ppo, checkpoints, files, frames, log, samples, segments
    ) + args.env  # fmt: skip
    kept = Kept("resume-kills", mark, args.fresh)
    folder = common.out_path("resume-store") / "training"
    if not kept.lines:
        shutil.rmtree(folder, ignore_errors=True)
    end_s = time.monotonic() + args.budget_s
    folder.parent.mkdir(parents=True, exist_ok=True)
    with common.alone():
        while len(kept.lines) < args.kills and time.monotonic() < end_s:
            kill = one_kill(folder, args, len(kept.lines))
            kill["lost"] = missing(folder / "samples", kill["acks"])
            kept.add(kill)
            if len(kept.lines) % 25 == 0:
                print(f"{len(kept.lines)} kills, {sum(k['lost'] for k in kept.lines)} samples lost", flush=True)
    lost = missing(folder / "samples", [ack for kill in kept.lines for ack in kill["acks"]])
    metrics = summary(kept.lines, max(lost, sum(k["lost"] for k in kept.lines)))
    metrics |= throughput(common.out_path("resume-store") / "throughput")
    metrics |= {"env": args.env, "complete": len(kept.lines) >= args.kills}
    path = common.write("resume", len(kept.lines), "one training at a time", "SCHED_OTHER, one process", metrics)
    print(path.read_text())
