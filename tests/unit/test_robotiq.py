"""Robotiq: parameters, lines, what the gripper says of itself, a session against hostile peers, the emulated device."""
import json
import math
import socket
import threading
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ConfigError, ProtocolError, RobotError
from steadyhand_firmware_bridge.robotiq import config, state, wire
from steadyhand_firmware_bridge.robotiq.session import Session
from steadyhand_firmware_bridge.robotiq.state import GripperState
from steadyhand_firmware_bridge.robotiq.worker import Worker
from steadyhand_sim.robotiq.device import RobotiqDevice

CONFIG = config.RobotiqConfig(host="127.0.0.1")
WELL = dict(pos=0, pre=0, obj=3, sta=3, flt=0)


@pytest.mark.parametrize("wrong", [
    {"port": 0}, {"port": True}, {"stroke_m": math.nan}, {"stroke_m": 0.0}, {"open_count": 210}, {"closed_count": 300},
    {"force_n": 500.0}, {"speed_m_s": 0.0}, {"poll_s": math.inf}, {"answer_timeout_s": "soon"}, {"speeed": 1},
    {"force_range_n": [5.0]}, {"host": 7}, {"command_age_s": 60.0},
])
def test_each_wrong_parameter_is_named(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        config.of(wrong)


def test_counts_and_widths_are_each_others_inverse():
    calibrated = config.of({"open_count": 3, "closed_count": 228})
    assert calibrated.count_of(0.085) == 3 and calibrated.count_of(0.0) == 228
    for width_m in (0.0, 0.01, 0.04, 0.062, 0.085):
        assert abs(calibrated.width_of(calibrated.count_of(width_m)) - width_m) < 0.0002
    assert config.of({"force_n": 20.0}).force_count == 0 and config.of({"speed_m_s": 0.15}).speed_count == 255


@pytest.mark.parametrize("width_m", [math.nan, math.inf, -0.001, 0.0851, "open", None, True])
def test_an_opening_that_is_none_has_no_count(width_m):
    with pytest.raises(ConfigError, match="width_m"):
        CONFIG.count_of(width_m)


@pytest.mark.parametrize("line, kind", [
    (b"POS nan", "garbage"), (b"POS -1", "garbage"), (b"POS 1.5", "garbage"), (b"POS 1e2", "garbage"), (b"POS", "garbage"),
    (b"", "garbage"), (b"POS 1 2", "garbage"), (b"\xff\xfe\x00", "garbage"), (b"POS \xc2\xb2", "garbage"),
    (b"OBJ 3", "foreign"), (b"ack", "garbage"), (b"POS 256", "out_of_range"), (b"POS 999", "out_of_range"),
    (b"POS 1000", "garbage"), (b"POS 0x10", "garbage"), (b"pos 12", "foreign"),
])
def test_what_is_no_answer_is_refused_by_kind(line, kind):
    with pytest.raises(ProtocolError) as error:
        wire.value_of(line, "POS")
    assert str(error.value).startswith(kind)


@given(st.binary(max_size=80))
def test_no_bytes_crash_the_parsers(data):
    lines = wire.Lines()
    try:
        lines.feed(data)
        while (line := lines.take(settled=True)) is not None:
            value = wire.value_of(line, "OBJ")
            assert value is None or 0 <= value <= 3
    except ProtocolError as error:
        assert str(error).split()[0] in ("garbage", "foreign", "out_of_range", "oversized")


def test_only_the_grippers_registers_and_values_are_written():
    assert wire.set_line({"POS": 100, "GTO": 1}) == b"SET POS 100 GTO 1\n"
    for wrong in ({"POS": 256}, {"POS": -1}, {"ACT": 2}, {"STA": 1}, {"POS": True}, {"POS": 1.0}, {"XYZ": 1}):
        with pytest.raises(ProtocolError):
            wire.set_line(wrong)


@pytest.mark.parametrize("changes, said", [
    ({}, ""), ({"flt": 5}, ""), ({"pos": None}, "cannot be read"), ({"sta": 0}, "gripper-activate"),
    ({"sta": 1}, "under way"), ({"flt": 8}, "cool"), ({"flt": 14}, "overcurrent"), ({"flt": 77}, "fault 77"),
    ({"link": "slow: no answer"}, "slow"),
])
def test_what_the_gripper_says_is_named(changes, said):
    trouble = GripperState(0.0, **(WELL | changes)).trouble()
    assert said in trouble and bool(said) == bool(trouble)


@pytest.mark.parametrize("changes", [{"pos": None, "pre": None}, {"sta": 0}, {"sta": 1}, {"link": "closed"}])
def test_an_opening_that_is_not_known_is_not_a_number(changes):
    reading = GripperState(0.0, **(WELL | changes))
    assert math.isnan(reading.width_m(CONFIG)) and math.isnan(reading.commanded_m(CONFIG))


def test_a_report_survives_the_wire_and_nothing_else_does():
    reading = GripperState(1.0, **WELL, counters={"writes": 2})
    assert state.decode(reading.encode()) == reading
    for packet in (b"", b"{", b"[]", b'{"stamp_s": 1.0}', json.dumps({"stamp_s": "x"}).encode(), b"\xff"):
        with pytest.raises(ProtocolError):
            state.decode(packet)


class Peer:
    """A server that answers each line with the next of `answers` (bytes; None: never), then closes."""

    def __init__(self, *answers):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.heard = []
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(answers,), daemon=True)
        self._thread.start()

    def _serve(self, answers):
        peer, _ = self._listener.accept()
        with peer:
            for answer in answers:
                self.heard.append(peer.recv(1000))
                if answer is None:
                    self._done.wait(5.0)
                    return
                peer.sendall(answer)
            self._done.wait(0.2)

    def close(self):
        self._done.set()
        self._thread.join(5.0)
        self._listener.close()


