"""Another machine's clock mapped to ours: offset and drift, from stamps and the times at which they arrived.

    received = stamp + offset + drift * (stamp - first stamp) + delay,   delay >= 0

A late package says nothing of the clocks, an early one does: the line sought touches the arrivals from below. Of each
interval the earliest arrival is kept; of the lower convex hull of these the edge above their mean is taken, which is
the line below all of them with the least sum of distances (Moon, Skelly and Towsley, "Estimation and removal of clock
skew from network delay measurements", INFOCOM 1999). The least delay of the link cannot be seen and is part of the
offset. Memory and time are bounded; times are seconds, ours are monotonic and given by the caller.
"""
from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass

from steadyhand.config import check_ranges, described

ABSURD_S = 1e11  # three thousand years: no clock says that, and sums stay finite below it


@dataclass(frozen=True)
class ClockMapConfig:
    """Window and judgement of the map."""

    interval_s: float = described(1.0, "of each such interval the earliest arrival is kept", "s", 0.01, 60.0)
    intervals: int = described(120, "intervals in the window", "", 4, 1000)
    drift_after_s: float = described(10.0, "drift is estimated once the window is so long", "s", 1.0, 3600.0)
    drift_max_ppm: float = described(500.0, "no clock is worse; a steeper line is noise", "ppm", 1.0, 10_000.0)
    jump_s: float = described(0.05, "an arrival this far from the map is not of the same clock", "s", 0.001, 10.0)
    anew_s: float = described(1.0, "arrivals off the map, but in step for so long, begin a new one", "s", 0.01, 60.0)
    anew_count: int = described(5, "so many of them at least", "", 2, 1000)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class ClockEstimate:
    """`offset_s` = our clock - theirs at the newest stamp; `span_s` of the window; `resets`: maps begun anew."""

    offset_s: float
    drift_ppm: float
    span_s: float
    resets: int


@dataclass
class _Regime:
    """Arrivals that are in step with one another but not with the map: a clock that has jumped, or a passing jam."""

    lag_s: float
    since_s: float
    count: int = 0


class ClockMap:
    """Feed `update` with every arrival. `refused` counts by reason: not_finite, repeated, backward, off_the_map."""

    def __init__(self, config: ClockMapConfig = ClockMapConfig()):
        self.config = config
        self.refused: Counter[str] = Counter()
        self.resets = 0
        self._regime: _Regime | None = None
        self._earliest: deque[list[float]] = deque(maxlen=config.intervals)  # [stamp, lag], lag = received - stamp
        self._begin(None, 0.0)

    def _begin(self, stamp_s: float | None, lag_s: float) -> None:
        self._earliest.clear()
        self._first_s, self._newest_s = stamp_s, stamp_s
        self._received_s = -math.inf
        # lags are kept relative to the first one: the difference of two uptimes would cost digits
        self._lag_s, self._at_zero_s, self._drift = lag_s, 0.0, 0.0
        self._interval = -1

    def reset(self) -> None:
        """Forget the clock: the next arrival begins a new map."""
        self.resets += self._first_s is not None
        self._regime = None
        self._begin(None, 0.0)

    def update(self, stamp_s: float, received_s: float) -> bool:
        """One arrival; False, counted, when it does not belong to the clock that is mapped."""
        if not (abs(stamp_s) < ABSURD_S and abs(received_s) < ABSURD_S):  # nor NaN
            self.refused["not_finite"] += 1
            return False
        if self._first_s is None:
            self._begin(stamp_s, received_s - stamp_s)
        elif abs(self.delay_s(stamp_s, received_s)) > self.config.jump_s:
            if not self._off_the_map(stamp_s, received_s):
                return False
        elif stamp_s <= self._newest_s or received_s < self._received_s:
            self.refused["repeated" if stamp_s == self._newest_s else "backward"] += 1
            return False
        self._regime = None
        self._newest_s, self._received_s = stamp_s, received_s
        self._keep(stamp_s - self._first_s, received_s - stamp_s - self._lag_s)
        return True

    def _off_the_map(self, stamp_s: float, received_s: float) -> bool:
        """Whether the clock has jumped or begun anew; then the map has, too."""
        lag_s, regime = received_s - stamp_s, self._regime
        if regime is None or abs(lag_s - regime.lag_s) > self.config.jump_s or received_s < regime.since_s:
            regime = self._regime = _Regime(lag_s, received_s)
        regime.count += 1
        if regime.count < self.config.anew_count or received_s - regime.since_s < self.config.anew_s:
            self.refused["off_the_map"] += 1
            return False
        self.resets += 1
        self._begin(stamp_s, lag_s)
        return True

    def _keep(self, at_s: float, lag_s: float) -> None:
        interval = int(at_s / self.config.interval_s)
        if interval != self._interval:
            self._fit()
            self._interval = interval
            self._earliest.append([at_s, lag_s])
        elif lag_s < self._earliest[-1][1]:
            self._earliest[-1] = [at_s, lag_s]
        below_s = lag_s - (self._at_zero_s + self._drift * at_s)
        if below_s < 0.0:  # earlier than the line: the line was not the lowest
            self._at_zero_s += below_s

    def _fit(self) -> None:
        """The line below all points that is nearest to them; before the window is long enough, one without drift."""
        points, limit = self._earliest, self.config.drift_max_ppm * 1e-6
        if not points:
            return
        self._drift = 0.0
        if points[-1][0] - points[0][0] >= self.config.drift_after_s:
            self._drift = min(limit, max(-limit, _slope(points)))
        self._at_zero_s = min(lag_s - self._drift * at_s for at_s, lag_s in points)

    def to_ours(self, stamp_s: float) -> float | None:
        """Our clock when theirs said `stamp_s` (plus the link's least delay); None before the first arrival."""
        if self._first_s is None or not math.isfinite(stamp_s):
            return None
        return stamp_s + self._lag_s + self._at_zero_s + self._drift * (stamp_s - self._first_s)

    def delay_s(self, stamp_s: float, received_s: float) -> float:
        """How much later than the earliest ones it arrived; negative: earlier than any. NaN without a map."""
        ours_s = self.to_ours(stamp_s)
        return math.nan if ours_s is None else received_s - ours_s

    def estimate(self) -> ClockEstimate | None:
        """What is known of the clock; None before the first arrival."""
        if self._first_s is None:
            return None
        offset_s = self.to_ours(self._newest_s) - self._newest_s
        span_s = self._earliest[-1][0] - self._earliest[0][0]
        return ClockEstimate(offset_s, self._drift * 1e6, span_s, self.resets)


def _slope(points: deque[list[float]]) -> float:
    """Slope of the lower convex hull of points in order of their first value, above the mean of these."""
    hull: list[list[float]] = []
    for p in points:
        while len(hull) > 1 and _turn(hull[-2], hull[-1], p) <= 0.0:
            hull.pop()
        hull.append(p)
    mean = sum(p[0] for p in points) / len(points)
    right = next(k for k in range(1, len(hull)) if hull[k][0] >= mean)
    (x0, y0), (x1, y1) = hull[right - 1], hull[right]
    return (y1 - y0) / (x1 - x0)


def _turn(a: list[float], b: list[float], c: list[float]) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
