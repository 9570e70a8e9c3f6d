"""A thread of a node's own, with its own end: each start gets a new one, so that no old thread is revived by mistake."""
from __future__ import annotations

import threading
from collections.abc import Callable


class Background:
    """Runs `work(stopping)` in a daemon thread, from now until it returns; `stopping` is set by `close`.

    An exception that leaves `work` ends the process of a node (`node.run`), loudly: what supervises it brings it back.
    """

    def __init__(self, name: str, work: Callable[[threading.Event], None]):
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=work, args=(self._stopping,), name=name, daemon=True)
        self._thread.start()

    def close(self, timeout_s: float = 2.0) -> None:
        """Ask it to end; waits at most so long."""
        self._stopping.set()
        self._thread.join(timeout_s)
