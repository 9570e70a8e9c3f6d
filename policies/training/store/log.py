"""An append-only log with one writer: a record is acknowledged when `append` returns, and is there after any kill.

Order of one append: frame to the file, `fdatasync`, mark, return. A kill before the return may leave a whole frame
(kept: it was merely not acknowledged), part of one (cut off at the next opening, counted) or nothing.
`durability="process"` leaves out the sync: it survives the death of the process, not a power cut; the mark then tells
afterwards that something was lost. A disk that refuses a write leaves the log as it was; one that refuses a sync ends
it, since nobody knows what it holds: open it anew.

One writer: a POSIX lock on the file `lock`, which the kernel drops with the process, however it ends, and which forked
workers do not inherit.
"""
from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from policies.training.store import frames, segments
from policies.training.store.files import locked, sync_folder, write_whole
from policies.training.store.frames import BadStore, Scan
from policies.training.store.segments import Segment
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError

DURABILITIES = ("power", "process")


@dataclass(frozen=True)
class LogConfig:
    """Size of a segment and what an acknowledgement is worth."""

    segment_bytes: int = described(16 * 2**20, "a segment is followed by the next at this size", "B", 1024, 2**30)
    record_bytes_max: int = described(2**28, "largest record", "B", 64, frames.PAYLOAD_MAX_BYTES)
    durability: str = "power"

    def __post_init__(self) -> None:
        if self.durability not in DURABILITIES:
            raise ConfigError(f"LogConfig.durability = {self.durability!r}: give one of {', '.join(DURABILITIES)}")
        check_ranges(self)


@dataclass(frozen=True)
class Recovery:
    """What an opening found: `records` in all, `unmarked` of them whole but not known to be acknowledged."""

    records: int
    unmarked: int = 0
    torn_bytes: int = 0  # of a write that was interrupted, cut off
    torn_kept: str = ""  # the file they were kept in, where it is not certain that they were never acknowledged
    mark_lost: bool = False  # the mark was not readable: a record gone from the end would not be noticed


