"""How long calls take, from the recent ones: the number that chunk alignment and the choice of a server go by. Pure.

A failed call counts with the time it took to fail or to be given up: leaving those out would call a hung server fast.
"""
from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from steadyhand.errors import ConfigError


@dataclass(frozen=True)
class LatencyConfig:
    """`window` calls are remembered; `quantile` of them is the delay reckoned with."""

    window: int = 200  # ten seconds at the policy's rate
    quantile: float = 0.99

    def __post_init__(self) -> None:
        if not 1 <= self.window <= 100_000:
            raise ConfigError(f"latency window = {self.window}: give 1 to 100000 calls")
        if not 0.5 <= self.quantile <= 1.0:
            raise ConfigError(f"latency quantile = {self.quantile}: give 0.5 to 1")


class LatencyTracker:
    """`add` a call's seconds; `delay_s` is what the next one is reckoned to take. The caller holds a lock."""

    def __init__(self, config: LatencyConfig = LatencyConfig()) -> None:
        self.config = config
        self._seconds: deque[float] = deque(maxlen=config.window)
        self.rejected = 0

    def __len__(self) -> int:
        return len(self._seconds)

    def add(self, seconds: float) -> None:
        """Remember one call. What is no time (negative, not finite) is counted and left out."""
        if math.isfinite(seconds) and seconds >= 0.0:
            self._seconds.append(seconds)
        else:
            self.rejected += 1

    def delay_s(self) -> float:
        """The quantile of the remembered calls, rounded up to one that happened; 0 before the first."""
        if not self._seconds:
            return 0.0
        # each call asks: sorting two hundred numbers takes a tenth of what np.quantile does
        return sorted(self._seconds)[math.ceil(self.config.quantile * (len(self._seconds) - 1))]

    def clear(self) -> None:
        """Forget: what comes is another server."""
        self._seconds.clear()
