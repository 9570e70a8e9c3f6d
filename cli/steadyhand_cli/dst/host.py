"""The guard's process: its loop's order of work and its server's rules round the real `Guard`, in virtual time.

Stands for `guard.loop` and `guard.server` (sockets, select, scheduling), which cannot run in virtual time: a cycle
first, then packets within each sender's budget, then the judgement of a chunk when the rest of the cycle suffices.
Stops and beats of another guard come before everything, as they wake the loop. Stands for `guard.peers` too.
"""
from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from steadyhand.errors import ProtocolError
from steadyhand.guard_protocol import VERSION, Beat, Hello, Reply, State, Stop, decode
from steadyhand.limits import UR5_LIMITS
from steadyhand_cli.dst.checker import Checker
from steadyhand_cli.dst.clock import Clock
from steadyhand_cli.dst.robot import SimRobot
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.peers import BEATS_PER_CYCLE, SEND_EVERY
from steadyhand_firmware_bridge.guard.server import PACKETS_PER_CLIENT_PER_CYCLE, STOPS_PER_CYCLE

CREDENTIAL = "c0ffee" * 10
ADMISSION_S = 0.004  # a chunk that arrives with less than this left waits for the next cycle
STATES_KEPT = 96
BEATS_KEPT = 10  # in the kernel's buffer


@dataclass(eq=False)
class Client:
    """One connection to the guard."""

    name: str
    hello: Hello | None = None
    commander: bool = False
    budget: int = PACKETS_PER_CLIENT_PER_CYCLE
    queue: deque = field(default_factory=deque)


