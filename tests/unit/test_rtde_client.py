"""Our RTDE and dashboard clients against a controller that misbehaves; the good case is in test_ur_ports."""
import fcntl
import os
import socket
import struct
import termios
import time

import numpy as np
import pytest

from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand_firmware_bridge.dashboard import DashboardClient
from steadyhand_firmware_bridge.rtde import MAX_READ, Phase, RtdeClient, RtdeConfig
from steadyhand_firmware_bridge.rtde_wire import Framer, Recipe, package, parse_setup_reply
from steadyhand_sim.ur_controller.controller import ControllerConfig
from tests.ur_bench import HOST, Bench

VERSION_OK = package(ord("V"), b"\x01")
CONTROLLER = package(ord("v"), struct.pack(">4I", 3, 15, 8, 0))
OUTPUTS_OK = package(ord("O"), b"\x01DOUBLE,VECTOR6D")
INPUTS_OK = package(ord("I"), b"\x01INT32,DOUBLE")
START_OK = package(ord("S"), b"\x01")
HANDSHAKE = VERSION_OK + CONTROLLER + OUTPUTS_OK + INPUTS_OK + START_OK
STATE = package(ord("U"), struct.pack(">B7d", 1, 1.0, *range(6)))


class Peer:
    """A listening socket that says what a test tells it to."""

    def __init__(self):
        self.listener = socket.create_server((HOST, 0))
        self.listener.settimeout(5.0)
        self.port = self.listener.getsockname()[1]
        self.client = RtdeClient(
            RtdeConfig(HOST, ("timestamp", "actual_q"), {"in": ("input_int_register_24", "input_double_register_24")},
                       port=self.port)
        )  # fmt: skip
        self.now_s = 10.0
        self.client.start(self.now_s)
        self.accepted, _ = self.listener.accept()
        self.samples = []

    def say(self, data):
        self.accepted.sendall(data)

    def poll_until(self, condition):
        for _ in range(500):
            sample = self.client.poll(self.now_s)
            if sample:
                self.samples.append(sample)
            if condition():
                return
            time.sleep(0.001)  # the kernel's loopback; bounded by the 500 rounds
        raise AssertionError(f"phase {self.client.phase}, reason {self.client.reason!r}")

    def handshake(self):
        """Answer each request in turn: an answer before its question is a protocol error."""
        for answer, phase in zip(
            (VERSION_OK, CONTROLLER, OUTPUTS_OK, INPUTS_OK, START_OK),
            (Phase.VERSION, Phase.CONTROLLER, Phase.OUTPUTS, Phase.INPUTS, Phase.STARTING),
        ):
            self.poll_until(lambda: self.client.phase is phase)
            self.say(answer)
        self.poll_until(lambda: self.client.running)

    def close(self):
        self.client.close()
        self.accepted.close()
        self.listener.close()


@pytest.fixture
def peer():
    peer = Peer()
    yield peer
    peer.close()


def closed(peer):
    return lambda: peer.client.phase is Phase.CLOSED


def test_newest_state_wins_and_holes_are_counted(peer):
    peer.handshake()
    stamps = (1.0, 1.008, 1.032)
    states = [package(ord("U"), struct.pack(">B7d", 1, t, *range(6))) for t in stamps]
    peer.say(states[0])
    peer.poll_until(lambda: peer.client.counters.received == 1)
    peer.say(states[1] + states[2])
    peer.poll_until(lambda: peer.client.counters.received == 3)
    assert peer.samples[-1].values["timestamp"] == 1.032
    assert peer.samples[-1].values["actual_q"] == pytest.approx(np.arange(6))
    assert peer.samples[-1].received_s == peer.now_s
    assert peer.client.counters.missed == 2
    assert peer.client.counters.superseded == 3 - len(peer.samples)


