"""The checks of a contract against what is really there: itself, the model file, this robot, its sensors, its replies.

Invariant I10: contract before motion. What disagrees raises ContractError, which names the field, what was found and
what was expected. The fields themselves: `steadyhand_policies.contract_format`, whose names are also found here.
"""
from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import onnx_file
from steadyhand_policies.contract_format import (  # noqa: F401  the one import of whoever deals with contracts
    BASE_VELOCITY, CARTESIAN_DELTA, FORMAT, FORMULATIONS, JOINT_DELTA, Calibration, Canary, Normalisation,
    PolicyContract, Score, Sensor, Signals, Training, check_seal, content_hash, dump, file_hash, load, parse, seal,
    statistics_hash,
)
from steadyhand_policies.runtime_facts import RuntimeFacts, this_runtime

INPUT_NAME, OUTPUT_NAME = "observation", "actions"
_COMMIT = re.compile(r"unknown|[0-9a-f]{7,64}(-dirty)?")
_STATISTICS_RTOL = 1e-6  # of float32, to which an exporter rounds


def check_runtime(
    contract: PolicyContract, joint_names: tuple[str, ...] = ur5.JOINT_NAMES, facts: RuntimeFacts | None = None
) -> None:
    """Raise ContractError unless the contract is sound and agrees with this robot, its sensors and its calibration.

    `facts` are those of the robot at hand (default: the UR5 of this runtime, with `joint_names`).
    """
    facts = this_runtime(tuple(joint_names)) if facts is None else facts
    _same("format", contract.format, FORMAT)
    _same("robot", contract.robot, facts.robot)
    _same("formulation", contract.formulation, facts.formulation)
    _same_order("joint_names", contract.joint_names, facts.joint_names)
    _same("frame", contract.frame, facts.frame)
    _close("tool_length_m", contract.tool_length_m, facts.tool_length_m)
    for name, found, wanted in (
        ("observation", contract.observation, facts.observation), ("action", contract.action, facts.action),
    ):
        _same_order(f"{name}.names", found.names, tuple(n for n, _ in wanted))
        for i, (unit, (_, known)) in enumerate(zip(found.units, wanted)):
            if unit not in known:
                raise ContractError(f"{name}.units[{i}]: found {unit!r} for {found.names[i]}, expected {known[0]!r}")
    for name, wanted in facts.steps.items():
        _close(name, getattr(contract, name), wanted)
    _close("period_s", contract.period_s, facts.period_s)
    _same("horizon", contract.horizon, facts.horizon)
    _check_sensors(contract, facts)
    _check_calibration(contract, facts)
    check_sound(contract)


def check_sound(contract: PolicyContract) -> None:
    """Raise ContractError unless the contract is consistent in itself, whatever robot it is for."""
    if contract.formulation not in FORMULATIONS:
        raise ContractError(f"formulation: found {contract.formulation!r}, known are {', '.join(FORMULATIONS)}")
    if not 0.002 <= contract.period_s <= 1.0:
        raise ContractError(f"period_s: found {contract.period_s}, accepted 0.002 to 1.0")
    if not 1 <= contract.horizon <= 1000:
        raise ContractError(f"horizon: found {contract.horizon}, accepted 1 to 1000")
    if not _COMMIT.fullmatch(contract.training.commit):
        raise ContractError(f"training.commit: {contract.training.commit!r} is no commit")
    _check_normalisation(contract)
    width = len(contract.observation.names)
    _same("canary.observation length", len(contract.canary.observation), width)
    shape = (contract.horizon, len(contract.action.names))
    _same("canary.actions shape", np.shape(contract.canary.actions), shape)
    if not 0 < contract.canary.tolerance <= 0.1:
        raise ContractError(f"canary.tolerance: {contract.canary.tolerance}, expected above 0 and at most 0.1")
    _check_score(contract.score)


