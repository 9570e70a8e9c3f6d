"""What a reward does over training: histogram, signs, running normalisation, clamp. Watches; changes nothing by itself.

Two traps of the source documents are kept apart here. A clamp at +-5 beside outcomes of +10 and -50 makes arriving and
half arriving the same: `clamped_share` says how much a clamp takes. And with a sparse success the ratio of positive to
negative rewards lies far from 1 without anything being wrong: it is reported, not judged.
"""
from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from steadyhand.errors import ConfigError

EPS = 1e-8


class RewardStatistics:
    """`add` each step's reward and terms."""

    def __init__(self, low: float = -10.0, high: float = 10.0, bins: int = 40, clamp: float = 5.0) -> None:
        if not (math.isfinite(low) and math.isfinite(high) and low < high and bins >= 1):
            raise ConfigError(f"histogram of {bins} bins from {low} to {high}: give low < high and 1 bin or more")
        if not 0.0 < clamp < math.inf:
            raise ConfigError(f"clamp={clamp}: give a finite value above 0")
        self.edges, self.clamp = np.linspace(low, high, bins + 1), clamp
        self.counts = np.zeros(bins, dtype=np.int64)
        self.below = self.above = self.positive = self.negative = self.clamped = self.not_finite = self.n = 0
        self._mean, self._m2 = 0.0, 0.0
        self.paid: dict[str, float] = defaultdict(float)  # by term

    def add(self, reward: float, terms: dict[str, float] | None = None) -> float:
        """Count a reward; returns it normalised by the running deviation, then clamped. Not finite: counted, 0."""
        if not math.isfinite(reward):
            self.not_finite += 1
            return 0.0
        self.n += 1
        delta = reward - self._mean  # Welford 1962
        self._mean += delta / self.n
        self._m2 += delta * (reward - self._mean)
        self.positive += reward > 0.0
        self.negative += reward < 0.0
        if reward < self.edges[0]:
            self.below += 1
        elif reward > self.edges[-1]:
            self.above += 1
        else:
            width = self.edges[1] - self.edges[0]
            self.counts[min(len(self.counts) - 1, int((reward - self.edges[0]) / width))] += 1
        for name, value in (terms or {}).items():
            self.paid[name] += value
        return self.clamp_reward(self.normalised(reward))

    @property
    def mean(self) -> float:
        """Of all rewards."""
        return self._mean

    @property
    def deviation(self) -> float:
        """Standard deviation of all rewards."""
        return math.sqrt(self._m2 / self.n) if self.n else 0.0

    def normalised(self, reward: float) -> float:
        """By the running deviation; the mean stays, so that the sign does."""
        return reward / (self.deviation + EPS)

    def clamp_reward(self, reward: float) -> float:
        """Within +-`clamp`; what it takes is counted."""
        if abs(reward) > self.clamp:
            self.clamped += 1
            return math.copysign(self.clamp, reward)
        return reward

    @property
    def sign_ratio(self) -> float:
        """Positive rewards per negative one; infinite without negative ones, NaN without either."""
        if self.negative:
            return self.positive / self.negative
        return math.inf if self.positive else math.nan

    def summary(self) -> dict:
        """For a log or a file."""
        inside = int(self.counts.sum())
        ratio = self.sign_ratio
        return {
            "n": self.n, "mean": self.mean, "deviation": self.deviation, "not_finite": self.not_finite,
            "inside_share": inside / max(1, self.n), "below": self.below, "above": self.above,
            "sign_ratio": ratio if math.isfinite(ratio) else None, "clamped_share": self.clamped / max(1, self.n),
            "histogram": self.counts.tolist(), "edges": self.edges.tolist(), "paid": dict(self.paid),
        }
