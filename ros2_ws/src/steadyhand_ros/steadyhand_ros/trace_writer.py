"""The trace's thread: appends whole lines to a file, begins a new one when it is full, writes reports."""
from __future__ import annotations

import queue
import threading
from pathlib import Path

from steadyhand.trace import Record, TraceBuffer

FLUSH_S = 0.2


class TraceWriter:
    """Two files in turn, so that the disk holds at most 2 x `max_bytes` of one run. Disk errors are counted."""

    def __init__(self, folder: Path, name: str, reports: Path, max_bytes: int = 50_000_000):
        self.buffer = TraceBuffer()
        self.errors = 0
        self._path, self._older = folder / f"{name}.jsonl", folder / f"{name}.1.jsonl"
        self._reports, self._max_bytes = reports, max_bytes
        self._texts: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trace", daemon=True)
        self._thread.start()

    def put(self, record: Record) -> None:
        """Queue one record."""
        self.buffer.put(record)

    def report(self, name: str, text: str) -> Path:
        """Queue a report; returns where it will lie."""
        self._texts.put((name, text))
        return self._reports / name

    def close(self) -> None:
        """Write what is queued and end; waits at most two seconds."""
        self._stop.set()
        self._thread.join(timeout=2.0)

    def _work(self) -> None:
        last = False
        while not last:
            last = self._stop.wait(FLUSH_S)
            try:
                self._flush()
            except OSError:
                self.errors += 1

    def _flush(self) -> None:
        while not self._texts.empty():
            name, text = self._texts.get()
            self._reports.mkdir(parents=True, exist_ok=True)
            (self._reports / name).write_text(text)
        lines = self.buffer.take()
        if not lines:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size + len(lines) > self._max_bytes:
            self._path.replace(self._older)
        with self._path.open("ab") as file:
            file.write(lines)
