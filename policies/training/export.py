"""From a trained network to a file that is served: ONNX graph and commit. The same for every policy of this folder."""
from __future__ import annotations

import subprocess
from pathlib import Path

import torch

from steadyhand_policies import contract as contracts

OPSET = 17
CANARY_TOLERANCE = 1e-3  # actions are +-1; CPU and GPU kernels differ by 1e-5


def export_onnx(network: torch.nn.Module, path: Path, observation_dim: int) -> None:
    """Write the graph, batch dimension symbolic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sample = torch.zeros(1, observation_dim)
    torch.onnx.export(
        network.eval(), (sample,), str(path), opset_version=OPSET, dynamo=False,
        input_names=[contracts.INPUT_NAME], output_names=[contracts.OUTPUT_NAME],
        dynamic_axes={contracts.INPUT_NAME: {0: "batch"}, contracts.OUTPUT_NAME: {0: "batch"}},
    )


def commit() -> str:
    """Commit of the training code, "-dirty" appended when files differ from it; "unknown" outside a repository."""
    try:
        run = lambda *a: subprocess.run(["git", *a], capture_output=True, text=True, timeout=10, check=True).stdout
        return run("rev-parse", "HEAD").strip() + ("-dirty" if run("status", "--porcelain").strip() else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
