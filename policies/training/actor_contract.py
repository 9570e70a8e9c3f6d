"""A tuned or cloned actor as a policy that is served: ONNX file, and the contract of its formulation.

The runtime serves the shipped Cartesian chunks (`steadyhand_policies.runtime_facts`); the facts of the environments'
formulations stand here, so that a contract is checked against them before it is written.
"""
from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from policies.training.export import CANARY_TOLERANCE, export_onnx
from policies.training.network import ActorNetwork
from policies.training.rollout.actor import Actor
from policies.training.rollout.hosts import Described
from policies.training.vehicle_facts import ACTION_NAMES as VEHICLE_ACTIONS
from policies.training.vehicle_facts import ELEMENTS as VEHICLE_ELEMENTS
from policies.training.vehicle_facts import facts_of_vehicle
from steadyhand import policy_io, ur5
from steadyhand.errors import ConfigError
from steadyhand_policies import contract as contracts
from steadyhand_policies import runtime_facts
from steadyhand_policies.engine import open_session
from steadyhand_policies.runtime_facts import RuntimeFacts

# name of an observation element -> unit, bound; what the cell can produce, with a margin
_ELEMENTS = (
    (r"q_.*|tool_yaw|target_yaw", "rad", 6.4), (r"qd_.*", "rad/s", 6.4), (r"command_minus_q_.*", "0.1 rad", 10.0),
    (r"target_minus_tool_[xyz]|target_[xyz]|tool_[xyz]", "m", 1.5), (r"tool_v[xyz]", "m/s", 1.5),
    (r"tool_yaw_rate", "rad/s", 6.4), (r".*(sin|cos)_4_yaw.*", "1", 1.01), (r"gripper_width", "m", 0.2),
    (r"gripper_commanded_closed|skill_.*|tool_tilt_[xy]", "1", 1.01), (r"deflection_[xyz]", "0.05 m", 10.0),
    *VEHICLE_ELEMENTS,
)
MEASURED = contracts.Sensor("measured_joints", "rad", runtime_facts.FRAME, (ur5.DOF,), runtime_facts.STATE_HZ)


def formulation_of(configured: str | None, about: Described) -> str | None:
    """The configured one, or what the actions are of; None: a policy that nobody has described, without a contract."""
    if configured is not None:
        return configured
    return contracts.BASE_VELOCITY if about.action_names == VEHICLE_ACTIONS else None


def facts_of(formulation: str, about: Described) -> RuntimeFacts:
    """What a contract of this formulation must agree with."""
    if formulation == contracts.BASE_VELOCITY:
        return facts_of_vehicle(about, lambda name: element(name)[0])
    runtime, joint = runtime_facts.this_runtime(), formulation == contracts.JOINT_DELTA
    steps = {"step_m": policy_io.STEP_M, "step_yaw_rad": policy_io.STEP_YAW_RAD, "step_rad": 0.0}
    unit = {name: units[0] for name, units in runtime.action}
    if joint:
        from steadyhand_sim.envs.formulations import STEP_Q_RAD

        steps = {"step_m": 0.0, "step_yaw_rad": 0.0, "step_rad": STEP_Q_RAD}
        unit = {name: f"{STEP_Q_RAD:g} rad a period" for name in about.action_names} | {"grip": unit["grip"]}
    return RuntimeFacts(
        robot=runtime.robot, formulation=formulation, joint_names=runtime.joint_names,
        tool_length_m=runtime.tool_length_m, frame=runtime.frame,
        observation=tuple((name, (element(name)[0],)) for name in about.observation_names),
        action=tuple((name, (unit[name],)) for name in about.action_names), steps=steps,
        period_s=1.0 / about.rate_hz, horizon=1,
        sensors=(*runtime.sensors, *((MEASURED,) if joint or "deflection_x" in about.observation_names else ())),
        calibration=runtime.calibration,
    )


def element(name: str) -> tuple[str, float]:
    """Unit and bound of an observation element; ConfigError for one that nobody has described."""
    for pattern, unit, bound in _ELEMENTS:
        if re.fullmatch(pattern, name):
            return unit, bound
    raise ConfigError(f"observation element {name!r}: no unit is known for it")


def export_actor(
    actor: Actor, about: Described, formulation: str, training: contracts.Training, score: contracts.Score,
    folder: Path, name: str,
) -> contracts.PolicyContract:
    """Write `model.onnx` and `contract.json`, checked against the facts; golden answer by the file, not by torch."""
    model, facts = folder / "model.onnx", facts_of(formulation, about)
    export_onnx(ActorNetwork(actor, (1, len(actor.low))), model, len(actor.mean))
    mean, std = (tuple(float(v) for v in a) for a in (actor.mean, actor.std))
    units, bounds = zip(*(element(n) for n in about.observation_names))
    golden = np.clip(actor.mean, -np.array(bounds), np.array(bounds)).astype(np.float32)
    answer = open_session(model).run(None, {contracts.INPUT_NAME: golden[None]})[0][0]
    contract = contracts.seal(contracts.PolicyContract(
        format=contracts.FORMAT, model=name, robot=facts.robot, formulation=formulation,
        joint_names=facts.joint_names, tool_length_m=facts.tool_length_m, frame=facts.frame,
        observation=contracts.Signals(about.observation_names, units, tuple(-b for b in bounds), bounds),
        action=contracts.Signals(about.action_names, tuple(units[0] for _, units in facts.action),
                                 tuple(map(float, actor.low)), tuple(map(float, actor.high))),
        **facts.steps, period_s=facts.period_s, horizon=facts.horizon, sensors=facts.sensors,
        calibration=tuple(contracts.Calibration(of, digest) for of, digest in sorted(facts.calibration.items())),
        normalisation=contracts.Normalisation(mean, std, contracts.statistics_hash(mean, std)),
        model_sha256=contracts.file_hash(model), training=training, score=score,
        canary=contracts.Canary(
            tuple(float(v) for v in golden), tuple(tuple(round(float(v), 6) for v in row) for row in answer),
            CANARY_TOLERANCE,
        ),
    ))
    contracts.check_runtime(contract, facts=facts)
    contracts.check_model_file(contract, model)
    (folder / "contract.json").write_text(contracts.dump(contract))
    return contract
