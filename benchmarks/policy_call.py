"""`policy_call`: latency of one policy call, in this process and on Triton, quiet and with every core loaded.

A call is `infer` as the agent makes it: observation checked, answer checked against the contract. Triton calls are
paced at 200 Hz by a monotonic schedule (20 Hz would take an hour; back to back would measure throughput) and wait up to
1 s, so that a slow call is measured and not cut off at the deadline; calls above the runtime's 20 ms are counted.
Loaded: one busy process for each core, for the Triton part only.
"""
from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import numpy as np

from benchmarks import common
from steadyhand.errors import PolicyError
from steadyhand.slot import current_slot
from steadyhand_policies import repository
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy

DEADLINE_S = 0.02
PERIOD_S = 0.005
LIMIT_S = 1.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--calls", type=int, default=5000, help="calls of each of the three parts")


def run(args: argparse.Namespace) -> None:
    with common.alone():
        local = LocalOnnxPolicy(repository.policy_files()).open()
        rng = np.random.default_rng(0)
        base = np.float32(local.contract.canary.observation)
        disturbed = base + 0.01 * rng.standard_normal((args.calls, len(base)), dtype=np.float32)
        disturbed[:, 11:] = base[11:]
        metrics = parts("local", measure(local, disturbed, 0.0))
        server = start_server()
        try:
            triton = TritonPolicy(TritonConfig(f"127.0.0.1:{current_slot().triton_grpc_port}"), local.contract).open()
            measure(triton, disturbed[:200], PERIOD_S)  # connects, fills caches
            metrics |= parts("triton", measure(triton, disturbed, PERIOD_S))
            with_load = busy_cores()
            try:
                metrics |= parts("triton_loaded", measure(triton, disturbed, PERIOD_S))
            finally:
                for process in with_load:
                    process.kill()
            triton.close()
        finally:
            stop(server)
    path = common.write(
        "policy_call", args.calls, f"quiet; loaded: {os.cpu_count()} busy processes on {os.cpu_count()} cores",
        "SCHED_OTHER", metrics,
    )
    print(path, json.dumps(metrics))


def measure(policy, observations: np.ndarray, period_s: float) -> np.ndarray:
    """Seconds of each call (N,); a failed call counts with the time until it failed."""
    seconds, next_s = np.empty(len(observations)), time.monotonic()
    for i, observation in enumerate(observations):
        start_s = time.monotonic()
        try:
            policy.infer(observation, f"b{i}", LIMIT_S)
        except PolicyError as error:
            print(f"call {i}: {error}", file=sys.stderr)
        seconds[i] = time.monotonic() - start_s
        next_s = max(next_s + period_s, time.monotonic() - period_s)
        time.sleep(max(0.0, next_s - time.monotonic()))
    return seconds


def parts(name: str, seconds: np.ndarray) -> dict:
    """Percentiles and the share above the runtime's deadline."""
    values = {f"{name}_{key}": value for key, value in common.percentiles_ms(seconds).items()}
    return {**values, f"{name}_over_20_ms": int((seconds > DEADLINE_S).sum())}


def start_server() -> subprocess.Popen:
    """`steadyhand-triton` of this slot, ready. Raises RuntimeError with its output when it is not within 60 s."""
    process = subprocess.Popen(
        [sys.executable, "-m", "steadyhand_policies.triton_server"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    status = current_slot().out_dir / "triton" / "status.json"
    end_s = time.monotonic() + 60.0
    while time.monotonic() < end_s and process.poll() is None:
        try:
            body = json.loads(status.read_text())
            if body["supervisor_pid"] == process.pid and body["state"] == "ready":
                return process
        except (OSError, ValueError):
            pass
        time.sleep(0.1)
    process.kill()
    raise RuntimeError(f"Triton is not ready: {process.stdout.read()}")


def stop(process: subprocess.Popen) -> None:
    """SIGTERM, then SIGKILL after 10 s."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()


def busy_cores() -> list:
    """One spinning process for each core."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 1)]
    for process in processes:
        process.start()
    time.sleep(1.0)  # they are importing until then
    return processes


def _spin() -> None:
    x = 1.0
    while True:
        x = x * 1.0000001 % 3.0
