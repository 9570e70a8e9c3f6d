"""Bad input by name (steadyhand/bad_input.py) on a real guard process and an emulated controller."""
import socket
import threading

import numpy as np
import pytest

from steadyhand.guard_protocol import Arm, Hello, Reply, encode
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.support.guard_rig import Rig, target_speed

pytestmark = pytest.mark.process


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.close()


@pytest.fixture
def other(rig):
    """A second connection: an operator's."""
    client = GuardClient("other", folder=rig.folder)
    client.connect()
    yield client
    client.close()


def test_a_slow_drip_of_bytes_does_nothing_and_holds_nobody_up(rig):
    rig.arm()
    packet = encode(Arm("disarm", "", "drip"))  # whole, it would disarm: in pieces it must not
    before = rig.client.state.counters["malformed"]
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as drip:
        drip.connect(str(rig.folder / "command.sock"))
        drip.send(encode(Hello("drip")))
        for k in range(len(packet)):
            drip.send(packet[k : k + 1])
            if k % 4 == 0:
                rig.move(0.02)
        state = rig.until(lambda s: s.counters["malformed"] == before + len(packet), 5.0)
        assert state.mode == "ARMED_AUTO", state.causes
        assert rig.verdict(rig.chunk(step_rad=0.0)).accepted
        drip.send(packet)  # the control: the same bytes at once are understood
        rig.until(lambda s: s.mode == "STOPPED" and s.causes[0].startswith("disarmed"), 2.0)


@pytest.mark.parametrize("states_later", range(0, 8, 2))
def test_a_stop_during_arming_wins(rig, other, states_later):
    rig.until(lambda s: s.at_rest, 5.0)
    seq = rig.client.state.seq
    other.send(Arm("auto", operator.credential(rig.folder), "r"))
    rig.until(lambda s: s.seq >= seq + states_later, 2.0)
    operator.stop("panel", folder=rig.folder)
    reply = other.wait(lambda m: isinstance(m, Reply) and m.request_id == "r", 8.0)
    assert reply is not None
    state = rig.until(lambda s: s.mode == "STOPPED" and any("stop_requested: panel" in c for c in s.causes), 2.0)
    later = rig.until(lambda s: s.seq > state.seq + 150, 5.0)  # a late 'ready' of the program arms nothing
    assert later.mode == "STOPPED" and rig.verdict(rig.chunk()).reason == "not_armed"
    assert max(map(target_speed, rig.observer.watch(0.3))) < 1e-4
    assert rig.observer.watch(2.0, lambda v: v["runtime_state"] == 1)[-1]["runtime_state"] == 1  # program withdrawn


def test_a_rearm_during_a_stop_is_refused_and_the_stop_goes_on(rig, other):
    rig.arm()
    rig.move(0.8)
    assert np.abs(rig.client.state.qd_commanded_rad_s).max() > 0.2, rig.client.state.causes
    secret, replies = operator.credential(rig.folder), []
    hear = lambda: replies.append(other.wait(lambda m: isinstance(m, Reply) and m.request_id == "r", 8.0))  # noqa: E731
    thread = threading.Thread(target=hear)
    thread.start()
    token = rig.client.state.token
    operator.stop("panel", folder=rig.folder)
    other.send(Arm("auto", secret, "r"))
    thread.join(10.0)
    assert replies and not replies[0].ok and any("stop" in c for c in replies[0].causes), replies
    state = rig.until(lambda s: s.mode == "STOPPED" and s.at_rest, 5.0)
    assert state.token == token and rig.verdict(rig.chunk()).reason == "not_armed"
    rig.arm()
    assert rig.client.state.token != token
