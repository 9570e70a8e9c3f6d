"""The observer of the guard's states takes every one of them, however late it comes to them."""
import socket
import threading
from dataclasses import replace

import pytest

from steadyhand.guard_protocol import COMMAND_SOCKET, Reply, encode
from steadyhand.slot import current_slot
from steadyhand_cli.watcher import GuardWatcher
from tests.unit.test_invariants import BASE


@pytest.fixture
def guard(monkeypatch, tmp_path):
    """A listener where the slot's guard would be."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    folder = current_slot().socket_dir
    folder.mkdir()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(str(folder / COMMAND_SOCKET))
        listener.listen()
        listener.settimeout(5.0)
        yield listener


def states(first: int, last: int) -> list[bytes]:
    return [encode(replace(BASE, seq=k, stamp_s=0.008 * k)) for k in range(first, last + 1)]


def test_a_backlog_is_checked_state_by_state(guard):
    watcher, may_go_on = GuardWatcher(), threading.Event()
    update, held_up = watcher.monitor.update, threading.Event()

    def slow_update(state):
        held_up.set()
        assert may_go_on.wait(5.0)
        update(state)

    watcher.monitor.update = slow_update
    try:
        connection, _ = guard.accept()
        with connection:
            connection.recv(4096)
            connection.send(encode(Reply("hello", True)))
            first = 0
            while not held_up.wait(0.02):  # what comes together with the answer is not yet watched
                first += 1
                connection.send(states(first, first)[0])
            for packet in states(first + 1, first + 40):
                connection.send(packet)
            may_go_on.set()
            assert watcher.wait(lambda s: s.seq == first + 40, 5.0) is not None
        assert watcher.monitor.states >= 41 and watcher.monitor.violations == []
    finally:
        may_go_on.set()
        watcher.close()


def test_waiting_has_a_limit(guard):
    watcher = GuardWatcher()
    try:
        assert watcher.wait(lambda s: True, 0.05) is None
    finally:
        watcher.close()
