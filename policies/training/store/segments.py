"""The files of a log as a reader sees them: `segment-00000000.log`, ... in one folder, and the mark beside them.

Each segment's header names its number, the number of its first record and the size at which the segment before it was
left, so that a segment cut short, lost or swapped is found without reading it all. The mark (`acknowledged`) holds how
many records were acknowledged; it is written after every acknowledgement and not synced: exact after a kill, possibly
behind after a power cut, never ahead of what a disk keeps. With it a record that is gone from the end is told from one
that never was.
"""
from __future__ import annotations

import contextlib
import json
import mmap
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from policies.training.store import frames
from policies.training.store.frames import MAGIC, PREAMBLE_BYTES, BadStore, Scan

FORMAT = 1
MARK_NAME, LOCK_NAME = "acknowledged", "lock"
_COUNT, _CHECKSUM = struct.Struct("<Q"), struct.Struct("<I")


@dataclass(frozen=True)
class Segment:
    """A segment whose header is intact. Records have numbers from `first` on and bytes from `records_from` on."""

    path: Path
    number: int
    first: int
    salt: bytes
    records_from: int
    header: Mapping[str, object]


def segment_path(folder: Path, number: int) -> Path:
    """Path of a segment."""
    return folder / f"segment-{number:08d}.log"


def paths(folder: Path) -> list[Path]:
    """The segments there are, in order."""
    return sorted(folder.glob("segment-*.log"))


def beginning(number: int, first: int, previous_bytes: int, kind: str, meta: Mapping, salt: bytes) -> bytes:
    """Everything that a segment begins with: preamble and header."""
    content = {
        "format": FORMAT, "number": number, "first": first, "previous_bytes": previous_bytes, "kind": kind,
        "meta": meta,
    }  # fmt: skip
    payload = json.dumps(content, sort_keys=True).encode()
    return frames.preamble(salt) + frames.encode(payload, first, salt, frames.HEADER_MARK)


@contextlib.contextmanager
def mapped(path: Path) -> Iterator[bytes | mmap.mmap]:
    """A file's bytes, by memory map."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:  # nothing to map
            yield b""
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


def open_segment(path: Path) -> Segment:
    """A segment's header. Raises BadStore when it is not intact or of a newer format."""
    with mapped(path) as data:
        salt = bytes(data[len(MAGIC) : PREAMBLE_BYTES])
        whole = data[: len(MAGIC)] == MAGIC
        frame = frames.read(data, PREAMBLE_BYTES, salt, frames.HEADER_MARK) if whole else None
        if frame is None:
            raise BadStore(f"{path.name}: its header is not intact")
        header = json.loads(bytes(data[frame.payload_start : frame.end]))
    if header["format"] > FORMAT:
        raise BadStore(f"{path.name}: format {header['format']} is newer than this program's {FORMAT}")
    return Segment(path, header["number"], header["first"], salt, frame.end, header)


def chain(folder: Path) -> tuple[Segment, ...]:
    """All segments, checked against one another without reading their records. Raises BadStore."""
    found = tuple(open_segment(path) for path in paths(folder))
    for number, segment in enumerate(found):
        if segment.path != segment_path(folder, number) or segment.number != number:
            raise BadStore(f"{segment_path(folder, number).name}: missing; {segment.path.name} is there instead")
        if number == 0:
            continue
        before = found[number - 1]
        for name, mine, theirs in (
            ("kind", segment.header["kind"], before.header["kind"]),
            ("meta", segment.header["meta"], before.header["meta"]),
            ("salt", segment.salt, before.salt),
        ):
            if mine != theirs:
                raise BadStore(f"{segment.path.name}: {name} is not {before.path.name}'s: two stores are mixed")
        size, sealed_bytes = before.path.stat().st_size, segment.header["previous_bytes"]
        if size != sealed_bytes:
            raise BadStore(f"{before.path.name}: {size} bytes; it was sealed with {sealed_bytes}")
    return found


def scan(segment: Segment) -> Scan:
    """A segment's records."""
    with mapped(segment.path) as data:
        return frames.scan(data, segment.records_from, segment.first, segment.salt)


def read(folder: Path, first: int = 0) -> Iterator[tuple[int, bytes]]:
    """(number, payload) of the records from number `first` on, in order. Raises BadStore.

    Everything before a damage is given, then it is raised. A tail at the very end is left out: a writer may be at work.
    Records that are acknowledged while this runs may or may not be among them.
    """
    acknowledged, found = read_mark(folder), chain(folder)
    end = 0
    for segment in found[max((s.number for s in found if s.first <= first), default=0) :]:
        last = segment is found[-1]
        with mapped(segment.path) as data:
            seen = frames.scan(data, segment.records_from, segment.first, segment.salt)
            broken_from = seen.damage[0].start if seen.damage else seen.end
            for frame in seen.frames:
                if frame.start < broken_from and frame.sequence >= first:
                    yield frame.sequence, bytes(data[frame.payload_start : frame.end])
        if seen.damage or (seen.tail and not last):
            raise BadStore(f"{segment.path.name}: {describe(seen)}")
        end = segment.first + len(seen.frames)
        if not last and end != found[segment.number + 1].first:
            raise BadStore(f"{segment.path.name}: ends before record {end}, the next one begins elsewhere")
    if acknowledged is not None and end < acknowledged:
        raise BadStore(f"{folder.name}: records {end} to {acknowledged - 1} were acknowledged and are gone")


def first_payload(segment: Segment) -> bytes | None:
    """Payload of a segment's first record; None when it has none (yet)."""
    with mapped(segment.path) as data:
        frame = frames.read(data, segment.records_from, segment.salt)
        return None if frame is None else bytes(data[frame.payload_start : frame.end])


def read_mark(folder: Path) -> int | None:
    """How many records were acknowledged at least; None when the mark is not readable."""
    try:
        content = (folder / MARK_NAME).read_bytes()
    except FileNotFoundError:
        return None
    if len(content) != _COUNT.size + _CHECKSUM.size:
        return None
    body = content[: _COUNT.size]
    return _COUNT.unpack(body)[0] if _CHECKSUM.unpack(content[_COUNT.size :])[0] == zlib.crc32(body) else None


def mark_bytes(count: int) -> bytes:
    """Content of the mark."""
    body = _COUNT.pack(count)
    return body + _CHECKSUM.pack(zlib.crc32(body))


def describe(seen: Scan) -> str:
    """What is wrong with a segment, in words."""
    parts = [f"{d.end - d.start} damaged bytes at {d.start}, {d.missing} records gone" for d in seen.damage]
    return "; ".join(parts + [f"{seen.tail} bytes at its end are no record"] * bool(seen.tail))
