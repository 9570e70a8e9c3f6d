"""Reports of L3 to files with an index, and to a webhook.

A thread of its own: control waits for neither disk nor network. The oldest reports go as the budget says, with their
lines in the index.
"""
from __future__ import annotations

import queue
import threading
import time
from pathlib import Path

from steadyhand import report
from steadyhand.task import Diagnosis
from steadyhand_firmware_bridge.storage import INDEX, Store
from steadyhand_ros.webhook import Webhook

WAITING = 64


class ReportWriter:
    """`put` names the file at once; the thread writes it, then its line in the index, then hands it to the webhook."""

    def __init__(self, store: Store, prefix: str, webhook: Webhook | None = None):
        self.store, self.folder, self.errors, self.dropped, self.webhook = store, store.folder, 0, 0, webhook
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
        text = report.markdown(diagnosis, when).encode(errors="replace")
        if not self.store.room(len(text)):
            raise OSError(self.store.why)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_bytes(text)
        index = self.folder / INDEX
        new = not index.exists()
        if not new:
            self._forget_deleted(index)
        with index.open("a", encoding="utf-8", errors="replace") as file:
            file.write((report.INDEX_HEAD if new else "") + report.index_line(diagnosis, when, name))

    def _forget_deleted(self, index: Path) -> None:
        """The index without the lines of reports that are gone, whoever deleted them; it may hold anything."""
        head = set(report.INDEX_HEAD.splitlines())
        there = {p.name for p in self.folder.glob("*.md")}
        lines = index.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if line.strip() in head or report.indexed(line) in there]
        if kept == lines:
            return
        scratch = index.with_suffix(".tmp")
        scratch.write_text("".join(kept), encoding="utf-8")
        scratch.replace(index)
