"""From a trained network to a model repository: ONNX graph, contract, golden answer."""
from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import torch

from steadyhand import policy_io, ur5
from steadyhand_policies import contract as contracts
from steadyhand_policies import runtime_facts
from steadyhand_policies.engine import open_session
from policies.training.network import PolicyNetwork

OPSET = 17
CANARY_TOLERANCE = 1e-3  # actions are +-1; CPU and GPU kernels differ by 1e-5
# Accepted observations: what the cell can produce, with a margin. Beyond it the network was never asked.
_RANGE = {
    "target_minus_tool_x": ("m", 1.5), "target_minus_tool_y": ("m", 1.5), "target_minus_tool_z": ("m", 1.5),
    "sin_4_yaw_error": ("1", 1.01), "cos_4_yaw_error": ("1", 1.01),
    "tool_vx": ("m/s", 1.5), "tool_vy": ("m/s", 1.5), "tool_vz": ("m/s", 1.5), "tool_yaw_rate": ("rad/s", 6.4),
    "tool_z": ("m", 1.5), "gripper_width": ("m", 0.2), "gripper_commanded_closed": ("1", 1.01),
    "skill_pick": ("1", 1.01), "skill_place": ("1", 1.01),
}
_ACTION_UNITS = ("20 mm a period", "20 mm a period", "20 mm a period", "0.1 rad a period", "vote")


def export_onnx(network: PolicyNetwork, path: Path) -> None:
    """Write the graph, batch dimension symbolic."""
    path.parent.mkdir(parents=True, exist_ok=True)
    sample = torch.zeros(1, policy_io.OBSERVATION_DIM)
    torch.onnx.export(
        network.eval(), (sample,), str(path), opset_version=OPSET, dynamo=False,
        input_names=[contracts.INPUT_NAME], output_names=[contracts.OUTPUT_NAME],
        dynamic_axes={contracts.INPUT_NAME: {0: "batch"}, contracts.OUTPUT_NAME: {0: "batch"}},
    )


def make_contract(
    network: PolicyNetwork,
    model_path: Path,
    training: contracts.Training,
    score: contracts.Score,
    canary_observation: np.ndarray,
    name: str = "pick_place",
) -> contracts.PolicyContract:
    """The contract of an exported model. The golden answer comes from the exported file, not from torch."""
    mean, std = (tuple(float(v) for v in b.numpy().astype(float)) for b in (network.mean, network.std))
    units, limits = zip(*(_RANGE[n] for n in policy_io.OBSERVATION_NAMES))
    golden = np.asarray(canary_observation, dtype=np.float32)
    answer = open_session(model_path).run(None, {contracts.INPUT_NAME: golden[None]})[0][0]
    actions = len(policy_io.ACTION_NAMES)
    contract = contracts.PolicyContract(
        format=contracts.FORMAT, model=name, robot="ur5", formulation=contracts.CARTESIAN_DELTA,
        joint_names=ur5.JOINT_NAMES,
        tool_length_m=ur5.TOOL_LENGTH_M, frame=contracts.FRAME,
        observation=contracts.Signals(policy_io.OBSERVATION_NAMES, units, tuple(-v for v in limits), limits),
        action=contracts.Signals(policy_io.ACTION_NAMES, _ACTION_UNITS, (-1.0,) * actions, (1.0,) * actions),
        step_m=policy_io.STEP_M, step_yaw_rad=policy_io.STEP_YAW_RAD, step_rad=0.0, period_s=policy_io.PERIOD_S,
        horizon=policy_io.HORIZON, sensors=runtime_facts.STATE_SENSORS,
        calibration=runtime_facts.own_calibration(),
        normalisation=contracts.Normalisation(mean, std, contracts.statistics_hash(mean, std)),
        model_sha256=contracts.file_hash(model_path), training=training, score=score,
        canary=contracts.Canary(
            tuple(float(v) for v in golden), tuple(tuple(round(float(v), 6) for v in row) for row in answer),
            CANARY_TOLERANCE,
        ),
    )
    contract = contracts.seal(contract)
    contracts.check_runtime(contract)
    contracts.check_model_file(contract, model_path)
    return contract


def commit() -> str:
    """Commit of the training code, "-dirty" appended when files differ from it; "unknown" outside a repository."""
    try:
        run = lambda *a: subprocess.run(["git", *a], capture_output=True, text=True, timeout=10, check=True).stdout
        return run("rev-parse", "HEAD").strip() + ("-dirty" if run("status", "--porcelain").strip() else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"
