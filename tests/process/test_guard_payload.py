"""Payload through the program on the controller: real guard, emulated controller, its own gripper on the outputs."""
import pytest

from steadyhand.guard_protocol import Gripper
from steadyhand.guard_protocol import Payload as Request
from steadyhand_firmware_bridge import operator
from tests.support.emulated_controller import wait_for
from tests.support.guard_rig import PATIENT, Rig

pytestmark = pytest.mark.process
TOOL = {"tool_kg": 0.9, "tool_cog_m": [0.0, 0.0, 0.05]}
PATIENT = PATIENT | {"feedback_timeout_s": 1.0}  # of a controller that is starved meanwhile: not the test
AUTO = PATIENT | {"payload": TOOL | {"object_kg": 0.1, "object_cog_m": [0.0, 0.0, 0.15]}}


@pytest.fixture
def start(tmp_path):
    rigs = []

    def rig(config):
        rigs.append(Rig(tmp_path, config=config))
        rigs[-1].until(lambda s: s.at_rest and s.gripper_width_m > 0.08, 10.0)
        return rigs[-1]

    yield rig
    for made in rigs:
        made.close()


def shown(rig):
    state = rig.controller.pendant("state")
    return round(state["payload_kg"], 3), [round(c, 3) for c in state["payload_cog_m"]]


def grip(rig, width_m):
    rig.count += 1
    assert rig.verdict(Gripper(rig.client.state.token, width_m, f"g{rig.count}")).accepted


def test_switched_by_the_fingers_kept_over_stop_and_re_arming_and_taken_back(start):
    rig = start(AUTO)
    assert shown(rig) == (0.0, [0.0, 0.0, 0.0])  # nothing is written before an arming
    rig.arm()
    wait_for(lambda: shown(rig) == (0.9, [0.0, 0.0, 0.05]))
    rig.controller.pendant("object 0.04")
    grip(rig, 0.0)
    rig.until(lambda s: s.counters["payload_switched"] == 1, 10.0)
    carried = (1.0, [0.0, 0.0, 0.06])
    assert shown(rig) == carried
    operator.stop("test", folder=rig.folder)
    rig.until(lambda s: s.mode == "STOPPED" and s.at_rest, 5.0)
    assert shown(rig) == carried and rig.controller.pendant("state")["digital_outputs"] & 1  # and the fingers stay closed
    wait_for(lambda: operator.rearm("auto", folder=rig.folder).ok, 10.0)
    rig.until(lambda s: s.mode == "ARMED_AUTO", 5.0)
    assert shown(rig) == carried
    grip(rig, 0.085)
    rig.until(lambda s: s.counters["payload_switched"] == 2, 10.0)
    assert shown(rig) == (0.9, [0.0, 0.0, 0.05])


def test_a_request_without_a_grasp_is_refused_and_with_one_answered(start):
    rig = start(PATIENT | {"payload": TOOL})
    rig.arm()
    refused = rig.verdict(Request(rig.client.state.token, 0.5, [0.0, 0.0, 0.1], "p1"))
    assert refused.reason == "payload" and "no verified grasp" in refused.detail
    rig.controller.pendant("object 0.04")
    grip(rig, 0.0)
    rig.count = 10

    def taken():
        rig.count += 1
        return rig.verdict(Request(rig.client.state.token, 0.5, [0.0, 0.0, 0.1], f"p{rig.count}")).accepted

    wait_for(taken, 10.0)
    assert shown(rig) == (1.4, [0.0, 0.0, 0.068])
