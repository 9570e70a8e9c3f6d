"""The robot `ur_driver` over a scripted link, time as an argument: what it reads, refuses, ends; the guard on it."""
import itertools
from collections import deque
from dataclasses import dataclass

import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import Arm, Heartbeat, Reply
from steadyhand.protocols import ArmingPhase, Command, ProgramState
from steadyhand_firmware_bridge import ur_driver_link
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.ur_driver import UrDriverRobot
from steadyhand_firmware_bridge.ur_driver_joints import JointReader, JointSample
from steadyhand_firmware_bridge.ur_driver_link import (
    POSITION_CONTROLLER, TRAJECTORY_CONTROLLERS, Controller, Status, UrDriverConfig, link_type,
)
from tests.support.ur_description import urdf

DT_S = 0.008
CLAIMS = tuple(f"{n}/position" for n in ur5.JOINT_NAMES)


@dataclass
class Answer:
    done: bool = True
    ok: bool = True
    text: str = ""
    value: object = None
    dropped: bool = False

    def drop(self):
        self.dropped = True


class ScriptedLink:
    """A driver in a few lines: it goes where it was told at once. `refuse` and `mute` are services by name."""

    def __init__(self, trajectory=TRAJECTORY_CONTROLLERS[0]):
        self.status = Status(7, 1, True, 100.0, 0.0, 0, 8.5)
        self.joints = deque()
        self.active = {trajectory}
        self.loaded = [trajectory, POSITION_CONTROLLER, "forward_velocity_controller"]
        self.q_rad, self.published, self.calls = np.array(cell.HOME_Q_RAD), [], []
        self.refuse, self.mute, self.others, self.goal, self.listened, self.cancelled = set(), set(), 0, "", True, 0
        self.unanswered = []
        self.refusal, self.claims, self.stays = "refused", {}, set()  # `claims` of more controllers; `stays` on at a stop
        self.stopper = False  # the controller stopper brings the trajectory controller back with the program
        self.trajectory = trajectory

    def at(self, now_s, stamp_s=None, names=ur5.JOINT_NAMES):
        q = [float(self.q_rad[ur5.JOINT_NAMES.index(n)]) for n in names]
        self.joints.append(JointSample(now_s, now_s + 5.0 if stamp_s is None else stamp_s, names, q, [0.0] * len(q)))
        self.status.speed_scaling_s = now_s

    def unmoved(self):
        """Whether every set-point that came was where the arm stands since the start."""
        return all(np.array_equal(q, cell.HOME_Q_RAD) for q in self.published)

    def spin(self):
        pass

    def publish(self, q_rad):
        self.published.append(q_rad.copy())
        if POSITION_CONTROLLER in self.active and self.status.program_running:
            self.q_rad = q_rad.copy()
        return self.listened

    def call(self, service, request=None):
        self.calls.append(service)
        if service in self.mute:
            self.unanswered.append((service, Answer(done=False)))
            return self.unanswered[-1][1]
        if service in self.refuse:
            return Answer(ok=False, text=self.refusal)
        if service == "stop":
            self.status.program_running = False
            self.active -= set(self.loaded) - self.stays
        elif service in ("resend", "play"):
            self.status.program_running = True
            self.active |= {self.trajectory} if self.stopper else set()
        elif service == "switch":
            self.active = (self.active - set(request["deactivate"])) | set(request["activate"])
        elif service == "list":
            found = [Controller(n, n in self.active, self.claims.get(n, CLAIMS) * (n in self.active)) for n in self.loaded]
            return Answer(value=found)
        elif service == "set_io":
            bit = 1 << request["pin"]
            self.status.digital_outputs = self.status.digital_outputs & ~bit | (bit if request["on"] else 0)
        return Answer()

    def cancel_trajectories(self):
        self.cancelled += 1

    def trajectory_under_way(self):
        return self.goal

    def other_publishers(self):
        return self.others

    def close(self):
        pass


