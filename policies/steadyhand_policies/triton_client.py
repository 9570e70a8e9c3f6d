"""The policy on a Triton server, by gRPC, never waiting past its deadline.

The request carries the observation's id and the reply must carry it too. A call is sent asynchronously and waited for
with a limit; when the limit passes, the call is abandoned under its lock, and whatever arrives afterwards is counted
and dropped. So a late reply cannot be used even if it arrives in the same microsecond.
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadyhand.errors import ConfigError, ContractError, DependencyMissing, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies.breaker import Failure

_MAX_MESSAGE_BYTES = 2**31 - 1
# gRPC doubles its reconnect pause up to two minutes by default: a restarted server would be found half a minute late.
# Giving channel arguments replaces tritonclient's own, hence the message lengths.
CHANNEL_ARGS = [
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_http_proxy", 0),
]
_FAILURES = {
    "StatusCode.DEADLINE_EXCEEDED": Failure.DEADLINE,
    "StatusCode.CANCELLED": Failure.DEADLINE,
    "StatusCode.UNAVAILABLE": Failure.UNAVAILABLE,
    "StatusCode.INTERNAL": Failure.INTERNAL,
    "StatusCode.UNKNOWN": Failure.INTERNAL,
}


class TritonCallFailed(PolicyError):
    """A call failed before its deadline; `failure` says how."""

    def __init__(self, failure: Failure, message: str) -> None:
        super().__init__(f"triton: {failure.value}: {message}")
        self.failure = failure


class TritonDeadline(PolicyTimeout):
    """The deadline passed without a reply."""

    failure = Failure.DEADLINE


@dataclass(frozen=True)
class TritonConfig:
    """Where the server is and how long a call may take."""

    url: str
    model: str = "pick_place"
    version: str = "1"
    deadline_s: float = 0.02
    queue_max: int = 8  # calls under way, given-up ones too until the channel lets go of them

    def __post_init__(self) -> None:
        host, _, port = self.url.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ConfigError(f"triton url = {self.url!r}: give host:port")
        if not 0.001 <= self.deadline_s <= 1.0:
            raise ConfigError(f"triton deadline_s = {self.deadline_s}: give 0.001 to 1.0 s")
        if not 1 <= self.queue_max <= 1000:
            raise ConfigError(f"triton queue_max = {self.queue_max}: give 1 to 1000 calls")
        if not (self.version.isascii() and self.version.isdecimal() and int(self.version) >= 1):
            raise ConfigError(f"triton version = {self.version!r}: give a whole number, 1 or more")


class _Call:
    """One call under way: its outcome, or that nobody waits for it any more."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.done = threading.Event()
        self.abandoned = False
        self.result: Any = None
        self.error: Any = None


