"""The in-process robot keeps the contract that the UR5 driver keeps; and `check_robot` sees what breaks it."""
import dataclasses

import pytest

from steadyhand.checks_robot import check_robot
from steadyhand.errors import ContractError
from steadyhand_firmware_bridge.fake import FakeRobot
from tests.contract import robot_contract


class FakeBench(robot_contract.Bench):
    def __init__(self):
        self.robot = FakeRobot()
        self.now_s = 10.0

    def tick(self):
        self.now_s += self.robot.period_s


@pytest.fixture
def bench():
    return FakeBench()


class TestFake(robot_contract.RobotContract):
    pass


class Clock:
    now_s = 5.0

    def __call__(self):
        return self.now_s

    def wait(self, seconds):
        self.now_s += seconds


def watched(robot):
    clock = Clock()
    return check_robot(robot, clock, clock.wait)


def test_check_robot_accepts_the_fake():
    report = watched(FakeRobot())
    assert report.samples > 100 and abs(report.period_s - 0.008) < 1e-6


def altered(change):
    """A fake whose measurements are changed by `change(feedback, number)`."""

    class Altered(FakeRobot):
        count = 0

        def _measure(self, now_s):
            self.count += 1
            return change(super()._measure(now_s), self.count)

    return Altered()


def broken(**attributes):
    robot = FakeRobot()
    for name, value in attributes.items():
        setattr(robot, name, value)
    return robot


@pytest.mark.parametrize(
    "robot, field",
    [
        (broken(joint_names=("a",)), "joint_names"),
        (broken(period_s=0.5), "period_s"),
        (broken(send=None), "no method send"),
        (broken(silent=True), "no feedback"),
        (altered(lambda f, n: dataclasses.replace(f, q_rad=f.q_rad[:5])), "q_rad: shape"),
        (altered(lambda f, n: dataclasses.replace(f, q_rad=f.q_rad * 57.3)), "wanted radians"),
        (altered(lambda f, n: dataclasses.replace(f, qd_rad_s=f.qd_rad_s * float("nan"))), "qd_rad_s: not finite"),
        (altered(lambda f, n: dataclasses.replace(f, qd_rad_s=f.qd_rad_s + 1.0)), "its speed adds up"),
        (altered(lambda f, n: dataclasses.replace(f, controller_stamp_s=-float(n))), "must rise"),
        (altered(lambda f, n: dataclasses.replace(f, controller_stamp_s=n * 0.1)), "states come every"),
        (altered(lambda f, n: dataclasses.replace(f, gripper_width_m=62.0)), "gripper_width_m"),
    ],
)
def test_check_robot_names_what_is_wrong(robot, field):
    with pytest.raises(ContractError, match=field):
        watched(robot)
