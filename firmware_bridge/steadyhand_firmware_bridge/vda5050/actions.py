"""Instant actions under way: each is followed to FINISHED or FAILED in the vehicle's states, or is lost by its time.

Pure. An action is known by its id, which begins with this master's own random name: whatever else turns up in a state
is another master's doing.
"""
from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steadyhand.vda5050.dialect import FAILED, FINISHED, ActionState

MAX_PENDING = 32
NAMES = {"initializePosition": {"2.1.0": "initPosition"}}  # what 2.1 calls otherwise


class Outcome(enum.Enum):
    """How an action ended."""

    FINISHED = "finished"
    FAILED = "failed"
    LOST = "lost"  # never seen in a state, or not ended in time


@dataclass
class Pending:
    """One action that has not ended."""

    kind: str
    sent_s: float
    seen: bool = False


@dataclass(frozen=True)
class Ended:
    """One action that has ended."""

    action_id: str
    kind: str
    outcome: Outcome
    text: str = ""


@dataclass
class InstantActions:
    """What was sent and has not ended. `name` begins every id; `counts` by outcome."""

    name: str
    version: str
    acknowledge_s: float
    end_s: float
    counts: dict[str, int] = field(default_factory=dict)
    _pending: dict[str, Pending] = field(default_factory=dict)
    _number: int = 0

    def message(
        self, kinds: Iterable[str], now_s: float, parameters: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Body of an instantActions message with these actions, which are followed from now on."""
        actions = []
        for kind in kinds:
            self._number += 1
            action_id = f"{self.name}-{self._number}"
            if len(self._pending) >= MAX_PENDING:  # the oldest of its own kind: however many pauses forget no cancelOrder
                self._pending.pop(next((i for i, p in self._pending.items() if p.kind == kind), next(iter(self._pending))))
                self._count(Outcome.LOST)
            self._pending[action_id] = Pending(kind, now_s)
            action = {
                "actionType": NAMES.get(kind, {}).get(self.version, kind), "actionId": action_id,
                "blockingType": "NONE",
            }  # fmt: skip
            if parameters:
                action["actionParameters"] = [{"key": k, "value": v} for k, v in parameters.items()]
            actions.append(action)
        return {"actions": actions}

    def under_way(self, kind: str) -> bool:
        """Whether such an action has not ended."""
        return any(p.kind == kind for p in self._pending.values())

    def clear(self) -> None:
        """Follow none any more: the connection has ended, nobody knows what arrived."""
        for _ in self._pending:
            self._count(Outcome.LOST)
        self._pending.clear()

    def heard(self, actions: Mapping[str, ActionState]) -> list[Ended]:
        """A state has come: which actions have ended."""
        ended = []
        for action_id in [i for i in self._pending if i in actions]:
            pending, said = self._pending[action_id], actions[action_id]
            pending.seen = True
            if said.status in (FINISHED, FAILED):
                outcome = Outcome.FINISHED if said.status == FINISHED else Outcome.FAILED
                ended.append(self._end(action_id, outcome, said.text))
        return ended

    def expired(self, now_s: float) -> list[Ended]:
        """Which actions have not been seen, or not ended, within their limits."""
        late = [
            i for i, p in self._pending.items() if now_s - p.sent_s > (self.end_s if p.seen else self.acknowledge_s)
        ]
        return [self._end(i, Outcome.LOST, "not ended" if self._pending[i].seen else "not seen") for i in late]

    def _end(self, action_id: str, outcome: Outcome, text: str) -> Ended:
        self._count(outcome)
        return Ended(action_id, self._pending.pop(action_id).kind, outcome, text)

    def _count(self, outcome: Outcome) -> None:
        self.counts[outcome.value] = self.counts.get(outcome.value, 0) + 1
