"""The trace's thread: whole lines to segments `NAME-0001.jsonl` ..., and a folder of evidence for each stop.

A segment that is full is followed by the next, and the oldest go as the budget says (`steadyhand.retention`). A stop's
folder holds the segments round it as hard links: they stay when the trace goes on, and cost nothing twice. A trace
whose process died (its last record is no `end`) becomes such a folder at the next start.
"""
from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from steadyhand.retention import HOLD_S
from steadyhand.trace import Record, TraceBuffer, encode
from steadyhand_firmware_bridge.storage import Store, live_logs
from steadyhand_ros.background import Background

FLUSH_S = 0.2
SEGMENTS = 8  # the budget holds so many at least
SEGMENT_MAX_BYTES = 10_000_000
AFTERMATH_S = 10.0  # a segment begun so soon after a stop belongs to its evidence
LOG_TAIL_BYTES = 64_000
WAITING = 8  # stops whose folder is not yet made
DIED = "agent-died"
TIME_FORMAT = "%Y%m%d-%H%M%S"


class TraceWriter:
    """`put` and `stop` never wait. What the disk refuses is counted (`errors`), and what is lost: lines
    (`buffer.dropped`) and stops that found too many waiting (`stops_lost`).

    While the store says no, lines wait in the bounded buffer; the oldest are lost, counted. `say` gets a line at each
    change, in the thread.
    """

    def __init__(self, store: Store, stops: Store, name: str, logs: Path, say: Callable[[str], None]):
        self.buffer = TraceBuffer()
        self.store, self.stops = store, stops
        self.errors = self.evidence = self.stops_lost = 0
        self._name, self._logs, self._say = name, logs, say
        self._segment_bytes = min(SEGMENT_MAX_BYTES, store.budget.max_bytes // SEGMENTS)
        self._number, self._size = 1, 0
        self._asked: deque[tuple[Path, Record]] = deque(maxlen=WAITING)
        self._keeping: tuple[Path, Record] | None = None  # taken from `_asked`, its folder not yet whole
        self._again_s = 0.0  # when a folder that the disk refused is tried again
        self._asked_count = 0
        self._aftermath: tuple[Path | None, float] = (None, 0.0)
        self._paused = ""
        self._thread = Background("trace", self._work)

    def put(self, record: Record) -> None:
        """Queue one record."""
        self.buffer.put(record)

    def stop(self, label: str, state: Record) -> None:
        """The arm was stopped: keep the trace round this moment, with `state`."""
        self.buffer.put(state)
        self.stops_lost += len(self._asked) == WAITING
        self._asked.append((self._folder(label), state))

    def close(self) -> None:
        """Write what is queued and end; waits at most two seconds."""
        self.buffer.put(Record("end", time.monotonic()))
        self._thread.close()

    # --- the thread ---

    def _work(self, stopping: threading.Event) -> None:
        self._counting(self._keep_what_died)
        last = False
        while not last:
            last = stopping.wait(FLUSH_S)
            self._counting(self._flush)
            if (self._keeping or self._asked) and (last or time.monotonic() >= self._again_s):
                self._counting(self._keep_asked)
            self._say_changes()

    def _counting(self, act: Callable[[], None]) -> None:
        try:
            act()
        except OSError:
            self.errors += 1

    def _say_changes(self) -> None:
        if self.store.why != self._paused:
            if bool(self.store.why) != bool(self._paused):
                self._say(f"recording stopped: {self.store.why}" if self.store.why else "recording goes on")
            self._paused = self.store.why

    def _path(self, number: int) -> Path:
        return self.store.folder / f"{self._name}-{number:04d}.jsonl"

    def _flush(self) -> None:
        if not self.store.room(0, {self._path(self._number).name}):
            return  # what is queued waits
        lines = self.buffer.take()
        if not lines:
            return
        if self._size and self._size + len(lines) > self._segment_bytes:
            self._number, self._size = self._number + 1, 0
        while not self._size and _size(self._path(self._number)):
            self._number += 1  # a writer of this name was here before: the node was activated again
        path = self._path(self._number)
        if not self.store.room(len(lines), {path.name}):
            return self._lose(lines)
        try:
            self.store.folder.mkdir(parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                whole = file.tell()
                if file.write(lines) != len(lines):
                    file.truncate(whole)  # no half line
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._lose(lines)
            self.store.disk_refused(error)
            raise
        begun, self._size = not self._size, self._size + len(lines)
        if begun and self._aftermath[0] is not None and time.monotonic() < self._aftermath[1]:
            _link(path, self._aftermath[0])

    def _lose(self, lines: bytes) -> None:
        self.buffer.dropped += lines.count(b"\n")

    def _keep_asked(self) -> None:
        self._again_s = time.monotonic() + HOLD_S
        while self._keeping or self._asked:
            self._keeping = self._keeping or self._asked.popleft()
            self._keep(*self._keeping)
            self._keeping = None
        self._again_s = 0.0

    def _keep(self, folder: Path, state: Record) -> None:
        """The folder of one stop."""
        self.stops.room(self._segment_bytes)  # what is over the budget goes; the newest stop is kept whatever it takes
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stop.json").write_bytes(encode(state))
        for number in (self._number - 1, self._number):
            if self._path(number).exists():
                _link(self._path(number), folder)
        self._aftermath = folder, time.monotonic() + AFTERMATH_S
        self._keep_logs(folder)
        self.evidence += 1

    def _keep_what_died(self) -> None:
        """The trace of a process that ended without a word."""
        segments = sorted(self.store.folder.glob("*.jsonl"), key=lambda p: p.stat().st_mtime)
        if not segments or _ended(segments[-1]):
            return
        told = f"-{segments[-1].stem}-{DIED}"  # once, however often a process starts that writes nothing
        if not any(p.name.endswith(told) for p in self.stops.folder.glob(f"*{DIED}")):
            self.stops.room(self._segment_bytes)
            folder = self.stops.folder / f"{time.strftime(TIME_FORMAT)}{told}"
            folder.mkdir(parents=True)
            for path in segments[-2:]:
                _link(path, folder)
            self._keep_logs(folder)
            self.evidence += 1

    def _folder(self, label: str) -> Path:
        self._asked_count += 1
        safe = re.sub(r"[^A-Za-z0-9_-]+", "-", label)[:60].strip("-") or "stop"
        return self.stops.folder / f"{time.strftime(TIME_FORMAT)}-{self._name}-{self._asked_count}-{safe}"

    def _keep_logs(self, folder: Path) -> None:
        for path in live_logs(self._logs):
            try:
                with path.open("rb") as file:
                    file.seek(max(0, path.stat().st_size - LOG_TAIL_BYTES))
                    tail = file.read(LOG_TAIL_BYTES)
            except OSError:  # gone, or another user's: no reason to keep the others from their evidence
                self.errors += 1
                continue
            (folder / path.name).write_bytes(tail)


def _link(path: Path, folder: Path) -> None:
    try:
        os.link(path, folder / path.name)
    except FileExistsError:
        pass
    except OSError:  # a file system without hard links
        copy = folder / f"{path.name}.part"  # what the disk refuses in the middle must not pass for the whole
        shutil.copyfile(path, copy)
        copy.replace(folder / path.name)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _ended(segment: Path) -> bool:
    """Whether the last line of a trace says that its process ended in order."""
    with segment.open("rb") as file:
        file.seek(max(0, segment.stat().st_size - 4096))
        last = file.read().splitlines()[-1:]
    try:
        return json.loads(last[0])["kind"] == "end" if last else True
    except (ValueError, KeyError, TypeError):
        return False
