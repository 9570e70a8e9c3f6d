"""The guard's loop in this process, with real sockets: what must happen even when every cycle takes too long."""
import gc
import itertools
import socket
import time

import numpy as np
import pytest

from steadyhand.guard_protocol import VERSION, Arm, Heartbeat, Hello, Stop, decode, encode
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.guard import base
from steadyhand_firmware_bridge.guard import loop as loop_module
from steadyhand_firmware_bridge.guard import server as server_module
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.loop import Loop
from steadyhand_firmware_bridge.guard.server import Server


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "slot")
    server.open()
    yield server
    server.close()
    gc.enable()  # the loop runs without
    gc.unfreeze()


def guard_of(server, robot):
    return Guard(robot, GuardConfig(), server.credential, lambda: 1, server.send, time.monotonic())


class Slow(FakeRobot):
    """Each cycle takes longer than the period; acts by the number of the cycle."""

    def __init__(self, acts):
        super().__init__()
        self.acts, self.cycles = acts, 0

    def service(self, now_s):
        super().service(now_s)
        self.cycles += 1
        self.acts.get(self.cycles, lambda: None)()
        time.sleep(1.1 * self.period_s)


def test_a_stop_is_taken_though_no_cycle_leaves_time_for_the_sockets(server):
    loop = Loop(server, 0.008)
    robot = Slow({
        3: lambda: operator.stop("panel", "", server.folder),
        6: lambda: setattr(loop, "ending", True),
    })  # fmt: skip
    guard = guard_of(server, robot)
    loop.run(guard)
    assert robot.cycles < 20 and guard.counters()["stop:panel"] == 1


class Quick(Slow):
    """Acts by the number of the cycle, each of which leaves time for the sockets."""

    def service(self, now_s):
        FakeRobot.service(self, now_s)
        self.cycles += 1
        self.acts.get(self.cycles, lambda: None)()


def connected(server, timeout_s=0.0):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(timeout_s)
    sock.connect(str(server.folder / "command.sock"))
    return sock


def test_connections_that_never_say_hello_do_not_keep_others_out(server, monkeypatch):
    monkeypatch.setattr(server_module, "HELLO_TIMEOUT_S", 0.1)
    loop, silent, late = Loop(server, 0.008), [], []

    def come():
        late.append(connected(server))
        late[0].send(encode(Hello("operator")))

    loop.run(guard_of(server, Quick({
        3: lambda: silent.extend(connected(server) for _ in range(server_module.MAX_CLIENTS)),
        40: come,
        60: lambda: setattr(loop, "ending", True),
    })))  # fmt: skip
    assert decode(late[0].recv(4096)).ok and [c.hello.client for c in server.clients] == ["operator"]
    assert server.refused_connections == len(silent) == server_module.MAX_CLIENTS
    for sock in silent + late:
        sock.close()


def test_a_hello_that_the_guard_was_too_late_to_read_counts(server):
    loop = Loop(server, 0.008)
    loop.guard = guard_of(server, FakeRobot())
    in_time, silent = connected(server), connected(server)
    server.accept(0.0)
    in_time.send(encode(Hello("in time")))
    loop._drop_speechless(1e9)
    assert [c.hello.client for c in server.clients] == ["in time"] and silent.recv(10) == b""
    in_time.close(), silent.close()


@pytest.fixture
def say(server):
    """`say(hello, sock)` sends a hello, by a new connection when none is given; the reply and the connection."""
    loop, socks = Loop(server, 0.008), []
    loop.guard = guard_of(server, FakeRobot())
    loop._may_go_on = lambda: True

    def say(hello, sock=None):
        if sock is None:
            sock = connected(server, 2.0)
            socks.append(sock)
            server.accept(time.monotonic())
        sock.send(encode(hello))
        loop._serve([c.sock for c in server.clients], [])
        return decode(sock.recv(4096)), sock

    yield say
    for sock in socks:
        sock.close()


def test_one_commander_at_a_time_and_one_hello_a_connection(server, say):
    reply, watcher = say(Hello("watcher"))
    assert reply.ok
    assert not say(Hello("watcher", commander=True), watcher)[0].ok
    assert say(Hello("shell", commander=True))[0].ok
    reply, _ = say(Hello("second", commander=True))
    assert not reply.ok and reply.message == "second commander: 'shell' commands already"
    assert [c.commander for c in server.clients] == [False, True, False]


