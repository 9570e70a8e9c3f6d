"""Reports of L3 to files with an index, and to a webhook.

A thread of its own: control waits for neither disk nor network.
"""
from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

from steadyhand import report
from steadyhand.task import Diagnosis
from steadyhand_ros.webhook import Webhook

INDEX = "index.md"
WAITING = 64


class ReportWriter:
    """`put` names the file at once; the thread writes it, then its line in the index, then hands it to the webhook."""

    def __init__(self, folder: Path, prefix: str, webhook: Webhook | None = None):
        self.folder, self.errors, self.dropped, self.webhook = folder, 0, 0, webhook
        self._prefix, self._count = prefix, 0
        self._queue: queue.Queue[tuple[Diagnosis, str, str] | None] = queue.Queue(WAITING)
        self._thread = threading.Thread(target=self._work, name="reports", daemon=True)
        self._thread.start()

    def put(self, diagnosis: Diagnosis) -> Path:
        """Queue one report; returns where it will lie."""
        self._count += 1
        when = time.strftime("%Y-%m-%d %H:%M:%S %z")
        name = time.strftime(f"%Y%m%d-%H%M%S-{self._prefix}-{self._count}.md")
        try:
            self._queue.put_nowait((diagnosis, when, name))
        except queue.Full:
            self.dropped += 1
        return self.folder / name

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is queued; waits at most so long."""
        try:
            self._queue.put_nowait(None)
        except queue.Full:
            pass
        self._thread.join(timeout_s)
        if self.webhook is not None:
            self.webhook.close()

    def _work(self) -> None:
        while (item := self._queue.get()) is not None:
            diagnosis, when, name = item
            try:
                self._write(diagnosis, when, name)
            except OSError:
                self.errors += 1
            if self.webhook is not None:
                self.webhook.put(report.document(diagnosis, when, name))

    def _write(self, diagnosis: Diagnosis, when: str, name: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(report.markdown(diagnosis, when))
        index = self.folder / INDEX
        new = not index.exists()
        with index.open("a") as file:
            file.write((report.INDEX_HEAD if new else "") + report.index_line(diagnosis, when, name))
