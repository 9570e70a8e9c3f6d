"""What an arming of a UR5 asks before it uploads anything, and when a stop counts as done. No controller."""
import socket
from types import SimpleNamespace

import pytest

from steadyhand import ur5
from steadyhand.protocols import ArmingPhase, ProgramState
from steadyhand_firmware_bridge.dashboard import DashboardReply
from steadyhand_firmware_bridge.primary import Configured, KeyEvent, PrimaryClient
from steadyhand_firmware_bridge.programs import STARTED, UNNAMED_S, Programs
from steadyhand_firmware_bridge.right_robot import UR5_DH, DhParameters
from steadyhand_firmware_bridge.script_upload import SCRIPT_PORT
from steadyhand_firmware_bridge.ur5 import Ur5Config, Ur5Robot
from steadyhand_firmware_bridge.ur5_arming import CHECKS, Ur5Arming
from steadyhand_sim.ur_controller.config import KINEMATICS

SIX = (0.0,) * 6
OURS = Configured(SIX, SIX, SIX, UR5_DH)
UR5E = Configured(SIX, SIX, SIX, DhParameters(*KINEMATICS["UR5e"], ur5.DH_ALPHA_RAD))
HOST, TOKEN = "127.0.0.211", 7


def state(running, token=TOKEN, program=ProgramState.NONE):
    return SimpleNamespace(program_running=running, program_token=token, program_state=program)


class Desk:
    """The other ends, as far as an arming sees them."""

    def __init__(self, version=(5, 11, 0, 0), configured=OURS):
        self.rtde = SimpleNamespace(running=True, controller_version=version, config=SimpleNamespace(host=HOST))
        self.dashboard = SimpleNamespace(asked=[], request=lambda command, now_s: self.dashboard.asked.append(command))
        self.primary = PrimaryClient(HOST)
        self.primary.configured = configured
        self.arming = Ur5Arming(self.rtde, self.dashboard, self.primary, Programs())

    def answered(self):
        for command in self.dashboard.asked:
            self.arming.replied(DashboardReply(command, True, CHECKS[command][0]))

    def goes_on(self, now_s=0.1):
        """Whether the program before is to be ended."""
        return self.arming.advance(state(True), False, now_s)


@pytest.fixture
def desk():
    desk = Desk()
    desk.arming.begin(TOKEN, str, 5.0, 0.0)
    return desk


def test_a_ur5_that_is_well_goes_on_and_each_answer_is_waited_for(desk):
    assert sorted(desk.dashboard.asked) == sorted(CHECKS) and not desk.goes_on()
    desk.answered()
    assert desk.goes_on() and not desk.goes_on()


def test_a_cb3_is_not_asked_for_remote_control():
    desk = Desk(version=(3, 15, 0, 0))
    desk.arming.begin(TOKEN, str, 5.0, 0.0)
    assert "is in remote control" not in desk.dashboard.asked


def test_without_a_session_nothing_is_asked_the_version_would_be_another_robots():
    desk = Desk()
    desk.rtde.running = False
    desk.arming.begin(TOKEN, str, 5.0, 0.0)
    assert desk.arming.where.phase is ArmingPhase.FAILED and not desk.dashboard.asked
    desk.rtde.running = True
    assert not desk.arming.under_way


def test_an_arm_that_has_not_told_its_measures_is_not_taken_for_a_ur5(desk):
    desk.primary.configured = None
    desk.answered()
    assert not desk.goes_on(4.9) and desk.arming.under_way
    assert not desk.goes_on(5.1) and "30001" in desk.arming.where.detail and not desk.arming.under_way


def test_measures_that_are_told_late_are_judged_too(desk):
    desk.primary.configured = None
    desk.answered()
    assert not desk.goes_on()
    desk.primary.configured = UR5E
    assert not desk.goes_on() and "no UR5" in desk.arming.where.detail
    assert desk.arming.where.phase is ArmingPhase.FAILED


def test_a_program_before_that_is_not_ended_is_not_replaced(desk):
    desk.answered()
    assert desk.goes_on()
    desk.arming.advance(state(True), False, 0.2)  # runs
    desk.arming.advance(state(False), True, 0.2)  # paused, perhaps: its stop is not answered
    assert desk.arming.under_way and desk.arming.upload is None
    desk.arming.replied(DashboardReply("stop", False, "closed by the controller"))
    assert "was not ended: closed by" in desk.arming.where.detail and not desk.arming.under_way


@pytest.mark.parametrize(
    "told, phase",
    [
        (state(True, TOKEN - 1, ProgramState.READY), ArmingPhase.UNDER_WAY),  # of the arming before
        (state(False, TOKEN, ProgramState.READY), ArmingPhase.UNDER_WAY),
        (state(True, TOKEN, ProgramState.READY), ArmingPhase.READY),
        (state(False, TOKEN, ProgramState.STOPPED_TOKEN), ArmingPhase.FAILED),
    ],
)  # fmt: skip
def test_it_is_ready_when_our_program_runs_and_says_this_arming(desk, told, phase):
    with socket.create_server((HOST, SCRIPT_PORT)):
        desk.answered()
        assert desk.goes_on()
        desk.arming.advance(state(False), False, 0.2)
        assert desk.arming.upload is not None
        for _ in range(3):
            desk.arming.advance(told, False, 0.3)
    assert desk.arming.where.phase is phase, desk.arming.where
    desk.arming.close()


def test_another_rtde_session_is_not_answered_by_the_arm_of_the_one_before():
    """The primary connection says nothing by itself: after a swap at the same address it would stand for ever."""
    robot = Ur5Robot(Ur5Config(HOST, str))
    robot.primary.configured = OURS
    robot.programs.told([KeyEvent(STARTED, "steadyhand")])  # its end, and somebody's start, may come while nobody hears
    robot.service(0.0)
    robot.service(1.0)  # tries again: nobody listens there
    assert robot.rtde.reason and robot.primary.configured is None
    foreign = SimpleNamespace(program_running=True, program_token=0, program_state=ProgramState.HALTED)
    for now_s in (2.0, 2.0 + UNNAMED_S):
        robot.programs.update(foreign, 0, now_s)
    assert "foreign_program" in robot.programs.troubles(False)
    robot.close()


@pytest.mark.parametrize(
    "ok, text, running, asked_again",
    [
        (True, "Stopped", True, False),
        (True, "Failed to execute: stop", False, False),  # there was nothing to stop
        (True, "Failed to execute: stop", True, True),
        (False, "no answer within 1.0 s", False, True),
    ],
)  # fmt: skip
def test_a_stop_is_asked_for_again_until_it_is_done(ok, text, running, asked_again):
    robot = Ur5Robot(Ur5Config(HOST, str))
    robot._feedback = SimpleNamespace(program_running=running)
    robot.stop_program(0.0)
    robot._on_reply(DashboardReply("stop", ok, text))
    asked = []
    robot.dashboard = SimpleNamespace(request=lambda command, now_s: asked.append(command), poll=lambda now_s: [],
                                      fileno=lambda: -1, close=lambda: None)  # fmt: skip
    robot.service(1.5)
    assert asked == ["stop"] * asked_again
    robot.close()
