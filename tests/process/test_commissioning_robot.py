"""Commissioning against a running emulated controller: what is wrong is named, and only the dry run moves."""
import socket
import threading

import pytest

from steadyhand_firmware_bridge.commissioning import OK, UNKNOWN, WRONG, commission, dry_run
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT
from steadyhand_firmware_bridge.ur5_fields import GRIPPER, SETPOINT
from tests.support.emulated_controller import Controller, wait_for

pytestmark = pytest.mark.process
PATIENT_S = 10.0


def verdicts(robot):
    return {check.name: check for check in commission(robot.host, {}, PATIENT_S).checks}


@pytest.mark.parametrize("generation", [(), ("--e-series",)], ids=["cb3", "e_series"])
def test_a_good_robot_is_ready_and_turns_its_wrist_on_the_operators_word(generation):
    with Controller(*generation) as robot:
        report = commission(robot.host, {}, PATIENT_S)
        assert report.ok, report
        found = {check.name: check for check in report.checks}
        for name in ("kinematics", "joint limits", "joint speeds", "TCP"):
            assert found[f"{name} configured"].verdict == OK, report
        for name in ("safety checksum", "mounting", "joint speed limit", "force limit"):
            assert found[name].verdict == UNKNOWN and "not readable over any interface" in found[name].found
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


def runtime(robot):
    return robot.pendant("state")["runtime_state"]


def test_a_dry_run_that_was_paused_is_ended_before_the_slider_goes_back():
    """Else whoever pressed play later would see the rest of it at full speed."""
    with Controller() as robot:
        found = []
        runner = threading.Thread(target=lambda: found.append(dry_run(robot.host, lambda: True, timeout_s=5.0)))
        runner.start()
        wait_for(lambda: runtime(robot) == "PLAYING", 30.0)
        robot.pendant("pause_program")
        runner.join(60.0)
        assert found[0].verdict == WRONG and "not done within 5 s" in found[0].found
        assert "may still run" not in found[0].found, found
        robot.pendant("press_play")
        assert runtime(robot) == "STOPPED"


def test_no_dry_run_over_somebodys_program():
    with Controller() as robot:
        with socket.create_connection((robot.host, SCRIPT_PORT), timeout=5.0) as peer:
            peer.sendall(b"def w():\n  while True:\n    sync()\n  end\nend\n")
            wait_for(lambda: runtime(robot) == "PLAYING", 30.0)
            check = dry_run(robot.host, lambda: True)
        assert check.verdict == WRONG and "somebody's program" in check.found
        state = robot.pendant("state")
        assert state["runtime_state"] == "PLAYING" and state["counters"]["programs"] == 1
