"""The bytes of a log: frames with length, sequence number and checksum, and what a scan says of arbitrary bytes. Pure.

A segment is `MAGIC`, 8 bytes of the store's salt, then frames: mark (4), length of the payload (u32), sequence number
(u64), CRC-32 (u32, of salt, length, number and payload), payload; little-endian. The first frame is the segment's
header, the others are records. The salt keeps frames of another store, left on a reused disk block, from passing.

A scan never guesses: a frame counts when its checksum and its number are right. Bytes that are no frame are *damage*
when an intact frame follows, else the *tail*, which an interrupted write leaves and a writer may cut off.
"""
from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

from steadyhand.errors import SteadyhandError

MAGIC = b"SHLOG\x01\r\n"
SALT_BYTES = 8
HEADER_MARK, RECORD_MARK = b"\xa6SHh", b"\xa6SHr"
_FRAME = struct.Struct("<4sIQI")
_SUMMED = struct.Struct("<IQ")
PREAMBLE_BYTES = len(MAGIC) + SALT_BYTES
FRAME_BYTES = _FRAME.size
PAYLOAD_MAX_BYTES = 2**30


class BadStore(SteadyhandError):
    """A store cannot be used as it is: damaged, of another form, in use, or written by a newer version."""


@dataclass(frozen=True)
class Frame:
    """Place of an intact frame in its segment: bytes [start, end), the payload from `payload_start`."""

    sequence: int
    start: int
    payload_start: int
    end: int


@dataclass(frozen=True)
class Damage:
    """Bytes [start, end) of a segment that are no frame. `missing` records stood there, as the numbers after say."""

    start: int
    end: int
    missing: int


@dataclass(frozen=True)
class Scan:
    """A segment's records in order. `end` is the end of the last intact one, `tail` the bytes behind it."""

    frames: tuple[Frame, ...]
    damage: tuple[Damage, ...]
    end: int
    tail: int


def preamble(salt: bytes) -> bytes:
    """The first bytes of a segment."""
    return MAGIC + salt


def encode(payload: bytes, sequence: int, salt: bytes, mark: bytes = RECORD_MARK) -> bytes:
    """One frame. Raises ValueError for a payload over PAYLOAD_MAX_BYTES."""
    if len(payload) > PAYLOAD_MAX_BYTES:
        raise ValueError(f"payload of {len(payload)} bytes: at most {PAYLOAD_MAX_BYTES}")
    return _FRAME.pack(mark, len(payload), sequence, _checksum(payload, sequence, salt)) + payload


def read(data, start: int, salt: bytes, mark: bytes = RECORD_MARK) -> Frame | None:
    """The frame at `start` of a buffer, or None where no intact one of this kind begins."""
    payload_start = start + FRAME_BYTES
    if payload_start > len(data):
        return None
    found, length, sequence, checksum = _FRAME.unpack_from(data, start)
    end = payload_start + length
    if found != mark or length > PAYLOAD_MAX_BYTES or end > len(data):
        return None
    with memoryview(data) as view:
        intact = checksum == _checksum(view[payload_start:end], sequence, salt)
    return Frame(sequence, start, payload_start, end) if intact else None


def scan(data, start: int, sequence: int, salt: bytes) -> Scan:
    """All records of a buffer with `find` (bytes, mmap) from byte `start`; the first should have number `sequence`."""
    frames, damage, at = [], [], start
    while at < len(data):
        frame = read(data, at, salt)
        if frame is None or frame.sequence < sequence:
            frame = _next_intact(data, at + 1, sequence, salt)
            if frame is None:
                break
        if (frame.start, frame.sequence) != (at, sequence):
            damage.append(Damage(at, frame.start, frame.sequence - sequence))
        frames.append(frame)
        at, sequence = frame.end, frame.sequence + 1
    return Scan(tuple(frames), tuple(damage), at, len(data) - at)


def _next_intact(data, start: int, sequence: int, salt: bytes) -> Frame | None:
    """The first intact record from `start` on that may follow: its number is not below `sequence`."""
    at = data.find(RECORD_MARK, start)
    while at >= 0:
        frame = read(data, at, salt)
        if frame is not None and frame.sequence >= sequence:
            return frame
        at = data.find(RECORD_MARK, at + 1)
    return None


def _checksum(payload, sequence: int, salt: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(salt + _SUMMED.pack(len(payload), sequence)))
