"""What made the model say so: Grad-CAM heat (Selvaraju et al. 2017) of one object: present, scratched, held.

On request, not in the loop: it costs a little more than reading the image. `1/explain.onnx` beside the model holds the
forward and the backward pass; the training package writes it.
"""
from __future__ import annotations

from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError, ContractError, DependencyMissing
from steadyhand_perception.contract import INPUT_NAME, load_contract
from steadyhand_perception.maps import MAPS
from steadyhand_perception.tray_poses import CONTRACT_FILE, EXPLAIN_FILE

HEAT_NAME, SCORE_NAME = "heat", "score"
CHANNELS = {"presence": 0, "scratch": MAPS, "held": MAPS + 1}  # of the score


class Explainer:
    """The explaining graph of a model folder. Raises ContractError when there is none, or of another shape."""

    def __init__(self, model_dir: Path | str, threads: int = 1) -> None:
        try:
            import onnxruntime
        except ImportError as error:
            raise DependencyMissing("needs onnxruntime: pip install 'steadyhand[cpu]'") from error
        self._contract, model = load_contract(Path(model_dir) / CONTRACT_FILE), Path(model_dir) / EXPLAIN_FILE
        self._grid = self._contract.grid
        if not model.is_file():
            raise ContractError(f"{model}: not there; this model was exported without its explanation")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        try:
            self._session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a class per cause, all private
            raise ContractError(f"{model}: onnxruntime cannot load it: {error}") from error
        found = {t.name: t.shape[1:] for t in (*self._session.get_inputs(), *self._session.get_outputs())}
        cells = list(self._grid.shape)
        wanted = {INPUT_NAME: list(self._contract.image_shape), SCORE_NAME: [MAPS + 2, *cells], HEAT_NAME: cells}
        if found != wanted:
            raise ContractError(f"{model}: has tensors {found}, the contract asks for {wanted}")

    def heat(self, image: np.ndarray, xy_m: tuple[float, float], kind: str = "presence") -> np.ndarray:
        """Heat (H, W) float32, 0..1, of what the model says of the object at a point of the tray.

        Raises ConfigError for another kind, or a point outside the image, ContractError for another image.
        """
        if kind not in CHANNELS:
            raise ConfigError(f"kind {kind!r}: give one of {', '.join(CHANNELS)}")
        if getattr(image, "dtype", None) != np.uint8 or image.shape != self._contract.image_shape:
            raise ContractError(f"{INPUT_NAME}: must be uint8 {self._contract.image_shape}")
        row, column = self._grid.cells(np.array(xy_m))[0]
        rows, columns = self._grid.shape
        if not (0 <= row < rows and 0 <= column < columns):
            raise ConfigError(f"xy_m={tuple(xy_m)}: outside the image")
        score = np.zeros((1, MAPS + 2, rows, columns), np.float32)
        row, column = int(np.rint(row)), int(np.rint(column))
        score[0, CHANNELS[kind], max(row - 1, 0) : row + 2, max(column - 1, 0) : column + 2] = 1.0
        heat = self._session.run([HEAT_NAME], {INPUT_NAME: np.ascontiguousarray(image)[None], SCORE_NAME: score})[0][0]
        stride = self._contract.stride_px
        return (heat / max(float(heat.max()), 1e-12)).repeat(stride, axis=0).repeat(stride, axis=1)