def check_model_file(contract: PolicyContract, path: Path) -> None:
    """Raise ContractError unless the model file is the one that the contract was written for, and fit to be loaded.

    Its hash, its operator set, and the normalisation's numbers inside it.
    """
    try:
        found = file_hash(path)
    except OSError as error:
        raise ConfigError(f"model {path}: {error.strerror}; give a model repository made by training") from error
    _same("model_sha256", found, contract.model_sha256)
    facts = onnx_file.read(Path(path))
    facts.check_operator_sets()
    check_statistics(contract, facts)


def check_statistics(contract: PolicyContract, facts: onnx_file.OnnxFacts) -> None:
    """Raise ContractError unless the model holds the contract's mean and standard deviation (or its reciprocal)."""
    mean, std = (np.asarray(v, dtype=np.float32) for v in (contract.normalisation.mean, contract.normalisation.std))
    for name, wanted in (("mean", (mean,)), ("std", (std, 1.0 / std))):
        if not any(_alike(held, value) for held in facts.vectors(len(mean)) for value in wanted):
            raise ContractError(f"normalisation.{name}: the model holds no such numbers: another training's")


def check_tensors(
    contract: PolicyContract,
    inputs: dict[str, tuple[str, list[Any]]],
    outputs: dict[str, tuple[str, list[Any]]],
) -> None:
    """Raise ContractError unless a model's tensors, name -> (element type, shape with batch first), are as declared.

    The batch dimension may be symbolic; the others must be the contract's numbers.
    """
    width, horizon, actions = len(contract.observation.names), contract.horizon, len(contract.action.names)
    wanted = {"inputs": {INPUT_NAME: [width]}, "outputs": {OUTPUT_NAME: [horizon, actions]}}
    for kind, found in (("inputs", inputs), ("outputs", outputs)):
        _same(f"model {kind}", sorted(found), sorted(wanted[kind]))
        for name, dims in wanted[kind].items():
            element, shape = found[name]
            _same(f"model {kind} {name} type", element, "float32")
            _same(f"model {kind} {name} dimensions after the batch", list(shape[1:]), dims)


def check_observation(contract: PolicyContract, observation: np.ndarray) -> np.ndarray:
    """The observation as (1, D) float32; raises ContractError naming the element that is not finite or out of range."""
    values = np.asarray(observation, dtype=np.float32)
    if values.shape != (len(contract.observation.names),):
        raise ContractError(f"observation: shape {values.shape}, expected ({len(contract.observation.names)},)")
    low, high = np.float32(contract.observation.minimum), np.float32(contract.observation.maximum)
    wrong = ~((values >= low) & (values <= high))  # NaN is wrong too
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ContractError(
            f"observation {contract.observation.names[i]}: {values[i]:.4g} {contract.observation.units[i]}, "
            f"accepted {low[i]:.4g} to {high[i]:.4g}"
        )
    return values[None]


def check_actions(contract: PolicyContract, actions: np.ndarray) -> np.ndarray:
    """The reply as (H, A) float64; raises ContractError when it is not finite, misshapen or out of range.

    Out of range is refused, never clipped: a policy that leaves its range is a wrong or damaged policy.
    """
    values = np.asarray(actions, dtype=float)
    wanted = (contract.horizon, len(contract.action.names))
    if values.shape == (1, *wanted):
        values = values[0]
    if values.shape != wanted:
        raise ContractError(f"actions: shape {values.shape}, expected {wanted}")
    wrong = ~((values >= contract.action.minimum) & (values <= contract.action.maximum))
    if wrong.any():
        step, i = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        raise ContractError(
            f"actions[{step}].{contract.action.names[i]}: {values[step, i]:.4g}, accepted "
            f"{contract.action.minimum[i]} to {contract.action.maximum[i]}"
        )
    return values


def check_canary(contract: PolicyContract, actions: np.ndarray) -> None:
    """Raise ContractError unless `actions` answer the canary's observation as recorded at export."""
    values = check_actions(contract, actions)
    error = float(np.abs(values - np.asarray(contract.canary.actions)).max())
    if not error <= contract.canary.tolerance:
        raise ContractError(f"canary: answer differs by {error:.3g}, tolerance {contract.canary.tolerance}")


