"""What is counted of a run, alike for every client. Pure: times in, counts out.

An action is *executed* when it is handed to the robot. It was computed for a moment: the stamp of its observation, and
for step i of a chunk i policy periods later. Its lateness is the time from that moment until it was executed. It is
*stale* when that is `STALE_S` or more: nine tenths of a policy period, so that an action which answers the observation
before the last counts also where the loop's pace jitters, and a call that took its whole deadline does not.

The control loop is *held* while it waits inside the client. A run *recovers* when its last second has no stale and no
NaN action and at least half of the fresh ones that the rate asks for.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

PERIOD_S = 0.05  # steadyhand.policy_io.PERIOD_S; a test keeps the two in step
STALE_S = 0.9 * PERIOD_S
EXPIRED_S = 2 * PERIOD_S  # docs/design.md, time limits: a command source that is silent for so long is stopped
_LAST_S = 1.0


@dataclass(frozen=True)
class Executed:
    """One action handed to the robot. `meant_for_s` None: nothing of it tells; only if it is not finite."""

    stamp_s: float
    meant_for_s: float | None
    finite: bool

    def __post_init__(self) -> None:
        if self.finite and self.meant_for_s is None:
            raise ValueError("a finite action must say, or be found to say, which moment it was computed for")

    @property
    def late_s(self) -> float:
        """Seconds from the moment it was meant for; 0 when that is unknown."""
        return 0.0 if self.meant_for_s is None else self.stamp_s - self.meant_for_s

    @property
    def stale(self) -> bool:
        return self.late_s >= STALE_S

    @property
    def good(self) -> bool:
        return self.finite and not self.stale


@dataclass(frozen=True)
class Run:
    """One run under a fault that began at `onset_s` and was over at `cleared_s`. All times on one monotonic clock."""

    start_s: float
    onset_s: float
    cleared_s: float
    end_s: float
    executed: tuple[Executed, ...]
    held: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        times = (self.start_s, self.onset_s, self.cleared_s, self.end_s)
        if list(times) != sorted(times):
            raise ValueError(f"start, onset, cleared, end = {times}: give them in order")
        if self.end_s - self.cleared_s < _LAST_S:
            raise ValueError(f"ends {self.end_s - self.cleared_s:.2f} s after the fault; {_LAST_S} s are judged")


def run_of(reply: dict, onset_s: float, cleared_s: float) -> Run:
    """The run that a client reported (`loop.Log.report`)."""
    executed = tuple(Executed(stamp, meant, bool(finite)) for stamp, meant, finite in reply["executed"])
    held = tuple((begin, end) for begin, end in reply["held"])
    return Run(reply["start_s"], onset_s, cleared_s, reply["end_s"], executed, held)


def account(run: Run) -> dict:
    """Counts from the onset of the fault to the end of the run; `before_*` of the time before it, as a control."""
    before = [e for e in run.executed if run.start_s <= e.stamp_s < run.onset_s]
    after = [e for e in run.executed if run.onset_s <= e.stamp_s <= run.end_s]
    last = [e for e in after if e.stamp_s > run.end_s - _LAST_S]
    good = [e.stamp_s for e in after if e.good]
    recovers = not any(e.stale or not e.finite for e in last) and (
        sum(e.good for e in last) >= _LAST_S / PERIOD_S / 2
    )
    back_s = next((s for s in good if s >= run.cleared_s), None)
    return {
        "executed": len(after),
        "stale": sum(e.stale for e in after),
        "expired": sum(e.late_s >= EXPIRED_S for e in after),
        "nan": sum(not e.finite for e in after),
        "oldest_ms": _ms(max((e.late_s for e in after), default=0.0)),
        "blocked_ms": _ms(_longest_held(run)),
        "without_action_ms": _ms(_longest_gap([run.onset_s, *good, run.end_s])),
        "recovers": recovers,
        "recovery_ms": _ms(back_s - run.cleared_s) if recovers and back_s is not None else None,
        "before_stale": sum(e.stale for e in before),
        "before_executed": len(before),
    }


def answered(actions: np.ndarray, references: np.ndarray, tolerance: float = 2e-5) -> list[int | None]:
    """Which observation each action answers, found by its content: index of the row of `references` (M, A) nearest to
    each of `actions` (N, A), None where none is within `tolerance` in every element. Raises ValueError when two
    references are too near to one another to tell."""
    references = np.asarray(references, dtype=float)
    found: list[int | None] = []
    for action in np.atleast_2d(np.asarray(actions, dtype=float)):
        distance = np.abs(references - action).max(axis=1)
        near = np.flatnonzero(distance <= tolerance)
        if len(near) > 1:
            raise ValueError(f"observations {near[:2].tolist()} have the same answer within {tolerance}")
        found.append(int(near[0]) if len(near) else None)
    return found


def total(accounts: Iterable[dict]) -> dict:
    """Of several runs: counts added, times the longest, recoveries as (of, runs)."""
    runs = list(accounts)
    return {
        **{key: sum(r[key] for r in runs) for key in ("executed", "stale", "expired", "nan", "before_stale")},
        **{key: max(r[key] for r in runs) for key in ("oldest_ms", "blocked_ms", "without_action_ms")},
        "recovered": sum(r["recovers"] for r in runs),
        "runs": len(runs),
    }


def _longest_held(run: Run) -> float:
    inside = [(max(b, run.onset_s), min(e, run.end_s)) for b, e in run.held if e >= run.onset_s and b <= run.end_s]
    return max((e - b for b, e in inside), default=0.0)


def _longest_gap(stamps: Sequence[float]) -> float:
    return max(b - a for a, b in zip(stamps, stamps[1:]))


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
