"""Health of components with hysteresis, for /diagnostics: worse at once after `misses`, better only after `hits`."""
from __future__ import annotations

import enum
from dataclasses import dataclass


class Level(enum.IntEnum):
    """Values of diagnostic_msgs/DiagnosticStatus."""

    OK = 0
    WARN = 1
    ERROR = 2
    STALE = 3


@dataclass(frozen=True)
class HealthConfig:
    """How many consecutive reports change the level, and how long silence is tolerated."""

    misses: int = 3
    hits: int = 3
    stale_after_s: float = 3.0

    def __post_init__(self) -> None:
        if self.misses < 1 or self.hits < 1:
            raise ValueError(f"misses = {self.misses}, hits = {self.hits}: give 1 or more")
        if not self.stale_after_s > 0:
            raise ValueError(f"stale_after_s = {self.stale_after_s}: give more than 0")


class Component:
    """One component's health. Feed it reports; read `level(now_s)`."""

    def __init__(self, name: str, config: HealthConfig = HealthConfig()):
        self.name = name
        self.message = "no report yet"
        self._config = config
        self._level = Level.STALE
        self._streak = 0
        self._candidate = Level.STALE
        self._last_s: float | None = None

    def report(self, level: Level, message: str, now_s: float) -> None:
        """One observation of the component's state."""
        first, self._last_s, self.message = self._last_s is None, now_s, message
        if first or level == self._level:
            self._level, self._streak = level, 0
            return
        better = level < self._level
        same_side = (self._candidate < self._level) == better
        self._streak = self._streak + 1 if self._streak and same_side else 1
        self._candidate = level
        if self._streak >= (self._config.hits if better else self._config.misses):
            self._level, self._streak = level, 0

    def level(self, now_s: float) -> Level:
        """Level now; STALE when nothing was reported for `stale_after_s`."""
        if self._last_s is None or now_s - self._last_s > self._config.stale_after_s:
            return Level.STALE
        return self._level