def _check_sensors(contract: PolicyContract, facts: RuntimeFacts) -> None:
    known = {sensor.name: sensor for sensor in facts.sensors}
    if not contract.sensors:
        raise ContractError("sensors: empty; a policy names the streams that its observations are made of")
    for i, sensor in enumerate(contract.sensors):
        if sensor.name not in known:
            raise ContractError(f"sensors[{i}].name: {sensor.name!r} is not among {', '.join(sorted(known))}")
        there = known[sensor.name]
        for field in ("encoding", "frame", "shape"):
            _same(f"sensors[{i}].{field} of {sensor.name}", getattr(sensor, field), getattr(there, field))
        if not 0 < sensor.rate_hz <= there.rate_hz * (1 + 1e-9):
            raise ContractError(f"sensors[{i}].rate_hz of {sensor.name}: trained at {sensor.rate_hz} Hz, here it comes "
                                f"at {there.rate_hz} Hz")


def _check_calibration(contract: PolicyContract, facts: RuntimeFacts) -> None:
    if not contract.calibration:
        raise ContractError("calibration: empty; a policy names at least the kinematics it was trained on")
    for i, calibration in enumerate(contract.calibration):
        if calibration.of not in facts.calibration:
            raise ContractError(f"calibration[{i}].of: {calibration.of!r} is not among {sorted(facts.calibration)}")
        _same(f"calibration[{i}].sha256 of {calibration.of}", calibration.sha256, facts.calibration[calibration.of])


def _check_normalisation(contract: PolicyContract) -> None:
    """Lengths, hash, and what no true statistics can violate: a mean lies within the range, and a value bounded to
    [a, b] has a standard deviation of at most (b - a) / 2 (Popoviciu 1935). Degrees for radians, or millimetres for
    metres, are caught here when they are in the statistics."""
    statistics, signals = contract.normalisation, contract.observation
    for name in ("mean", "std"):
        _same(f"normalisation.{name} length", len(getattr(statistics, name)), len(signals.names))
    if not all(s > 0 for s in statistics.std):
        raise ContractError("normalisation.std: every entry must be above 0")
    _same("normalisation.sha256", statistics.sha256, statistics_hash(statistics.mean, statistics.std))
    for i, (low, high) in enumerate(zip(signals.minimum, signals.maximum)):
        what = f"for {signals.names[i]} within {low} to {high} {signals.units[i]}"
        if not low <= statistics.mean[i] <= high:
            raise ContractError(f"normalisation.mean[{i}]: {statistics.mean[i]:.4g} {what}: another unit?")
        if not statistics.std[i] <= (high - low) / 2:
            raise ContractError(f"normalisation.std[{i}]: {statistics.std[i]:.4g} {what}: another unit?")


def _check_score(score: Score) -> None:
    """The counts, and the interval that follows from them (Wilson 1927, 95 %)."""
    if not 0 <= score.successes <= score.n:
        raise ContractError(f"score.successes: {score.successes} of {score.n}")
    low, high = wilson(score.successes, score.n)
    for name, found, wanted in (("wilson_low", score.wilson_low, low), ("wilson_high", score.wilson_high, high)):
        if not math.isclose(found, wanted, abs_tol=5e-4):
            raise ContractError(f"score.{name}: {found}, {score.successes} of {score.n} give {wanted:.4f}")


def wilson(successes: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    """95 % Wilson score interval of a rate; (0, 1) of no trial."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    centre, spread = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _alike(held: np.ndarray, wanted: np.ndarray) -> bool:
    return bool(np.allclose(held, wanted, rtol=_STATISTICS_RTOL, atol=0.0))


def _same(field: str, found: Any, wanted: Any) -> None:
    if found != wanted:
        raise ContractError(f"{field}: found {found!r}, expected {wanted!r}")


def _same_order(field: str, found: tuple[str, ...], wanted: tuple[str, ...]) -> None:
    _same(f"{field} length", len(found), len(wanted))
    for i, (a, b) in enumerate(zip(found, wanted)):
        _same(f"{field}[{i}]", a, b)


def _close(field: str, found: float, wanted: float) -> None:
    if not math.isclose(found, wanted, rel_tol=1e-9):
        raise ContractError(f"{field}: found {found}, expected {wanted}")
