"""The model `tray_poses` on a Triton server, with the same model in process behind it.

A server is used only after it has answered a known image as the model in process does (I8): a server that is up, but
holds other weights, is no server. A call that fails or passes its deadline is answered in process, in the same image;
the server is asked again a second later, by the known image first. Called by one thread, never by a ROS callback.
"""
from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError, DependencyMissing
from steadyhand_perception.contract import INPUT_NAME
from steadyhand_perception.tray_poses import Sight, TrayPoses

PROVIDER = "triton"
OUTPUT_TOLERANCE = 0.05  # of another build of the engine; logits and offsets are of the order of 1 to 10


@dataclass(frozen=True)
class TritonPosesConfig:
    """Where the server is and how long an answer may take."""

    url: str
    deadline_s: float = 0.05
    retry_s: float = 1.0

    def __post_init__(self) -> None:
        host, _, port = self.url.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"triton url = {self.url!r}: give host:port")
        if not 0.005 <= self.deadline_s <= 1.0:
            raise ConfigError(f"triton deadline_s = {self.deadline_s}: give 0.005 to 1.0 s")


class TritonPoses:
    """`infer` as of TrayPoses. `counts`: served, fallback, refused (the known image was answered otherwise)."""

    def __init__(self, local: TrayPoses, config: TritonPosesConfig) -> None:
        try:
            import tritonclient.grpc
        except ImportError as error:
            raise DependencyMissing("needs tritonclient: pip install 'tritonclient[grpc]'") from error
        self.contract, self.config = local.contract, config
        self._local, self._grpc = local, tritonclient.grpc
        self._client = tritonclient.grpc.InferenceServerClient(config.url)
        self._trusted, self._retry_at_s = False, 0.0
        self.counts: Counter[str] = Counter()
        self.problem = "not asked yet"
        rng = np.random.default_rng(0)
        self._known = rng.integers(0, 256, local.contract.image_shape, dtype=np.uint8)
        self._answer = local.run(self._known)

    @property
    def provider(self) -> str:
        return PROVIDER if self._trusted else self._local.provider

    def infer(self, image: np.ndarray) -> Sight:
        """Objects in an RGB image (H, W, 3) uint8; by the server when it can be trusted, else in process."""
        start = time.perf_counter()
        if self._trusted or (time.monotonic() >= self._retry_at_s and self._examine()):
            try:
                sight = self._local.sight(self._ask(image), start, PROVIDER)
            except Exception as error:  # gRPC's, the library's, a wrong shape: each means no answer
                self._distrust(str(error))
            else:
                self.counts["served"] += 1
                return sight
        self.counts["fallback"] += 1
        return self._local.infer(image)

    def close(self) -> None:
        self._client.close()

    def _examine(self) -> bool:
        """Whether the server answers the known image as the model in process."""
        try:
            found = self._ask(self._known)
        except Exception as error:
            self._distrust(str(error))
            return False
        if not all((np.abs(found[name] - self._answer[name]) < OUTPUT_TOLERANCE).all() for name in self._answer):
            self.counts["refused"] += 1
            self._distrust("the server's model answers a known image otherwise")
            return False
        self._trusted, self.problem = True, ""
        return True

    def _distrust(self, problem: str) -> None:
        self._trusted, self.problem = False, problem[:200]
        self._retry_at_s = time.monotonic() + self.config.retry_s

    def _ask(self, image: np.ndarray) -> dict[str, np.ndarray]:
        """The server's outputs; raises whatever stands in the way of one of each, of the contract's shape and finite."""
        tensor = self._grpc.InferInput(INPUT_NAME, [1, *image.shape], "UINT8")
        tensor.set_data_from_numpy(np.ascontiguousarray(image)[None])
        reply = self._client.infer(self.contract.model, [tensor], client_timeout=self.config.deadline_s)
        outputs = {}
        for name, shape in self.contract.outputs.items():
            array = reply.as_numpy(name)
            if getattr(array, "shape", None) != (1, *shape) or not np.isfinite(array).all():
                raise ValueError(f"{name} has shape {getattr(array, 'shape', None)}, expected {(1, *shape)}, all finite")
            outputs[name] = array[0]
        return outputs
