"""Payload: parameters, evidence of the fingers, and the guard's switching of it against the in-process robot."""
import math

import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import Gripper, Stop
from steadyhand.guard_protocol import Payload as Request
from steadyhand.payload import Evidence, Fingers, Payload, config_of
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.payloads import Payloads
from tests.unit.test_guard_core import Rig

TOOL = {"tool_kg": 0.9, "tool_cog_m": [0.0, 0.0, 0.05]}
ASKED = {"payload": TOOL}
AUTO = {"payload": TOOL | {"object_kg": 0.1, "object_cog_m": [0.0, 0.0, 0.15]}}
CUBE_M = 0.04


@pytest.mark.parametrize("raw, named", [
    ({"tool_kg": 0.9}, "tool_cog_m"), (TOOL | {"tool_kg": math.nan}, "mass_kg"), (TOOL | {"tool_kg": 5.1}, "mass_kg"),
    (TOOL | {"tool_kg": -0.1}, "mass_kg"), (TOOL | {"tool_kg": True}, "mass_kg"), (TOOL | {"tool_kg": "1"}, "mass_kg"),
    (TOOL | {"tool_cog_m": [0, 0]}, "cog_m"), (TOOL | {"tool_cog_m": [0, 0, 0.31]}, "cog_m"),
    (TOOL | {"tool_cog_m": [0, 0, math.inf]}, "cog_m"), (TOOL | {"tool_cog_m": 3}, "cog_m"),
    (TOOL | {"object_kg": 1.0}, "object_cog_m"), (TOOL | {"object_kg": 4.5, "object_cog_m": [0, 0, 0]}, "mass_kg"),
    (TOOL | {"object_kg": 0, "object_cog_m": [0, 0, 0]}, "object_kg"), (TOOL | {"mass": 1}, "mass"), ([1], "payload"),
])
def test_each_wrong_parameter_is_named(raw, named):
    with pytest.raises(ConfigError, match=named):
        config_of(raw)
    with pytest.raises(ConfigError, match=named):
        GuardConfig(payload=raw)


def test_masses_add_and_centres_are_weighted():
    total = Payload(0.9, (0.0, 0.0, 0.05)) + Payload(0.1, (0.1, 0.0, 0.15))
    assert total.mass_kg == pytest.approx(1.0) and np.allclose(total.cog_m, (0.01, 0.0, 0.06))
    assert total.shown_by(1.0, (0.01, 0.0, 0.06))
    for kg, cog in ((1.01, (0.01, 0, 0.06)), (1.0, (0.02, 0, 0.06)), (math.nan, (0.01, 0, 0.06)), (1.0, ())):
        assert not total.shown_by(kg, cog)


@pytest.mark.parametrize("width_m, commanded_m, evidence", [
    (0.040, 0.0, Evidence.HELD), (0.085, 0.085, Evidence.FREE), (0.001, 0.0, Evidence.FREE),
    (0.040, 0.085, Evidence.NONE), (0.060, 0.0, Evidence.NONE), (math.nan, 0.0, Evidence.NONE),
    (0.040, math.nan, Evidence.NONE), (0.085, math.nan, Evidence.NONE), (math.inf, 0.0, Evidence.NONE),
])
def test_what_the_fingers_prove_once_they_rest(width_m, commanded_m, evidence):
    fingers = Fingers()
    for k in range(20):
        fingers.update(k * 0.008, width_m, commanded_m)
    assert fingers.verified(20 * 0.008) is evidence
    fingers.update(0.16, width_m + 0.003, commanded_m)
    assert fingers.verified(0.168) is Evidence.NONE


def test_fingers_that_pass_the_width_of_a_grasp_prove_nothing():
    fingers = Fingers()
    for k in range(40):
        fingers.update(k * 0.008, 0.085 - 0.0015 * k, 0.0)  # 190 mm/s
        assert fingers.verified(k * 0.008) is Evidence.NONE


# --- the guard ---


def armed(mode="auto", **config):
    rig = Rig(**config)
    rig.run(0.3)
    rig.arm(mode)
    assert rig.guard.state.armed, rig.answers
    return rig


def grip(rig, width_m, measured_m=None):
    rig.robot.width_m = measured_m
    rig.guard.handle(rig.shell, Gripper(rig.state.token, width_m, "g"), rig.now_s)


def asked(rig, kg, cog=(0.0, 0.0, 0.15), **changes):
    rig.answers.clear()
    message = Request(changes.pop("token", rig.state.token), kg, list(cog), "p")
    rig.guard.handle(changes.pop("client", rig.shell), message, rig.now_s)
    rig.run(changes.pop("seconds", 0.05))
    return [m for _, m in rig.answers if getattr(m, "trace_id", "") == "p"]


def shown(rig):
    return round(rig.robot.payload_kg, 3)


def test_without_configuration_the_controllers_own_is_left_alone():
    rig = armed()
    (verdict,) = asked(rig, 0.1)
    assert verdict.reason == "payload" and "configuration" in verdict.detail
    assert shown(rig) == 1.0 and "payload_due" not in rig.state.counters


def test_after_a_verified_grasp_and_back_after_a_verified_release():
    rig = armed(**AUTO)
    assert shown(rig) == 0.9  # from the arming on: open fingers prove that nothing is held
    grip(rig, 0.0, CUBE_M)
    rig.run(0.05)
    assert rig.state.counters["payload_due"] == 1 and shown(rig) == 0.9
    rig.run(0.15)
    assert shown(rig) == 1.0 and np.allclose(rig.robot.payload_cog_m, (0, 0, 0.06))
    assert rig.state.counters["payload_due"] == 0 and rig.state.counters["payload_told_g"] == 1000
    grip(rig, 0.085, 0.085)
    rig.run(0.2)
    assert shown(rig) == 0.9 and rig.state.counters["payload_switched"] == 2
    assert rig.guard.state.armed


