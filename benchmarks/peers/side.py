"""A client in a process and an environment of its own, told what to do by one JSON object a line.

It says `{"event": "ready", "versions": ...}` once, and for each command `started` and `done`. A client that is still
held by its library `GRACE_S` after the end of a run is reported as it stands, and its process ends: some libraries wait
for ever, and that too is a result.
"""
from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

from benchmarks.peers.loop import Log

GRACE_S = 2.0


@dataclass(frozen=True)
class Command:
    """One run of a client."""

    arm: str  # which way to use the client
    url: str  # host:port of its server
    seconds: float
    seed: int
    period_s: float
    interrupt_s: float | None = None  # after the start


def end_with_parent() -> None:
    """End this process when the one that started it is gone, however that ended: at the end of the standard input."""

    def wait() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=wait, daemon=True).start()


def serve(prepare: Callable[[Command], Callable[[Log], dict | None]], packages: tuple[str, ...]) -> None:
    """Read commands until the end of the input.

    `prepare(command)` opens a new client and returns the run; the log's clock starts afterwards: connecting is no part
    of it. What the run returns is added to its report.
    """
    said = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints does not mix with what is said here
    lock = threading.Lock()

    def say(**what) -> None:
        said.write(json.dumps(what) + "\n")

    say(event="ready", versions={name: metadata.version(name) for name in packages})
    for line in sys.stdin:
        command = Command(**json.loads(line))
        try:
            run = prepare(command)
        except Exception as error:  # told, not hidden: a client that cannot start is a result too
            say(event="failed", error=f"{type(error).__name__}: {error}"[:500])
            continue
        log = Log()
        end_s = log.start_s + command.seconds

        def give_up(log=log, end_s=end_s) -> None:
            with lock:
                say(event="done", held_up=True, **log.report(end_s))
                os._exit(0)

        watchdog = threading.Timer(command.seconds + GRACE_S, give_up)
        watchdog.daemon = True
        watchdog.start()
        say(event="started", start_s=log.start_s)
        more = run(log) or {}
        watchdog.cancel()
        with lock:
            say(event="done", held_up=False, **{**log.report(end_s), **more})