class RecordLog:
    """The writer. Raises BadStore on opening a log that is damaged, in use, or of another kind or meta."""

    def __init__(self, folder: Path, kind: str, meta: Mapping[str, object], config: LogConfig | None = None):
        self.folder, self.kind, self.meta = Path(folder), kind, json.loads(json.dumps(meta))
        self.config = config or LogConfig()
        self._broken = ""
        self._fd = self._mark_fd = -1
        self.last_payload: bytes | None = None  # of the newest record when the log was opened
        if not self.folder.exists():
            self.folder.mkdir(parents=True)
            sync_folder(self.folder.parent)
        with contextlib.ExitStack() as undo:
            undo.enter_context(locked(self.folder / segments.LOCK_NAME))
            undo.callback(self._close_files)
            self.recovery = self._open()
            self._undo = undo.pop_all()

    @property
    def end(self) -> int:
        """Records acknowledged: the number that the next one gets."""
        return self._end

    def append(self, payload: bytes) -> int:
        """Add a record; its number, once it is as durable as configured."""
        return self.extend([payload])

    def extend(self, payloads: Sequence[bytes]) -> int:
        """Add records with one sync; the number of the first. A kill meanwhile may leave the first few of them."""
        if self._broken:
            raise BadStore(f"{self.folder.name}: {self._broken}; open it anew")
        largest = max(map(len, payloads), default=0)
        if largest > self.config.record_bytes_max:
            raise BadStore(f"record of {largest} bytes: record_bytes_max = {self.config.record_bytes_max}")
        first = self._end
        content = b"".join(frames.encode(p, first + k, self._salt) for k, p in enumerate(payloads))
        if not content:
            return first
        if self._size > self._empty_size and self._size + len(content) > self.config.segment_bytes:
            self._rotate()
        self._write(content)
        self._size += len(content)
        self._end += len(payloads)
        self._mark()
        return first

    def read(self, first: int = 0) -> Iterator[tuple[int, bytes]]:
        """(number, payload) from number `first` on."""
        return segments.read(self.folder, first)

    def close(self) -> None:
        """Let go of the log; harmless when done before."""
        self._broken = self._broken or "closed"
        self._undo.close()

    def __enter__(self) -> RecordLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- opening ---

    def _open(self) -> Recovery:
        for leftover in self.folder.glob("*.new"):  # a segment that was never begun: it holds no record
            leftover.unlink()
        acknowledged, found = segments.read_mark(self.folder), segments.chain(self.folder)
        mark_lost = acknowledged is None and (bool(found) or (self.folder / segments.MARK_NAME).exists())
        if not found:
            if acknowledged:
                raise BadStore(f"{self.folder.name}: {acknowledged} records were acknowledged and no segment is there")
            self._salt, self._end = secrets.token_bytes(frames.SALT_BYTES), 0
            self._open_mark()
            self._start_segment(0, 0)
            return Recovery(0, mark_lost=mark_lost)
        last = found[-1]
        for name, mine in (("kind", self.kind), ("meta", self.meta)):
            if last.header[name] != mine:
                raise BadStore(f"{self.folder.name}: {name} is {last.header[name]!r}, asked for {mine!r}")
        seen, doubtful = _torn(last, segments.scan(last), acknowledged)
        self._salt, self._end, self._number = last.salt, last.first + len(seen.frames), last.number
        if acknowledged is not None and self._end < acknowledged:
            gone = f"records {self._end} to {acknowledged - 1}"
            raise BadStore(f"{last.path.name}: {gone} were acknowledged and are gone; see `survey`")
        self.last_payload = _last_payload(found, seen)
        kept = _cut(last, seen, keep=doubtful or mark_lost) if seen.tail else ""
        self._empty_size, self._size = last.records_from, seen.end
        self._fd = os.open(last.path, os.O_WRONLY | os.O_APPEND)
        if self.config.durability == "power":
            os.fsync(self._fd)  # whole frames that nobody synced yet are about to be counted on
        self._open_mark()
        return Recovery(self._end, self._end - (acknowledged or 0), seen.tail, kept, mark_lost)

    def _start_segment(self, number: int, previous_bytes: int) -> None:
        """A segment appears whole, with its header, or not at all."""
        content = segments.beginning(number, self._end, previous_bytes, self.kind, self.meta, self._salt)
        path = segments.segment_path(self.folder, number)
        write_whole(path, [content])
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND)
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._number, self._empty_size, self._size = fresh, number, len(content), len(content)

    # --- writing ---

    def _rotate(self) -> None:
        try:
            self._start_segment(self._number + 1, self._size)
        except OSError as error:
            begun = segments.segment_path(self.folder, self._number + 1).exists()
            self._broken = "a new segment was begun and could not be opened" if begun else ""
            raise BadStore(f"{self.folder.name}: no new segment ({error}); nothing was added") from error

    def _write(self, content: bytes) -> None:
        rest = memoryview(content)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as error:
            self._take_back()
            raise BadStore(f"{self.folder.name}: the disk refused a record ({error}); nothing was added") from error
        if self.config.durability == "power":
            try:
                os.fdatasync(self._fd)
            except OSError as error:
                self._broken = f"the disk refused a sync ({error}): nobody knows what it holds"
                raise BadStore(f"{self.folder.name}: {self._broken}; open it anew") from error

    def _take_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._size)
        except OSError as error:
            self._broken = f"part of a record could not be taken back ({error})"

    def _open_mark(self) -> None:
        self._mark_fd = os.open(self.folder / segments.MARK_NAME, os.O_WRONLY | os.O_CREAT, 0o644)
        self._mark()  # before it is made as long as it should be: a kill in between leaves nothing unreadable
        os.ftruncate(self._mark_fd, len(segments.mark_bytes(0)))
        if self.config.durability == "power":
            os.fsync(self._mark_fd)

    def _mark(self) -> None:
        """After the sync, so that it never runs ahead of the records; unsynced, so that it costs a microsecond."""
        try:
            os.pwrite(self._mark_fd, segments.mark_bytes(self._end), 0)
        except OSError as error:
            self._broken = f"the mark could not be written ({error}); the last record is there all the same"
            raise BadStore(f"{self.folder.name}: {self._broken}; open it anew") from error

    def _close_files(self) -> None:
        for fd in (self._fd, self._mark_fd):
            if fd >= 0:
                os.close(fd)
        self._fd = self._mark_fd = -1


def _torn(last: Segment, seen: Scan, acknowledged: int | None) -> tuple[Scan, bool]:
    """What of the last segment counts, and whether the rest is in doubt.

    A power cut may keep the later pages of a write and lose an earlier one: intact frames behind a hole, none of them
    acknowledged, since an acknowledged one was synced with everything before it. Below the mark it is damage.
    """
    if not seen.damage:
        return seen, False
    hole = seen.damage[0].start
    before = tuple(f for f in seen.frames if f.end <= hole)
    if acknowledged is None or last.first + len(before) < acknowledged:
        raise BadStore(f"{last.path.name}: {segments.describe(seen)}; see `survey`")
    return Scan(before, (), hole, seen.end + seen.tail - hole), True


def _cut(last: Segment, seen: Scan, keep: bool) -> str:
    """Cut the tail off; the name of the file that keeps it, if any."""
    kept = f"torn-{last.number:08d}-{seen.end}.bin" if keep else ""
    if keep:
        (last.path.parent / kept).write_bytes(last.path.read_bytes()[seen.end :])
    with last.path.open("r+b") as file:
        file.truncate(seen.end)
        os.fsync(file.fileno())
    return kept


def _last_payload(found: tuple[Segment, ...], seen: Scan) -> bytes | None:
    """The newest record; a segment that was begun right before a kill has none, then it is in the one before."""
    segment, whole = found[-1], seen.frames
    if not whole and len(found) > 1:
        segment = found[-2]
        before = segments.scan(segment)
        if before.damage or before.tail or segment.first + len(before.frames) != found[-1].first:
            raise BadStore(f"{segment.path.name}: {segments.describe(before)}; see `survey`")
        whole = before.frames
    if not whole:
        return None
    with segments.mapped(segment.path) as data:
        return bytes(data[whole[-1].payload_start : whole[-1].end])