class TritonPolicy:
    """`infer` answers or raises within its deadline. Thread-safe: calls share one channel."""

    def __init__(self, config: TritonConfig, contract: contracts.PolicyContract) -> None:
        self.config = config
        self.contract = contract
        self.late_replies = 0  # arrived after their deadline: dropped
        self.queue_refusals = 0  # not sent: too many calls were under way
        self._under_way = 0
        self._client: Any = None
        self._module: Any = None
        self._count_lock = threading.Lock()

    def open(self) -> "TritonPolicy":
        """Make the channel. Does not connect: a server that is not there yet is a failed call, not a failed start."""
        try:
            import tritonclient.grpc
        except ImportError as error:
            raise DependencyMissing("needs tritonclient: pip install 'tritonclient[grpc]'") from error
        self._module = tritonclient.grpc
        self._client = tritonclient.grpc.InferenceServerClient(self.config.url, channel_args=CHANNEL_ARGS)
        return self

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float | None = None) -> ActionChunk:
        """Answer one observation (D,). Raises PolicyTimeout at the deadline, TritonCallFailed before it."""
        start_s = time.monotonic()
        limit_s = self.config.deadline_s if deadline_s is None else deadline_s
        try:
            batch = contracts.check_observation(self.contract, observation)
        except ContractError as error:
            raise PolicyError(f"triton: {error}") from error  # the caller's fault, not the server's
        result = self._call(batch, observation_id, start_s, limit_s)
        found = result.get_response().id
        if found != observation_id:
            raise TritonCallFailed(Failure.BAD_REPLY, f"answers observation {found!r}, asked {observation_id!r}")
        try:
            values = result.as_numpy(contracts.OUTPUT_NAME)
            if values is None:
                raise ContractError(f"no output named {contracts.OUTPUT_NAME}")
            actions = contracts.check_actions(self.contract, values)
        except (ContractError, ValueError) as error:
            raise TritonCallFailed(Failure.BAD_REPLY, str(error)) from error
        return ActionChunk(observation_id, actions, "triton", time.monotonic() - start_s)

    def canary(self, deadline_s: float | None = None) -> None:
        """Ask what the answer is known for; raises as `infer` does, BAD_REPLY when the answer is another."""
        chunk = self.infer(np.asarray(self.contract.canary.observation, dtype=np.float32), "canary", deadline_s)
        try:
            contracts.check_canary(self.contract, chunk.actions)
        except ContractError as error:
            raise TritonCallFailed(Failure.BAD_REPLY, str(error)) from error

    def load_model(self, timeout_s: float) -> None:
        """Have the server load what lies in its repository under this model, beside what serves. Raises PolicyError."""
        if self._client is None:
            raise PolicyError("triton: not open; call open() first")
        try:
            self._client.load_model(self.config.model, client_timeout=timeout_s)
        except Exception as error:  # the library raises its own and gRPC's; each means: not loaded
            raise TritonCallFailed(Failure.REJECTED, f"load {self.config.model}: {str(error)[:300]}") from error

    def close(self) -> None:
        """Close the channel; calls under way fail."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _call(self, batch: np.ndarray, request_id: str, start_s: float, limit_s: float) -> Any:
        if self._client is None:
            raise PolicyError("triton: not open; call open() first")
        tensor = self._module.InferInput(contracts.INPUT_NAME, list(batch.shape), "FP32")
        tensor.set_data_from_numpy(batch)
        call = _Call()
        self._enter_queue(request_id)

        def finish(result: Any, error: Any) -> None:
            with self._count_lock:
                self._under_way -= 1
            with call.lock:
                late = call.abandoned
                if not late:
                    call.result, call.error = result, error
                    call.done.set()
            if late and result is not None:
                with self._count_lock:
                    self.late_replies += 1

        try:
            pending = self._client.async_infer(
                self.config.model, [tensor], finish, model_version=self.config.version, request_id=request_id,
                client_timeout=limit_s,
            )
        except Exception as error:  # the library raises its own, gRPC's and ValueError; each means: not sent
            with self._count_lock:
                self._under_way -= 1
            raise TritonCallFailed(Failure.UNAVAILABLE, str(error)[:200]) from error
        call.done.wait(max(0.0, start_s + limit_s - time.monotonic()))
        with call.lock:
            call.abandoned = True  # from here on nothing that arrives is used
            result, error = call.result, call.error
        if result is None and error is None:
            pending.cancel()
            raise TritonDeadline(f"triton: no reply to {request_id} within {limit_s * 1e3:.0f} ms")
        if error is not None:
            failure = _FAILURES.get(str(error.status()), Failure.REJECTED)
            if failure is Failure.DEADLINE:
                raise TritonDeadline(f"triton: {error.message()[:200]}")
            raise TritonCallFailed(failure, str(error.message())[:200])
        return result

    def _enter_queue(self, request_id: str) -> None:
        """A bounded queue: what a hung server holds is not added to."""
        with self._count_lock:
            if self._under_way >= self.config.queue_max:
                self.queue_refusals += 1
                said = f"{self._under_way} calls are under way, limit {self.config.queue_max}: {request_id} not sent"
                raise TritonCallFailed(Failure.UNAVAILABLE, said)
            self._under_way += 1
