"""What a contract states (`contract.json` beside `model.onnx`): its fields, its strict reading, and its hashes.

`sha256` seals the rest: a contract that was edited after its export is refused. Whether the content is true of this
robot is judged by `steadyhand_policies.contract`.
"""
from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand.errors import ConfigError, ContractError

FORMAT = 2
CARTESIAN_DELTA, JOINT_DELTA, BASE_VELOCITY = "cartesian_delta", "joint_delta", "base_velocity"
FORMULATIONS = (CARTESIAN_DELTA, JOINT_DELTA, BASE_VELOCITY)
_SHA256_HEX = 64
MAX_BYTES = 4_000_000  # of a contract; a hostile one must not fill the memory


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
class Sensor:
    """One stream that observations are made of, as training had it. `encoding`: of numbers their unit, of images the
    order of the channels (`rgb8`). `rate_hz` is the slowest that training saw."""

    name: str
    encoding: str
    frame: str
    shape: tuple[int, ...]
    rate_hz: float


@dataclass(frozen=True)
class Calibration:
    """Of what (`kinematics`, or a camera's name) and which: the hash of the measured numbers."""

    of: str
    sha256: str


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
    """Everything that must agree before a policy may propose motion.

    An action of 1 means `step_m` or `step_yaw_rad` a period in the Cartesian formulation and in that of a vehicle
    (`base_velocity`), `step_rad` in the joint one; what a formulation has not is 0.
    """

    format: int
    model: str
    robot: str
    formulation: str
    joint_names: tuple[str, ...]
    tool_length_m: float
    frame: str
    observation: Signals
    action: Signals
    step_m: float
    step_yaw_rad: float
    step_rad: float
    period_s: float
    horizon: int
    sensors: tuple[Sensor, ...]
    calibration: tuple[Calibration, ...]
    normalisation: Normalisation
    model_sha256: str
    training: Training
    score: Score
    canary: Canary
    sha256: str = ""  # of everything above; empty until `seal`

    @property
    def rate_hz(self) -> float:
        """Policy periods a second."""
        return 1.0 / self.period_s


def load(path: Path) -> PolicyContract:
    """The contract in a file, its seal intact. Raises ConfigError when there is no such file, else ContractError."""
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"contract {path}: {error.strerror}; give a model repository made by training") from error
    if len(text) > MAX_BYTES:
        raise ContractError(f"contract {path}: more than {MAX_BYTES} bytes")
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ContractError(f"contract {path}: not JSON ({error})") from error
    contract = parse(raw)
    check_seal(contract)
    return contract


def parse(raw: Any) -> PolicyContract:
    """The contract in decoded JSON, strictly: every field present, none unknown, each of its type. Seal not checked."""
    if isinstance(raw, dict) and raw.get("format") not in (FORMAT, None):
        raise ContractError(f"format: found {raw['format']!r}, expected {FORMAT}: export the model again")
    return _build(PolicyContract, raw, "contract")


def dump(contract: PolicyContract) -> str:
    """JSON text of a contract, sealed; `parse(json.loads(dump(c))) == seal(c)`."""
    return json.dumps(asdict(seal(contract)), indent=1) + "\n"


def seal(contract: PolicyContract) -> PolicyContract:
    """The contract with the hash of its present content."""
    return replace(contract, sha256=content_hash(contract))


def content_hash(contract: PolicyContract) -> str:
    """SHA-256 over the canonical JSON of every field but `sha256`."""
    body = asdict(contract)
    del body["sha256"]
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_seal(contract: PolicyContract) -> None:
    """Raise ContractError when the content is not the one that was sealed."""
    if contract.sha256 != (found := content_hash(contract)):
        raise ContractError(f"sha256: the content hashes to {found!r}, the contract says {contract.sha256!r}: it was "
                            "edited after its export; export the model again")


def statistics_hash(mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    """SHA-256 over the statistics as little-endian float64, mean first."""
    return hashlib.sha256(np.asarray([*mean, *std], dtype="<f8").tobytes()).hexdigest()


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


_NESTED = {c.__name__: c for c in (Signals, Sensor, Calibration, Normalisation, Training, Score, Canary)}


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
    if kind == "float" and number and _finite(value):
        return float(value)
    if kind == "int" and number and isinstance(value, int):
        return value
    if kind == "str" and isinstance(value, str):
        if path.endswith("sha256") and len(value) != _SHA256_HEX:
            raise ContractError(f"{path}: {len(value)} characters, expected {_SHA256_HEX} hexadecimal ones")
        return value
    raise ContractError(f"{path}: {str(value)[:40]!r} is not {kind}")


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond any float
        return False
