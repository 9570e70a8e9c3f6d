"""What the model of object poses declares of itself, and the checks that refuse anything else (I10).

`contract.json` lies beside `model.onnx`. It carries the hash of the model, the names, shapes and types of inputs and
outputs, the nominal camera, the grid of the maps, the cube's size and the calibration of presence, deviation, scratch
and grasp, so that the runtime holds no constant of the training. Format 1 is of models without the last two.
"""
from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path

from steadyhand import cell
from steadyhand.errors import ConfigError, ContractError
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.maps import MAP_NAMES, OFFSET_UNIT_M, DecodeConfig, Grid

FORMAT, FORMAT_WITHOUT_HEADS = "steadyhand-perception-contract/2", "steadyhand-perception-contract/1"
INPUT_NAME, MAPS_NAME, FEATURES_NAME, SCRATCH_NAME, GRASP_NAME = "image", "maps", "features", "scratch", "grasp"
HEADS = (SCRATCH_NAME, GRASP_NAME)
ENCODING = "rgb8"
FRAME = "base_link"


@dataclass(frozen=True)
class HeadCalibration:
    """Turns a head's logit into a probability, 1 / (1 + exp(-(scale * logit + bias))), fitted on the validation set."""

    scale: float
    bias: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.scale) and self.scale > 0 and math.isfinite(self.bias)):
            raise ConfigError(f"calibration scale={self.scale}, bias={self.bias}: must be finite, the scale above 0")

    def probability(self, logit: float) -> float:
        """NaN stays NaN."""
        if math.isnan(logit):
            return logit
        return 1.0 / (1.0 + math.exp(-min(max(self.scale * logit + self.bias, -60.0), 60.0)))