@pytest.mark.parametrize("answers, kind", [
    ((b"POS nan\n",), "garbage"), ((b"OBJ 1\n",), "foreign"), ((b"POS 300\n",), "out_of_range"), ((None,), "slow"),
    ((b"PO",), "truncated"), ((b"x" * 100,), "oversized"), ((b"\x00" * 10 + b"\n",), "garbage"), ((b"",), "slow"),
    ((b"POS 1\nPOS 2\n", b"POS 3\n"), "foreign"),
])
def test_a_session_gives_up_by_name_and_counts_it(answers, kind):
    peer, counters = Peer(*answers), Counter()
    try:
        session = Session("127.0.0.1", peer.port, 0.15, counters)
        with pytest.raises(RobotError, match=kind):
            for _ in answers:
                session.read("POS")
        assert counters[kind] == 1
    finally:
        peer.close()


@pytest.mark.parametrize("ack", [b"ack", b"ack\n"])
def test_a_session_takes_answers_with_and_without_an_end_of_line(ack):
    peer, counters = Peer(ack, b"POS 12\n", b"OBJ 2", b"FLT ?\n"), Counter()
    try:
        session = Session("127.0.0.1", peer.port, 2.0, counters)
        session.write({"POS": 12, "GTO": 1})
        assert [session.read(name) for name in ("POS", "OBJ", "FLT")] == [12, 2, None]
    finally:
        peer.close()
    assert peer.heard == [b"SET POS 12 GTO 1\n", b"GET POS\n", b"GET OBJ\n", b"GET FLT\n"]
    assert counters == {"connections": 1, "writes": 1, "unavailable": 1}


def test_a_refused_write_is_named():
    peer, counters = Peer(b"nack\n"), Counter()
    try:
        with pytest.raises(RobotError, match="refused"):
            Session("127.0.0.1", peer.port, 1.0, counters).write({"ACT": 1})
    finally:
        peer.close()


def test_nobody_there_is_named():
    with pytest.raises(RobotError, match="URCap"):
        Session("127.0.0.1", 1, 0.2, Counter())


# --- the worker's queue: what is written, and what is not ---


class Recorded:
    """In place of a session: keeps what was written."""

    def __init__(self):
        self.written = []

    def write(self, values):
        self.written.append(values)


@pytest.fixture
def worker():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    worker = Worker(CONFIG, theirs)
    worker._session, worker._values = Recorded(), {"STA": 3}
    worker.guard = ours
    yield worker
    ours.close()
    theirs.close()


