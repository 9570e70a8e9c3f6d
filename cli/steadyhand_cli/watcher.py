"""An observer of the guard's state stream in a thread of its own: every state goes through the invariant monitor."""
from __future__ import annotations

import select
import threading
import time
from pathlib import Path
from typing import Any

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import STATES, AgvState, State
from steadyhand_cli.invariants import InvariantMonitor
from steadyhand_firmware_bridge.client import GuardClient


class GuardWatcher:
    """`state` is the newest; `monitor` has seen all that arrived. Of the slot's arm, or of the guard in a folder."""

    def __init__(self, folder: Path | None = None, monitor: Any = None) -> None:
        self.monitor = monitor or InvariantMonitor()
        self.state: State | AgvState | None = None
        self._folder = folder
        self.first_state_s: float | None = None
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._watch, name="guard-watch", daemon=True)
        self._thread.start()

    def wait(self, condition, timeout_s: float) -> State | AgvState | None:
        """The first state for which `condition(state)` holds; None after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                if self.state is not None and condition(self.state):
                    return self.state
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                self._changed.wait(left)

    def close(self) -> None:
        """End the thread."""
        self._stopping = True
        self._thread.join(timeout=2.0)

    def _watch(self) -> None:
        client = GuardClient("watcher", folder=self._folder)
        while not self._stopping:
            if not client.connected:
                try:
                    client.connect(timeout_s=0.5)
                except RobotError:
                    time.sleep(0.05)
                    continue
            select.select([client], [], [], 0.1)
            for message in client.poll(every_state=True):
                if isinstance(message, STATES):
                    self.monitor.update(message)
                    with self._changed:
                        self.state = message
                        self.first_state_s = self.first_state_s or time.monotonic()
                        self._changed.notify_all()
        client.close()
