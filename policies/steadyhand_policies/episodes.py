"""When a policy's episode begins and how it ends, read from the agent's trace records. Pure.

An episode is one attempt of a skill: from the phase in which the policy moves the arm to the phase that shows whether
it worked. `pick` has worked when the object was lifted (the next phase is `place`), `place` when the release was
verified (`retreat`). Any other way out is a failure, or void when its fault is nobody's merit: an operator's stop, a
blind camera, a part that somebody moved.
"""
from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steadyhand.phases import POLICY_PHASES, Phase
from steadyhand.trace import Record
from steadyhand_policies.release import Outcome

# Skill -> phases that belong to its attempt after the policy's own, and the one that shows its success.
_ATTEMPT = {Phase.PICK: ({Phase.GRASP, Phase.LIFT}, Phase.PLACE), Phase.PLACE: ({Phase.RELEASE}, Phase.RETREAT)}
# Faults that say nothing of the policy. `disarmed` is judged by its causes.
NOT_THE_POLICYS = frozenset({
    "perception_lost", "target_lost", "target_moved", "guard_silent", "rest_unknown", "state_invalid", "internal_error",
})
# Causes of a stop that a policy can bring about: its chunks stayed out or drove the arm where it may not be.
POLICY_STOPS = ("command_source_silent", "tracking", "margin", "protective")


@dataclass(frozen=True)
class Begun:
    """An attempt begins now: what is asked of the policy from here on belongs to it."""

    skill: str


@dataclass(frozen=True)
class Ended:
    """How it ended, and the fault that decided it."""

    skill: str
    outcome: Outcome
    fault: str = ""


class EpisodeWatch:
    """`take` the records of one step of the agent; what began and ended in it, in order."""

    def __init__(self) -> None:
        self._skill: Phase | None = None
        self._fault = ""
        self._void = False

    @property
    def running(self) -> bool:
        """Whether an attempt is under way."""
        return self._skill is not None

    def take(self, records: Iterable[Record]) -> list[Begun | Ended]:
        """Records other than phases, faults and results are of no interest."""
        events: list[Begun | Ended] = []
        for record in records:
            if record.kind == "fault" and self._skill is not None:
                self._note(str(record.fields.get("name", "")), str(record.fields.get("detail", "")))
            elif record.kind == "phase":
                self._phase(Phase(record.fields["phase"]), events)
            elif record.kind == "result" and self._skill is not None:
                cancelled = record.fields.get("code") == "CANCELLED"
                self._end(Outcome.VOID if cancelled or self._void else Outcome.FAILURE, events)
        return events

    def _note(self, name: str, detail: str) -> None:
        self._fault = name
        if name == "disarmed":
            self._void |= not any(cause in detail for cause in POLICY_STOPS)
        else:
            self._void |= name in NOT_THE_POLICYS

    def _phase(self, phase: Phase, events: list[Begun | Ended]) -> None:
        if self._skill is not None:
            within, success = _ATTEMPT[self._skill]
            if phase is success:
                self._end(Outcome.SUCCESS, events)
            elif phase not in within:
                void = self._void or phase is Phase.BLIND  # its fault is recorded after the phase
                self._end(Outcome.VOID if void else Outcome.FAILURE, events)
        if phase in POLICY_PHASES and self._skill is None:
            self._skill, self._fault, self._void = phase, "", False
            events.append(Begun(phase.value))

    def _end(self, outcome: Outcome, events: list[Begun | Ended]) -> None:
        fault = "" if outcome is Outcome.SUCCESS else self._fault
        events.append(Ended(self._skill.value, outcome, fault))
        self._skill = None
