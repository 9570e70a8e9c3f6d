"""Which messages of a vehicle are news: duplicates, reordered and held-up ones are dropped and counted. Pure.

A message is news when its headerId has gone on (unsigned 32 bit, wrapping), or when it begins anew with a later
timestamp (the vehicle was restarted). It is stale when it has been longer on its way than the quickest one so far by
more than `max_delay_s`: both clocks may show any time and drift apart by `DRIFT`, only differences are compared. A
vehicle whose clock is set back looks like one whose messages are held up; so whoever hears only stale ones reconnects,
which empties every queue, and begins with a new filter.
"""
from __future__ import annotations

from dataclasses import dataclass, field

from steadyhand.vda5050.codec import MAX_HEADER_ID
from steadyhand.vda5050.header import parse_timestamp

DRIFT = 200e-6  # greatest rate by which two ordinary clocks drift apart


@dataclass
class Freshness:
    """The filter of one vehicle; `reset` at each connection."""

    max_delay_s: float = 1.0
    counts: dict[str, int] = field(default_factory=dict)
    _last: dict[str, tuple[int, float]] = field(default_factory=dict)
    _least_delay_s: float | None = None
    _heard_s: float = 0.0

    def reset(self) -> None:
        """Forget the vehicle's counters and clock; counts stay."""
        self._last.clear()
        self._least_delay_s = None

    def take(self, kind: str, message: dict[str, object], now_s: float) -> str:
        """Empty when the message is news; else why it is dropped. Messages without a header (2.1) are news.

        Raises ProtocolError for a timestamp that is no time.
        """
        if "headerId" not in message or "timestamp" not in message:
            return ""
        header_id, sent_s = message["headerId"], parse_timestamp(message["timestamp"])
        last = self._last.get(kind)
        if last is not None:
            ahead = (header_id - last[0]) & MAX_HEADER_ID
            if ahead == 0 and sent_s <= last[1]:
                return self._drop("duplicate")
            if ahead > MAX_HEADER_ID // 2 and sent_s <= last[1]:
                return self._drop("reordered")
            if ahead == 0 or ahead > MAX_HEADER_ID // 2:
                self._count("restarted")
        delay_s = now_s - sent_s
        if self._least_delay_s is None:
            self._least_delay_s = delay_s
        else:
            self._least_delay_s += DRIFT * max(0.0, now_s - self._heard_s)
        self._heard_s = now_s
        if delay_s > self._least_delay_s + self.max_delay_s:
            return self._drop("stale")
        self._least_delay_s = min(delay_s, self._least_delay_s)
        self._last[kind] = (header_id, sent_s)
        return ""

    def _drop(self, why: str) -> str:
        self._count(why)
        return why

    def _count(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