def test_a_commander_that_is_silent_for_long_gives_way(server, say, monkeypatch):
    assert say(Hello("hung", commander=True))[0].ok
    monkeypatch.setattr(base, "SEAT_TIMEOUT_S", -1.0)  # the time is over, whenever it is asked
    reply, _ = say(Hello("shell", commander=True))
    assert reply.ok and [(c.hello.client, c.commander) for c in server.clients] == [("shell", True)]


def test_another_version_is_refused(server, say):
    reply, _ = say(Hello("old", commander=True, version=VERSION + 1))
    assert not reply.ok and f"this guard speaks {VERSION}" in reply.message
    assert server.clients[0].hello is None and not server.clients[0].commander


class Clock:
    """Time as the loop sees it: passes only while it waits, and where a test says so."""

    def __init__(self):
        self.now_s = 100.0

    def monotonic(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds

    def select(self, reading, writing, failing, timeout_s):
        self.now_s += timeout_s
        return [], [], []


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(loop_module, "time", clock)
    monkeypatch.setattr(loop_module, "select", clock)
    return clock


class Noted(Quick):
    """Notes when each cycle began."""

    def __init__(self, acts):
        super().__init__(acts)
        self.begun_s = []

    def service(self, now_s):
        self.begun_s.append(now_s)
        super().service(now_s)


def run_held_up(server, clock, held_up_s, armed=False, meanwhile=lambda: None, stopped=False):
    """Sixty cycles, the fiftieth of which takes `held_up_s`; the guard and when each of the last eleven began."""
    loop = Loop(server, 0.008)

    def arm():
        guard.commander_changed("shell", clock.now_s)
        guard.handle("shell", Heartbeat("shell", True), clock.now_s)
        guard.handle("operator", Arm("auto", server.credential, "r"), clock.now_s)

    def hold_up():
        meanwhile()
        clock.sleep(held_up_s)

    robot = Noted({
        20: arm if armed else lambda: None, 50: hold_up, 60: lambda: setattr(loop, "ending", True),
        49: lambda: guard.stop_requests([(Stop("panel"), 1)], clock.now_s) if stopped else None,
    })  # fmt: skip
    guard = Guard(robot, GuardConfig(), server.credential, itertools.count(1000).__next__, lambda *_: None, clock.now_s)
    loop.run(guard)
    return guard, robot.begun_s[49:60]


def test_after_a_hold_up_the_missed_cycles_are_not_made_up_for_in_a_burst(server, clock):
    guard, begun_s = run_held_up(server, clock, 0.030)
    assert np.diff(begun_s) * 1e3 == pytest.approx([30] + [8] * 9, abs=0.05)
    assert guard.late_cycles == 1


def test_a_cycle_less_than_a_period_late_is_none_and_the_next_one_keeps_its_time(server, clock):
    guard, begun_s = run_held_up(server, clock, 0.012)
    assert np.diff(begun_s) * 1e3 == pytest.approx([12, 4] + [8] * 8, abs=0.05)
    assert guard.late_cycles == 0


@pytest.mark.parametrize("late_s, cause", [(0.038, "shutdown"), (0.042, "loop_late")])
def test_a_cycle_so_late_that_the_robot_has_stopped_by_itself_is_a_stop(server, clock, late_s, cause):
    guard, _ = run_held_up(server, clock, 0.008 + late_s, armed=True)
    assert guard.counters()["armed"] == 1 and guard._last_stop["cause"] == cause


def test_a_stop_that_came_while_the_loop_was_held_up_is_not_braked_so_late(server, clock, monkeypatch):
    waiting = []
    monkeypatch.setattr(server, "stops", lambda: [waiting.pop()] if waiting else [])
    guard, _ = run_held_up(server, clock, 0.050, armed=True, meanwhile=lambda: waiting.append((Stop("panel"), 1)))
    assert guard._last_stop["cause"] == "stop_requested" and guard._last_stop["reaction"] == "SILENCE"
    assert "braking_s" not in guard._last_stop


def test_a_stop_under_way_is_not_braked_on_after_a_hold_up(server, clock):
    guard, _ = run_held_up(server, clock, 0.050, armed=True, stopped=True)
    assert (guard._last_stop["cause"], guard._last_stop["reaction"]) == ("stop_requested", "SILENCE")
    in_time, _ = run_held_up(server, clock, 0.008, armed=True, stopped=True)
    assert in_time._last_stop["reaction"] == "BRAKE"


def test_a_turn_is_told_each_cycle_and_only_then(server):
    loop, turns = Loop(server, 0.008), []
    robot = Quick({20: lambda: setattr(loop, "ending", True)})
    loop.turned = turns.append
    guard = guard_of(server, robot)
    loop.run(guard)
    assert len(turns) == guard.seq and turns == sorted(turns)
