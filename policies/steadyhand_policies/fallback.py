"""Two ways to ask one policy: the primary (a Triton server) while it is well, the local model whenever it is not.

A call that the primary fails is answered by the local model in the same call. A breaker keeps hopeless calls from
being made; only canaries, asked in a thread of its own, close it again. The latency tracker says when the primary has
become too slow for its chunks to overlap: then it is not asked either, and still measured by its canaries.
"""
from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from steadyhand.errors import ContractError, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies.breaker import Breaker, BreakerConfig, Failure
from steadyhand_policies.chunking import ChunkConfig, SeamWatch, bridges, steps_over
from steadyhand_policies.latency import LatencyTracker

_LATENCIES_KEPT = 100_000
_LOCAL_RESERVE_S = 0.005  # of a call's deadline, kept for the local model when the primary misses


class ObservationRefused(PolicyError):
    """The observation breaks the contract: the caller's fault, no server is blamed for it."""


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
    local_provider: str = ""  # read back from the session
    local_trouble: str = ""  # why it does not run where it was asked to
    delay_ms: float = 0.0  # reckoned for the next call
    steps_over: int = 0  # of the next chunk, on its arrival
    too_slow: int = 0  # calls that the primary was not asked, since its chunks would not overlap
    seam_largest: float = 0.0  # units of the action
    seams_over: int = 0


@dataclass
class _Counts:
    served_by: Counter = field(default_factory=Counter)
    failures: Counter = field(default_factory=Counter)
    refused: int = 0
    too_slow: int = 0
    latencies_s: deque = field(default_factory=lambda: deque(maxlen=_LATENCIES_KEPT))


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
        self._chunks = ChunkConfig(contract.period_s, contract.horizon)
        self._delay = {"primary": LatencyTracker(), "whole": LatencyTracker()}
        self._seams = SeamWatch(self._chunks)
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = False
        self._thread: threading.Thread | None = None

    @property
    def contract(self) -> contracts.PolicyContract:
        """What both keep."""
        return self._contract

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

    def begin(self) -> None:
        """A new motion begins: its first chunk is not compared with the last one."""
        with self._lock:
            self._seams.clear()

    def infer(self, observation: np.ndarray, observation_id: str, deadline_s: float = 0.04) -> ActionChunk:
        """Answer one observation (D,) within `deadline_s` seconds of the call. Raises PolicyError when nobody can."""
        start_s = time.monotonic()
        try:
            contracts.check_observation(self._contract, observation)
        except ContractError as error:
            with self._lock:
                self._counts.refused += 1
            raise ObservationRefused(str(error)) from error
        chunk = None
        if self._primary is not None and self._breaker.closed and self._fast_enough():
            limit_s = min(self._primary_deadline_s, max(deadline_s - _LOCAL_RESERVE_S, deadline_s / 2))
            chunk = self._ask_primary(observation, observation_id, limit_s)
        if chunk is None:
            chunk = self._ask_local(observation, observation_id, start_s + deadline_s - time.monotonic())
        latency_s = time.monotonic() - start_s
        with self._lock:
            self._counts.served_by[chunk.served_by] += 1
            self._counts.latencies_s.append(latency_s)
            self._delay["whole"].add(latency_s)
            self._seams.take(chunk.actions, start_s, self._delay["whole"].delay_s())
        return replace(chunk, latency_s=latency_s)

    def statistics(self) -> Statistics:
        """A consistent copy of the counts."""
        with self._lock:
            latencies_ms = np.array(self._counts.latencies_s or [0.0]) * 1e3
            delay_s = self._delay["whole"].delay_s()
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
                local_provider=getattr(self._local, "provider", ""),
                local_trouble=getattr(self._local, "trouble", ""),
                delay_ms=delay_s * 1e3,
                steps_over=steps_over(delay_s, self._chunks),
                too_slow=self._counts.too_slow,
                seam_largest=self._seams.largest,
                seams_over=self._seams.over,
            )

    def close(self) -> None:
        """Stop the canary thread; waits at most one second for it."""
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
            self._thread = None

    def _fast_enough(self) -> bool:
        """Whether the primary's chunks would still overlap at the delay it has shown."""
        with self._lock:
            fast = bridges(self._delay["primary"].delay_s(), self._chunks)
            self._counts.too_slow += not fast
        return fast

    def _ask_primary(self, observation: np.ndarray, observation_id: str, deadline_s: float) -> ActionChunk | None:
        start_s = time.monotonic()
        try:
            chunk = self._checked(self._primary.infer(observation, observation_id, deadline_s), observation_id)
        except PolicyError as error:
            failure = failure_of(error)
            with self._lock:
                self._counts.failures[failure.value] += 1
                self._delay["primary"].add(time.monotonic() - start_s)
                self._breaker.on_failure(failure, time.monotonic())
            self._wake.set()  # probe for recovery from now, not from the next healthy canary
            return None
        with self._lock:
            self._delay["primary"].add(time.monotonic() - start_s)
            self._breaker.on_success()
        return chunk

    def _ask_local(self, observation: np.ndarray, observation_id: str, deadline_s: float) -> ActionChunk:
        try:
            chunk = self._checked(self._local.infer(observation, observation_id, deadline_s), observation_id)
        except PolicyError:
            with self._lock:
                self._counts.refused += 1
            raise
        return chunk

    def _checked(self, chunk: ActionChunk, observation_id: str) -> ActionChunk:
        """Whoever answered: the reply names the observation and keeps the contract; its actions as (H, A)."""
        if chunk.observation_id != observation_id:
            raise PolicyError(f"{chunk.served_by}: answers {chunk.observation_id!r}, asked {observation_id!r}")
        try:
            return replace(chunk, actions=contracts.check_actions(self._contract, chunk.actions))
        except ContractError as error:
            raise PolicyError(f"{chunk.served_by}: {error}") from error

    def _watch(self) -> None:
        while not self._stopping:
            self._wake.wait(self._ask_canary())
            self._wake.clear()

    def _ask_canary(self) -> float:
        """One canary, and what follows from it; seconds until the next one is due."""
        failure, start_s = None, time.monotonic()
        try:
            self._primary.canary(self._primary_deadline_s)
        except PolicyError as error:
            failure = failure_of(error)
        with self._lock:
            if failure is None and not self._breaker.closed:
                self._delay["primary"].clear()  # it comes back: what it was is not what it is
            self._delay["primary"].add(time.monotonic() - start_s)
            self._breaker.on_canary(failure, time.monotonic())
            return self._breaker.canary_interval_s()


def failure_of(error: PolicyError) -> Failure:
    """The kind of a failed call."""
    fallback = Failure.DEADLINE if isinstance(error, PolicyTimeout) else Failure.BAD_REPLY
    return getattr(error, "failure", fallback)
