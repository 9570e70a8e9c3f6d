"""Two ways to the same policy: the server while it is healthy, this process in the same period when it is not."""
from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from steadyhand.errors import ContractError, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies.breaker import Breaker, BreakerConfig, Failure

_LATENCIES_KEPT = 100_000
_LOCAL_RESERVE_S = 0.005  # of a call's deadline, kept for the local model when the primary misses


class Policy(Protocol):
    """One verb. Everything that wraps a policy has the same one."""

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float) -> ActionChunk:
        """Answer one observation (D,) within `deadline_s` seconds of the call, or raise PolicyError."""
        ...


class Primary(Policy, Protocol):
    """A policy that can be asked for its canary."""

    def canary(self, deadline_s: float) -> None:
        """Raise PolicyError unless a real inference gives the recorded answer in time."""
        ...


@dataclass(frozen=True)
class Statistics:
    """What happened to the calls so far. Latencies in milliseconds, of answered calls, the fallback's wait included."""

    calls: int
    served_by: dict[str, int]
    failures: dict[str, int]  # of the primary, by kind
    late_replies: int
    refused: int  # neither could answer
    primary_healthy: bool
    primary_cause: str
    times_opened: int
    p50_ms: float
    p99_ms: float
    max_ms: float


@dataclass
class _Counts:
    served_by: Counter = field(default_factory=Counter)
    failures: Counter = field(default_factory=Counter)
    refused: int = 0
    latencies_s: list = field(default_factory=list)


class FallbackPolicy:
    """Asks `primary` while its breaker is closed, `local` otherwise and whenever the primary fails.

    `start()` begins the canary thread; before the third good canary every call is served locally.
    """

    def __init__(
        self,
        primary: Primary | None,
        local: Policy,
        contract: contracts.PolicyContract,
        primary_deadline_s: float = 0.02,
        breaker: BreakerConfig = BreakerConfig(),
    ) -> None:
        self._primary, self._local, self._contract = primary, local, contract
        self._primary_deadline_s = primary_deadline_s
        self._breaker = Breaker(breaker)
        self._counts = _Counts()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> "FallbackPolicy":
        """Start the canary thread (none without a primary)."""
        if self._primary is not None and self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="policy-canary", daemon=True)
            self._thread.start()
        return self

    def wait_primary(self, timeout_s: float) -> bool:
        """Whether the primary's canary became good within a time limit."""
        limit_s = time.monotonic() + timeout_s
        while not self._breaker.closed and time.monotonic() < limit_s:
            time.sleep(0.01)
        return self._breaker.closed

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float = 0.04) -> ActionChunk:
        """Answer one observation (D,) within `deadline_s` seconds of the call. Raises PolicyError when nobody can."""
        start_s = time.monotonic()
        try:
            contracts.check_observation(self._contract, observation)
        except ContractError as error:  # the caller's fault: no server is blamed for it
            with self._lock:
                self._counts.refused += 1
            raise PolicyError(str(error)) from error
        chunk = None
        if self._primary is not None and self._breaker.closed:
            limit_s = min(self._primary_deadline_s, max(deadline_s - _LOCAL_RESERVE_S, deadline_s / 2))
            chunk = self._ask_primary(observation, observation_id, limit_s)
        if chunk is None:
            chunk = self._ask_local(observation, observation_id, start_s + deadline_s - time.monotonic())
        latency_s = time.monotonic() - start_s
        with self._lock:
            self._counts.served_by[chunk.served_by] += 1
            if len(self._counts.latencies_s) < _LATENCIES_KEPT:
                self._counts.latencies_s.append(latency_s)
        return replace(chunk, latency_s=latency_s)

    def statistics(self) -> Statistics:
        """A consistent copy of the counts."""
        with self._lock:
            latencies_ms = np.array(self._counts.latencies_s or [0.0]) * 1e3
            return Statistics(
                calls=sum(self._counts.served_by.values()) + self._counts.refused,
                served_by=dict(self._counts.served_by),
                failures=dict(self._counts.failures),
                late_replies=getattr(self._primary, "late_replies", 0),
                refused=self._counts.refused,
                primary_healthy=self._breaker.closed,
                primary_cause=self._breaker.cause,
                times_opened=self._breaker.times_opened,
                p50_ms=float(np.percentile(latencies_ms, 50)),
                p99_ms=float(np.percentile(latencies_ms, 99)),
                max_ms=float(latencies_ms.max()),
            )

    def close(self) -> None:
        """Stop the canary thread; waits at most one second for it."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
            self._thread = None

    def _ask_primary(self, observation: np.ndarray, observation_id: str, deadline_s: float) -> ActionChunk | None:
        try:
            chunk = self._primary.infer(observation, observation_id, deadline_s)
            self._check(chunk, observation_id)
        except PolicyError as error:
            failure = failure_of(error)
            with self._lock:
                self._counts.failures[failure.value] += 1
                self._breaker.on_failure(failure, time.monotonic())
            self._wake.set()  # probe for recovery from now, not from the next healthy canary
            return None
        with self._lock:
            self._breaker.on_success()
        return chunk

    def _ask_local(self, observation: np.ndarray, observation_id: str, deadline_s: float) -> ActionChunk:
        try:
            chunk = self._local.infer(observation, observation_id, deadline_s)
            self._check(chunk, observation_id)
        except PolicyError:
            with self._lock:
                self._counts.refused += 1
            raise
        return chunk

    def _check(self, chunk: ActionChunk, observation_id: str) -> None:
        """Whoever answered: the reply names the observation and keeps the contract."""
        if chunk.observation_id != observation_id:
            raise PolicyError(f"{chunk.served_by}: answers {chunk.observation_id!r}, asked {observation_id!r}")
        try:
            contracts.check_actions(self._contract, chunk.actions)
        except ContractError as error:
            raise PolicyError(f"{chunk.served_by}: {error}") from error

    def _watch(self) -> None:
        while not self._stopping:
            failure = None
            try:
                self._primary.canary(self._primary_deadline_s)
            except PolicyError as error:
                failure = failure_of(error)
            with self._lock:
                self._breaker.on_canary(failure, time.monotonic())
                interval_s = self._breaker.canary_interval_s()
            self._wake.wait(interval_s)
            self._wake.clear()


def failure_of(error: PolicyError) -> Failure:
    """The kind of a failed call."""
    fallback = Failure.DEADLINE if isinstance(error, PolicyTimeout) else Failure.BAD_REPLY
    return getattr(error, "failure", fallback)
