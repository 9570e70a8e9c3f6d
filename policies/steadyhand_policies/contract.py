"""The contract a policy carries (`contract.json` beside `model.onnx`), and the checks against what is really there.

Invariant I10: contract before motion. A mismatch with the robot, with `steadyhand.policy_io` or with the model file
raises ContractError, which names the field, what was found and what was expected.
"""
from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand import policy_io, ur5
from steadyhand.errors import ConfigError, ContractError

FORMAT = 1
FRAME = "base_link"
INPUT_NAME, OUTPUT_NAME = "observation", "actions"
_SHA256_HEX = 64


@dataclass(frozen=True)
class Signals:
    """Names, units and accepted range of each element of a vector, in order."""

    names: tuple[str, ...]
    units: tuple[str, ...]
    minimum: tuple[float, ...]
    maximum: tuple[float, ...]

    def __post_init__(self) -> None:
        for field in ("units", "minimum", "maximum"):
            if len(getattr(self, field)) != len(self.names):
                raise ContractError(f"{field}: {len(getattr(self, field))} entries for {len(self.names)} names")
        for name, low, high in zip(self.names, self.minimum, self.maximum):
            if not low < high:
                raise ContractError(f"minimum/maximum of {name}: {low} and {high}; give minimum < maximum")


@dataclass(frozen=True)
class Normalisation:
    """Statistics that the graph subtracts and divides by. They are inside the model; the hash binds both."""

    mean: tuple[float, ...]
    std: tuple[float, ...]
    sha256: str


@dataclass(frozen=True)
class Training:
    """Where the weights come from."""

    commit: str
    seed: int
    config_sha256: str
    demonstrations: int
    samples: int


@dataclass(frozen=True)
class Score:
    """Closed-loop result on held-out seeds; Wilson 95 % interval. `n` = 0: never evaluated."""

    what: str
    n: int
    successes: int
    wilson_low: float
    wilson_high: float


@dataclass(frozen=True)
class Canary:
    """One observation and the answer it must get, within `tolerance` in the units of the actions."""

    observation: tuple[float, ...]
    actions: tuple[tuple[float, ...], ...]
    tolerance: float


@dataclass(frozen=True)
class PolicyContract:
    """Everything that must agree before a policy may propose motion."""

    format: int
    model: str
    robot: str
    joint_names: tuple[str, ...]
    tool_length_m: float
    frame: str
    observation: Signals
    action: Signals
    step_m: float
    step_yaw_rad: float
    period_s: float
    horizon: int
    normalisation: Normalisation
    model_sha256: str
    training: Training
    score: Score
    canary: Canary


def load(path: Path) -> PolicyContract:
    """The contract in a file. Raises ConfigError when there is no such file, ContractError when it is malformed."""
    try:
        text = Path(path).read_text()
    except OSError as error:
        raise ConfigError(f"contract {path}: {error.strerror}; give a model repository made by training") from error
    try:
        raw = json.loads(text)
    except ValueError as error:
        raise ContractError(f"contract {path}: not JSON ({error})") from error
    return parse(raw)


def parse(raw: Any) -> PolicyContract:
    """The contract in decoded JSON, strictly: every field present, none unknown, each of its type."""
    return _build(PolicyContract, raw, "contract")


def dump(contract: PolicyContract) -> str:
    """JSON text of a contract; `parse(json.loads(dump(c))) == c`."""
    return json.dumps(asdict(contract), indent=1) + "\n"


def statistics_hash(mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """SHA-256 over the statistics as little-endian float64, mean first."""
    return hashlib.sha256(np.asarray([*mean, *std], dtype="<f8").tobytes()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def check_runtime(contract: PolicyContract, joint_names: tuple[str, ...] = ur5.JOINT_NAMES) -> None:
    """Raise ContractError unless the contract agrees with this robot and with `steadyhand.policy_io`."""
    _same("format", contract.format, FORMAT)
    _same_order("joint_names", contract.joint_names, tuple(joint_names))
    _same("robot", contract.robot, "ur5")
    _same("frame", contract.frame, FRAME)
    _close("tool_length_m", contract.tool_length_m, ur5.TOOL_LENGTH_M)
    _same_order("observation.names", contract.observation.names, policy_io.OBSERVATION_NAMES)
    _same_order("action.names", contract.action.names, policy_io.ACTION_NAMES)
    _close("step_m", contract.step_m, policy_io.STEP_M)
    _close("step_yaw_rad", contract.step_yaw_rad, policy_io.STEP_YAW_RAD)
    _close("period_s", contract.period_s, policy_io.PERIOD_S)
    _same("horizon", contract.horizon, policy_io.HORIZON)
    width = len(contract.observation.names)
    for name in ("mean", "std"):
        _same(f"normalisation.{name} length", len(getattr(contract.normalisation, name)), width)
    if not all(s > 0 for s in contract.normalisation.std):
        raise ContractError("normalisation.std: every entry must be above 0")
    wanted = statistics_hash(contract.normalisation.mean, contract.normalisation.std)
    _same("normalisation.sha256", contract.normalisation.sha256, wanted)
    _same("canary.observation length", len(contract.canary.observation), width)
    shape = (contract.horizon, len(contract.action.names))
    _same("canary.actions shape", np.shape(contract.canary.actions), shape)
    if not 0 < contract.canary.tolerance <= 0.1:
        raise ContractError(f"canary.tolerance: {contract.canary.tolerance}, expected above 0 and at most 0.1")


def check_model_file(contract: PolicyContract, path: Path) -> None:
    """Raise ContractError unless the model file is the one that the contract was written for."""
    try:
        found = file_hash(path)
    except OSError as error:
        raise ConfigError(f"model {path}: {error.strerror}; give a model repository made by training") from error
    _same("model_sha256", found, contract.model_sha256)


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


_NESTED = {c.__name__: c for c in (Signals, Normalisation, Training, Score, Canary)}


def _build(cls: type, raw: Any, path: str) -> Any:
    if not isinstance(raw, dict):
        raise ContractError(f"{path}: {type(raw).__name__}, expected an object")
    known = {f.name: f.type for f in fields(cls)}
    for name in raw:
        if name not in known:
            raise ContractError(f"{path}.{name}: unknown field")
    values = {}
    for name, kind in known.items():
        if name not in raw:
            raise ContractError(f"{path}.{name}: missing")
        values[name] = _convert(kind, raw[name], f"{path}.{name}")
    return cls(**values)


def _convert(kind: str, value: Any, path: str) -> Any:
    if kind in _NESTED:
        return _build(_NESTED[kind], value, path)
    if kind.startswith("tuple["):
        if not isinstance(value, list):
            raise ContractError(f"{path}: {type(value).__name__}, expected a list")
        inner = kind[len("tuple["):-len(", ...]")]
        return tuple(_convert(inner, v, f"{path}[{i}]") for i, v in enumerate(value))
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "float" and number and math.isfinite(value):
        return float(value)
    if kind == "int" and number and isinstance(value, int):
        return value
    if kind == "str" and isinstance(value, str):
        if path.endswith("sha256") and len(value) != _SHA256_HEX:
            raise ContractError(f"{path}: {len(value)} characters, expected {_SHA256_HEX} hexadecimal ones")
        return value
    raise ContractError(f"{path}: {str(value)[:40]!r} is not {kind}")