class Rig:
    """A robot and its clock."""

    def __init__(self, **config):
        self.link = ScriptedLink()
        self.robot = UrDriverRobot(UrDriverConfig(**config), lambda _: self.link)
        self.now_s, self.seq = 10.0, 0
        self.robot.open(self.now_s)
        self.feeds = True
        self.tick()

    def tick(self, command=None, q_rad=None, token=7):
        self.now_s += DT_S
        if self.feeds:
            self.link.at(self.now_s)
        self.robot.service(self.now_s)
        if command is not None:
            self.seq += 1
            q_rad = self.robot.feedback().q_target_rad if q_rad is None else q_rad
            return self.robot.send(command, token, self.seq, q_rad)
        return None

    def arm(self, seconds=1.0):
        self.robot.begin_arming(7, self.now_s)
        for _ in range(round(seconds / DT_S)):
            self.tick(Command.HOLD)
            if self.robot.arming().phase is not ArmingPhase.UNDER_WAY:
                break
        return self.robot.arming()

    def state(self):
        self.tick()
        return self.robot.feedback().program_state


@pytest.fixture
def rig():
    return Rig()


def armed(**config):
    rig = Rig(**config)
    assert rig.arm().phase is ArmingPhase.READY, rig.robot.arming()
    return rig


# --- arming ---


def test_arming_ends_what_runs_and_starts_the_program_anew(rig):
    rig.link.stopper = True
    assert rig.arm().phase is ArmingPhase.READY
    order = [c for c in rig.link.calls if c in ("stop", "resend", "switch")]
    assert order == ["switch", "stop", "resend", "switch"]
    assert rig.link.active == {POSITION_CONTROLLER} and rig.link.unmoved()


def test_with_the_urcap_the_program_is_started_by_play():
    assert "play" in armed(restart="play").link.calls


def test_nothing_restarts_the_program_but_an_arming(rig):
    rig.link.status.program_running = False
    for _ in range(200):
        rig.tick(Command.SERVO)
    assert not {"resend", "play"} & set(rig.link.calls)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda k: setattr(k.status, "safety_mode", 3), "safety mode 3"),
        (lambda k: setattr(k.status, "robot_mode", 5), "robot mode 5"),
        (lambda k: setattr(k, "goal", f"{TRAJECTORY_CONTROLLERS[0]}/follow_joint_trajectory"), "somebody's trajectory"),
        (lambda k: setattr(k.status, "description", urdf("ur5e")), "no UR5"),
        (lambda k: k.refuse.add("stop"), "remote control"),
        (lambda k: k.refuse.add("resend"), "headless_mode"),
        (lambda k: k.refuse.add("list"), "list_controllers"),
        (lambda k: k.loaded.remove(POSITION_CONTROLLER), "not loaded"),
        (lambda k: k.mute.add("stop"), "ending the program before"),
        (lambda k: setattr(k.status, "speed_scaling", 50.0), "speed slider to 100 %"),
        (lambda k: setattr(k.status, "speed_scaling", 1.0), "speed_scaling_full"),
        (lambda k: setattr(k.status, "speed_scaling", float("nan")), "speed slider to 100 %"),
    ],
)
def test_what_forbids_an_arming_is_named(rig, change, said):
    change(rig.link)
    arming = rig.arm(6.0)
    assert arming.phase is ArmingPhase.FAILED and said in arming.detail
    assert not rig.link.published


# --- set-points ---


def test_the_first_set_point_must_be_where_the_arm_is():
    rig = armed()
    rig.tick(Command.SERVO, rig.link.q_rad + 0.02)
    assert rig.state() == ProgramState.STOPPED_SETPOINT and rig.link.unmoved()


def test_a_step_that_no_joint_can_make_ends_it():
    rig = armed()
    assert rig.tick(Command.SERVO, rig.link.q_rad)
    rig.tick(Command.SERVO, rig.link.q_rad + 0.05)
    assert rig.state() == ProgramState.STOPPED_SETPOINT and rig.link.unmoved()


@pytest.mark.parametrize(
    "command, token, state",
    [
        (Command.SERVO, 8, ProgramState.STOPPED_TOKEN),
        (Command.HALT, 7, ProgramState.HALTED),
        (99, 7, ProgramState.STOPPED_COMMAND),
    ],
)
def test_token_halt_and_unknown_commands_end_the_program(command, token, state):
    rig = armed()
    published, asked = len(rig.link.published), rig.link.calls.count("stop")
    rig.tick(command, rig.link.q_rad, token)
    assert rig.state() == state and not rig.robot.feedback().program_running
    rig.tick(Command.SERVO)
    assert len(rig.link.published) == published and rig.link.calls.count("stop") == asked + 1


