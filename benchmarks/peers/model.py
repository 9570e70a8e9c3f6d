"""The shipped policy for the peers' servers: the same ONNX file, the same session options as `steadyhand_policies`."""
from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from benchmarks.peers.scene import MODEL


class OnnxPolicy:
    """One observation in, one chunk out. No check of either: what a peer checks is what is to be seen."""

    def __init__(self, path: Path = MODEL / "model.onnx") -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

    def __call__(self, observation: np.ndarray) -> np.ndarray:
        """Actions (H, A) float32 for an observation (D,)."""
        batch = np.asarray(observation, dtype=np.float32)[None]
        return self._session.run(["actions"], {"observation": batch})[0][0]