def told(worker, *messages):
    for message in messages:
        worker.guard.send(json.dumps(message).encode())
    worker._serve()
    return worker._session.written


def test_the_newest_command_is_written_once(worker):
    now_s = time.monotonic()
    written = told(worker, {"width_m": 0.0, "stamp_s": now_s}, {"width_m": 0.085, "stamp_s": now_s})
    assert [w["POS"] for w in written] == [0] and worker._counters["superseded"] == 1
    assert len(told(worker)) == 1


def test_a_stop_empties_the_queue_and_writes_nothing(worker):
    assert told(worker, {"width_m": 0.0, "stamp_s": time.monotonic()}, {"drop": True}) == []
    assert worker._counters["dropped_by_stop"] == 1


def test_a_late_command_is_dropped(worker):
    assert told(worker, {"width_m": 0.0, "stamp_s": time.monotonic() - CONFIG.command_age_s - 0.01}) == []
    assert worker._counters["expired"] == 1


@pytest.mark.parametrize("sta", [None, 0, 1])
def test_a_gripper_that_is_not_ready_is_told_nothing(worker, sta):
    worker._values["STA"] = sta
    assert told(worker, {"width_m": 0.0, "stamp_s": time.monotonic()}) == []
    assert worker._counters["not_ready"] == 1


def test_the_guards_end_ends_the_worker(worker):
    worker.guard.close()
    worker._serve()
    assert worker.ended and worker._session.written == []


# --- the emulated device ---


class Fingers:
    def __init__(self, width_m=0.085, object_m=0.0):
        self.width_m, self.object_m, self.goal_m, self.speed = width_m, object_m, width_m, 0.0

    def gripper_width_m(self):
        return self.width_m

    def move_gripper(self, width_m, speed_m_s, force_n):
        self.goal_m, self.speed = width_m, speed_m_s

    def step(self, dt_s):
        goal = max(self.goal_m, self.object_m)
        self.width_m += max(-self.speed * dt_s, min(self.speed * dt_s, goal - self.width_m))


def run(device, fingers, seconds):
    for _ in range(round(seconds / 0.008)):
        fingers.step(0.008)
        device.step(0.008)


@pytest.mark.parametrize("object_m, obj, pos", [(0.0, 3, 255), (0.04, 2, 135)])
def test_closing_on_something_and_on_nothing(object_m, obj, pos):
    fingers = Fingers(object_m=object_m)
    device = RobotiqDevice(fingers, lambda: True, activated=True)
    assert device.write({"POS": 255, "SPE": 255, "FOR": 20, "GTO": 1})
    run(device, fingers, 0.1)
    assert device.read("OBJ") == 0 and device.read("PRE") == 255
    run(device, fingers, 1.0)
    assert (device.read("OBJ"), device.read("POS")) == (obj, pos)


def test_nothing_moves_before_an_activation_which_runs_the_fingers():
    fingers = Fingers(width_m=0.05)
    device = RobotiqDevice(fingers, lambda: True)
    assert device.write({"POS": 255, "GTO": 1}) and device.read("FLT") == 7
    run(device, fingers, 0.5)
    assert fingers.width_m == 0.05
    device.write({"ACT": 1})
    assert device.read("STA") == 1
    run(device, fingers, 3.0)
    assert device.read("STA") == 3 and abs(fingers.width_m - 0.085) < 0.002


def test_without_power_nothing_is_known_and_the_activation_is_lost():
    fingers, power = Fingers(), [True]
    device = RobotiqDevice(fingers, lambda: power[0], activated=True)
    power[0] = False
    device.step(0.008)
    assert device.read("POS") is None and not device.write({"POS": 255})
    power[0] = True
    assert device.read("STA") == 0


@pytest.mark.parametrize("values", [{"POS": 256}, {"ACT": 2}, {"STA": 3}, {"XXX": 1}, {"POS": 1, "GTO": 9}])
def test_the_device_takes_all_or_nothing(values):
    device = RobotiqDevice(Fingers(), lambda: True, activated=True)
    before = dict(device.requests)
    assert not device.write(values) and device.requests == before