def test_what_is_not_finite_is_not_taken_and_not_published():
    rig = armed()
    published = len(rig.link.published)
    assert rig.tick(Command.SERVO, rig.link.q_rad * np.nan) is False
    assert len(rig.link.published) == published and rig.state() == ProgramState.READY


def test_only_the_first_set_point_must_be_where_the_arm_is():
    rig = armed()
    rig.tick(Command.SERVO)
    assert rig.tick(Command.SERVO, rig.link.q_rad + 0.02) and rig.state() == ProgramState.SERVOING


def test_the_target_is_what_was_sent_while_armed_and_what_is_measured_else():
    rig = armed()
    start = rig.link.q_rad.copy()
    rig.tick(Command.SERVO, start + 0.004)
    rig.link.q_rad = start  # the arm lags
    rig.tick()
    feedback = rig.robot.feedback()
    assert np.allclose(feedback.q_target_rad, start + 0.004) and np.allclose(feedback.qd_target_rad_s, 0.004 / DT_S)
    rig.robot.stop_program(rig.now_s)
    rig.link.q_rad = start + 0.1  # somebody jogs it
    rig.tick()
    feedback = rig.robot.feedback()
    assert np.allclose(feedback.q_target_rad, start + 0.1) and not feedback.qd_target_rad_s.any()


def test_nothing_of_the_arming_before_is_told_in_the_next():
    rig = armed()
    rig.tick(Command.SERVO)
    for _ in range(6):
        rig.tick()
    assert rig.state() == ProgramState.STOPPED_HEARTBEAT and rig.robot.feedback().missed_cycles >= 4
    rig.robot.begin_arming(8, rig.now_s)
    rig.tick()
    feedback = rig.robot.feedback()
    assert (feedback.program_state, feedback.program_token, feedback.missed_cycles) == (ProgramState.NONE, 8, 0)


def test_silence_ends_the_program_and_late_set_points_go_nowhere():
    rig = armed()
    rig.tick(Command.SERVO)
    for _ in range(6):
        rig.tick()
    assert rig.state() == ProgramState.STOPPED_HEARTBEAT and not rig.robot.feedback().program_running
    before = len(rig.link.published)
    rig.tick(Command.SERVO)
    assert len(rig.link.published) == before and "stop" in rig.link.calls[-4:]


def test_cycles_without_a_set_point_are_counted():
    rig = armed()
    rig.tick(Command.SERVO)
    rig.tick(Command.SERVO)
    assert rig.robot.feedback().missed_cycles == 0
    rig.now_s += DT_S / 4  # not a whole number of periods: rounding is no matter here
    rig.tick()
    rig.tick()
    rig.tick(Command.SERVO)
    assert rig.robot.feedback().missed_cycles == 2


def test_a_stop_is_asked_for_until_it_is_answered():
    rig = armed()
    rig.link.refuse.add("stop")
    asked = rig.link.calls.count("stop")
    rig.robot.stop_program(rig.now_s)
    for _ in range(300):
        rig.tick()
    assert rig.link.calls.count("stop") - asked == 3 and rig.link.cancelled >= 3
    rig.link.refuse.clear()
    for _ in range(300):
        rig.tick()
    assert rig.link.calls.count("stop") - asked == 4


@pytest.mark.parametrize("service", ["list", "switch", "stop", "resend"])
def test_what_an_arming_has_asked_is_not_asked_again_after_a_stop(rig, service):
    rig.link.mute.add(service)
    assert rig.arm(0.2).phase is ArmingPhase.UNDER_WAY
    (asked,) = [call for name, call in rig.link.unanswered if name == service]
    rig.robot.stop_program(rig.now_s)
    assert asked.dropped and rig.robot.arming().detail == "stopped"


