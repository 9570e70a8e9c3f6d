"""The simulator's judge at the guard's wires: a good course is silent, each lie or omission in a state is said."""
from dataclasses import dataclass, replace

import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.guard_protocol import Arm, Chunk, Gripper, Heartbeat, Link, Reply, State, Stop, Verdict
from steadyhand.protocols import Command, Feedback
from steadyhand_cli.dst.cell import Mix
from steadyhand_cli.dst.checker import Checker

DT_S, HOME = 0.008, np.array(cell.HOME_Q_RAD, dtype=float)


@dataclass(eq=False)
class Connection:
    commander: bool


SHELL, PERSON = Connection(True), Connection(False)


class Wire:
    """The course of an honest guard, cycle by cycle; keyword arguments of `cycle` change what its state says."""

    def __init__(self, mode="ARMED_AUTO", mix=Mix()):
        self.checker = Checker(DT_S, {"agent": 0.5}, 0.085, "secret", mix)
        self.k, self.armed_mode, self.mode, self.token, self.q = 0, mode, "STOPPED", 5, HOME.copy()
        self.v = 0.0
        self.checker.guard_started()
        self.checker.commander_came(0.0)
        for _ in range(20):
            self.beat()
            self.cycle()

    @property
    def now_s(self):
        return 100.0 + DT_S * self.k

    def beat(self):
        self.checker.message(self.now_s, SHELL, Heartbeat("agent", True))

    def arm(self, client=None):
        """For the shell, or for an operator that then commands itself."""
        asks = Arm(ASK[self.armed_mode], "secret", "r", command=client is not None)
        self.checker.message(self.now_s, client or SHELL, asks)
        if client is not None:
            self.checker.answer(self.now_s, client, Reply("r", True, "armed", [], {"trace_id": None}))
        self.token += 1
        self.cycle()  # the program with the new token starts
        self.mode = self.armed_mode
        self.cycle(at_rest=True)

    def chunk(self, source="planner", count=8, client=SHELL):
        rows = HOME + 0.01 * np.outer(np.arange(1, count + 1), [1, 0, 0, 0, 0, 0])
        stamp_s = self.checker.last_state.stamp_s
        c = Chunk(self.token, self.k, stamp_s, f"c{self.k}", source, list(ur5.JOINT_NAMES), 0.1, rows.tolist())
        self.checker.message(self.now_s, client, c)
        self.checker.answer(self.now_s, client, Verdict(c.trace_id, True))
        return c.trace_id

    def stop(self):
        self.checker.message(self.now_s, SHELL, Stop("operator"))
        self.mode = "STOPPED"

    def cycle(self, sends=True, speed_rad_s=0.0, pendant=False, **said):
        """One cycle: measurement in, state and package out."""
        self.checker.pendant = pendant
        self.q = self.q + DT_S * speed_rad_s * np.eye(6)[0]
        measured = Feedback(
            self.now_s - 0.004, self.now_s - 0.004, HOME, np.zeros(6), HOME, np.zeros(6), 7, 1, True, 2, self.token,
            self.k, 0, 0.05, 0.05, False,
        )  # fmt: skip
        self.checker.feedback(measured)
        armed = self.mode != "STOPPED"
        package = (Command.SERVO, self.token, self.k, self.q) if armed and sends else None
        state = State(
            self.now_s, self.k + 1, self.token, self.mode, HOME.tolist(), [0.0] * 6, self.q.tolist(), [0.0] * 6, 0.05,
            0.05, False, [] if armed else ["stop_requested"], 7, 1, "", 0.0, {}, "",
        )  # fmt: skip
        self.checker.cycle(self.now_s, replace(state, **said), package)
        self.k += 1

    @property
    def found(self):
        return [v.detail for v in self.checker.violations]


ASK = {"ARMED_AUTO": "auto", "ARMED_MANUAL": "manual", "RECOVERING": "recover"}


