"""The policy in this process, by ONNX Runtime: the fallback, and the reference that the server is compared with."""
from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from steadyhand.errors import ConfigError, ContractError, DependencyMissing, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository

_WARM_UP_CALLS = 20
_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


class LocalOnnxPolicy:
    """`open()` loads, checks and warms up; `infer` answers in well under a millisecond. One thread at a time."""

    def __init__(self, files: repository.PolicyFiles, provider: str = "CPUExecutionProvider") -> None:
        self._files = files
        self._provider_wanted = provider
        self._session: Any = None
        self.contract: contracts.PolicyContract | None = None
        self.provider = ""  # read back from the session (I8); empty until open

    def open(self) -> "LocalOnnxPolicy":
        """Load the model, check the contract, run the canary. Raises ContractError, ConfigError, DependencyMissing."""
        contract = repository.load_contract(self._files)
        self._session = open_session(self._files.model, self._provider_wanted)
        self.provider = self._session.get_providers()[0]
        if self.provider != self._provider_wanted:
            raise ConfigError(f"provider: asked for {self._provider_wanted}, the session runs on {self.provider}")
        contracts.check_tensors(contract, *session_tensors(self._session))
        self.contract = contract
        canary = np.asarray(contract.canary.observation, dtype=np.float32)
        for _ in range(_WARM_UP_CALLS):
            contracts.check_canary(contract, self._run(canary[None]))
        return self

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float = 0.02) -> ActionChunk:
        """Answer one observation (D,). Raises PolicyError for a refused observation or reply, PolicyTimeout if late."""
        if self.contract is None:
            raise PolicyError("local policy: not open; call open() first")
        start_s = time.monotonic()
        try:
            batch = contracts.check_observation(self.contract, observation)
            actions = contracts.check_actions(self.contract, self._run(batch))
        except ContractError as error:
            raise PolicyError(f"local policy: {error}") from error
        latency_s = time.monotonic() - start_s
        if latency_s > deadline_s:
            raise PolicyTimeout(f"local policy: {latency_s * 1e3:.1f} ms, deadline {deadline_s * 1e3:.1f} ms")
        return ActionChunk(observation_id, actions, "local", latency_s)

    def close(self) -> None:
        """Drop the session."""
        self._session, self.contract = None, None

    def _run(self, batch: np.ndarray) -> np.ndarray:
        return self._session.run([contracts.OUTPUT_NAME], {contracts.INPUT_NAME: batch})[0]


def open_session(model: Path, provider: str = "CPUExecutionProvider") -> Any:
    """A single-threaded session: a small model gains nothing from a pool, whose spinning threads would cost a core."""
    try:
        import onnxruntime
    except ImportError as error:
        raise DependencyMissing("needs onnxruntime: pip install 'steadyhand[cpu]' (or [gpu])") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(str(model), options, providers=[provider])
    except Exception as error:  # onnxruntime raises many kinds for a damaged file; at this edge each means the same
        raise ContractError(f"model {model}: not a loadable ONNX file ({str(error)[:160]})") from error


def session_tensors(session: Any) -> tuple[dict[str, tuple[str, list]], dict[str, tuple[str, list]]]:
    """Inputs and outputs of a session: name -> (element type, shape with batch first)."""
    return tuple(
        {t.name: (_TYPES.get(t.type, t.type), list(t.shape)) for t in tensors}
        for tensors in (session.get_inputs(), session.get_outputs())
    )
