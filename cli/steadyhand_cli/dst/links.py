"""The message layer: each link delays, drops, duplicates, reorders, corrupts and partitions on demand."""
from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import Any

from steadyhand.guard_protocol import Gripper, encode

MODES = ("delay", "drop", "duplicate", "reorder", "corrupt", "partition")
LATENCY_S = (0.0004, 0.003)
MUTATIONS = {
    "float": (float("nan"), float("inf"), -1.0, 1e9, 0.0),
    "int": (0, -1, 2**31 - 1, 7),
    "str": ("", "x", "policy", "planner"),
}


@dataclass
class Link:
    """One direction between two processes. `count` is told when a fault first meets a message."""

    name: str
    rng: random.Random
    at: Callable[[float, Callable[[], None]], None]  # run something at a time
    count: Callable[[str], None]
    stall_until_s: float = float("-inf")
    cut_until_s: float = float("-inf")
    drop: int = 0
    duplicate: int = 0
    reorder: int = 0
    corrupt: int = 0
    pending: set[str] = field(default_factory=set)  # injected, not counted yet

    def hit(self, mode: str) -> None:
        """A fault has met a message: counted once for each injection."""
        if mode in self.pending:
            self.pending.discard(mode)
            self.count(f"{self.name}:{mode}")

    def forget(self) -> None:
        """Faults that have met no message are over."""
        self.drop = self.duplicate = self.reorder = self.corrupt = 0
        self.pending.clear()

    def clear(self, now_s: float) -> bool:
        """Whether it carries everything as it should."""
        return now_s > max(self.stall_until_s, self.cut_until_s) and not (
            self.drop or self.duplicate or self.reorder or self.corrupt
        )

    def blocked(self, now_s: float) -> bool:
        """Whether a message of now would not arrive now (for streams whose every element is like the last)."""
        for until_s, mode in ((self.stall_until_s, "delay"), (self.cut_until_s, "partition")):
            if now_s <= until_s:
                self.hit(mode)
                return True
        return False

    def send(self, message: Any, now_s: float, deliver: Callable[[Any], None]) -> None:
        """Carry one message; `deliver` is called with it, or with bytes, when it arrives, as often as it does."""
        if now_s <= self.cut_until_s:
            return self.hit("partition")
        if self._take("drop"):
            return None
        arrival_s = now_s + self.rng.uniform(*LATENCY_S)
        if now_s <= self.stall_until_s:
            self.hit("delay")
            arrival_s += self.stall_until_s - now_s
        if self._take("reorder"):
            arrival_s += self.rng.uniform(0.02, 0.15)
        if self._take("corrupt"):
            message = corrupted(message, self.rng)
        if self._take("duplicate"):
            self.at(arrival_s + self.rng.choice([0.0005, 0.01, 0.05, 0.3, 1.2]), lambda: deliver(message))
        return self.at(arrival_s, lambda: deliver(message))

    def _take(self, mode: str) -> bool:
        left = getattr(self, mode)
        if left:
            setattr(self, mode, left - 1)
            self.hit(mode)
        return bool(left)


def corrupted(message: Any, rng: random.Random) -> Any:
    """A message with one field changed, or its packet with a bit flipped, cut short, or made longer."""
    how = rng.randrange(4)
    if isinstance(message, bytes):
        return message[: len(message) // 2]
    if how == 0:
        return mutated(message, rng)
    try:
        packet = bytearray(encode(message))
    except Exception:
        return b"\xc1"
    if how == 1:
        packet[rng.randrange(len(packet))] ^= 1 << rng.randrange(8)
    elif how == 2:
        del packet[rng.randrange(len(packet)):]
    else:
        packet += rng.randbytes(rng.randint(1, 8))
    return bytes(packet)


def mutated(message: Any, rng: random.Random) -> Any:
    """One field of a valid message replaced by another value of its type."""
    f = rng.choice([f for f in fields(message) if f.name != "trace_id"])
    value = getattr(message, f.name)
    if f.name == "q_rad":
        rows = [list(row) for row in value]
        k = rng.randrange(len(rows))
        how = rng.randrange(4)
        if how == 0:
            rows[k][rng.randrange(6)] = rng.choice([float("nan"), float("inf"), -50.0, rows[k][0] + 0.8])
        elif how == 1:
            rows[k] = rows[k][:-1]
        elif how == 2:
            rows = []
        else:
            rows.reverse()
        return replace(message, q_rad=rows)
    if isinstance(value, list):
        return replace(message, **{f.name: value[::-1]})
    if isinstance(value, bool):
        return replace(message, **{f.name: not value})
    kind = type(value).__name__
    if kind not in MUTATIONS or (isinstance(message, Gripper) and f.name == "width_m" and rng.random() < 0.5):
        return replace(message, **{f.name: float("nan")} if kind == "float" else {})
    return replace(message, **{f.name: rng.choice(MUTATIONS[kind])})
