"""Object poses from one camera image: the model `tray_poses` in process.

Use from a node:

    poses = TrayPoses(model_dir)                 # policies/model_repository/tray_poses; raises ContractError
    gate = ImageGate(poses.camera)
    image, faults = gate.admit(frame, clock_s)   # an image_gate.Frame, and the time by the clock that stamps images
    if not faults:
        seen = poses.infer(image)                # Sight: objects by region, grasp_success, features, inference_ms ...
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
    GRASP_NAME,
    INPUT_NAME,
    MAPS_NAME,
    SCRATCH_NAME,
    HeadCalibration,
    PerceptionContract,
    load_contract,
    sha256_of,
)
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_checks import ImageCheckConfig, ImageFault, check_image
from steadyhand_perception.maps import Peaks, decode

MODEL_FILE, CONTRACT_FILE, EXPLAIN_FILE = "1/model.onnx", "1/contract.json", "1/explain.onnx"
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
    grasp_success: float | None = None  # probability that the gripper holds a cube; None: the model does not say

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
        start = time.perf_counter()
        return self.sight(self.run(image), start)

    def run(self, image: np.ndarray) -> dict[str, np.ndarray]:
        """The model's outputs for one image, by name; raises ContractError as `infer` does."""
        if getattr(image, "dtype", None) != np.uint8 or image.shape != self.contract.image_shape:
            found = f"{getattr(image, 'dtype', type(image).__name__)} {getattr(image, 'shape', '')}"
            raise ContractError(f"{INPUT_NAME} is {found}, must be uint8 {self.contract.image_shape}")
        names = list(self.contract.outputs)
        found = self._session.run(names, {INPUT_NAME: np.ascontiguousarray(image)[None]})
        return {name: value[0] for name, value in zip(names, found)}

    def sight(self, outputs: dict[str, np.ndarray], start_s: float, provider: str = "") -> Sight:
        """What the model's outputs for one image say, its own or a server's; `start_s` by time.perf_counter."""
        regions = by_region(self.decode(outputs), self.contract.plane_z_m, self.contract.scratch)
        grasp = self.contract.grasp
        success = grasp.probability(float(outputs[GRASP_NAME][0])) if grasp else None
        elapsed_ms = (time.perf_counter() - start_s) * 1e3
        return Sight(*regions, outputs[FEATURES_NAME], elapsed_ms, provider or self.provider, success)

    def decode(self, outputs: dict[str, np.ndarray]) -> Peaks:
        """Objects in the model's outputs for one image."""
        scratch = outputs[SCRATCH_NAME][0] if self.contract.has_heads else None
        return decode(self._grid, outputs[MAPS_NAME], self.contract.decode, scratch)


def by_region(peaks: Peaks, z_m: float, scratch: HeadCalibration | None = None) -> tuple[tuple[Detection, ...], ...]:
    """Detections (in the tray, in the box, elsewhere)."""
    regions: tuple[list[Detection], ...] = ([], [], [])
    for (x, y), yaw, presence, std, logit in zip(
        peaks.xy_m, peaks.yaw_rad, peaks.presence, peaks.std_m, peaks.scratch_logit
    ):
        defect = None if scratch is None else scratch.probability(float(logit))
        seen = Detection(np.array([x, y, z_m]), float(yaw), float(presence), float(std), defect)
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
    expected = {INPUT_NAME: ("tensor(uint8)", list(contract.image_shape))}
    expected |= {name: ("tensor(float)", shape) for name, shape in contract.outputs.items()}
    found_io = {t.name: (t.type, t.shape[1:]) for t in (*session.get_inputs(), *session.get_outputs())}
    for name, wanted in expected.items():
        if found_io.get(name) != wanted:
            raise ContractError(f"{model}: {name} is {found_io.get(name)}, contract says {wanted}")
    if set(found_io) != set(expected):
        raise ContractError(f"{model}: has tensors {sorted(found_io)}, contract says {sorted(expected)}")
    return session