def test_what_piled_up_during_a_freeze_is_drained_in_one_poll(peer):
    """Else the second poll would hand over a state of long ago as if just received."""
    peer.handshake()
    states = b"".join(package(ord("U"), struct.pack(">B7d", 1, 0.008 * k, *range(6))) for k in range(1, 1101))
    assert len(states) > MAX_READ
    peer.say(states)
    waiting = bytearray(4)
    for _ in range(500):  # until the kernel has it all
        fcntl.ioctl(peer.client.fileno(), termios.FIONREAD, waiting)
        if struct.unpack("i", waiting)[0] == len(states):
            break
        time.sleep(0.001)
    assert peer.client.poll(peer.now_s).values["timestamp"] == pytest.approx(1100 * 0.008)
    assert peer.client.poll(peer.now_s) is None
    assert peer.client.counters.received == 1100
    assert peer.client.counters.missed == 0


def test_late_states_are_counted(peer):
    peer.handshake()
    for _ in range(3):
        peer.now_s += 0.02
        before = peer.client.counters.received
        peer.say(STATE)
        peer.poll_until(lambda: peer.client.counters.received > before)
    assert peer.client.counters.late == 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (package(ord("V"), b"\x00"), "version 2 refused"),
        (package(ord("S"), b"\x01"), "in phase"),
        (struct.pack(">HB", 1, 86), "not an RTDE stream"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not an RTDE stream"),
    ],
)
def test_a_wrong_first_answer_ends_the_session(peer, answer, reason):
    peer.poll_until(lambda: peer.client.phase is Phase.VERSION)
    peer.say(answer)
    peer.poll_until(closed(peer))
    assert reason in peer.client.reason
    assert peer.client.counters.malformed == 1


def test_silence_in_the_handshake_ends_it(peer):
    peer.poll_until(lambda: peer.client.phase is Phase.VERSION)
    peer.now_s += 2.1
    peer.poll_until(closed(peer))
    assert "no answer in phase 'version'" in peer.client.reason


def test_half_open_connection_ends(peer):
    peer.handshake()
    peer.now_s += 0.9
    assert peer.client.poll(peer.now_s) is None
    assert peer.client.running
    peer.now_s += 0.2
    peer.poll_until(closed(peer))
    assert "half-open" in peer.client.reason
    assert not peer.client.send("in", [1, 2.0])


def test_peer_gone_then_reconnected(peer):
    peer.handshake()
    peer.accepted.close()
    peer.poll_until(closed(peer))
    peer.client.start(peer.now_s)
    peer.accepted, _ = peer.listener.accept()
    peer.handshake()
    assert peer.client.counters.sessions == 2


def test_nobody_listens():
    free = socket.create_server((HOST, 0))
    port = free.getsockname()[1]
    free.close()
    client = RtdeClient(RtdeConfig(HOST, ("timestamp",), port=port))
    with pytest.raises(RobotError, match="REFUSED"):
        client.connect(1.0)


def test_a_silent_listener_is_bounded(peer):
    silent = RtdeClient(RtdeConfig(HOST, ("timestamp",), port=peer.port))
    with pytest.raises(RobotError, match="phase 'version'"):
        silent.connect(0.05)


@pytest.mark.parametrize("payload", [struct.pack(">Bd", 1, 1.0), struct.pack(">B7d", 2, *range(7)), b"",
                                     struct.pack(">B7d", 1, 1.0, float("nan"), *range(5))])  # fmt: skip
def test_a_bad_state_is_dropped_and_ten_in_a_row_end_the_session(peer, payload):
    peer.handshake()
    peer.say(package(ord("U"), payload))
    peer.poll_until(lambda: peer.client.counters.malformed == 1)
    peer.say(STATE)
    peer.poll_until(lambda: peer.client.counters.received == 1)
    assert peer.client.counters.malformed == 1
    peer.say(package(ord("U"), payload) * 9)
    peer.poll_until(lambda: peer.client.counters.malformed == 10)
    peer.say(STATE)
    peer.poll_until(lambda: peer.client.counters.received == 2)
    peer.say(package(ord("U"), payload) * 10)
    peer.poll_until(closed(peer))
    assert peer.client.counters.received == 2


def test_text_messages_are_kept(peer):
    peer.handshake()
    peer.say(package(ord("M"), b"\x05hello\x02us\x01"))
    peer.poll_until(lambda: peer.client.counters.text_messages == 1)
    assert peer.client.text == "hello"


