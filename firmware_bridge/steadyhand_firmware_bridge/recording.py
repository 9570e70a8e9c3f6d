"""Writes interventions (`steadyhand.intervention`) to `out/interventions/`, one file each, from a thread of its own.

The queue is bounded: steps that find it full are dropped and counted, beginnings and ends are not. Nothing waits for a
disk, and a disk that refuses ends nothing: what it refuses is counted. Where the disk refuses, the store says no or half
the budget is taken (the newest file is never deleted, and the next one must fit beside it), an intervention's file ends,
without an `end`, and the next one is tried anew.
"""
from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from steadyhand.trace import Record, encode
from steadyhand_firmware_bridge.storage import Store

WAIT_S = 0.2
RESERVE_BYTES = 1_000_000  # asked of the store at a time, some minutes of steps
SAME_NAME = 20  # recorders of one intervention


class InterventionWriter:
    """`put` never waits. `written` counts whole interventions, `dropped` steps, `errors` those that the disk refused,
    `refused` those that the store (`why`) did."""

    def __init__(self, store: Store, capacity: int = 2048):
        if capacity < 1:
            raise ValueError(f"capacity = {capacity}: give 1 or more")
        self.store, self.folder, self.capacity = store, store.folder, capacity
        self.written = self.dropped = self.errors = self.refused = 0
        self._reserve_bytes = self._taken_bytes = 0  # of the file under way
        self._piece_bytes = min(RESERVE_BYTES, store.budget.max_bytes // 4)
        self.newest: Path | None = None
        self._dropped_here = 0
        self._queue: deque[Record] = deque()
        self._file: BinaryIO | None = None
        self._more, self._ending = threading.Event(), False
        self._thread = threading.Thread(target=self._work, name="interventions", daemon=True)
        self._thread.start()

    def put(self, records: Iterable[Record]) -> None:
        """Queue records in order."""
        for record in records:
            if record.kind == "begin":
                self._dropped_here = 0
            elif record.kind == "end":
                record = replace(record, fields={**record.fields, "dropped": self._dropped_here})
            elif len(self._queue) >= self.capacity:
                self.dropped += 1
                self._dropped_here += 1
                continue
            self._queue.append(record)
        if self._queue:
            self._more.set()

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is queued and end."""
        self._ending = True
        self._more.set()
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while True:
            self._more.wait(WAIT_S)
            self._more.clear()
            ending = self._ending  # read before draining: what was queued before it is still written
            while self._queue:
                self._counting(self._write, self._queue.popleft())
            if self._file is not None:
                self._counting(self._file.flush)
            if ending:
                self._counting(self._close)
                return

    def _counting(self, act: Callable[..., None], *arguments: Record) -> None:
        try:
            act(*arguments)
        except OSError as error:
            self.errors += 1
            self.store.disk_refused(error)
            if self._file is not None:
                file, self._file = self._file, None
                with contextlib.suppress(OSError):  # its buffer is refused once more
                    file.close()

    def _write(self, record: Record) -> None:
        if record.kind == "begin":
            self._counting(self._close)
            self._reserve_bytes = self._taken_bytes = 0
            if not self._room(1):
                return
            self.folder.mkdir(parents=True, exist_ok=True)
            name = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
            number, label = record.fields.get("number", 0), record.fields.get("label", "")
            self._open(f"{name}-{number}-{label}")
        if self._file is None:
            return
        line = encode(record)
        if not self._room(len(line)):
            return self._close()
        self._file.write(line)
        if record.kind == "end":
            self._close()
            self.written += 1

    def _room(self, size_bytes: int) -> bool:
        """Whether the store lets us write so much; it is asked for a large piece now and then."""
        if size_bytes > self._reserve_bytes:
            keep = {self.newest.name} if self._file is not None else ()
            piece_bytes = max(size_bytes, self._piece_bytes)
            fits = self._taken_bytes + piece_bytes <= self.store.budget.max_bytes // 2
            if not fits or not self.store.room(piece_bytes, keep):
                self.refused += 1
                return False
            self._reserve_bytes = piece_bytes
            self._taken_bytes += piece_bytes
        self._reserve_bytes -= size_bytes
        return True

    def _open(self, stem: str) -> None:
        """A file of its own: another process may record the same intervention in the same second."""
        for copy in range(1, SAME_NAME + 1):
            path = self.folder / (f"{stem}.jsonl" if copy == 1 else f"{stem}-{copy}.jsonl")
            try:
                self._file, self.newest = path.open("xb"), path
                return
            except FileExistsError:
                continue
        raise OSError(f"{self.folder / stem}: {SAME_NAME} files of this name are there already")

    def _close(self) -> None:
        """The file is let go of even when its last bytes are refused."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