def test_an_arming_withdraws_the_stop_before_it():
    rig = armed()
    rig.link.mute |= {"stop", "switch"}
    rig.robot.stop_program(rig.now_s)
    rig.tick()
    assert [name for name, call in rig.link.unanswered if not call.dropped] == ["stop", "switch"]
    rig.robot.begin_arming(8, rig.now_s)
    assert all(call.dropped for _, call in rig.link.unanswered)


def test_a_list_of_controllers_from_before_an_arming_does_not_end_it():
    rig = armed()
    rig.link.mute.add("list")
    for _ in range(40):
        rig.tick(Command.HOLD)
    (_, old), = rig.link.unanswered
    rig.link.mute.clear()
    rig.robot.stop_program(rig.now_s)
    assert rig.arm().phase is ArmingPhase.READY
    old.done, old.value = True, [Controller(TRAJECTORY_CONTROLLERS[0], True, CLAIMS)]
    rig.tick(Command.HOLD)
    assert rig.state() == ProgramState.READY


def test_no_listener_is_a_link_that_takes_nothing():
    rig = armed()
    rig.link.listened = False
    assert not rig.tick(Command.SERVO)


def test_a_controller_that_was_switched_off_ends_it():
    rig = armed()
    rig.link.active = {TRAJECTORY_CONTROLLERS[0]}
    for _ in range(80):
        rig.tick(Command.SERVO)
    assert rig.state() == ProgramState.NONE


def test_controllers_that_are_not_told_of_end_nothing():
    rig = armed()
    rig.link.refuse.add("list")
    for _ in range(80):
        rig.tick(Command.HOLD)
    assert rig.state() == ProgramState.READY


def test_a_program_that_has_not_run_since_the_driver_came_up_is_silence_and_arms():
    """The driver publishes `robot_program_running` when it changes, from false on (gpio_controller.cpp)."""
    rig = Rig(restart="play")
    rig.link.status.program_running = None
    rig.link.refuse.add("stop")
    rig.link.refusal = "Failed to execute: stop"  # the dashboard's, when no program runs
    rig.tick()
    assert not rig.robot.troubles() and not rig.robot.feedback().program_running
    assert rig.arm().phase is ArmingPhase.READY and rig.robot.feedback().program_running


def test_a_stop_that_is_refused_while_a_program_runs_forbids_arming(rig):
    rig.link.refuse.add("stop")
    rig.link.refusal = "Failed to execute: stop"
    arming = rig.arm()
    assert arming.phase is ArmingPhase.FAILED and "remote control" in arming.detail


def test_a_gripper_input_that_is_set_to_current_is_named_and_gives_no_feedback(rig):
    rig.link.status.analog_input_0_v, rig.link.status.analog_input_0_is_current = None, True
    robot = UrDriverRobot(UrDriverConfig(), lambda _: rig.link)
    robot.open(10.0)
    rig.link.at(10.0)
    robot.service(10.0)
    assert robot.feedback() is None and "set it to voltage" in robot.troubles()["robot_unreachable"]


@pytest.mark.parametrize("claim", ["trajectory_passthrough/abort", "freedrive_mode/enable", "force_mode/type", "twist/x"])
def test_a_controller_of_another_mode_of_the_arm_is_switched_off_too(claim):
    rig = Rig()
    rig.link.claims = {"somebodys": (claim,), "other_arms": (f"right_{claim}",)}
    rig.link.loaded += rig.link.claims
    rig.link.active |= set(rig.link.claims)
    rig.link.stays = set(rig.link.claims)
    assert rig.arm().phase is ArmingPhase.READY, rig.robot.arming()
    assert rig.link.active == {POSITION_CONTROLLER, "other_arms"}


@pytest.mark.parametrize("field", ["robot_mode", "safety_mode", "speed_scaling", "analog_input_0_v"])
def test_without_one_of_the_drivers_topics_there_is_no_feedback(field):
    link = ScriptedLink()
    setattr(link.status, field, None)
    robot = UrDriverRobot(UrDriverConfig(namespace="/left"), lambda _: link)
    robot.open(10.0)
    link.at(10.0)
    robot.service(10.0)
    assert robot.feedback() is None and "nothing yet on /left/" in robot.troubles()["robot_unreachable"]


