"""The link process as its socket and its death are seen: whatever a child does, nothing blocks and all is named."""
import json
import sys
import time

import pytest

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.agv_ros import wire
from steadyhand_firmware_bridge.agv_ros.config import vehicle
from steadyhand_firmware_bridge.agv_ros.link_process import LinkProcess
from tests.support.agv_ros_rig import config

CHILD = """
import socket, sys, time
end = socket.socket(fileno=int(sys.argv[sys.argv.index("--fd") + 1]))
"""


@pytest.fixture
def link():
    made = []

    def start(text):
        made.append(LinkProcess(config(), (sys.executable, "-c", CHILD + text)))
        return made[-1]

    yield start
    for one in made:
        one.kill()
        one.close()


def until(wanted, limit_s=20.0):
    end_s = time.monotonic() + limit_s
    while not wanted():
        assert time.monotonic() < end_s
        time.sleep(0.005)


def test_a_process_that_ends_is_told_with_its_exit_code(link):
    one = link("sys.exit(4)")
    until(lambda: one.receive() == [] and "exit code 4" in one.dead())
    assert not one.send(wire.Alive(1.0)) and one.readable() == []


def test_what_is_no_message_is_counted_and_the_rest_is_taken(link):
    good = wire.encode(wire.Graph(1.0, [["/base", "x"]], 1, [], []))
    half = wire.encode(wire.Graph(1.0, [["/base"]], 1, [], []))
    one = link(f"[end.send(p) for p in (b'garbage', {half!r}, {good[:-1]!r}, {good!r})]; end.recv(9)")
    found = []
    until(lambda: found.extend(one.receive()) or found)
    assert found == [wire.decode(good)] and one.malformed == 3


def test_a_process_that_does_not_read_blocks_nobody(link):
    one = link("time.sleep(600)")
    sent = 0
    while one.send(wire.Alive(1.0)):
        sent += 1
        assert sent < 100_000
    assert sent > 10 and not one.dead()
    one.kill()
    until(lambda: "hung" in one.dead())


def test_one_that_is_let_go_sees_it_and_is_waited_for(link):
    one = link("end.recv(9)")
    one.close()
    assert one.process.poll() == 0 and one.dead().startswith("closed")


def test_it_is_given_the_parameters(link):
    one = link("end.send(sys.argv[sys.argv.index('--vehicle') + 1].encode()); end.recv(9)")
    one._socket.setblocking(True)
    assert vehicle(json.loads(one._socket.recv(65536))) == config()


def test_a_command_that_is_not_there_is_an_error_that_is_handled():
    with pytest.raises(OSError):
        LinkProcess(config(), ("/no/such/python",))


def test_messages_of_others_are_none():
    from steadyhand.guard_protocol import Stop, encode

    with pytest.raises(ProtocolError, match="expected one of alive, begin"):
        wire.decode(encode(Stop("panel")))
