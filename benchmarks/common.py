"""What every benchmark shares: the machine-wide lock, the result file, percentiles, the Wilson interval."""
from __future__ import annotations

import contextlib
import fcntl
import json
import os
import platform
import select
import subprocess
import time
from pathlib import Path

import numpy as np

from steadyhand_policies.contract import wilson  # noqa: F401  benchmarks find it here

ROOT = Path(__file__).resolve().parents[1]
LOCK = Path("/tmp/steadyhand-benchmark.lock")


@contextlib.contextmanager
def alone(timeout_s: float = 7200.0):
    """Hold the machine-wide benchmark lock: timings share the machine with nothing else of ours."""
    with LOCK.open("a") as file:
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise TimeoutError(f"another benchmark holds {LOCK} for more than {timeout_s} s") from None
                time.sleep(0.5)
        yield


def machine() -> str:
    """Processor, cores and kernel."""
    model = "unknown processor"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def commit() -> str:
    """Commit of the checkout, with `+` when tracked files differ from it."""
    try:
        command = ["git", "rev-parse", "--short=12", "HEAD"]
        head = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10)
        dirty = subprocess.run(["git", "diff", "--quiet", "HEAD"], cwd=ROOT, timeout=10).returncode
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return (head.stdout.strip() or "unknown") + ("+" if dirty else "")


def processor_ticks() -> tuple[int, int]:
    """(busy, all) ticks of all cores since the machine started, whoever used them (`proc_stat(5)`; Linux)."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def percentiles_ms(seconds) -> dict[str, float]:
    """p50, p99, p99.9 and max in ms of times in seconds."""
    ms = np.asarray(seconds, dtype=float) * 1e3
    p50, p99, p999 = np.percentile(ms, [50, 99, 99.9])
    return {"p50_ms": round(p50, 4), "p99_ms": round(p99, 4), "p999_ms": round(p999, 4), "max_ms": round(ms.max(), 4)}


def out_path(name: str) -> Path:
    """A file of this name below `out/bench` (or `STEADYHAND_OUT`); its folder is there."""
    path = Path(os.environ.get("STEADYHAND_OUT", ROOT / "out")) / "bench" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def await_ready(process: subprocess.Popen, timeout_s: float = 30.0) -> None:
    """Until a process has said "ready" in its first line; else it is ended, with RuntimeError."""
    came, _, _ = select.select([process.stdout], [], [], timeout_s)
    line = process.stdout.readline() if came else f"nothing within {timeout_s} s"
    if "ready" not in line:
        process.kill()
        process.wait()
        raise RuntimeError(f"{' '.join(process.args)} did not start; it said: {line.strip() or 'nothing, and ended'}")


def write(name: str, n: int, load: str, scheduler: str, metrics: dict) -> Path:
    """Write `out/bench/<name>.json` and return its path."""
    path = out_path(f"{name}.json")
    result = {
        "name": name, "n": n, "load": load, "scheduler": scheduler, "machine": machine(), "commit": commit(),
        "metrics": metrics,
    }
    path.write_text(json.dumps(result, indent=2) + "\n")
    return path