def test_the_gripper_is_told_by_two_outputs_one_command_after_the_other(rig):
    for width_m, outputs in ((0.0, 0b01), (cell.GRIPPER_PREGRASP_M, 0b10), (cell.GRIPPER_OPEN_M, 0b00)):
        assert rig.robot.command_gripper(width_m) and rig.link.status.digital_outputs == outputs
    rig.link.mute.add("set_io")
    assert rig.robot.command_gripper(0.0) and not rig.robot.command_gripper(0.0)
    assert len(rig.link.unanswered) == 2


def test_a_paused_program_does_not_run():
    rig = armed()
    rig.link.status.speed_scaling = 0.0
    rig.tick(Command.SERVO)
    rig.tick(Command.SERVO)
    assert not rig.robot.feedback().program_running


# --- the guard on it ---


def guarded():
    rig = Rig()
    answers = []
    tokens = itertools.count(1000)
    guard = Guard(
        rig.robot, GuardConfig(), "secret", lambda: next(tokens), lambda _, m: answers.append(m), rig.now_s
    )
    guard.commander_changed("shell", rig.now_s)

    def cycle(seconds=DT_S):
        for _ in range(round(seconds / DT_S)):
            rig.now_s += DT_S
            if rig.feeds:
                rig.link.at(rig.now_s)
            state = guard.cycle(rig.now_s)
            guard.handle("shell", Heartbeat("shell", True), rig.now_s)
        return state

    cycle(0.5)
    guard.handle("operator", Arm("manual", "secret", "r"), rig.now_s)
    cycle(0.3)
    assert any(isinstance(a, Reply) and a.ok for a in answers), answers
    return rig, cycle


@pytest.mark.parametrize(("told", "shown"), [(50.0, "50%"), (-1.0, "-1%"), (float("nan"), "nan%")])
def test_a_slider_below_full_speed_stops(told, shown):
    rig, cycle = guarded()
    rig.link.status.speed_scaling = told
    assert any(c.startswith(f"robot_speed: speed scaling {shown}: set-points would run ahead") for c in cycle().causes)


def test_speed_scaling_that_is_no_longer_told_stops():
    rig, cycle = guarded()
    told_s = rig.now_s
    rig.link.at = lambda now_s, at=rig.link.at: (at(now_s), setattr(rig.link.status, "speed_scaling_s", told_s))
    assert "has not told its speed scaling" in cycle(0.6).causes[0]


def test_another_publisher_of_set_points_stops():
    rig, cycle = guarded()
    rig.link.others = 1
    assert cycle(0.3).causes[0].startswith("robot_shared: 1 more publish to /forward_position_controller/commands")


def test_a_driver_that_dies_is_lost_feedback_then_an_unreachable_robot():
    rig, cycle = guarded()
    rig.feeds = False
    assert any(c.startswith("feedback_lost") for c in cycle(0.1).causes)
    assert any("is ur_robot_driver running" in c for c in cycle(0.6).causes)


def test_joint_states_that_are_held_up_are_lost_feedback():
    rig, cycle = guarded()
    rig.feeds = False
    sent_s = rig.now_s
    for _ in range(10):  # still one message a cycle, each 60 ms old
        sent_s += DT_S
        rig.link.joints.append(JointSample(rig.now_s, sent_s + 4.94, ur5.JOINT_NAMES, cell.HOME_Q_RAD, [0.0] * 6))
        state = cycle()
    assert any(c.startswith("feedback_lost") for c in state.causes)


def test_a_protective_stop_is_withdrawn_from_at_once():
    rig, cycle = guarded()
    asked = rig.link.calls.count("stop")
    rig.link.status.safety_mode = 3
    assert cycle().causes[0].startswith("robot_safety:protective_stop")
    assert rig.link.calls.count("stop") == asked + 1


# --- joint states ---


def sample(arrival_s=1.0, stamp_s=1.0, names=ur5.JOINT_NAMES, position=(1, 2, 3, 4, 5, 6), velocity=(0,) * 6):
    return JointSample(arrival_s, stamp_s, names, position, velocity)


