"""The link to a controller, measured by its states: clock, jitter, gaps and missed cycles, as whole numbers to publish.

Pure and bounded: feed every state that reaches the loop to `update`; `counters` is made anew about once a second.
"""
from __future__ import annotations

import math
from collections import Counter

import numpy as np

from steadyhand.clock_map import ClockMap, ClockMapConfig

GAP_PERIODS = 2.5  # two states further apart than this on our clock: a gap
HOLE_PERIODS = 1.5  # two stamps further apart than this on theirs: cycles that were not seen
SHOWN_EVERY_S = 1.0
KEPT = 1024  # newest delays, about 8 s at 125 Hz


class LinkMonitor:
    """One controller that sends a state every `period_s`."""

    def __init__(self, period_s: float, clock: ClockMapConfig = ClockMapConfig()):
        self.period_s, self.clock = period_s, ClockMap(clock)
        self.counts: Counter[str] = Counter({"link_states": 0, "link_missed": 0, "link_gaps": 0})
        self.gap_max_s = 0.0
        self._delays_s = np.zeros(KEPT)
        self._delays = 0
        self._asked: tuple[float, float] | None = None
        self._stamp_s = self._received_s = math.nan  # of the newest state of the clock that is mapped
        self._shown: dict[str, int] = {}
        self._shown_s = -math.inf

    def update(self, stamp_s: float, received_s: float) -> None:
        """A state stamped by the controller, and when it reached us (monotonic). A repeated one is no state."""
        if (stamp_s, received_s) == self._asked:
            return  # asked again before the next one came, whatever became of this one
        self._asked = (stamp_s, received_s)
        resets = self.clock.resets
        if self.clock.update(stamp_s, received_s):
            if self.clock.resets == resets and not math.isnan(self._stamp_s):
                self._account(stamp_s - self._stamp_s, received_s - self._received_s)
            self._stamp_s, self._received_s = stamp_s, received_s
            self.counts["link_states"] += 1
            self._delays_s[self._delays % KEPT] = self.clock.delay_s(stamp_s, received_s)
            self._delays += 1
        if received_s - self._shown_s >= SHOWN_EVERY_S:
            self._shown_s, self._shown = received_s, self._made()

    def _account(self, step_s: float, apart_s: float) -> None:
        if step_s > HOLE_PERIODS * self.period_s:
            self.counts["link_missed"] += round(step_s / self.period_s) - 1
        if apart_s > GAP_PERIODS * self.period_s:
            self.counts["link_gaps"] += 1
            self.gap_max_s = max(self.gap_max_s, apart_s)

    def _made(self) -> dict[str, int]:
        refused = {f"clock_refused:{reason}": n for reason, n in self.clock.refused.items()}
        estimate = self.clock.estimate()
        if estimate is None:
            return refused
        p50_s, p99_s, max_s = np.percentile(self._delays_s[: min(self._delays, KEPT)], (50, 99, 100))
        return {
            **self.counts,
            **refused,
            "link_gap_max_us": round(self.gap_max_s * 1e6),
            "link_jitter_p50_us": round(p50_s * 1e6),
            "link_jitter_p99_us": round(p99_s * 1e6),
            "link_jitter_max_us": round(max_s * 1e6),
            "clock_offset_us": round(estimate.offset_s * 1e6),
            "clock_drift_ppb": round(estimate.drift_ppm * 1e3),
            "clock_window_s": round(estimate.span_s),
            "clock_resets": estimate.resets,
        }

    def counters(self) -> dict[str, int]:
        """Counts since the start and the newest measurements, as of a second ago at most; empty before the first."""
        return self._shown

    def finish(self) -> dict[str, int]:
        """The counters as of now, at the end of a recording."""
        self._shown = self._made()
        return self._shown