class Host:
    """One guard process at a time; `start` makes a new one. `on_answer(client, message)` gets what it answers."""

    def __init__(
        self, clock: Clock, robot: SimRobot, checker: Checker, config: GuardConfig, rng: random.Random,
        on_answer: Callable[[Client, Any], None],
    ):
        self.clock, self.robot, self.checker, self.config, self.rng = clock, robot, checker, config, rng
        self.on_answer = on_answer
        self.on_beat: Callable[[Beat], None] = lambda beat: None
        self.told: Beat | None = None  # the newest beat to the other guard
        self.beat_cycles = 0
        self.guard: Guard | None = None
        self.clients: list[Client] = []
        self.states: deque[State] = deque(maxlen=STATES_KEPT)
        self.frozen_until_s = float("-inf")
        self.jitter_s = 0.0  # of the next cycle
        self.ending = False
        self._deadline_s = 0.0
        self._stops: deque[tuple[str, Any]] = deque()
        self._beats: deque[Any] = deque()
        self._next_cycle_s = 0.0

    # --- the process -----------------------------------------------------------------------------------------------
    def start(self, now_s: float) -> None:
        """A new process: nothing remembered, nobody connected."""
        self.robot.open(now_s)
        self.guard = Guard(
            self.robot, self.config, CREDENTIAL, lambda: self.rng.randint(1, 2**31 - 1), self._answer, now_s, UR5_LIMITS
        )
        self.guard.link.update = lambda *_: None  # tells of clock and jitter, decides nothing: not simulated
        self.clients, self.ending, self._stops = [], False, deque()
        self.told, self.beat_cycles = None, 0
        self._beats.clear()
        self.states.clear()
        self._deadline_s, self.frozen_until_s = now_s, float("-inf")
        self.checker.guard_started()

    def kill(self) -> None:
        """The process is gone, with everything it knew."""
        if self.guard is not None:
            self.guard = None
            self.clients, self._stops = [], deque()
            self.states.clear()
            self.robot.close()

    def frozen(self, now_s: float) -> bool:
        """Whether the process is stopped by the system."""
        return now_s < self.frozen_until_s

    def cycle(self, now_s: float) -> None:
        """One turn of the loop at its grid time, unless dead or frozen."""
        if self.guard is None or self.frozen(now_s):
            return
        late_s, self.jitter_s = now_s - self._deadline_s + self.jitter_s, 0.0
        at_s = self._deadline_s + late_s
        self._deadline_s = self._next_cycle_s = self.clock.at(self.clock.cycle + 1)
        self._guarded(self._turn, at_s, late_s)

    def _turn(self, now_s: float, late_s: float) -> None:
        guard = self.guard
        guard.late_cycles += late_s > self.robot.period_s
        late = late_s > guard.late_limit_s and (guard.state.armed or guard.state.stopping is not None)
        if late:
            self.checker.late(now_s, late_s)
        self._urgent(now_s)
        if self.ending and guard.state.armed:
            guard.fault("shutdown", "the guard was asked to end", now_s)
        if late:
            guard.fault("loop_late", f"a cycle began {late_s * 1e3:.0f} ms late", now_s)
        self.robot.sent = None
        self.checker.pendant = self.robot.local
        before = self.robot.feedback()
        state = guard.cycle(now_s)
        if self.robot.feedback() is not before:
            self.checker.feedback(self.robot.feedback())
        self.states.append(state)
        self.checker.cycle(now_s, state, self.robot.sent)
        self._tell(now_s, each_cycle=True)
        self.checker.after_cycle(now_s)
        if guard.pending:
            guard.admit(self._next_cycle_s, now_s)
        if any(c.queue for c in self.clients):
            self._serve_backlog(now_s + 0.0005)
        for client in self.clients:
            client.budget = PACKETS_PER_CLIENT_PER_CYCLE
        if self.ending and guard.settled:
            self.kill()

    def _urgent(self, now_s: float) -> None:
        """What has come while the process was stopped."""
        stops, self._stops = list(self._stops), deque()
        for source, packet in stops[:STOPS_PER_CYCLE]:
            self._stop(source, packet, now_s)
        beats = list(self._beats)[:BEATS_PER_CYCLE]
        self._beats.clear()
        for packet in beats:
            self._peer(packet, now_s)

    def _serve_backlog(self, now_s: float) -> None:
        for client in list(self.clients):
            client.budget = PACKETS_PER_CLIENT_PER_CYCLE
            while client.queue and client.budget > 0 and self.guard is not None:
                self._take(client, client.queue.popleft(), now_s)

    def _guarded(self, act: Callable, *arguments: Any) -> None:
        """An exception in the guard is a defect whatever else happens: told once, and the process dies of it."""
        try:
            act(*arguments)
        except Exception as error:
            self.checker.crashed(self.clock.now_s, error)
            self.kill()

    # --- connections -----------------------------------------------------------------------------------------------
    def connect(self, name: str, commander: bool, now_s: float) -> Client | None:
        """A connection with its hello; None when there is no process, or it does not serve now."""
        if self.guard is None or self.frozen(now_s):
            return None
        client = Client(name)
        self.clients.append(client)
        self.deliver(client, Hello(name, commander, True), now_s)
        return client

    def disconnect(self, client: Client | None, now_s: float) -> None:
        """The other end has closed: seen after what it sent before."""
        if client in self.clients:
            self.clients.remove(client)
            if self.guard is not None:
                self._guarded(self._lose, client, now_s)

    def _lose(self, client: Client, now_s: float) -> None:
        self.checker.operators.gone(now_s, client)
        self.guard.forget(client, now_s)
        if client.commander:
            self.checker.commander_gone(now_s)
            self.guard.commander_changed(None, now_s)

    def deliver(self, client: Client | None, message: Any, now_s: float) -> None:
        """One packet (a message, or bytes) arrives at a connection."""
        if client not in self.clients:
            return
        if self.frozen(now_s) or client.budget <= 0 or client.queue:
            if len(client.queue) < 4 * PACKETS_PER_CLIENT_PER_CYCLE:  # the kernel's buffer
                client.queue.append(message)
            return
        self._guarded(self._take, client, message, now_s)

    def _take(self, client: Client, message: Any, now_s: float) -> None:
        client.budget -= 1
        if isinstance(message, bytes):
            try:
                message = decode(message)
            except ProtocolError:
                return
        if isinstance(message, Hello):
            self._hello(client, message, now_s)
        elif client.hello is not None:
            self.checker.message(now_s, client, message)
            self.guard.handle(client, message, now_s)
            if self.guard is not None and self.guard.pending and self._next_cycle_s - now_s >= ADMISSION_S:
                self.guard.admit(self._next_cycle_s, now_s)

    def _hello(self, client: Client, hello: Hello, now_s: float) -> None:
        if client.hello is not None or hello.version != VERSION:
            return self.on_answer(client, Reply("hello", False, "refused"))
        client.hello = hello
        holder = next((c for c in self.clients if c.commander), None)
        if hello.commander and holder is not None:
            if not self.guard.seat_free(now_s):
                return self.on_answer(client, Reply("hello", False, "second commander"))
            self.clients.remove(holder)
            self._lose(holder, now_s)
        client.commander = hello.commander
        if client.commander:
            self.checker.commander_came(now_s)
            self.guard.commander_changed(client, now_s)
        return self.on_answer(client, Reply("hello", True, "welcome"))

    def stop(self, source: str, packet: Any, now_s: float) -> None:
        """A datagram at the stop socket: a `Stop`, or bytes that may be anything."""
        if self.guard is None:
            return
        if self.frozen(now_s):
            self._stops.append((source, packet))
        else:
            self._guarded(self._stop, source, packet, now_s)

    def _stop(self, source: str, packet: Any, now_s: float) -> None:
        if isinstance(packet, bytes):
            try:
                packet = decode(packet)
            except ProtocolError:
                packet = None
        self.checker.stop(now_s)
        stop = packet if isinstance(packet, Stop) else Stop("unreadable")
        self.guard.stop_requests([(stop, 1)], now_s)
        self._tell(now_s)

    # --- the stop domain -------------------------------------------------------------------------------------------
    def peer(self, packet: Any, now_s: float) -> None:
        """A datagram at the socket of the stop domain: a `Beat`, or anything."""
        if self.guard is None:
            return
        if self.frozen(now_s):
            if len(self._beats) < BEATS_KEPT:
                self._beats.append(packet)
        else:
            self._guarded(self._peer, packet, now_s)

    def _peer(self, packet: Any, now_s: float) -> None:
        if isinstance(packet, bytes):
            try:
                packet = decode(packet)
            except ProtocolError:
                return
        if not isinstance(packet, Beat):
            return
        self.checker.hears(now_s, packet)
        before = self.guard.state
        self.guard.peer_beat(packet, now_s)
        if self.guard.state is not before:
            self._tell(now_s)

    def _tell(self, now_s: float, each_cycle: bool = False) -> None:
        """As `guard.peers`: at once when there is news, else at every second cycle."""
        if not self.config.peers:
            return
        beat = self.guard.beat()
        self.beat_cycles += each_cycle
        if beat == self.told and not (each_cycle and self.beat_cycles % SEND_EVERY == 0):
            return
        self.told = beat
        self.checker.tells(now_s, beat)
        self.on_beat(beat)

    def _answer(self, client: Client, message: Any) -> None:
        self.checker.answer(self.clock.now_s, client, message)
        self.on_answer(client, message)