@pytest.fixture
def armed():
    wire = Wire()
    wire.arm()
    return wire


def test_an_honest_course_is_silent(armed):
    trace = armed.chunk()
    for _ in range(20):
        armed.beat()
        armed.cycle()
    armed.stop()
    for _ in range(20):
        armed.beat()
        armed.cycle()
    armed.checker.answer(armed.now_s, SHELL, Reply("r", False, "refused"))
    armed.checker.message(armed.now_s, SHELL, Arm("auto", "secret", "r"))
    armed.checker.answer(armed.now_s, SHELL, Reply("r", True, "armed: ARMED_AUTO", [], {"trace_id": trace}))
    armed.arm()
    assert armed.found == []


@pytest.mark.parametrize("wanted, said", [
    ("q of the state", {"q_rad": (HOME + 1e-9).tolist()}), ("qd of the state", {"qd_rad_s": [1e-9] * 6}),
    ("q_commanded of the state", {"q_commanded_rad": (HOME + 1e-9).tolist()}),
    ("q of the state", {"q_rad": [float("nan")] * 6}), ("safety mode 2", {"safety_mode": 2}),
    ("robot mode 5", {"robot_mode": 5}), ("the pendant has control", {"pendant": True}),
])  # fmt: skip
def test_a_state_that_shows_something_else_and_a_guard_that_overlooks_the_pendant(armed, wanted, said):
    armed.beat()
    armed.cycle(**said)
    assert wanted in armed.found[0]


def test_a_stop_names_its_cause(armed):
    armed.stop()
    armed.cycle(causes=[])
    assert armed.found == ["stopped, and the state names no cause"]


def test_rest_is_not_claimed_while_the_set_points_move(armed):
    armed.chunk()
    armed.cycle(speed_rad_s=0.004)
    armed.cycle(at_rest=True)
    assert armed.found == []
    for speed_rad_s in (0.06, 0.12):
        armed.cycle(speed_rad_s=speed_rad_s)
    armed.cycle(at_rest=True)
    assert any("rest is claimed, the arm is commanded" in detail for detail in armed.found)


def test_what_a_stop_interrupted_is_shown(armed):
    trace = armed.chunk()
    armed.cycle()
    armed.stop()
    armed.cycle()
    armed.checker.message(armed.now_s, SHELL, Arm("auto", "secret", "r"))
    for shown in ({"trace_id": trace}, {}):
        armed.checker.answer(armed.now_s, SHELL, Reply("r", True, "armed: ARMED_AUTO", [], shown))
    assert armed.found == [f"armed, and shows None as interrupted, not {trace}"]


def test_way_points_used_up_in_motion_are_a_stop_within_100_ms(armed):
    armed.chunk(count=2)  # 0.2 s from the state before
    armed.q = HOME + 0.02 * np.eye(6)[0]
    armed.checker.setpoints.cut()
    for _ in range(38):
        armed.beat()
        armed.cycle()
    assert not any("used up" in detail for detail in armed.found)
    for _ in range(3):
        armed.cycle()
    assert any("used up" in detail for detail in armed.found)


@pytest.mark.parametrize("mode, silent", [("ARMED_MANUAL", True), ("ARMED_AUTO", False)])
def test_after_a_person_moved_the_arm_each_input_must_be_heard_of_anew(mode, silent):
    wire = Wire(mode)
    wire.arm()
    wire.beat()
    wire.cycle()
    wire.cycle()
    wire.stop()
    for _ in range(20):  # less than the input's limit
        wire.cycle()
    wire.armed_mode = "ARMED_AUTO"
    wire.arm()
    assert any("input agent is silent" in detail for detail in wire.found) is silent


