"""Virtual time: guard cycles on a fixed grid of the monotonic clock, and a wall clock that somebody may set."""
from __future__ import annotations

from dataclasses import dataclass

START_S = 100.0  # monotonic seconds at the start of an episode
BEAT_CYCLES = 12  # between two heartbeats of an input: about 10 Hz
MOVING_BEAT_CYCLES = 4  # the same where an input is watched more tightly while the arm moves: about 30 Hz
BEAT_AT_S, INPUT_AT_S = 0.001, 0.0015  # within a cycle: when the heartbeats of shell and inputs arrive


@dataclass
class Clock:
    """`cycle` k begins at START_S + k * period_s. The product never reads `wall_s`; a defect may."""

    period_s: float
    cycle: int = 0
    now_s: float = START_S
    wall_offset_s: float = 0.0

    def at(self, cycle: int) -> float:
        """Monotonic time of a cycle's begin."""
        return START_S + cycle * self.period_s

    def wall_s(self) -> float:
        """What the host's wall clock shows."""
        return self.now_s + self.wall_offset_s