@dataclass(frozen=True)
class PerceptionContract:
    """The content of `contract.json`; lengths in metres, pixels where named so."""

    model: str
    model_sha256: str
    camera: PinholeCamera
    stride_px: int
    plane_z_m: float
    cube_size_m: float
    features: int
    decode: DecodeConfig
    scratch: HeadCalibration | None = None  # both or none
    grasp: HeadCalibration | None = None
    trained_on: dict = dataclasses.field(default_factory=dict)  # seed, images, ranges: for people, checked by nobody

    @property
    def grid(self) -> Grid:
        return Grid(self.camera, self.stride_px, self.plane_z_m)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """(height, width, 3)."""
        return self.camera.height_px, self.camera.width_px, 3

    @property
    def has_heads(self) -> bool:
        """Whether the model tells of scratches and of the grasp."""
        return self.scratch is not None

    @property
    def outputs(self) -> dict[str, list[int]]:
        """Shape of every output, without the batch axis; all float32."""
        rows, columns = self.grid.shape
        shapes = {MAPS_NAME: [len(MAP_NAMES), rows, columns], FEATURES_NAME: [self.features]}
        return shapes | ({SCRATCH_NAME: [1, rows, columns], GRASP_NAME: [1]} if self.has_heads else {})

    def to_json(self) -> str:
        """The text of `contract.json`."""
        heads = {name: dataclasses.asdict(getattr(self, name)) for name in HEADS} if self.has_heads else {}
        return json.dumps(
            {
                "format": FORMAT if self.has_heads else FORMAT_WITHOUT_HEADS,
                "model": self.model,
                "model_sha256": self.model_sha256,
                "frame": FRAME,
                "encoding": ENCODING,
                "inputs": {INPUT_NAME: {"type": "uint8", "shape": [-1, *self.image_shape]}},
                "outputs": {
                    name: {"type": "float32", "shape": [-1, *shape]} for name, shape in self.outputs.items()
                },
                "map_names": list(MAP_NAMES),
                "offset_unit_m": OFFSET_UNIT_M,
                "camera": dataclasses.asdict(self.camera),
                "stride_px": self.stride_px,
                "plane_z_m": self.plane_z_m,
                "cube_size_m": self.cube_size_m,
                "decode": dataclasses.asdict(self.decode),
                **heads,
                "trained_on": self.trained_on,
            },
            indent=1,
        )


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes, hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_contract(path: Path) -> PerceptionContract:
    """Read and check `contract.json`. Raises ContractError that names the file and the field."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ContractError(f"{path}: no readable contract ({error}); export the model again") from error
    if not isinstance(content, dict):
        raise ContractError(f"{path}: holds a {type(content).__name__}, not an object of fields")
    if content.get("format") not in (FORMAT, FORMAT_WITHOUT_HEADS):
        raise ContractError(f"{path}: format is {content.get('format')!r}, this runtime and cell want {FORMAT!r}")
    expected = {
        "frame": FRAME,
        "encoding": ENCODING,
        "map_names": list(MAP_NAMES),
        "offset_unit_m": OFFSET_UNIT_M,
        "cube_size_m": cell.CUBE_SIZE_M,
    }
    for field, value in expected.items():
        if content.get(field) != value:
            raise ContractError(f"{path}: {field} is {content.get(field)!r}, this runtime and cell want {value!r}")
    camera = _fields(path, "camera", content.get("camera"), PinholeCamera)
    camera["pose_base_link_camera"] = _matrix(path, "camera.pose_base_link_camera", camera["pose_base_link_camera"])
    try:
        contract = PerceptionContract(
            model=_typed(path, content, "model", str),
            model_sha256=_typed(path, content, "model_sha256", str),
            camera=PinholeCamera(**camera),
            stride_px=_typed(path, content, "stride_px", int),
            plane_z_m=_typed(path, content, "plane_z_m", float),
            cube_size_m=cell.CUBE_SIZE_M,
            features=int(_io(path, content, "outputs", FEATURES_NAME)["shape"][1]),
            decode=DecodeConfig(**_fields(path, "decode", content.get("decode"), DecodeConfig)),
            **{
                name: HeadCalibration(**_fields(path, name, content.get(name), HeadCalibration))
                for name in HEADS if content["format"] == FORMAT
            },
            trained_on=content.get("trained_on", {}),
        )
        declared = json.loads(contract.to_json())
    except (ConfigError, TypeError, ValueError, LookupError, OverflowError) as error:
        raise ContractError(f"{path}: {error}") from error
    for side, name in (("inputs", INPUT_NAME), *(("outputs", name) for name in declared["outputs"])):
        if _io(path, content, side, name) != declared[side][name]:
            raise ContractError(
                f"{path}: {side}.{name} is {content[side][name]}, camera and stride_px ask for {declared[side][name]}"
            )
    return contract


def _typed(path: Path, content: dict, field: str, kind: type):
    value = content.get(field)
    number = kind is float and isinstance(value, int) and not isinstance(value, bool)
    if not (isinstance(value, kind) or number) or isinstance(value, bool):
        raise ContractError(f"{path}: {field} is {value!r}, must be a {kind.__name__}")
    if kind is float and not math.isfinite(value):
        raise ContractError(f"{path}: {field} is {value!r}, must be finite")
    return value


def _fields(path: Path, name: str, value: object, cls: type) -> dict:
    wanted = {f.name for f in dataclasses.fields(cls)}
    if not isinstance(value, dict) or set(value) != wanted:
        found = sorted(value) if isinstance(value, dict) else value
        raise ContractError(f"{path}: {name} must have exactly the fields {sorted(wanted)}, has {found}")
    for field, item in value.items():
        if not isinstance(item, (int, float, list)) or isinstance(item, bool):
            raise ContractError(f"{path}: {name}.{field} is {item!r}, must be a number")
    return dict(value)


def _matrix(path: Path, name: str, value: object) -> tuple[tuple[float, ...], ...]:
    try:
        return tuple(tuple(float(item) for item in row) for row in value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ContractError(f"{path}: {name} is {value!r}, must be 4 rows of 4 numbers") from error


def _io(path: Path, content: dict, side: str, name: str) -> dict:
    tensors = content.get(side)
    if not isinstance(tensors, dict) or not isinstance(tensors.get(name), dict) or "shape" not in tensors[name]:
        raise ContractError(f"{path}: {side}.{name} is missing or has no shape")
    return tensors[name]
