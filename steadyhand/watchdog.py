"""Watchdogs: freshness of named inputs, and measured rest. Pure: the guard's monotonic seconds are an argument (I5)."""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from steadyhand.errors import ConfigError

REST_SPEED_RAD_S = 0.01  # requirement I1
REST_TIME_S = 0.100


@dataclass
class InputWatchdog:
    """Which of the configured inputs are alive: silence over the limit, or a beat that says not ok, is a cause.

    `limits_s` maps input names to the longest silence allowed, `moving_limits_s` some of them to a tighter one that
    holds while the robot moves: whoever leads a motion must be known to live for as long as it lasts. Unknown names are
    ignored and counted: a stranger's beat must not stand in for a required one.
    """

    limits_s: Mapping[str, float]
    moving_limits_s: Mapping[str, float] = field(default_factory=dict)
    unknown: int = 0
    _renewed: bool = False
    _last_s: dict[str, float] = field(default_factory=dict)
    _trouble: dict[str, str] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)  # troubles that `holding` has shown
    _over: set[str] = field(default_factory=set)  # those that ended before it could

    def __post_init__(self) -> None:
        for name, limit in self.limits_s.items():
            if not (isinstance(limit, (int, float)) and math.isfinite(limit) and limit > 0):
                raise ConfigError(f"inputs.{name}={limit!r}: give a time limit above 0 s")

    def beat(self, name: str, ok: bool, detail: str, now_s: float) -> None:
        """Record one heartbeat. Trouble is shown by `holding` at least once, however soon a good beat follows."""
        if name not in self.limits_s:
            self.unknown += 1
            return
        self._last_s[name] = now_s
        if not ok:
            self._trouble[name] = detail or "reports trouble"
            self._over.discard(name)
        elif name in self._told:
            self._end(name)
        elif name in self._trouble:
            self._over.add(name)

    def renew(self) -> None:
        """Forget what was heard: a person has moved the arm, each input must be heard of anew."""
        self._renewed = True
        self._last_s.clear()

    def holding(self, now_s: float, moving: bool) -> dict[str, str]:
        """`input:<name>` -> detail for every input that is not fresh and well."""
        found = {}
        for name, rest_limit in self.limits_s.items():
            limit = self.moving_limits_s.get(name, rest_limit) if moving else rest_limit
            last = self._last_s.get(name)
            if last is None:
                since = "not heard of since a person moved the arm" if self._renewed else "never heard of"
                found[f"input:{name}"] = since
            elif now_s - last > limit:
                found[f"input:{name}"] = f"silent for more than {limit * 1e3:.0f} ms" + " while moving" * moving
            elif name in self._trouble:
                found[f"input:{name}"] = self._trouble[name]
        self._told.update(self._trouble)
        for name in tuple(self._over):
            self._end(name)
        return found

    def _end(self, name: str) -> None:
        self._trouble.pop(name, None)
        self._told.discard(name)
        self._over.discard(name)


@dataclass
class LinkWatchdog:
    """Operators in control: each must beat at least every `timeout_s`, or end its link in an orderly way.

    `client` is any opaque value that names the connection.
    """

    timeout_s: float
    _links: dict[object, tuple[str, float]] = field(default_factory=dict)

    def beat(self, client: object, name: str, in_control: bool, now_s: float) -> None:
        """One beat, or the orderly end."""
        if in_control:
            self._links[client] = (name[:40], now_s)
        else:
            self._links.pop(client, None)

    def gone(self, client: object) -> str:
        """The connection has ended: the name of the operator that was in control through it, else empty."""
        return self._links.pop(client, ("", 0.0))[0]

    def holding(self, now_s: float) -> dict[str, str]:
        """`operator_link:<name>` -> detail for every operator in control that is silent."""
        detail = f"silent for more than {self.timeout_s * 1e3:.0f} ms"
        return {f"operator_link:{name}": detail for name, last in self._links.values() if now_s - last > self.timeout_s}


@dataclass
class RestDetector:
    """Measured rest: max |qd| below 0.01 rad/s for 100 ms of feedback with no gap over `max_gap_s`."""

    max_gap_s: float
    speed_rad_s: float = REST_SPEED_RAD_S
    time_s: float = REST_TIME_S
    _since_s: float | None = None
    _last_s: float = -math.inf

    def reset(self) -> None:
        """Forget: rest must be measured anew, as after a stop request."""
        self._since_s = None

    def update(self, qd_rad_s: np.ndarray, stamp_s: float) -> None:
        """Take one measurement; NaN is no rest. A repeated stamp is no new measurement."""
        if stamp_s <= self._last_s:
            return
        still = bool(np.abs(qd_rad_s).max() < self.speed_rad_s)
        if not still:
            self._since_s = None
        elif self._since_s is None or stamp_s - self._last_s > self.max_gap_s:
            self._since_s = stamp_s
        self._last_s = stamp_s

    def at_rest(self, now_s: float) -> bool:
        """Whether rest has been measured and the measurement is fresh."""
        if self._since_s is None or now_s - self._last_s > self.max_gap_s:
            return False
        return self._last_s - self._since_s >= self.time_s - 1e-6


@dataclass
class SourceWatchdog:
    """The command source's duty: while the plan moves, a streaming source sends a chunk at least every `timeout_s`.

    Sources in `streaming` (closed-loop: policy, manual) are judged on their silence; any source is judged when its
    way-points were used up for `timeout_s` although the last one still wanted motion (the plan's tail brakes then).
    """

    timeout_s: float
    streaming: frozenset[str]
    motion_rad_s: float
    _source: str = ""
    _last_s: float = -math.inf
    _end_s: float = math.inf

    def accepted(self, source: str, ends_s: float, end_speed_rad_s: float, now_s: float) -> None:
        """A chunk was committed: its way-points end at `ends_s` with this commanded speed."""
        self._source, self._last_s = source, now_s
        self._end_s = ends_s if end_speed_rad_s > self.motion_rad_s else math.inf

    def clear(self) -> None:
        """No plan is under way."""
        self._source, self._end_s = "", math.inf

    def silent(self, now_s: float, moving: bool) -> str:
        """Why the source counts as silent; empty when it does not."""
        if not self._source:
            return ""
        if moving and self._source in self.streaming and now_s - self._last_s > self.timeout_s:
            return f"{self._source}: no chunk for more than {self.timeout_s * 1e3:.0f} ms while moving"
        if now_s > self._end_s + self.timeout_s:
            return f"{self._source}: chunks used up with motion still wanted"
        return ""
