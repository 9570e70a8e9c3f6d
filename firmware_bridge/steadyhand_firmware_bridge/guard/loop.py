"""The guard's clock: absolute deadlines, sockets served in between, SCHED_FIFO where it is permitted.

A cycle comes first, then what clients sent, then (at most one a cycle, and only when there is time) the judgement of a
chunk. Stop requests wake the loop at once; the next package out is the first braking set-point.
"""
from __future__ import annotations

import gc
import os
import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import VERSION, Hello, Reply
from steadyhand_firmware_bridge.guard.base import GuardBase
from steadyhand_firmware_bridge.guard.peers import PeerSocket
from steadyhand_firmware_bridge.guard.server import Client, Server

FIFO_PRIORITY = 20
RESERVE_S = 0.0003  # stop serving clients this long before the deadline
LATEST_ADMISSION = 0.6  # a chunk is judged when this share of a cycle is left, even if it seems to take longer
PHASE_GAIN, PHASE_STEP_S = 0.01, 10e-6  # at most 10 us a cycle: nothing that a set-point would show
GC_CYCLES = 1250  # collect what little there is once so often, with a cycle's spare time


def set_scheduler(wanted: str) -> str:
    """Ask for SCHED_FIFO; the name of what was got. Raises ConfigError when "fifo" was demanded and refused."""
    if wanted == "other":
        return "SCHED_OTHER"
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(FIFO_PRIORITY))
    except OSError as error:
        if wanted == "fifo":
            remedy = "grant it (ulimit -r, CAP_SYS_NICE, limits.conf rtprio) or use --sched auto"
            raise ConfigError(f"--sched fifo: {error.strerror}; {remedy}") from error
        return "SCHED_OTHER"
    return "SCHED_FIFO"


@dataclass
class Lateness:
    """Times of the newest cycles, for the benchmark. Bounded memory."""

    samples_s: deque[float] = field(default_factory=lambda: deque(maxlen=200_000))

    def add(self, late_s: float) -> None:
        """One cycle."""
        self.samples_s.append(late_s)


