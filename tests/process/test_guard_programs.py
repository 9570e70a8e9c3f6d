"""Programs on the controller that fail, or that somebody else starts: named by the guard (emulated controller)."""
import socket

import pytest

from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT
from tests.support.emulated_controller import wait_for
from tests.support.guard_rig import PATIENT, Rig

pytestmark = pytest.mark.process


@pytest.fixture
def rig(tmp_path):
    made = Rig(tmp_path, config=PATIENT | {"feedback_timeout_s": 1.0})
    yield made
    made.close()


def named(rig, cause, seconds=15.0):
    return rig.until(lambda s: any(c.startswith(cause) for c in s.causes), seconds)


def gone(rig, cause):
    return rig.until(lambda s: not any(c.startswith(cause) for c in s.causes), 15.0)


def test_a_program_played_at_the_pendant_while_disarmed_is_named(rig):
    with socket.create_connection((rig.at, 29999), timeout=10.0) as pendant:
        pendant.recv(200)
        pendant.sendall(b"load wave.urp\n")
        pendant.recv(200)
        rig.controller.pendant("press_play")
        assert named(rig, "foreign_program: program 'wave' runs").mode == "STOPPED"
        rig.until(lambda s: not s.at_rest, 15.0)
        reply = operator.rearm("auto", folder=rig.folder)  # it swings a joint: no rest, so no arming
        assert not reply.ok and any("rest not measured" in c for c in reply.causes), reply
        rig.controller.pendant("stop_program")
    gone(rig, "foreign_program")
    wait_for(lambda: operator.rearm("auto", folder=rig.folder).ok, 15.0)


def test_a_program_that_the_controller_refuses_is_named_with_its_line(rig):
    with socket.create_connection((rig.at, SCRIPT_PORT), timeout=10.0) as peer:
        peer.sendall(b"def wrong():\n  no_such_function(1)\nend\n")
        state = named(rig, "script_error: line 2")
    assert "no_such_function" in str(state.causes)
    rig.arm()  # forbids nothing, and is of no interest after an arming
    rig.until(lambda s: s.mode == "ARMED_AUTO", 5.0)


def test_a_foreign_program_that_takes_the_place_of_ours_is_the_cause(rig):
    rig.arm()
    with socket.create_connection((rig.at, SCRIPT_PORT), timeout=10.0) as peer:
        peer.sendall(b"def theirs():\n  sync()\n  a = [1]\n  b = a[7]\nend\n")
        state = named(rig, "program_lost")
    assert state.mode == "STOPPED"
    state = named(rig, "script_error: line 4")
    assert not any(c.startswith("foreign_program") for c in state.causes)  # it has ended
