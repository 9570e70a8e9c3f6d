"""The trace's thread: appends whole lines to a file, begins a new one when it is full."""
from __future__ import annotations

import threading
from pathlib import Path

from steadyhand.trace import Record, TraceBuffer
from steadyhand_ros.background import Background

FLUSH_S = 0.2


class TraceWriter:
    """Two files in turn, so that the disk holds at most 2 x `max_bytes` of one run. Disk errors are counted."""

    def __init__(self, folder: Path, name: str, max_bytes: int = 50_000_000):
        self.buffer = TraceBuffer()
        self.errors = 0
        self._path, self._older = folder / f"{name}.jsonl", folder / f"{name}.1.jsonl"
        self._max_bytes = max_bytes
        self._thread = Background("trace", self._work)

    def put(self, record: Record) -> None:
        """Queue one record."""
        self.buffer.put(record)

    def close(self) -> None:
        """Write what is queued and end; waits at most two seconds."""
        self._thread.close()

    def _work(self, stopping: threading.Event) -> None:
        last = False
        while not last:
            last = stopping.wait(FLUSH_S)
            try:
                self._flush()
            except OSError:
                self.errors += 1

    def _flush(self) -> None:
        lines = self.buffer.take()
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size + len(lines) > self._max_bytes:
            self._path.replace(self._older)
        with self._path.open("ab") as file:
            file.write(lines)