def test_never_while_the_arm_moves():
    rig = armed(**AUTO)
    rig.move(0.3)
    grip(rig, 0.0, CUBE_M)
    rig.move(0.3)
    assert shown(rig) == 0.9 and rig.state.counters["payload_due"] == 1
    (verdict,) = asked(rig, 0.1, seconds=0.0)
    assert verdict.reason == "payload" and "not at rest" in verdict.detail


@pytest.mark.parametrize("kg, cog, named", [
    (math.nan, (0, 0, 0.1), "mass_kg"), (4.5, (0, 0, 0.1), "mass_kg"), (-0.1, (0, 0, 0.1), "mass_kg"),
    (0.1, (0, 0, 9.0), "cog_m"), (0.1, (0, 0), "cog_m"), (0.1, (math.inf, 0, 0), "cog_m"), (0.1, (0, 0, 0.1), "grasp"),
])
def test_each_refused_request_is_named_and_changes_nothing(kg, cog, named):
    rig = armed(**ASKED)
    (verdict,) = asked(rig, float(kg), [float(c) for c in cog])
    assert not verdict.accepted and verdict.reason == "payload" and named in verdict.detail
    assert shown(rig) == 0.9 and rig.state.counters["payload_refused"] == 1


def test_a_request_is_answered_when_the_controller_shows_it():
    rig = armed(**ASKED)
    grip(rig, 0.0, CUBE_M)
    rig.run(0.2)
    assert shown(rig) == 0.9  # nobody has said yet what it is
    (verdict,) = asked(rig, 0.4)
    assert verdict.accepted and shown(rig) == 1.3
    (verdict,) = asked(rig, 0.0)
    assert "no verified release" in verdict.detail and shown(rig) == 1.3
    grip(rig, 0.085, 0.085)
    rig.run(0.2)
    (verdict,) = asked(rig, 0.0)
    assert verdict.accepted and shown(rig) == 0.9


def test_who_may_not_command_may_not_say_what_is_held():
    rig = armed(**ASKED)
    grip(rig, 0.0, CUBE_M)
    rig.run(0.2)
    assert asked(rig, 0.4, token=1)[0].reason == "foreign_token"
    assert asked(rig, 0.4, client="stranger")[0].reason == "second_commander"
    rig.guard.stop_requests([(Stop("test"), 1)], rig.now_s)
    rig.run(0.3)
    assert asked(rig, 0.4)[0].reason == "not_armed" and shown(rig) == 0.9


def test_a_stop_keeps_it_and_re_arming_keeps_it_while_it_is_held():
    rig = armed(**AUTO)
    grip(rig, 0.0, CUBE_M)
    rig.run(0.3)
    writes = rig.robot.gripper_writes
    rig.guard.stop_requests([(Stop("test"), 1)], rig.now_s)
    rig.run(0.5)
    assert shown(rig) == 1.0 and rig.robot.gripper_writes == writes
    rig.robot.payload_kg = 0.9  # as a power cycle leaves it
    rig.arm()
    assert rig.guard.state.armed and shown(rig) == 1.0
    rig.guard.stop_requests([(Stop("test"), 1)], rig.now_s)
    rig.robot.width_m = 0.0  # a person took it out: the fingers close on nothing
    rig.run(0.5)
    rig.arm()
    assert rig.guard.state.armed and shown(rig) == 0.9


def test_a_new_guard_over_a_held_object_knows_it_by_the_fingers():
    rig = Rig(**AUTO)
    rig.robot.command_gripper(0.0)
    rig.robot.width_m = CUBE_M
    rig.run(0.3)
    rig.arm()
    assert rig.guard.state.armed and shown(rig) == 1.0
    other = Rig(**ASKED)  # which cannot know what it weighs: the controller's own is kept
    other.robot.command_gripper(0.0)
    other.robot.width_m = CUBE_M
    other.run(0.3)
    other.arm()
    assert other.guard.state.armed and shown(other) == 1.0 and other.state.counters["payload_told_g"] == -1


def test_a_payload_that_somebody_changed_stops():
    rig = armed(**AUTO)
    rig.robot.payload_kg = 2.0
    rig.run(0.05)
    assert not rig.guard.state.armed and any("payload: the controller shows 2.000 kg" in c for c in rig.state.causes)


def test_an_order_that_is_not_confirmed_stops():
    rig = armed(**AUTO)
    rig.robot.payload_obeys = False
    grip(rig, 0.0, CUBE_M)
    rig.run(1.0)
    assert not rig.guard.state.armed and any(c.startswith("payload: not confirmed") for c in rig.state.causes)


def test_a_chunk_waits_while_the_payload_is_switched():
    rig = armed(**AUTO)
    rig.robot.payload_obeys = False
    grip(rig, 0.0, CUBE_M)
    rig.run(0.3, until=lambda s: rig.guard.payloads.under_way)
    assert rig.guard.payloads.under_way
    rig.guard.handle(rig.shell, rig.chunk(), rig.now_s)
    assert not rig.guard.pending
    rig.run(0.05)
    assert not rig.guard.motion.moving


def test_a_robot_that_takes_none_is_refused_at_the_start():
    class Other:
        name = "other"

    with pytest.raises(ConfigError, match="pendant"):
        Payloads(config_of(TOOL), Other())
