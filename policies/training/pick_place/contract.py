"""The contract of the shipped `pick_place` policy: what its observations may be, and what its actions mean."""
from __future__ import annotations

from pathlib import Path

import numpy as np

from policies.training.export import CANARY_TOLERANCE
from policies.training.pick_place.network import PolicyNetwork
from steadyhand import policy_io, ur5
from steadyhand_policies import contract as contracts
from steadyhand_policies import runtime_facts
from steadyhand_policies.engine import open_session

# Accepted observations: what the cell can produce, with a margin. Beyond it the network was never asked.
_RANGE = {
    "target_minus_tool_x": ("m", 1.5), "target_minus_tool_y": ("m", 1.5), "target_minus_tool_z": ("m", 1.5),
    "sin_4_yaw_error": ("1", 1.01), "cos_4_yaw_error": ("1", 1.01),
    "tool_vx": ("m/s", 1.5), "tool_vy": ("m/s", 1.5), "tool_vz": ("m/s", 1.5), "tool_yaw_rate": ("rad/s", 6.4),
    "tool_z": ("m", 1.5), "gripper_width": ("m", 0.2), "gripper_commanded_closed": ("1", 1.01),
    "skill_pick": ("1", 1.01), "skill_place": ("1", 1.01),
}
_ACTION_UNITS = ("20 mm a period", "20 mm a period", "20 mm a period", "0.1 rad a period", "vote")


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
        tool_length_m=ur5.TOOL_LENGTH_M, frame=runtime_facts.FRAME,
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