def test_send_packs_one_package(peer):
    peer.handshake()
    peer.accepted.settimeout(1.0)
    while peer.accepted.recv(65536)[-3:] != package(ord("S")):
        pass
    assert peer.client.send("in", [5, 0.25])
    assert peer.accepted.recv(64) == struct.pack(">HBBid", 16, ord("U"), 1, 5, 0.25)


def test_a_full_socket_refuses_and_never_tears_a_package(peer):
    peer.handshake()
    with socket.socket(fileno=os.dup(peer.client.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    peer.accepted.settimeout(1.0)
    sent = 0
    while peer.client.counters.send_refused == 0:
        sent += peer.client.send("in", [sent, 0.0])
        assert sent < 2_000_000
    data = b""
    while len(data) < sent * 16:
        peer.client.poll(peer.now_s)
        data += peer.accepted.recv(1 << 20)
    data = data[data.index(struct.pack(">HBB", 16, ord("U"), 1)) :]
    while len(data) < sent * 16:
        peer.client.poll(peer.now_s)
        data += peer.accepted.recv(1 << 20)
    numbers = [struct.unpack_from(">i", data, 16 * k + 4)[0] for k in range(sent)]
    assert numbers == list(range(sent))


@pytest.mark.parametrize(
    "values",
    [
        [1], [1, 2, 3], [1.5, 0.0], [2**31, 0.0], [float("inf"), 0.0], [1, float("nan")], [1, 10**400], ["x", 0.0],
        [None, 0.0],
    ],  # fmt: skip
)
def test_values_that_do_not_fit_are_the_callers_fault(peer, values):
    peer.handshake()
    with pytest.raises(ProtocolError):
        peer.client.send("in", values)
    assert peer.client.running


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "empty"), (b"\x00INT32", "id 0"), (b"\x01IN_USE", "owned by another"), (b"\x01INT32,INT32", "1 names"),
        (b"\x01WAT", "WAT"),
    ],  # fmt: skip
)
def test_setup_replies(reply, reason):
    with pytest.raises(ProtocolError, match=reason):
        parse_setup_reply(reply, ["input_int_register_24"])


def test_framer_cuts_anywhere():
    framer = Framer()
    out = [p for i in range(len(HANDSHAKE)) for p in framer.feed(HANDSHAKE[i : i + 1])]
    assert [chr(kind) for kind, _ in out] == list("VvOIS")


def test_package_has_a_size_limit():
    with pytest.raises(ProtocolError, match="limit"):
        package(ord("U"), bytes(65535))


@pytest.mark.parametrize("value", [1.0, None, range(5)])
def test_a_vector_of_another_shape_is_named(value):
    with pytest.raises(ProtocolError, match="field b"):
        Recipe(3, ("b",), ("VECTOR6D",)).pack([value])


def test_recipe_round_trip():
    recipe = Recipe(3, ("a", "b", "c"), ("BOOL", "VECTOR6D", "UINT8"))
    packed = recipe.pack([True, range(6), 255])
    values = recipe.unpack(packed[3:])
    assert values["a"] is True
    assert values["b"].tolist() == [0, 1, 2, 3, 4, 5]
    assert values["c"] == 255


@pytest.mark.parametrize(
    "bad", [{"outputs": ()}, {"frequency_hz": 0.0}, {"frequency_hz": 1000.0}, {"silence_timeout_s": -1.0}]
)
def test_config_is_checked(bad):
    with pytest.raises(ConfigError, match=next(iter(bad))):
        RtdeConfig(**{"host": HOST, "outputs": ("timestamp",), **bad})


def test_too_many_names_are_refused_before_sending():
    with pytest.raises(ProtocolError, match="2048"):
        RtdeConfig(HOST, tuple(f"output_double_register_{i % 48}" for i in range(100)))


# ---- dashboard


def test_dashboard_client_asks_in_order():
    bench = Bench()
    try:
        client = DashboardClient(HOST, bench.server.dashboard_port)
        for command in ("robotmode", "programState", "PolyscopeVersion"):
            client.request(command, 0.0)
        replies = []
        bench.pump_until(lambda: replies.extend(client.poll(0.0)) or client.idle)
        assert [(r.command, r.value) for r in replies] == [
            ("robotmode", "RUNNING"), ("programState", "STOPPED"), ("PolyscopeVersion", "URSoftware 3.15.8.106339 (Jun 20 2022)"),
        ]  # fmt: skip
        client.close()
    finally:
        bench.close()


