"""What is left of a damaged log: every intact record, and every problem named. Reads only.

`RecordLog` and `segments.read` refuse a damaged store; this is for the person who has to decide what becomes of it.
`python -m policies.training.store survey FOLDER` prints it.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from policies.training.store import frames, segments
from policies.training.store.frames import MAGIC, PREAMBLE_BYTES


@dataclass
class Survey:
    """`records` are intact, `missing` known to be gone. No problem: the store is whole."""

    records: int = 0
    missing: int = 0
    tail_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def survey(folder: Path, keep: Callable[[int, bytes], None] | None = None) -> Survey:
    """Look at everything; `keep` gets number and payload of every intact record, in order."""
    found, expected, salt = Survey(), 0, b""
    say = found.problems.append
    for number, path in enumerate(segments.paths(folder)):
        if path != segments.segment_path(folder, number):
            say(f"{path.name}: {segments.segment_path(folder, number).name} should stand here")
        with segments.mapped(path) as data:
            if data[: len(MAGIC)] != MAGIC:
                say(f"{path.name}: does not begin as a segment does")
            own = bytes(data[len(MAGIC) : PREAMBLE_BYTES])
            head = frames.read(data, PREAMBLE_BYTES, own, frames.HEADER_MARK)
            if head is not None:
                salt = own
            else:
                say(f"{path.name}: its header is not intact")
            if head is not None and head.sequence != expected:
                say(f"{path.name}: begins with record {head.sequence}, expected {expected}")
                found.missing += max(0, head.sequence - expected)
                expected = max(expected, head.sequence)
            start = min(PREAMBLE_BYTES, len(data)) if head is None else head.end
            seen = frames.scan(data, start, expected, salt or own)
            if head is None and not seen.frames:
                found.tail_bytes += seen.tail  # named by the line above
            elif seen.damage or seen.tail:
                say(f"{path.name}: {segments.describe(seen)}")
                found.tail_bytes += seen.tail
            found.missing += sum(d.missing for d in seen.damage)
            for frame in seen.frames:
                found.records, expected = found.records + 1, frame.sequence + 1
                if keep is not None:
                    keep(frame.sequence, bytes(data[frame.payload_start : frame.end]))
    _check_mark(folder, expected, found)
    return found


def _check_mark(folder: Path, end: int, found: Survey) -> None:
    acknowledged = segments.read_mark(folder)
    if acknowledged is None:
        found.problems.append(f"{segments.MARK_NAME}: not readable: whether records are gone at the end is unknown")
    elif acknowledged > end:
        found.missing += acknowledged - end
        found.problems.append(f"records {end} to {acknowledged - 1} were acknowledged and are gone")
