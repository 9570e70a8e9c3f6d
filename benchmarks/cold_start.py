"""`cold_start`: from nothing to an armed graph, and from a new agent process to its first valid action.

`graph_armed_s`: from starting the processes of the launch file to the guard's reply that it is armed (Triton included).
`agent_first_action_ms`: from starting a new Python process that does what the agent does before its first action
(imports, model with its contract, first observation) to a finite action within its contract's range. The page cache is
warm.
"""
from __future__ import annotations

import argparse
import subprocess
import sys
import time

import numpy as np

from benchmarks import common
from steadyhand_cli.job import JobConfig, run_job

# What a fresh agent process runs up to its first action; prints when it has it, on the system's monotonic clock.
FIRST_ACTION = """
import time
import numpy as np
import steadyhand.agent
from steadyhand import cell, policy_io
from steadyhand.types import Skill
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.repository import policy_files
policy = LocalOnnxPolicy(policy_files()).open()
target = policy_io.Target(Skill.PICK, np.array([0.5, -0.1, 0.02]), 0.0)
observation = policy_io.observation(target, cell.HOME_Q_RAD, np.zeros(6), 0.06, False)
chunk = policy.infer(observation, "cold", 1.0)
assert np.isfinite(chunk.actions).all() and np.abs(chunk.actions).max() <= 1.0
print(time.monotonic())
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--starts", type=int, default=30, help="new agent processes")
    parser.add_argument("--graphs", type=int, default=10, help="starts of the whole graph")


def run(args: argparse.Namespace) -> None:
    with common.alone():
        first = []
        for _ in range(args.starts):
            start = time.monotonic()
            done = subprocess.run(
                [sys.executable, "-c", FIRST_ACTION], capture_output=True, text=True, timeout=60, check=True
            )
            first.append(float(done.stdout.split()[-1]) - start)
        armed, scheduler = [], ""
        for k in range(args.graphs):
            summary = run_job(JobConfig(cubes=1, seed=5000 + k, operator_stop=False))
            armed.append(summary["times"]["armed_s"])
            scheduler = summary["scheduler"]
    path = common.write("cold_start", args.starts, "otherwise idle machine, warm page cache", scheduler, {
        "agent_first_action_ms_p50": round(float(np.median(first)) * 1e3, 1),
        "agent_first_action_ms_max": round(max(first) * 1e3, 1),
        "graph_armed_s_p50": round(float(np.median(armed)), 2), "graph_armed_s_max": round(max(armed), 2),
        "graph_starts": len(armed),
    })
    print(path.read_text())
