"""Commissioning against a running emulated controller: what is wrong is named, and only the dry run moves."""
import pytest

from steadyhand_firmware_bridge.commissioning import OK, WRONG, commission, dry_run
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from steadyhand_firmware_bridge.ur5 import GRIPPER, SETPOINT
from tests.support.emulated_controller import Controller

pytestmark = pytest.mark.process
PATIENT_S = 10.0


def verdicts(robot):
    return {check.name: check for check in commission(robot.host, {}, PATIENT_S).checks}


@pytest.mark.parametrize("generation", [(), ("--e-series",)], ids=["cb3", "e_series"])
def test_a_good_robot_is_ready_and_turns_its_wrist_on_the_operators_word(generation):
    with Controller(*generation) as robot:
        report = commission(robot.host, {}, PATIENT_S)
        assert report.ok, report
        check = dry_run(robot.host, lambda: True)
        assert check.verdict == OK, check
        state = robot.pendant("state")
        assert state["counters"]["programs"] == 1 and state["counters"]["program_errors"] == 0


def test_another_model_and_an_old_firmware_are_named():
    with Controller("--model", "UR10", "--version", "3.5.1.10000") as robot:
        found = verdicts(robot)
        assert found["model"].verdict == WRONG and "UR10" in found["model"].found
        assert found["firmware"].verdict == WRONG and "3.14" in found["firmware"].remedy


def test_local_control_a_stop_and_claimed_inputs_are_named():
    with Controller("--e-series") as robot:
        owner = RtdeClient(RtdeConfig(robot.host, ("timestamp",), {"setpoint": SETPOINT, "gripper": GRIPPER}))
        owner.connect(PATIENT_S)
        robot.pendant("local_control")
        robot.pendant("protective_stop")
        found = verdicts(robot)
        owner.close()
        assert found["remote control"].verdict == WRONG
        assert found["safety mode"].found == "PROTECTIVE_STOP"
        assert found["registers"].verdict == WRONG and "IN_USE" in found["registers"].found
