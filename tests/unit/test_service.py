"""sd_notify: ready at the first turn, signs of life from turns alone, nothing that waits or raises."""
import contextlib
import io
import socket
import sys

import pytest

from steadyhand_firmware_bridge.service import Notifier, say, say_where_it_hangs


@pytest.fixture
def manager(tmp_path):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.bind(str(tmp_path / "notify"))
    sock.setblocking(False)
    yield sock
    sock.close()


def heard(manager):
    got = []
    while True:
        try:
            got.append(manager.recv(1000).decode())
        except BlockingIOError:
            return got


def environ(manager, **more):
    return {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "7", **more}


def test_ready_once_then_a_sign_of_life_a_quarter_of_the_limit(manager):
    notifier = Notifier("SCHED_FIFO", environ(manager), pid=7)
    assert heard(manager) == []  # nothing before the loop has turned
    for k in range(201):  # 1.6 s of cycles of 8 ms
        notifier.turned(100.0 + 0.008 * k)
    assert heard(manager) == ["READY=1\nSTATUS=SCHED_FIFO", *["WATCHDOG=1"] * 3]
    notifier.turned(110.0)  # it hung for 8 s: told nothing meanwhile
    notifier.ending()
    notifier.turned(111.0)
    assert heard(manager) == ["WATCHDOG=1", "STOPPING=1"]


@pytest.mark.parametrize("more", [
    {"WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": ""},
])  # fmt: skip
def test_a_watchdog_that_is_not_ours_hears_ready_only(manager, more):
    notifier = Notifier("", environ(manager, **more), pid=7)
    for now_s in (0.0, 10.0, 1e6):
        notifier.turned(now_s)
    assert heard(manager) == ["READY=1\nSTATUS="]


@pytest.mark.parametrize("address", ["", "vsock:1", "/no/such/socket", "@nobody-listens-here"])
def test_without_a_listener_nothing_happens(address):
    notifier = Notifier("", {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1"})
    notifier.turned(0.0)
    notifier.turned(1.0)
    notifier.ending()
    assert notifier.sent == 0


def test_a_manager_that_does_not_read_is_not_waited_for(manager):
    notifier = Notifier("", environ(manager, WATCHDOG_USEC="4"), pid=7)
    for k in range(5000):
        notifier.turned(float(k))
    assert 0 < notifier.sent < 5000


def test_ready_is_said_again_until_it_is_taken(tmp_path):
    address = str(tmp_path / "notify")
    notifier = Notifier("", {"NOTIFY_SOCKET": address})
    notifier.turned(0.0)  # nobody is there yet
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.setblocking(False)
        for k in range(1, 4):
            notifier.turned(0.008 * k)
        assert heard(manager) == ["READY=1\nSTATUS="]


@pytest.mark.parametrize("stderr", [None, io.StringIO()], ids=["closed", "no file"])
def test_a_process_without_stderr_starts_all_the_same(monkeypatch, stderr):
    monkeypatch.setattr(sys, "__stderr__", stderr)
    monkeypatch.setattr(sys, "stderr", stderr)
    say_where_it_hangs()


def test_a_line_that_nobody_takes_is_no_error(monkeypatch):
    full = open("/dev/full", "w")
    monkeypatch.setattr(sys, "stdout", full)
    monkeypatch.setattr(sys, "stderr", full)
    say("ready")
    say("error", error=True)
    with contextlib.suppress(OSError):
        full.close()
    say("closed")