class Loop:
    """Runs a guard on a `Server` until `stop_at_rest` was asked for and done."""

    def __init__(self, server: Server, period_s: float, peers: PeerSocket | None = None):
        self.server, self.period_s = server, period_s
        self.peers = peers or PeerSocket(server.folder, {})
        self.guard: GuardBase | None = None
        self.lateness = Lateness()
        self.admissions_s = Lateness()
        self.ending = False  # set by a signal handler
        self.turned: Callable[[float], None] = lambda now_s: None  # called each cycle: it must neither wait nor raise
        self.memory_locked = False
        self._deadline_s = 0.0
        self._admission_s = 0.5 * period_s  # running estimate of what judging a chunk costs

    def run(self, guard: GuardBase) -> None:
        """Cycle until asked to end and everything has come to rest (at most 4 s after being asked)."""
        self.guard = guard
        gc.collect()
        gc.freeze()
        gc.disable()
        guard.open(time.monotonic())
        self._deadline_s = time.monotonic() + self.period_s
        end_s = None
        while True:
            late_s = self._wait()
            guard.late_cycles += late_s > self.period_s
            if guard.moving:
                self.lateness.add(late_s)
            drives = guard.state.armed or guard.state.stopping is not None  # before a stop that came meanwhile is taken
            self._urgent()  # also when no cycle leaves time to wait, and what came in the last moment before this one
            now_s = time.monotonic()
            if self.ending and end_s is None:
                end_s = now_s + 4.0
                guard.fault("shutdown", "the guard was asked to end", now_s)
            if late_s > guard.late_limit_s and drives:
                # the robot has stopped by itself; do not wake up into a burst of set-points
                guard.fault("loop_late", f"a cycle began {late_s * 1e3:.0f} ms late", now_s)
            state = guard.cycle(now_s)
            self._next_deadline(now_s)
            self.peers.send(guard.beat(), each_cycle=True)
            self.server.new_cycle()
            self._drop_speechless(now_s)
            self.peers.new_cycle()
            self._publish(state)
            self.turned(now_s)
            self._admit()
            if end_s is not None and (guard.settled or now_s > end_s):
                return
            if guard.seq % GC_CYCLES == 0 and not guard.pending:
                gc.collect(1)

    def _next_deadline(self, now_s: float) -> None:
        self._deadline_s += self.period_s + self._phase_step()
        if self._deadline_s < now_s:  # held up for more than a period: do not run cycles in a burst
            self._deadline_s = now_s + self.period_s

    def _phase_step(self) -> float:
        """Drift slowly towards the middle between two states of the controller, wherever its clock stands.

        So each of its cycles finds exactly one new set-point; with two free clocks, some would find none or two.
        """
        feedback_s = self.guard.feedback_s
        if feedback_s is None:
            return 0.0
        half_s = 0.5 * self.period_s
        off_s = (feedback_s + half_s - self._deadline_s + half_s) % self.period_s - half_s
        return min(PHASE_STEP_S, max(-PHASE_STEP_S, PHASE_GAIN * off_s))

    def _publish(self, state: Any) -> None:
        state.counters.update(
            dropped_states=self.server.dropped_states,
            malformed=self.server.malformed,
            refused_connections=self.server.refused_connections,
            memory_locked=int(self.memory_locked),
        )
        self.server.publish(state)

    def _admit(self) -> None:
        """Judge the pending chunk when the rest of the cycle suffices for it."""
        now_s = time.monotonic()
        left_s = self._deadline_s - now_s - RESERVE_S
        if not self.guard.pending or left_s < min(self._admission_s, LATEST_ADMISSION * self.period_s):
            return
        self.guard.admit(self._deadline_s, now_s)
        took_s = time.monotonic() - now_s
        self.admissions_s.add(took_s)
        # rises at once, falls slowly: one slow judgement makes the next wait for a whole cycle, not for ever
        self._admission_s = max(took_s, 0.95 * self._admission_s)

    def _wait(self) -> float:
        """Serve sockets until the deadline; how late it is then (s)."""
        while True:
            now_s = time.monotonic()
            left_s = self._deadline_s - now_s
            if left_s <= RESERVE_S:
                if left_s > 0:
                    time.sleep(left_s)
                return time.monotonic() - self._deadline_s
            robot_sockets = self.guard.readable()
            try:
                sockets = [*self.server.readable(), *self.peers.readable(), *robot_sockets]
                ready, _, _ = select.select(sockets, [], [], left_s - RESERVE_S / 2)
            except (OSError, ValueError):
                ready = []  # a socket was closed under us: the next round has a new list
                self._drop_closed()
            if ready:
                self._serve(ready, robot_sockets)

    def _urgent(self) -> None:
        """Stop requests, first and always; then the other guards."""
        stops = self.server.stops()
        if stops:
            self.guard.stop_requests(stops, time.monotonic())
        for beat in self.peers.receive():
            self.guard.peer_beat(beat, time.monotonic())

    def _serve(self, ready: list, robot_sockets: list) -> None:
        self._urgent()
        self.peers.send(self.guard.beat())
        if any(s in ready for s in robot_sockets):
            self.guard.service(time.monotonic())
        self.server.accept(time.monotonic())
        for client in [c for c in self.server.clients if c.sock in ready]:
            if not self.server.receive(client, self._handle, self._may_go_on):
                self._lose(client)
        self._admit()

    def _may_go_on(self) -> bool:
        return time.monotonic() < self._deadline_s - RESERVE_S

    def _handle(self, client: Client, message: Any) -> None:
        if isinstance(message, Hello):
            self._hello(client, message)
        else:
            self.guard.handle(client, message, time.monotonic())

    def _hello(self, client: Client, hello: Hello) -> None:
        """One commander at a time; a second is told so and may still watch. One that has fallen silent gives way."""

        def refuse(why: str) -> None:
            self.server.send(client, Reply("hello", False, why))

        if client.hello is not None:
            return refuse("one hello per connection")
        if hello.version != VERSION:
            return refuse(f"version {hello.version}, this guard speaks {VERSION}")
        client.hello = hello
        holder = next((c for c in self.server.clients if c.commander), None)
        if hello.commander and holder is not None:
            if not self.guard.seat_free(time.monotonic()):
                return refuse(f"second commander: {holder.hello.client[:40]!r} commands already")
            self._lose(holder)
        client.commander = hello.commander
        if client.commander:
            self.guard.commander_changed(client, time.monotonic())
        return self.server.send(client, Reply("hello", True, "welcome"))

    def _lose(self, client: Client) -> None:
        if client not in self.server.clients:
            return  # it gave way in this very round
        self.server.drop(client)
        self.guard.forget(client, time.monotonic())
        if client.commander:
            self.guard.commander_changed(None, time.monotonic())

    def _drop_speechless(self, now_s: float) -> None:
        for client in self.server.speechless(now_s):
            # its hello may wait here unread: we have been held up ourselves
            if not self.server.receive(client, self._handle, lambda: True) or client.hello is None:
                self.server.refused_connections += 1
                self._lose(client)

    def _drop_closed(self) -> None:
        for client in [c for c in self.server.clients if c.sock.fileno() < 0]:
            self._lose(client)
