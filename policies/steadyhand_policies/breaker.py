"""When to ask the primary server and when not to: a circuit breaker, pure, with time as an argument.

Failures open it, at once for a server that is not there, after a few for missed deadlines. While it is open no call
waits for the primary. It closes only after several good canaries in a row (I7: hysteresis; I8: health is a canary).
"""
from __future__ import annotations

import enum
from dataclasses import dataclass

from steadyhand.errors import ConfigError


class Failure(str, enum.Enum):
    """Why a call to a server failed."""

    DEADLINE = "deadline"  # no answer in time: hung, overloaded, or a lost reply
    UNAVAILABLE = "unavailable"  # nothing listens, connection lost, or its queue is full
    INTERNAL = "internal"  # the model's process crashed or raised
    REJECTED = "rejected"  # the server refused the request: unknown model, wrong shape
    BAD_REPLY = "bad_reply"  # not finite, out of range, wrong shape, or for another observation


@dataclass(frozen=True)
class BreakerConfig:
    """Limits of the breaker."""

    misses_to_open: int = 3  # missed deadlines in a row; every other failure opens at once
    canaries_to_close: int = 3
    healthy_interval_s: float = 1.0  # between canaries while closed
    probe_interval_s: float = 0.1  # between canaries while open

    def __post_init__(self) -> None:
        for name in ("misses_to_open", "canaries_to_close"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}: give 1 or more")
        for name in ("healthy_interval_s", "probe_interval_s"):
            if not 0.01 <= getattr(self, name) <= 60:
                raise ConfigError(f"{name} = {getattr(self, name)}: give 0.01 to 60 s")


class Breaker:
    """State of one server. Starts open: nothing is trusted before its canary. Callers hold a lock of their own."""

    def __init__(self, config: BreakerConfig = BreakerConfig()) -> None:
        self.config = config
        self.closed = False
        self.cause = "no canary yet"
        self.opened_s: float | None = None
        self.times_opened = 0
        self._misses = 0
        self._canary_misses = 0
        self._good_canaries = 0

    def on_success(self) -> None:
        """A call was answered in time."""
        self._misses = 0

    def on_failure(self, failure: Failure, now_s: float) -> None:
        """A call failed."""
        self._misses += 1
        if failure is not Failure.DEADLINE or self._misses >= self.config.misses_to_open:
            self._open(failure.value, now_s)

    def on_canary(self, failure: Failure | None, now_s: float) -> None:
        """A canary was answered as recorded (None), or failed."""
        if failure is None:
            self._canary_misses = 0
            self._good_canaries += 1
            if not self.closed and self._good_canaries >= self.config.canaries_to_close:
                self.closed, self.cause, self.opened_s, self._misses = True, "", None, 0
            return
        self._good_canaries = 0
        self._canary_misses += 1
        if failure is not Failure.DEADLINE or self._canary_misses >= self.config.misses_to_open:
            self._open(f"canary: {failure.value}", now_s)

    def canary_interval_s(self) -> float:
        """Time until the next canary is due."""
        return self.config.healthy_interval_s if self.closed else self.config.probe_interval_s

    def _open(self, cause: str, now_s: float) -> None:
        self._good_canaries = 0
        if self.closed:
            self.times_opened += 1
        if self.closed or self.opened_s is None:
            self.opened_s = now_s
        self.closed, self.cause = False, cause