@pytest.mark.parametrize("mode, speed_rad_s, stops", [
    ("ARMED_AUTO", 0.05, True), ("ARMED_AUTO", 0.0, False), ("ARMED_MANUAL", 0.05, False),
])  # fmt: skip
def test_an_input_with_a_tighter_limit_while_the_arm_moves(mode, speed_rad_s, stops):
    wire = Wire(mode, Mix(moving_inputs=True))
    wire.beat()
    wire.arm()
    wire.chunk()
    wire.checker.setpoints.cut()

    def cycles(n):
        for _ in range(n):
            wire.checker.message(wire.now_s, SHELL, Heartbeat("shell", True))
            wire.cycle(speed_rad_s=speed_rad_s)

    cycles(6)
    assert wire.found == []
    cycles(10)
    assert any("input agent is silent" in detail for detail in wire.found) is stops


def test_recovering_is_slow():
    for speed_rad_s, wrong in ((0.09, False), (0.11, True)):
        wire = Wire("RECOVERING")
        wire.arm()
        wire.checker.setpoints.cut()
        for _ in range(3):
            wire.cycle(speed_rad_s=speed_rad_s)
        assert any("velocity of joint 0" in detail for detail in wire.found) is wrong


def test_a_strangers_chunk_and_gripper_order_are_not_obeyed(armed):
    armed.chunk(client=PERSON)
    assert len(armed.found) == 1 and "chunk accepted" in armed.found[0]
    armed.checker.violations.clear()
    armed.checker.message(armed.now_s, PERSON, Gripper(armed.token, 0.04, "g"))
    armed.checker.gripper_written(armed.now_s, 0.04)
    assert armed.found == ["gripper written without an order of the commander"]


def test_an_operator_in_control_that_falls_silent_is_a_stop(armed):
    armed.checker.message(armed.now_s, PERSON, Link("p", True))
    for _ in range(62):  # 0.5 s
        armed.beat()
        armed.cycle()
    assert armed.found == []
    for _ in range(3):
        armed.beat()
        armed.cycle()
    assert armed.found and all("an operator in control is silent" in detail for detail in armed.found)


def test_who_arms_by_hand_commands_without_the_shell_until_the_stop():
    wire = Wire("ARMED_MANUAL")
    wire.arm(PERSON)
    wire.checker.commander_gone(wire.now_s)
    wire.chunk("manual", client=PERSON)
    for k in range(8):  # longer than the shell's 40 ms
        wire.checker.message(wire.now_s, PERSON, Heartbeat("shell", True))
        wire.cycle(speed_rad_s=0.02 * k)
    assert wire.found == []
    wire.stop()
    wire.cycle()
    assert wire.checker.operators.manual is None


def test_a_stop_ends_a_request_to_arm():
    wire = Wire()
    wire.checker.message(wire.now_s, SHELL, Arm("auto", "secret", "r"))
    wire.checker.message(wire.now_s, SHELL, Stop("operator"))
    wire.token, wire.mode = wire.token + 1, "ARMED_AUTO"
    wire.cycle(at_rest=True)
    assert any("without a verified request" in detail for detail in wire.found)


def test_a_new_guard_has_nobody_in_command():
    wire = Wire("ARMED_MANUAL")
    wire.arm(PERSON)
    wire.checker.guard_started()
    assert wire.checker.operators.commands(SHELL) and not wire.checker.operators.commands(PERSON)


def test_a_program_is_started_only_when_somebody_asked_since_the_last_stop():
    wire = Wire()
    ask = Arm("auto", "secret", "r")
    wire.checker.message(wire.now_s, SHELL, ask)
    wire.checker.program_started(wire.now_s)
    assert wire.found == []
    wire.checker.message(wire.now_s, SHELL, Stop("operator"))
    wire.checker.program_started(wire.now_s)
    assert any("a program is started, although nobody has asked" in detail for detail in wire.found)


def test_a_loop_that_was_held_up_is_silent_from_then_on():
    wire = Wire()
    wire.beat()
    wire.arm()
    wire.cycle()
    assert wire.found == []
    wire.checker.late(wire.now_s, 0.06)
    wire.cycle()
    assert any("silence was due (cycle 60 ms late)" in detail for detail in wire.found)
