"""What may lie on the disk: a budget of size and age for each kind of file, and when recording stops for want of space.

Pure: it is told what lies there and how much is free, and says what to delete and whether to write. The shell is
`steadyhand_firmware_bridge.storage`.
"""
from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from numbers import Real
from types import MappingProxyType
from typing import Any

from steadyhand.errors import ConfigError

MB, DAY_S = 1_000_000, 86_400.0
CLOCK_DOUBT_S = 3600.0  # a clock so far behind the newest file was set: no age is known then
HOLD_S = 10.0  # after a write that the disk refused: its free space may say nothing (a quota)


def _check(name: str, value: Any, low: float, high: float) -> None:
    number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not number or not low <= value <= high:
        raise ConfigError(f"{name} = {value!r}: give a number from {low:g} to {high:g}")


@dataclass(frozen=True)
class Budget:
    """The most that one kind may take, and how long it is kept."""

    max_mb: float
    max_age_days: float

    def __post_init__(self) -> None:
        _check("max_mb", self.max_mb, 1.0, 1e7)
        _check("max_age_days", self.max_age_days, 0.01, 36_500.0)

    @property
    def max_bytes(self) -> int:
        return int(self.max_mb * MB)


# Folder below the output folder -> its budget. Whoever writes a new kind of file adds it here.
BUDGETS = MappingProxyType({
    "trace": Budget(2000.0, 30.0),
    "stops": Budget(1000.0, 365.0),
    "interventions": Budget(2000.0, 365.0),
    "reports": Budget(100.0, 365.0),
    "log": Budget(500.0, 30.0),
    "commissioning": Budget(100.0, 3650.0),
    "replay": Budget(100.0, 365.0),
})  # fmt: skip


@dataclass(frozen=True)
class StorageConfig:
    """Budgets by kind; recording stops below `min_free_mb` and goes on above `resume_free_mb`."""

    min_free_mb: float = 500.0
    resume_free_mb: float = 1000.0
    log_file_mb: float = 20.0  # a process's log is cut when it has grown so large
    budgets: Mapping[str, Budget] = field(default_factory=lambda: BUDGETS)

    def __post_init__(self) -> None:
        _check("min_free_mb", self.min_free_mb, 0.0, 1e7)
        _check("resume_free_mb", self.resume_free_mb, 0.0, 1e7)
        _check("log_file_mb", self.log_file_mb, 0.1, 1e4)
        if self.resume_free_mb < self.min_free_mb:
            raise ConfigError(f"resume_free_mb = {self.resume_free_mb}: give min_free_mb ({self.min_free_mb}) or more")


def config_of(raw: Mapping[str, Any]) -> StorageConfig:
    """From a file's map: what it leaves out is the default. Raises ConfigError naming field and value."""
    given = dict(raw)
    budgets = dict(BUDGETS)
    kinds = given.pop("budgets", {})
    if not isinstance(kinds, Mapping):
        raise ConfigError(f"budgets = {kinds!r}: give a map from kind to max_mb and max_age_days")
    for kind, limits in kinds.items():
        if kind not in BUDGETS:
            raise ConfigError(f"budgets.{kind}: unknown; the kinds are {', '.join(BUDGETS)}")
        if not isinstance(limits, Mapping) or set(limits) - {"max_mb", "max_age_days"}:
            raise ConfigError(f"budgets.{kind} = {limits!r}: give max_mb and max_age_days")
        try:
            budgets[kind] = Budget(**{**vars(budgets[kind]), **limits})
        except ConfigError as error:
            raise ConfigError(f"budgets.{kind}.{error}") from error
    for name in given:
        if name not in ("min_free_mb", "resume_free_mb", "log_file_mb"):
            known = "min_free_mb, resume_free_mb, log_file_mb, budgets"
            raise ConfigError(f"unknown parameter {name!r}; known: {known}")
    return StorageConfig(**given, budgets=MappingProxyType(budgets))


@dataclass(frozen=True)
class Entry:
    """One file, or one folder that is deleted as a whole; `changed_s` is a wall-clock time."""

    name: str
    size_bytes: int
    changed_s: float


def surplus(
    entries: Iterable[Entry], budget: Budget, now_s: float, keep: Collection[str] = (), room_bytes: int = 0
) -> list[Entry]:
    """What must go, oldest first, so that `room_bytes` more fit. Never the newest entry, never a name in `keep`.

    By age nothing goes while the clock `now_s` is behind the newest file: it was set, and no age is known.
    """
    oldest_first = sorted(entries, key=lambda e: (e.changed_s, e.name))
    if not oldest_first:
        return []
    newest = oldest_first[-1]
    used = sum(e.size_bytes for e in oldest_first) + room_bytes
    ages_known = now_s > newest.changed_s - CLOCK_DOUBT_S
    gone = []
    for entry in oldest_first[:-1]:
        old = ages_known and now_s - entry.changed_s > budget.max_age_days * DAY_S
        if entry.name not in keep and (old or used > budget.max_bytes):
            gone.append(entry)
            used -= entry.size_bytes
    return gone


@dataclass
class SpaceRule:
    """Whether to record, by free space, with hysteresis. `pauses` counts the times it stopped; `why` says the last."""

    config: StorageConfig
    recording: bool = True
    pauses: int = 0
    why: str = ""
    _until_s: float = -math.inf

    def look(self, free_bytes: float, now_s: float) -> bool:
        """Whether recording goes on with so much free space."""
        free_mb = free_bytes / MB
        if self.recording and free_mb < self.config.min_free_mb:
            self._pause(f"{free_mb:.0f} MB free, less than min_free_mb ({self.config.min_free_mb:g})")
        elif not self.recording and free_mb >= self.config.resume_free_mb and now_s >= self._until_s:
            self.recording, self.why = True, ""
        return self.recording

    def refused(self, why: str, now_s: float) -> None:
        """The disk refused a write, whatever it says to be free."""
        self._until_s = now_s + HOLD_S
        if self.recording:
            self._pause(why)

    def _pause(self, why: str) -> None:
        self.recording, self.why, self.pauses = False, why, self.pauses + 1
