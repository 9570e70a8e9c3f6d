"""Faults of a server's answers, switched on and off by one word in a file, the same ones for every peer.

They act on whole replies, where they leave the server: what the client's library makes of them is what is measured. A
server that stalls or dies needs no help from here: it is stopped or killed by a signal.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

LATE, PREVIOUS, NAN, MISLABELLED = "late", "previous", "nan", "mislabelled"
LATE_S = 0.3  # six policy periods

Reply = TypeVar("Reply")


class Injector:
    """Passes replies through, as the word in its file asks. Without a file it does nothing."""

    def __init__(
        self,
        path: Path | None,
        nan_of: Callable[[Reply], Reply],
        relabel: Callable[[Reply, Reply], Reply] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._path, self._nan_of, self._relabel, self._sleep = path, nan_of, relabel, sleep
        self._last: Reply | None = None

    def __call__(self, reply: Reply) -> Reply:
        """The reply to send in place of `reply`.

        `previous`: the reply sent to the request before, as it was. `mislabelled`: the same with this reply's label
        (`relabel(content, label)`); where a protocol has no label the two are one.
        """
        if self._path is None:
            return reply
        before, self._last = self._last, reply
        mode = self._mode()
        if mode == LATE:
            self._sleep(LATE_S)
        elif mode == NAN:
            return self._nan_of(reply)
        elif mode == PREVIOUS and before is not None:
            return before
        elif mode == MISLABELLED and before is not None:
            return self._relabel(before, reply) if self._relabel else before
        return reply

    def _mode(self) -> str:
        try:
            return self._path.read_text().strip()
        except FileNotFoundError:
            return ""
