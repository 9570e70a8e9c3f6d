"""Bad input by name (steadyhand/bad_input.py): what no other test shows."""
import time

import numpy as np
import pytest

from steadyhand.errors import ProtocolError
from steadyhand.guard_protocol import Arm, Hello, Reply, decode, encode
from steadyhand.protocols import ALIVE
from steadyhand.task import Code
from steadyhand_firmware_bridge.guard.server import Client, Server
from steadyhand_sim.kinematic_cell import KinematicCell, scatter
from tests.unit.test_guard_core import CREDENTIAL, DT_S, Rig, armed


def test_a_slow_drip_of_bytes_is_refused_piece_by_piece(tmp_path):
    """Packets keep their borders: bytes of a message that come one at a time are never put together."""
    packet = encode(Arm("auto", CREDENTIAL, "r"))
    for k in range(1, len(packet)):
        with pytest.raises(ProtocolError):
            decode(packet[:k])
    drip = _Drip([packet[k : k + 1] for k in range(len(packet))])
    client, handled = Client(drip, 0.0, Hello("drip")), []
    server = Server(tmp_path / "slot")
    while drip.packets:
        client.budget = 1
        assert server.receive(client, lambda c, m: handled.append(m), lambda: True)
    assert handled == [] and server.malformed == len(packet)


class _Drip:
    """A socket that gives one packet a call."""

    def __init__(self, packets):
        self.packets = packets

    def recv(self, _):
        return self.packets.pop(0)


def test_a_slow_drip_of_chunks_ends_at_rest():
    rig = armed()
    rig.move(0.5)
    assert np.abs(rig.state.qd_commanded_rad_s).max() > 0.1
    for _ in range(3):
        rig.run(0.3)  # three times what silence is allowed
        rig.chunk()
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and rig.state.at_rest
    assert rig.state.causes[0].startswith("command_source_silent")


def trajectory(rig: Rig, seconds: float, each=lambda: None) -> list:
    """Commanded positions and modes, cycle by cycle."""
    seen = []
    for _ in range(round(seconds / DT_S)):
        each()
        rig.run(DT_S)
        seen.append((rig.state.mode, *rig.state.q_commanded_rad))
    return seen


@pytest.mark.parametrize("step_s", [-5.0, 5.0, 3600.0])
def test_a_set_wall_clock_changes_no_decision_of_the_guard(step_s, monkeypatch):
    def run(stepped: bool) -> list:
        rig = armed()
        wall = [1.7e9]
        monkeypatch.setattr(time, "time", lambda: wall[0])
        monkeypatch.setattr(time, "time_ns", lambda: int(wall[0] * 1e9))
        rig.move(0.3)
        wall[0] += step_s if stepped else 0.0
        rig.move(0.3)
        return trajectory(rig, 1.0)

    assert run(True) == run(False)


def test_without_a_wall_clock_the_agent_does_its_task(monkeypatch):
    def no_wall_clock():
        raise AssertionError("the wall clock was read")

    for name in ("time", "time_ns", "localtime", "gmtime"):
        monkeypatch.setattr(time, name, lambda *_: no_wall_clock())
    c = KinematicCell(scatter(1, 0), 0)
    c.warm_up()
    c.goal()
    assert c.run(60.0).code is Code.OK


@pytest.mark.parametrize("cycle", range(0, 12))
def test_a_stop_at_any_moment_of_arming_wins(cycle):
    rig = Rig()
    rig.run(0.3)
    rig.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), rig.now_s)
    rig.run(cycle * DT_S)
    rig.guard.stop_requests([(_stop(), 1)], rig.now_s)
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and not rig.guard.state.armed
    assert rig.robot.feedback().program_state not in ALIVE
    assert not rig.chunk().accepted


def _stop():
    from steadyhand.guard_protocol import Stop

    return Stop("panel")


def test_a_rearm_during_a_stop_is_refused_and_the_stop_goes_on():
    def stopped(rearm: bool) -> list:
        rig = armed()
        rig.move(0.5)
        rig.guard.stop_requests([(_stop(), 1)], rig.now_s)
        refused = []

        def ask():
            if not rig.state.at_rest and rearm:
                rig.guard.handle("operator", Arm("auto", CREDENTIAL, "again"), rig.now_s)
                refused.append(rig.last(Reply))

        rig.run(DT_S)
        seen = trajectory(rig, 0.4, ask)
        assert all(not reply.ok for reply in refused) and (len(refused) > 5 or not rearm)
        assert not rearm or any("stop under way" in cause for cause in refused[1].causes)
        return seen

    assert stopped(True) == stopped(False)
