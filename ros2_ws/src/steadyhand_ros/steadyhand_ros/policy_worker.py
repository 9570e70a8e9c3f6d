"""The policy call's thread: one call at a time, the newest request wins, so that rclpy never waits for a server."""
from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from steadyhand.errors import PolicyError
from steadyhand.slot import current_slot
from steadyhand.task import PolicyReply, PolicyRequest
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.repository import policy_files
from steadyhand_policies.triton_client import TritonConfig, TritonPolicy

PRIMARY_DEADLINE_S = 0.020  # then the local model answers within the same policy period


def open_policy(repository: Path, model: str, use_triton: bool, url: str) -> FallbackPolicy:
    """The policy as configured, checked and warm. Raises ContractError, ConfigError or DependencyMissing."""
    local = LocalOnnxPolicy(policy_files(repository, model)).open()
    primary = None
    if use_triton:
        slot = current_slot()
        config = TritonConfig(url or f"127.0.0.1:{slot.triton_grpc_port}", model, deadline_s=PRIMARY_DEADLINE_S)
        primary = TritonPolicy(config, local.contract).open()
    return FallbackPolicy(primary, local, local.contract, PRIMARY_DEADLINE_S).start()


class PolicyWorker:
    """Calls `deliver(reply)` from its own thread for each request that was not overtaken by a newer one."""

    def __init__(self, policy: FallbackPolicy, deliver: Callable[[PolicyReply], None]):
        self._policy, self._deliver = policy, deliver
        self._wake = threading.Condition()
        self._request: PolicyRequest | None = None
        self._stopping = False
        self.overtaken = 0
        self._thread = threading.Thread(target=self._work, name="policy", daemon=True)
        self._thread.start()

    def ask(self, request: PolicyRequest) -> None:
        """Hand over a request; returns at once."""
        with self._wake:
            self.overtaken += self._request is not None
            self._request = request
            self._wake.notify()

    def close(self) -> None:
        """End the thread; waits at most one second."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._request is not None)
                if self._stopping:
                    return
                request, self._request = self._request, None
            try:
                chunk = self._policy.infer(request.observation, request.observation_id, request.deadline_s)
                reply = PolicyReply(request.observation_id, chunk)
            except PolicyError as error:
                reply = PolicyReply(request.observation_id, None, str(error))
            self._deliver(reply)
