"""Object poses from one camera image: the model `tray_poses` in process.

Use from a node:

    poses = TrayPoses(model_dir)                 # policies/model_repository/tray_poses; raises ContractError
    frozen = FrozenFrames()
    image, faults = image_from_bytes(msg.data, msg.height, msg.width, msg.encoding, msg.step)
    faults = faults or (*poses.check(image), *frozen.check(image))
    if not faults:
        seen = poses.infer(image)                # Sight: in_tray, in_box, elsewhere, features, inference_ms, provider
    poses.camera                                 # the nominal camera the model was trained for (camera_info must agree)

A faulty image must not be published as "no objects": publish the fault, and nothing.
"""
from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand import cell
from steadyhand.errors import ContractError, DependencyMissing
from steadyhand.types import Detection
from steadyhand_perception.contract import (
    FEATURES_NAME,
    INPUT_NAME,
    MAPS_NAME,
    PerceptionContract,
    load_contract,
    sha256_of,
)
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_checks import ImageCheckConfig, ImageFault, check_image
from steadyhand_perception.maps import MAPS, Peaks, decode

MODEL_FILE, CONTRACT_FILE = "1/model.onnx", "1/contract.json"
REGION_MARGIN_M = 0.02  # a centre so far outside a region's rectangle still counts as in it: it may lean on the wall


@dataclass(frozen=True)
class Sight:
    """What one image shows, each best first. A detection's height is assumed: cubes stand on the floor of the tray."""

    in_tray: tuple[Detection, ...]
    in_box: tuple[Detection, ...]
    elsewhere: tuple[Detection, ...]  # neither in the tray nor in the box: dropped or knocked out
    features: np.ndarray  # (F,) float32
    inference_ms: float
    provider: str  # read back from the session

    @property
    def objects(self) -> tuple[Detection, ...]:
        """Everything seen, for the estimator."""
        return self.in_tray + self.in_box + self.elsewhere


class TrayPoses:
    """The model with its contract, checked against each other when built. One thread calls it."""

    def __init__(self, model_dir: Path | str, threads: int = 1, providers: tuple[str, ...] = ("CPUExecutionProvider",)):
        model_dir = Path(model_dir)
        self.contract = load_contract(model_dir / CONTRACT_FILE)
        self._grid = self.contract.grid
        self._session = _session(model_dir / MODEL_FILE, self.contract, threads, providers)
        self.provider = self._session.get_providers()[0]

    @property
    def camera(self) -> PinholeCamera:
        """The nominal camera the model was trained for."""
        return self.contract.camera

    def check(self, image: np.ndarray, config: ImageCheckConfig = ImageCheckConfig()) -> tuple[ImageFault, ...]:
        """Faults of one image, see `image_checks.check_image`."""
        return check_image(image, self.contract.image_shape, config)

    def infer(self, image: np.ndarray) -> Sight:
        """Objects in an RGB image (H, W, 3) uint8, best first. Raises ContractError on another shape or type."""
        if getattr(image, "dtype", None) != np.uint8 or image.shape != self.contract.image_shape:
            found = f"{getattr(image, 'dtype', type(image).__name__)} {getattr(image, 'shape', '')}"
            raise ContractError(f"{INPUT_NAME} is {found}, must be uint8 {self.contract.image_shape}")
        start = time.perf_counter()
        maps, features = self._session.run([MAPS_NAME, FEATURES_NAME], {INPUT_NAME: np.ascontiguousarray(image)[None]})
        regions = by_region(self.decode(maps[0]), self.contract.plane_z_m)
        return Sight(*regions, features[0], (time.perf_counter() - start) * 1e3, self.provider)

    def decode(self, maps: np.ndarray) -> Peaks:
        """Objects in maps (MAPS, rows, columns) that a server of the same model returned."""
        return decode(self._grid, maps, self.contract.decode)


def by_region(peaks: Peaks, z_m: float) -> tuple[tuple[Detection, ...], ...]:
    """Detections (in the tray, in the box, elsewhere)."""
    regions: tuple[list[Detection], ...] = ([], [], [])
    for (x, y), yaw, presence, std in zip(peaks.xy_m, peaks.yaw_rad, peaks.presence, peaks.std_m):
        seen = Detection(np.array([x, y, z_m]), float(yaw), float(presence), float(std))
        index = next((i for i, r in enumerate((cell.TRAY, cell.BOX)) if r.contains((x, y), -REGION_MARGIN_M)), 2)
        regions[index].append(seen)
    return tuple(tuple(region) for region in regions)


def _session(model: Path, contract: PerceptionContract, threads: int, providers: tuple[str, ...]):
    """An inference session of the very file that the contract names."""
    try:
        import onnxruntime
    except ImportError as error:
        raise DependencyMissing("needs onnxruntime: pip install 'steadyhand[cpu]'") from error
    if not model.is_file():
        raise ContractError(f"{model}: no model; export it as docs/perception.md says")
    if (found := sha256_of(model)) != contract.model_sha256:
        raise ContractError(f"{model}: model_sha256 is {found[:12]}..., contract says {contract.model_sha256[:12]}...")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(model), options, providers=list(providers))
    except Exception as error:  # onnxruntime raises a class per cause, all private
        raise ContractError(f"{model}: onnxruntime cannot load it: {error}") from error
    rows, columns = contract.grid.shape
    expected = {
        INPUT_NAME: ("tensor(uint8)", list(contract.image_shape)),
        MAPS_NAME: ("tensor(float)", [MAPS, rows, columns]),
        FEATURES_NAME: ("tensor(float)", [contract.features]),
    }
    found_io = {t.name: (t.type, t.shape[1:]) for t in (*session.get_inputs(), *session.get_outputs())}
    for name, wanted in expected.items():
        if found_io.get(name) != wanted:
            raise ContractError(f"{model}: {name} is {found_io.get(name)}, contract says {wanted}")
    if set(found_io) != set(expected):
        raise ContractError(f"{model}: has tensors {sorted(found_io)}, contract says {sorted(expected)}")
    return session
