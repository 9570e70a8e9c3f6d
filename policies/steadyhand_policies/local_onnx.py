"""The policy in this process, by ONNX Runtime: the fallback, and the reference that the server is compared with."""
from __future__ import annotations

import time
from typing import Any

import numpy as np

from steadyhand.errors import ContractError, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository
from steadyhand_policies.engine import Engine, open_session  # noqa: F401  training and benchmarks open sessions too
from steadyhand_policies.probe import probe
from steadyhand_policies.runtime_facts import RuntimeFacts

_WARM_UP_CALLS = 20
_TYPES = {"tensor(float)": "float32", "tensor(double)": "float64"}


class LocalOnnxPolicy:
    """`open()` loads, checks and warms up; `infer` answers in well under a millisecond. One thread at a time.

    `provider`: `cpu`, `cuda` or `auto`. `facts` are those of the robot at hand; default: of this runtime.
    """

    def __init__(
        self, files: repository.PolicyFiles, provider: str = "cpu", facts: RuntimeFacts | None = None
    ) -> None:
        self._files, self._wanted, self._facts = files, provider, facts
        self._engine: Engine | None = None
        self.contract: contracts.PolicyContract | None = None

    @property
    def provider(self) -> str:
        """Where it runs now, read back from the session (I8); empty until open."""
        return self._engine.provider if self._engine is not None else ""

    @property
    def trouble(self) -> str:
        """Why it does not run where it was asked to; empty when well."""
        return self._engine.trouble if self._engine is not None else ""

    def open(self) -> "LocalOnnxPolicy":
        """Load the model, check contract and answers, warm up. Raises ContractError, ConfigError, DependencyMissing."""
        contract = repository.load_contract(self._files, self._facts)
        engine = Engine(self._files.model, self._wanted, contracts.INPUT_NAME, contracts.OUTPUT_NAME).open()
        contracts.check_tensors(contract, *session_tensors(engine.session))
        canary = np.asarray(contract.canary.observation, dtype=np.float32)[None]
        try:
            contracts.check_canary(contract, engine.warm_up(canary, _WARM_UP_CALLS))
        except PolicyError as error:
            raise ContractError(f"canary: {error}") from error
        probe(contract, engine.run)
        self._engine, self.contract = engine, contract
        return self

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float = 0.02) -> ActionChunk:
        """Answer one observation (D,). Raises PolicyError for a refused observation or reply, PolicyTimeout if late."""
        contract, engine = self.contract, self._engine
        if contract is None or engine is None:
            raise PolicyError("local policy: not open; call open() first")
        start_s = time.monotonic()
        try:
            batch = contracts.check_observation(contract, observation)
            actions = contracts.check_actions(contract, engine.run(batch))
        except ContractError as error:
            raise PolicyError(f"local policy: {error}") from error
        latency_s = time.monotonic() - start_s
        if latency_s > deadline_s:
            raise PolicyTimeout(f"local policy: {latency_s * 1e3:.1f} ms, deadline {deadline_s * 1e3:.1f} ms")
        return ActionChunk(observation_id, actions, "local", latency_s)

    def close(self) -> None:
        """Drop the session."""
        engine, self._engine, self.contract = self._engine, None, None
        if engine is not None:
            engine.close()


def session_tensors(session: Any) -> tuple[dict[str, tuple[str, list]], dict[str, tuple[str, list]]]:
    """Inputs and outputs of a session: name -> (element type, shape with batch first)."""
    return tuple(
        {t.name: (_TYPES.get(t.type, t.type), list(t.shape)) for t in tensors}
        for tensors in (session.get_inputs(), session.get_outputs())
    )
