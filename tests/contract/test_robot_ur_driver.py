"""The robot `ur_driver` against the double of ur_robot_driver's ROS interface (own process, DDS): the contract, and what
the driver, the pendant and other people's nodes do beside it."""
import time

import numpy as np
import pytest

from steadyhand.checks_robot import check_robot
from steadyhand.protocols import ArmingPhase, Command, ProgramState
from steadyhand_firmware_bridge.ur_driver import UrDriverRobot
from steadyhand_firmware_bridge.ur_driver_link import TRAJECTORY_CONTROLLERS, UrDriverConfig, link_type
from tests.contract import robot_contract
from tests.support.ur_driver_double import Double

pytestmark = [pytest.mark.process, pytest.mark.ros]


class DriverBench(robot_contract.Bench):
    """Real time: a tick waits for the next period."""

    def __init__(self, **config):
        self.robot = UrDriverRobot(UrDriverConfig(**config), link_type())
        self.now_s = self._next_s = time.monotonic()

    def tick(self):
        self._next_s = max(self._next_s + self.robot.period_s, time.monotonic())
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        self.now_s = time.monotonic()


@pytest.fixture
def double():
    double = Double()
    yield double
    double.end()


@pytest.fixture
def bench(double):
    bench = DriverBench()
    yield bench
    bench.robot.close()


class TestUrDriver(robot_contract.RobotContract):
    pass


def failed(bench):
    bench.robot.begin_arming(robot_contract.TOKEN, bench.now_s)
    decided = lambda: bench.robot.arming().phase is not ArmingPhase.UNDER_WAY  # noqa: E731
    assert bench.run(8.0, lambda: bench.send(Command.HOLD), decided)
    assert bench.robot.arming().phase is ArmingPhase.FAILED
    return bench.robot.arming().detail


def test_check_robot_accepts_it(double):
    report = check_robot(UrDriverRobot(UrDriverConfig(), link_type()), time.monotonic, time.sleep, watch_s=2.0)
    assert report.samples > 120 and abs(report.period_s - 0.008) < 1e-3