def test_joints_are_read_by_name():
    reading = JointReader(ur5.JOINT_NAMES).take(
        sample(names=("gripper", *reversed(ur5.JOINT_NAMES)), position=(9, 6, 5, 4, 3, 2, 1), velocity=range(7))
    )
    assert reading.q_rad.tolist() == [1, 2, 3, 4, 5, 6] and reading.qd_rad_s.tolist() == [6, 5, 4, 3, 2, 1]


@pytest.mark.parametrize(
    "given, reason, said",
    [
        (dict(names=("a", "b"), position=(1, 2), velocity=(0, 0)), "other_joints", "no joint of this arm"),
        (dict(names=ur5.JOINT_NAMES[1:], position=(1,) * 5, velocity=(0,) * 5), "incomplete", "shoulder_pan_joint"),
        (dict(names=(*ur5.JOINT_NAMES, "elbow_joint"), position=(1,) * 7, velocity=(0,) * 7), "repeated", "twice"),
        (dict(position=(1,) * 5), "lengths", "5 positions"),
        (dict(velocity=()), "lengths", "0 velocities"),
        (dict(position=(1, 2, float("nan"), 4, 5, 6)), "not_finite", "not a number"),
        (dict(velocity=(float("inf"),) * 6), "not_finite", "not a number"),
        (dict(position=(90,) * 6), "range", "radians"),
        (dict(stamp_s=0.0), "unstamped", "stamp 0.0"),
    ],
)
def test_what_is_wrong_with_a_joint_state_is_named_and_counted(given, reason, said):
    reader = JointReader(ur5.JOINT_NAMES)
    assert reader.take(sample(**given)) is None
    assert reader.refused == {reason: 1} and said in reader.why


def test_a_message_counts_as_old_as_it_is():
    reader = JointReader(ur5.JOINT_NAMES)
    for k in range(50):
        reader.take(sample(10.0 + k * DT_S, 500.0 + k * DT_S))
    late = reader.take(sample(10.0 + 60 * DT_S, 500.0 + 50 * DT_S))
    assert late.measured_s == pytest.approx(10.0 + 50 * DT_S, abs=1e-4)


def test_a_clock_that_drifts_is_followed():
    reader, ours_per_theirs = JointReader(ur5.JOINT_NAMES), 1 + 5e-4
    for k in range(240):  # two minutes
        reading = reader.take(sample(10.0 + 0.5 * k * ours_per_theirs, 500.0 + 0.5 * k))
        assert 10.0 + 0.5 * k * ours_per_theirs - reading.measured_s < 1e-6


def test_other_peoples_joints_do_not_hide_why_ours_are_refused():
    reader = JointReader(ur5.JOINT_NAMES)
    reader.take(sample(position=(float("nan"),) * 6))
    reader.take(sample(names=("gripper",), position=(0.1,), velocity=(0.0,)))
    assert "not a number" in reader.why and reader.refused == {"not_finite": 1, "other_joints": 1}


def test_stamps_go_forward_until_the_driver_is_started_anew():
    reader = JointReader(ur5.JOINT_NAMES)
    assert reader.take(sample(10.0, 500.0))
    assert reader.take(sample(10.1, 500.0)) is None and reader.refused == {"out_of_order": 1}
    assert reader.take(sample(11.5, 3.0)).measured_s == 11.5


# --- configuration ---


@pytest.mark.parametrize(
    "given",
    [dict(namespace="left"), dict(namespace="/left/"), dict(namespace="/1 x"), dict(restart="pray"), dict(speed_scaling_min=0.0), dict(frequency_hz=float("nan"))],
)
def test_a_wrong_configuration_names_the_field(given):
    with pytest.raises(ConfigError, match=next(iter(given))):
        UrDriverConfig(**given)


def test_missing_messages_are_named_with_what_to_install(monkeypatch):
    def absent(name):
        raise ModuleNotFoundError("No module named 'ur_msgs'", name="ur_msgs.msg")

    monkeypatch.setattr(ur_driver_link.importlib, "import_module", absent)
    with pytest.raises(ConfigError, match="'ur_msgs' is missing.*ros-.ROS_DISTRO-ur-robot-driver"):
        link_type()
