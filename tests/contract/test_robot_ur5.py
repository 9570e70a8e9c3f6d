"""The UR5 driver against the emulated controller (own process, kinematic plant): contract, and faults of the link."""
import os
import signal
import time

import pytest

from steadyhand.checks_robot import check_robot
from steadyhand.protocols import ArmingPhase, Command
from steadyhand_firmware_bridge.ur5 import Ur5Config, Ur5Robot
from steadyhand_firmware_bridge.ur5_fields import gripper_opening, gripper_outputs
from steadyhand_firmware_bridge.urscript import render
from tests.contract import robot_contract
from tests.support.emulated_controller import Controller, host

pytestmark = pytest.mark.process


class Ur5Bench(robot_contract.Bench):
    """Real time: a tick waits for the next period."""

    def __init__(self):
        self.robot = Ur5Robot(Ur5Config(host(), render))
        self.now_s = self._next_s = time.monotonic()

    def tick(self):
        self._next_s = max(self._next_s + self.robot.period_s, time.monotonic())
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        self.now_s = time.monotonic()


@pytest.fixture
def controller():
    controller = Controller()
    yield controller
    controller.end()


@pytest.fixture
def bench(controller):
    bench = Ur5Bench()
    yield bench
    bench.robot.close()


class TestUr5(robot_contract.RobotContract):
    pass


def failed(bench):
    bench.robot.begin_arming(robot_contract.TOKEN, bench.now_s)
    decided = lambda: bench.robot.arming().phase is not ArmingPhase.UNDER_WAY  # noqa: E731
    assert bench.run(6.0, lambda: bench.send(Command.HOLD), decided)
    assert bench.robot.arming().phase is ArmingPhase.FAILED
    return bench.robot.arming().detail


def test_check_robot_accepts_it(controller):
    report = check_robot(Ur5Robot(Ur5Config(host(), render)), time.monotonic, time.sleep)
    assert report.samples > 60 and abs(report.period_s - 0.008) < 1e-4


def test_no_arming_under_a_protective_stop(bench, controller):
    bench.connect()
    controller.pendant("protective_stop")
    detail = failed(bench)
    assert "safetymode" in detail and "pendant" in detail
    assert controller.pendant("state")["program"] == ""


def test_no_arming_without_power(bench, controller):
    bench.connect()
    controller.pendant("power_off")
    assert "robotmode" in failed(bench)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--model", "UR10"), "get robot model: 'UR10', wanted UR5"),
        (("--version", "3.5.1.10000"), "firmware 3.5.1.10000: update PolyScope to 3.14 or later"),
        (("--version", "10.12.0.1"), "firmware 10.12.0.1: this driver speaks to PolyScope 3 (CB3) and 5 (e-Series)"),
        (("--kinematics", "UR5e"), "the arm behind this controller is no UR5"),  # which calls itself UR5
    ],
)  # fmt: skip
def test_another_robot_is_named_and_never_armed(arguments, said):
    controller = Controller(*arguments)
    bench = Ur5Bench()
    try:
        bench.connect()
        assert said in failed(bench)  # at once, before it has told of its arm
        assert controller.pendant("state")["counters"]["programs"] == 0
    finally:
        bench.robot.close()
        controller.end()


def test_local_control_and_back_needs_no_restart():
    """Connections of the dashboard that have seen the switch are refused by an e-Series: they are made anew."""
    controller = Controller("--e-series")
    bench = Ur5Bench()
    try:
        bench.connect()
        bench.arm()
        bench.robot.stop_program(bench.now_s)
        assert bench.run(5.0, until=lambda: not bench.robot.feedback().program_running)
        controller.pendant("local_control")
        assert bench.run(5.0, until=lambda: "robot_local" in bench.robot.troubles())
        assert "is in remote control: 'false'" in failed(bench)
        controller.pendant("remote_control_on")
        assert bench.run(5.0, until=lambda: not bench.robot.troubles())
        bench.arm()
    finally:
        bench.robot.close()
        controller.end()


def test_a_program_that_does_not_start_ends_in_a_named_failure(bench, controller):
    bench.robot.config = Ur5Config(host(), lambda token: "def nothing():\n  sync()\nend\n", arming_timeout_s=1.0)
    bench.connect()
    assert "not done within 1.0 s while waiting for our program" in failed(bench)


def test_a_dead_controller_is_named_and_reconnected_to(bench, controller):
    bench.connect()
    controller.end()
    assert bench.run(2.0, until=lambda: "robot_unreachable" in bench.robot.troubles())
    assert host() in bench.robot.troubles()["robot_unreachable"]
    assert not bench.send(Command.HOLD)
    again = Controller()
    try:
        assert bench.run(8.0, until=lambda: not bench.robot.troubles())
        assert bench.robot.arming().phase is ArmingPhase.IDLE
    finally:
        again.end()


def test_a_frozen_controller_costs_no_time(bench, controller):
    bench.connect()
    os.kill(controller.process.pid, signal.SIGSTOP)
    stamp = bench.robot.feedback().stamp_s
    bench.run(0.3)
    assert bench.now_s - bench.robot.feedback().stamp_s > 0.1 and bench.robot.feedback().stamp_s - stamp < 0.1
    os.kill(controller.process.pid, signal.SIGCONT)


@pytest.mark.parametrize("width_m, opening", [(0.0, 0.0), (0.02, 0.0), (0.062, 0.062), (0.07, 0.062), (0.085, 0.085)])
def test_gripper_opening_nearest_to_the_width(width_m, opening):
    assert gripper_opening(gripper_outputs(width_m)) == opening
