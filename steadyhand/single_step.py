"""Single-step of the executor: before each phase the agent waits for the operator's word. Pure.

While it waits the arm stands (a moving one is braked first), the phase's deadline does not run, and nothing is asked of
the policy. Watching does not wait: an object that is lost, a stop and a cancel act at once.
"""
from __future__ import annotations

from dataclasses import dataclass


@dataclass
class SingleStep:
    """`may_run(phase)` is asked before each tick of a phase; a grant lets one phase run to its end."""

    on: bool = False
    _granted: bool = False
    _running: object = None

    def turn(self, on: bool) -> None:
        """On: the phase under way may end, the next one waits. Off: everything runs on."""
        self.on, self._granted = on, False

    def grant(self, phase: object) -> None:
        """The operator's word for one more step; said while nothing waits it counts for nothing (no look, no step)."""
        self._granted = self.waits_before(phase)

    def begin(self) -> None:
        """A new goal: its first phase waits too, and no word of before counts."""
        self._granted, self._running = False, None

    def may_run(self, phase: object) -> bool:
        """Whether this phase may go on now; takes the grant when it is a new phase."""
        if not self.on or phase is self._running:
            self._running = phase
            return True
        if not self._granted:
            return False
        self._granted, self._running = False, phase
        return True

    def waits_before(self, phase: object) -> bool:
        """Whether this phase waits for a word that was not said yet."""
        return self.on and phase is not self._running and not self._granted
