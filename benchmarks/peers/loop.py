"""The control loop around a client that is asked and answers, and the log that every client keeps of its run."""
from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

INTERRUPT_AFTER_S = 0.01  # into a call: an operator's Ctrl+C, caught by the program, which goes on

Ask = Callable[[int, np.ndarray, float], tuple[np.ndarray, float | None]]


class Log:
    """What happened. Times on the monotonic clock, which all processes of a machine share."""

    def __init__(self) -> None:
        self.start_s = time.monotonic()
        self.stamps_s: list[float] = []  # of the observations, by tick
        self.actions: list[np.ndarray] = []  # executed
        self.executed: list[list] = []  # [stamp, meant for or None, finite]
        self.held: list[list[float]] = []  # [begin, end] of each wait inside the client
        self.latency_s: list[float] = []  # observation in hand to its actions in hand
        self.errors: Counter = Counter()
        self._since_s: float | None = None

    def execute(self, action: np.ndarray, meant_for_s: float | None) -> None:
        """An action is handed to the robot now."""
        self.actions.append(np.asarray(action, dtype=float))
        self.executed.append([time.monotonic(), meant_for_s, bool(np.isfinite(action).all())])

    def enter(self) -> float:
        """The loop enters the client."""
        self._since_s = time.monotonic()
        return self._since_s

    def leave(self) -> None:
        """The loop has left the client."""
        if self._since_s is not None:
            self.held.append([self._since_s, time.monotonic()])
            self._since_s = None

    def report(self, end_s: float | None = None) -> dict:
        """What is told of the run, a call still under way included."""
        end_s = time.monotonic() if end_s is None else end_s
        since_s = self._since_s
        return {
            "start_s": self.start_s, "end_s": end_s, "ticks": len(self.stamps_s), "executed": list(self.executed),
            "held": [*self.held, *([[since_s, end_s]] if since_s is not None else [])],
            "latency_s": list(self.latency_s), "errors": dict(self.errors),
        }  # fmt: skip


def drive(
    ask: Ask, observations: np.ndarray, log: Log, seconds: float, period_s: float, interrupt_s: float | None = None
) -> None:
    """Ask once a period until `seconds` after the log's start, and execute the first action of each answer.

    A tick that finds the loop late begins at once and moves the schedule; none is made up for. Whatever a call raises
    is counted by its name, nothing is executed, and the loop goes on: no client is ended by its first error. In the
    first tick from `interrupt_s` after the start on, a KeyboardInterrupt is raised INTERRUPT_AFTER_S into the call.
    """
    previous = signal.signal(signal.SIGALRM, _interrupt) if interrupt_s is not None else None
    try:
        next_s = log.start_s
        for k, observation in enumerate(observations):
            now_s = time.monotonic()
            if now_s >= log.start_s + seconds:
                break
            strike = interrupt_s is not None and now_s >= log.start_s + interrupt_s
            if strike:
                interrupt_s = None
            _tick(ask, k, observation, log, strike)
            next_s = max(next_s + period_s, time.monotonic())
            time.sleep(max(0.0, next_s - time.monotonic()))
    finally:
        if previous is not None:
            signal.signal(signal.SIGALRM, previous)


def _tick(ask: Ask, k: int, observation: np.ndarray, log: Log, strike: bool) -> None:
    try:
        stamp_s = log.enter()
        log.stamps_s.append(stamp_s)
        if strike:
            signal.setitimer(signal.ITIMER_REAL, INTERRUPT_AFTER_S)
        try:
            action, meant_for_s = ask(k, observation, stamp_s)
        finally:
            log.leave()
        log.latency_s.append(time.monotonic() - stamp_s)
        log.execute(action, meant_for_s)
        if strike:
            signal.pause()  # the call was over before: the interrupt comes here, where nothing waits for an answer
    except KeyboardInterrupt:
        log.errors["KeyboardInterrupt"] += 1
    except Exception as error:  # of any library: counted by its name
        log.errors[type(error).__name__] += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)


def _interrupt(*_) -> None:
    raise KeyboardInterrupt
