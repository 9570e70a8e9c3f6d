"""The guard's sockets: who may come in, what a flood costs, what is a stop."""
import os
import socket
import stat

import pytest

from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import Arm, Heartbeat, Hello, Reply, Stop, decode, encode
from steadyhand_firmware_bridge.guard import server as server_module
from steadyhand_firmware_bridge.guard.server import PACKETS_PER_CLIENT_PER_CYCLE, Server


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "run" / "slot")
    server.open()
    yield server
    server.close()


def connect(server):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(2)
    sock.connect(str(server.folder / "command.sock"))
    server.accept(0.0)
    return sock


def stop_socket(server):
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sock.connect(str(server.folder / "stop.sock"))
    sock.setblocking(False)
    return sock


def received(server, client=0):
    got = []
    alive = server.receive(server.clients[client], lambda c, m: got.append(m), lambda: True)
    return got, alive


def test_folder_sockets_and_credential_are_private(server):
    assert stat.S_IMODE(server.folder.stat().st_mode) == 0o700
    for name in ("command.sock", "stop.sock"):
        assert stat.S_IMODE((server.folder / name).stat().st_mode) == 0o600
    token = server.folder / "rearm.token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600
    assert token.read_text().strip() == server.credential and len(server.credential) >= 32


def test_a_folder_that_was_there_is_made_private(tmp_path):
    folder = tmp_path / "slot"
    folder.mkdir(mode=0o755)
    server = Server(folder)
    server.open()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    server.close()


def test_the_credential_is_new_at_each_start(tmp_path):
    seen = set()
    for _ in range(3):
        server = Server(tmp_path / "slot")
        server.open()
        seen.add(server.credential)
        server.close()
    assert len(seen) == 3 and not (tmp_path / "slot" / "rearm.token").exists()


def test_a_second_guard_in_the_slot_is_refused_and_harms_nothing(server):
    second = Server(server.folder)
    with pytest.raises(ConfigError, match="another guard"):
        second.open()
    second.close()
    connect(server).close()  # still there
    assert (server.folder / "rearm.token").exists()


def test_sockets_left_by_a_killed_guard_are_replaced(tmp_path):
    folder = tmp_path / "slot"
    folder.mkdir()
    left = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    left.bind(str(folder / "stop.sock"))
    left.close()
    server = Server(folder)
    server.open()
    server.close()


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    (tmp_path / "slot").mkdir()
    monkeypatch.setattr(server_module.os, "getuid", lambda: 12345)
    with pytest.raises(ConfigError, match="user 12345"):
        Server(tmp_path / "slot").open()


def test_a_place_where_no_folder_can_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/run: Not a directory; set XDG_RUNTIME_DIR"):
        Server(tmp_path / "file" / "run" / "slot").open()


def test_a_link_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "slot").symlink_to(tmp_path / "real")
    with pytest.raises(ConfigError, match="not a folder"):
        Server(tmp_path / "slot").open()


def test_a_process_of_another_user_is_not_let_in(server, monkeypatch):
    monkeypatch.setattr(server_module, "peer_uid", lambda sock: os.getuid() + 1)
    sock = connect(server)
    assert server.clients == [] and server.refused_connections == 1
    assert sock.recv(100) == b""


def test_hello_comes_first_and_garbage_is_counted(server):
    sock = connect(server)
    sock.send(encode(Arm("auto", "x", "1")))
    sock.send(b"\xff\x00garbage")
    assert received(server) == ([], True)
    sock.send(b"x" * 60000)
    assert received(server) == ([], True)
    sock.send(encode(Hello("me")))
    assert received(server) == ([Hello("me")], True) and server.malformed == 3


def test_a_flood_waits_for_the_next_cycle(server):
    sock = connect(server)
    sock.send(encode(Hello("me")))
    received(server)
    server.clients[0].hello = Hello("me")
    server.new_cycle()
    for _ in range(PACKETS_PER_CLIENT_PER_CYCLE + 5):
        sock.send(encode(Heartbeat("x", True)))
    assert len(received(server)[0]) == PACKETS_PER_CLIENT_PER_CYCLE
    assert server.clients[0].sock not in server.readable()
    server.new_cycle()
    assert len(received(server)[0]) == 5


def test_serving_ends_when_time_is_up(server):
    sock = connect(server)
    for name in ("first", "second"):
        sock.send(encode(Hello(name)))
    left, got = iter([True, False]), []
    assert server.receive(server.clients[0], lambda c, m: got.append(m), lambda: next(left))
    assert got == [Hello("first")]  # the other waits for the next cycle


def test_any_datagram_is_a_stop_and_a_readable_one_names_its_source(server):
    sock = stop_socket(server)
    sock.send(encode(Stop("panel", "red button")))
    assert server.stops() == [(Stop("panel", "red button"), 1)]
    for junk in (b"", b"help", encode(Hello("me")), b"\x00" * 2000):
        sock.send(junk)
        assert server.stops() == [(Stop("unreadable"), 1)]
    assert server.stops() == []


def test_a_flood_of_stops_is_bounded_per_cycle_and_counted(server, monkeypatch):
    monkeypatch.setattr(server_module, "STOPS_PER_CYCLE", 3)  # the kernel's buffer may hold as few as ten
    server.new_cycle()
    sock = stop_socket(server)
    for _ in range(5):
        sock.send(encode(Stop("flood")))
    assert server.stops() == [(Stop("flood"), 3)] and server.stops() == []
    assert server._stop not in server.readable()
    server.new_cycle()
    assert server._stop in server.readable() and server.stops() == [(Stop("flood"), 2)]


def test_a_reader_that_does_not_read_loses_states(server):
    reader = connect(server)  # never reads
    server.clients[0].hello = Hello("slow", states=True)
    for _ in range(2000):
        server.publish(Reply("r", True, "x" * 200))
    assert server.dropped_states > 0 and len(server.clients) == 1
    reader.close()


def test_states_go_only_to_those_who_asked(server):
    a, b = connect(server), connect(server)
    server.clients[0].hello = Hello("a", states=True)
    server.clients[1].hello = Hello("b", states=False)
    server.publish(Reply("state", True))
    assert decode(a.recv(4096)).request_id == "state"
    b.setblocking(False)
    with pytest.raises(BlockingIOError):
        b.recv(10)


def test_who_says_no_hello_in_its_time_is_told_apart(server):
    connect(server), connect(server)
    server.clients[1].hello = Hello("me")
    assert server.speechless(server_module.HELLO_TIMEOUT_S) == []
    assert server.speechless(server_module.HELLO_TIMEOUT_S + 0.1) == server.clients[:1]


def test_a_client_that_goes_is_noticed(server):
    connect(server).close()
    assert received(server) == ([], False)


def test_connections_are_limited(server):
    socks = [connect(server) for _ in range(server_module.MAX_CLIENTS + 2)]
    assert len(server.clients) == server_module.MAX_CLIENTS and server.refused_connections == 2
    for sock in socks:
        sock.close()