def test_after_a_switch_of_control_the_dashboard_is_asked_over_a_new_connection():
    """An e-Series refuses `stop` for ever on a connection from before the switch; an S0 stop must not end there."""
    bench = Bench(ControllerConfig.e_series())

    def ask(*commands):
        for command in commands:
            client.request(command, 0.0)
        replies = []
        bench.pump_until(lambda: replies.extend(client.poll(0.0)) or client.idle)
        return [(r.command, r.ok, r.text[:31]) for r in replies]

    client = DashboardClient(HOST, bench.server.dashboard_port)
    try:
        assert ask("stop") == [("stop", True, "Stopped")]
        bench.controller.set_remote_control(False)
        refused = ("stop", False, "Command is not allowed due to s")
        assert ask("stop", "robotmode", "stop") == [refused, ("robotmode", True, "Robotmode: RUNNING"), refused]
        bench.controller.set_remote_control(True)
        assert ask("robotmode", "stop", "robotmode") == [
            ("robotmode", True, "Robotmode: RUNNING"), ("stop", True, "Stopped"), ("robotmode", True, "Robotmode: RUNNING"),
        ]  # fmt: skip
    finally:
        client.close()
        bench.close()


def polled_until(client, now_s, condition):
    """The answers on the way."""
    replies = []
    for _ in range(500):
        replies += client.poll(now_s)
        if condition():
            return replies
        time.sleep(0.001)  # the kernel's loopback; bounded by the 500 rounds
    raise AssertionError(f"not within 500 polls: {replies}")


def test_dashboard_client_gives_up_in_time(peer):
    client = DashboardClient(HOST, peer.port, timeout_s=0.5)
    client.request("stop", 0.0)
    assert client.poll(0.1) == []
    replies = client.poll(0.6)
    assert [(r.command, r.ok) for r in replies] == [("stop", False)]
    assert "0.5 s" in replies[0].text
    assert client.idle


def test_only_the_overdue_command_fails(peer):
    client = DashboardClient(HOST, peer.port, timeout_s=0.5)
    client.request("stop", 0.0)
    client.request("robotmode", 0.3)
    assert [r.command for r in client.poll(0.6)] == ["stop"]
    assert not client.idle
    assert [r.command for r in client.poll(0.9)] == ["robotmode"]


def test_a_late_answer_is_not_taken_for_the_next(peer):
    """The first connection is dropped at the limit, so its answer can never be paired with another command."""
    client = DashboardClient(HOST, peer.port, timeout_s=0.5)
    client.request("robotmode", 0.0)
    client.poll(0.0)
    first, _ = peer.listener.accept()
    first.sendall(b"Connected: Universal Robots Dashboard Server\n")
    assert polled_until(client, 0.1, lambda: client._asked) == []
    assert [r.ok for r in client.poll(0.6)] == [False]
    client.request("safetymode", 0.7)
    client.poll(0.7)
    try:
        first.sendall(b"Robotmode: RUNNING\n")
    except OSError:
        pass  # nobody listens there any more
    second, _ = peer.listener.accept()
    second.sendall(b"Connected: Universal Robots Dashboard Server\n")
    assert polled_until(client, 0.8, lambda: client._asked) == []
    second.sendall(b"Safetymode: NORMAL\n")
    replies = polled_until(client, 0.8, lambda: client.idle)
    assert [(r.command, r.value) for r in replies] == [("safetymode", "NORMAL")]
    first.close()
    second.close()
    client.close()


def test_dashboard_refuses_what_it_does_not_use():
    with pytest.raises(RobotError, match="shutdown"):
        DashboardClient(HOST).request("shutdown", 0.0)


def test_dashboard_queue_is_bounded():
    client = DashboardClient(HOST)
    with pytest.raises(RobotError, match="wait already"):
        for _ in range(100):
            client.request("robotmode", 0.0)
