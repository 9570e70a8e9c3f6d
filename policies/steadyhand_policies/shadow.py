"""A policy that runs beside and never commands: it is asked what the serving one was asked, and compared.

Its thread has a queue of one observation (a newer one overtakes, counted), and nothing that leads to the robot: what
goes out is a comparison. `say` gets each, for the trace; `statistics` is their sum.
"""
from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import PolicyError
from steadyhand.types import ActionChunk
from steadyhand_policies import contract as contracts
from steadyhand_policies.fallback import Policy

DEADLINE_S = 0.5  # nobody waits for it
DIFFERS = 0.1  # of an action's unit: 2 mm a period, a tenth of the largest step


@dataclass(frozen=True)
class Disagreement:
    """One comparison. `largest`: of each action element over the chunk; `votes`: signs that differ."""

    observation_id: str
    largest: tuple[float, ...]
    votes: int
    error: str = ""  # the shadow refused, or could not answer


@dataclass(frozen=True)
class ShadowStatistics:
    """`differing`: chunks that differ by more than DIFFERS somewhere in their motion."""

    version: int
    compared: int
    refused: int
    overtaken: int
    differing: int
    vote_differs: int  # chunks with a differing vote
    names: tuple[str, ...]
    mean: tuple[float, ...]  # of the largest difference of each chunk, by action element
    largest: tuple[float, ...]
    last_error: str = ""


class Shadow:
    """`offer` returns at once. The policy is the shadow's own; closing it is the owner's business."""

    def __init__(
        self, version: int, policy: Policy, contract: contracts.PolicyContract, say: Callable[[Disagreement], None],
        votes: int = 1,
    ) -> None:
        self.version = version
        self._policy, self._contract, self._say, self._votes = policy, contract, say, votes
        width = len(contract.action.names)
        self._sum, self._largest = np.zeros(width), np.zeros(width)
        self._compared = self._refused = self._overtaken = self._differing = self._vote_differs = 0
        self._last_error = ""
        self._wake = threading.Condition()
        self._next: tuple[np.ndarray, ActionChunk] | None = None
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name=f"policy-shadow-{version}", daemon=True)
        self._thread.start()

    def offer(self, observation: np.ndarray, served: ActionChunk) -> None:
        """What was asked and what was answered."""
        with self._wake:
            self._overtaken += self._next is not None
            self._next = (observation, served)
            self._wake.notify()

    def statistics(self) -> ShadowStatistics:
        """The sum so far."""
        with self._wake:
            mean = self._sum / max(1, self._compared)
            return ShadowStatistics(
                self.version, self._compared, self._refused, self._overtaken, self._differing, self._vote_differs,
                self._contract.action.names, tuple(map(float, mean)), tuple(map(float, self._largest)),
                self._last_error,
            )

    def close(self) -> None:
        """End the thread; waits at most one second."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(timeout=1.0)

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._next is not None)
                if self._stopping:
                    return
                (observation, served), self._next = self._next, None
            self._say(self._compare(observation, served))

    def _compare(self, observation: np.ndarray, served: ActionChunk) -> Disagreement:
        name = served.observation_id
        try:
            actions = self._policy.infer(observation, name, DEADLINE_S).actions
        except PolicyError as error:
            with self._wake:
                self._refused, self._last_error = self._refused + 1, str(error)[:200]
            return Disagreement(name, (), 0, str(error)[:200])
        found = difference(actions, served.actions, self._votes)
        if found is None:
            said = f"actions: shape {np.shape(actions)}, the serving one's {np.shape(served.actions)}"
            with self._wake:
                self._refused, self._last_error = self._refused + 1, said
            return Disagreement(name, (), 0, said)
        largest, votes = found
        with self._wake:
            self._compared += 1
            self._sum += largest
            self._largest = np.maximum(self._largest, largest)
            self._differing += bool(largest[: len(largest) - self._votes].max(initial=0.0) > DIFFERS)
            self._vote_differs += votes > 0
        return Disagreement(name, tuple(map(float, largest)), votes)


def difference(a: np.ndarray, b: np.ndarray, votes: int = 1) -> tuple[np.ndarray, int] | None:
    """Largest difference of two chunks (H, A) by element (A,), and votes whose signs differ; None unless comparable."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if a.shape != b.shape or a.ndim != 2:
        return None
    asks = (a[:, a.shape[1] - votes:] > 0) != (b[:, b.shape[1] - votes:] > 0)
    return np.abs(a - b).max(axis=0), int(asks.sum())
