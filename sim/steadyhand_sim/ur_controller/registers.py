"""General purpose registers: 48 integers, 48 doubles and 128 bits each way.

RTDE guide: registers 0-23 (bits 0-63) are meant for fieldbus and PLC, 24-47 (bits 64-127) for RTDE clients. Inputs are
written by clients and read by the program, outputs the other way round.
"""
from __future__ import annotations

from dataclasses import dataclass, field

NUMBERS = 48
BITS = 128


@dataclass
class Bank:
    """One direction."""

    ints: list[int] = field(default_factory=lambda: [0] * NUMBERS)
    doubles: list[float] = field(default_factory=lambda: [0.0] * NUMBERS)
    bits: list[bool] = field(default_factory=lambda: [False] * BITS)

    def word(self, first: int) -> int:
        """32 bits from `first` on as one number."""
        return sum(1 << i for i in range(32) if self.bits[first + i])

    def set_word(self, first: int, value: int) -> None:
        """32 bits from `first` on."""
        for i in range(32):
            self.bits[first + i] = bool(value >> i & 1)


def checked_index(index: object, limit: int) -> int:
    """A register's number; raises ValueError outside 0..limit-1."""
    if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < limit:
        raise ValueError(f"register {index!r} is outside 0..{limit - 1}")
    return index
