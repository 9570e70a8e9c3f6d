"""The bad cable: real sockets on the loopback device, served by hand, time bounded by what is waited for."""
import json
import socket
import time

import pytest

from steadyhand.errors import ConfigError, RobotError
from steadyhand_cli.injection import proxy
from steadyhand_cli.injection.proxy import LinkProxy, Trouble


class Pair:
    """A server, a proxy in front of it, one client: `near` is the guard's end, `far` the controller's."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.proxy = LinkProxy("127.0.0.1", "127.0.0.1", {0: self.server.getsockname()[1]})
        (self.port,) = self.proxy.ports
        self.near, self.far = self.connect()

    def connect(self):
        near = socket.create_connection(("127.0.0.1", self.port), 1.0)
        self.proxy.service(1.0)
        self.server.settimeout(1.0)
        far, _ = self.server.accept()
        for sock in (near, far):
            sock.setblocking(False)
        return near, far

    def trouble(self, way, **trouble):
        self.proxy.set_trouble(self.port, way, Trouble(**trouble))

    def got(self, sock, wanted, limit_s=2.0):
        """Bytes that arrive, until there are `wanted` of them, or None when the connection ends first."""
        data, end_s = b"", time.monotonic() + limit_s
        while len(data) < wanted and time.monotonic() < end_s:
            self.proxy.service(0.01)
            try:
                more = sock.recv(65536)
            except BlockingIOError:
                continue
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return data

    def close(self):
        self.proxy.close()
        for sock in (self.near, self.far, self.server):
            sock.close()


@pytest.fixture
def pair():
    pair = Pair()
    yield pair
    pair.close()


def test_a_good_cable_forwards_both_ways_in_order(pair):
    sent = bytes(range(256)) * 400
    pair.near.setblocking(True)
    pair.near.sendall(sent[:4096])
    pair.far.send(b"state")
    assert pair.got(pair.far, 4096) == sent[:4096]
    assert pair.got(pair.near, 5) == b"state"


def test_a_delay_is_kept_and_order_too(pair):
    pair.trouble("to_robot", delay_s=0.05)
    begin_s = time.monotonic()
    pair.near.send(b"a")
    pair.proxy.service(0.01)
    pair.trouble("to_robot")
    pair.near.send(b"b")
    assert pair.got(pair.far, 2) == b"ab"
    assert time.monotonic() - begin_s >= 0.05
    pair.far.send(b"fast")
    assert pair.got(pair.near, 4) == b"fast"


def test_half_open_loses_one_way_only_and_even_the_farewell(pair):
    pair.trouble("to_robot", drop=True)
    pair.near.send(b"lost")
    pair.far.send(b"state")
    assert pair.got(pair.near, 5) == b"state"
    assert pair.got(pair.far, 1, 0.05) == b"" and pair.proxy.counters["dropped"] == 4
    pair.near.close()
    assert pair.got(pair.far, 1, 0.05) == b""  # it does not learn that the other end has gone
    pair.far.send(b"still there?")
    pair.proxy.service(0.01)


def test_what_was_held_comes_all_at_once(pair):
    pair.trouble("to_guard", hold=True)
    for _ in range(3):
        pair.far.send(b"abc")
        assert pair.got(pair.near, 1, 0.02) == b""
    pair.trouble("to_guard")
    assert pair.got(pair.near, 9) == b"abcabcabc"


def test_truncated_then_closed(pair):
    pair.trouble("to_guard", truncate_bytes=3)
    pair.far.send(b"package")
    assert pair.got(pair.near, 3) == b"pac"
    assert pair.got(pair.near, 1) is None and pair.got(pair.far, 1) is None
    near, far = pair.connect()  # the next connection is whole
    far.send(b"package")
    assert pair.got(near, 7) == b"package"
    near.close()
    far.close()


def test_corruption_changes_one_byte_and_no_length(pair):
    pair.trouble("to_guard", corrupt=1)
    pair.far.send(b"package")
    data = pair.got(pair.near, 7)
    assert len(data) == 7 and sum(a != b for a, b in zip(data, b"package")) == 1


def test_a_cut_resets_both_ends_and_takes_new_connections(pair):
    pair.proxy.cut(pair.port)
    assert pair.got(pair.near, 1) is None and pair.got(pair.far, 1) is None
    near, far = pair.connect()
    near.send(b"again")
    assert pair.got(far, 5) == b"again"
    near.close()
    far.close()


def test_an_orderly_end_is_passed_on_after_the_last_bytes(pair):
    pair.near.send(b"bye")
    pair.near.close()
    assert pair.got(pair.far, 3) == b"bye"
    assert pair.got(pair.far, 1) is None


def test_the_end_waits_its_turn_behind_bytes_that_are_held(pair):
    pair.trouble("to_robot", hold=True)
    pair.near.send(b"bye")
    pair.near.close()
    assert pair.got(pair.far, 1, 0.05) == b""
    pair.trouble("to_robot")
    assert pair.got(pair.far, 3) == b"bye"
    assert pair.got(pair.far, 1) is None


def test_a_full_cable_is_left_unread_without_a_busy_loop_and_loses_nothing(pair, monkeypatch):
    monkeypatch.setattr(proxy, "MAX_READ", 100)
    monkeypatch.setattr(proxy, "MAX_HELD", 1000)
    pair.trouble("to_robot", hold=True)
    sent = bytes(range(256)) * 20
    pair.near.send(sent)
    end_s = time.monotonic() + 2.0
    while pair.proxy.counters["bytes"] <= 1000 and time.monotonic() < end_s:
        pair.proxy.service(0.01)
    pair.proxy.service(0.01)
    assert 1000 < pair.proxy.counters["bytes"] <= 1100
    begin_s = time.monotonic()
    pair.proxy.service(0.05)
    assert time.monotonic() - begin_s >= 0.05
    pair.trouble("to_robot")
    assert pair.got(pair.far, len(sent)) == sent


def test_nobody_behind_the_cable(pair):
    pair.server.close()
    client = socket.create_connection(("127.0.0.1", pair.port), 1.0)
    client.setblocking(False)
    assert pair.got(client, 1) is None
    client.close()


def test_a_taken_port_is_named(pair):
    with pytest.raises(RobotError, match=f"port {pair.port} of 127.0.0.1"):
        LinkProxy("127.0.0.1", "127.0.0.1", {pair.port: 1})


@pytest.mark.parametrize("line", [
    "", "[]", "{}", '{"cut": 1}', '{"cut": null}', '{"port": 1, "way": "to_robot"}', '{"port": PORT, "way": "up"}',
    '{"port": PORT, "way": "to_robot", "trouble": {"speed": 1}}', '{"port": PORT, "way": "to_robot", "trouble": []}',
    '{"port": PORT, "way": "to_robot", "trouble": {"drop": 1}}',
    '{"port": PORT, "way": "to_robot", "trouble": {"delay_s": "x"}}',
    '{"port": PORT, "way": "to_robot", "trouble": {"delay_s": NaN}}', '{"port": [], "way": "to_robot"}',
])  # fmt: skip
def test_a_wrong_command_is_answered_and_changes_nothing(pair, line):
    answer = pair.proxy.command(line.replace("PORT", str(pair.port)))
    assert not answer["ok"] and answer["error"]
    pair.near.send(b"good")
    assert pair.got(pair.far, 4) == b"good"


def test_a_command_is_done_when_it_is_answered(pair):
    line = json.dumps({"port": pair.port, "way": "to_robot", "trouble": {"drop": True}})
    assert pair.proxy.command(line)["ok"]
    pair.near.send(b"lost")
    assert pair.got(pair.far, 1, 0.05) == b""


@pytest.mark.parametrize("wrong", [
    {"delay_s": -1.0}, {"delay_s": float("nan")}, {"truncate_bytes": -2}, {"truncate_bytes": 1.5}, {"corrupt": -1},
    {"corrupt": 1 << 30}, {"corrupt": 2.0},
])  # fmt: skip
def test_troubles_are_checked(wrong):
    with pytest.raises(ConfigError, match="trouble"):
        Trouble(**wrong)
