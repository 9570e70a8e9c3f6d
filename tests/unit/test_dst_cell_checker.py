"""The simulator's judge between two guards (I13): an honest arm is silent, each lie, deafness and reach is said."""
from dataclasses import replace

import numpy as np
import pytest

from steadyhand import cell, kinematics, ur5
from steadyhand.guard_protocol import Beat, Chunk
from steadyhand.protocols import Feedback
from steadyhand_cli.dst.body import depth_m
from steadyhand_cli.dst.cell import ZONE_M
from steadyhand_cli.dst.cell_checker import CellChecker
from steadyhand_cli.dst.paths import over_and_clear

DT_S, BOX_M = 0.008, ZONE_M
HOME = np.array(cell.HOME_Q_RAD)
OVER = max(over_and_clear()[0], key=lambda q: depth_m(q[None], BOX_M)[0])
CLEAR, MOVES = "", "the vehicle moves"


class Wire:
    """An honest arm's guard that is armed at rest at home and hears a vehicle at every fifth cycle."""

    def __init__(self):
        self.found, self.stops = [], []
        self.checker = CellChecker(
            lambda invariant, now_s, detail: self.found.append((invariant, detail)),
            lambda now_s, why: self.stops.append(why), DT_S, "agv", BOX_M,
        )  # fmt: skip
        self.k, self.q, self.safety, self.age_s = 0, HOME, 1, 0.004
        self.arm, self.agv, self.armed = Beat("arm", 5, 0), Beat("agv", 9, 0), True
        self.heard = True
        self.cycles(20)

    @property
    def now_s(self):
        return 100.0 + DT_S * self.k

    def cycles(self, n):
        for _ in range(n):
            self.k += 1
            if self.heard and self.k % 5 == 0:
                self.checker.hears(self.now_s, self.agv)
            if self.k % 2 == 0 or self.arm != self.checker.told:
                self.checker.tells(self.now_s, self.arm)
            measured = Feedback(
                self.now_s - self.age_s, 0.0, self.q, np.zeros(6), self.q, np.zeros(6), 7, self.safety, True, 2, 1, 0,
                0, 0.05, 0.05, False,
            )  # fmt: skip
            self.checker.cycle(self.now_s, self.armed, not self.armed, measured, self.age_s)

    def says(self, text):
        self.arm = replace(self.arm, zone=text)

    def reach(self, goal=OVER, period_s=0.05):
        q = HOME + np.linspace(0, 1, 40)[:, None] * (goal - HOME)
        chunk = Chunk(1, self.k, self.now_s, "c", "planner", list(ur5.JOINT_NAMES), period_s, q.tolist())
        self.checker.accepted(self.now_s, chunk, HOME)


@pytest.fixture
def wire():
    made = Wire()
    assert made.found == made.stops == [] and made.checker.causes(made.now_s, 0.0) == []
    return made


def test_depth_is_that_of_the_kinematics_elsewhere():
    q = np.random.default_rng(1).uniform(-2, 2, (50, 6))
    joints = kinematics.link_transforms(q)[:, :, :3, 3]
    points = np.concatenate([joints, kinematics.pose_base_link_tool(q)[:, None, :3, 3]], axis=1)
    points = np.concatenate([points, 0.5 * (points[:, 1:] + points[:, :-1])], axis=1)
    inside = ((points > BOX_M[:3]) & (points < BOX_M[3:])).all(axis=2).any(axis=1)
    assert ((depth_m(q, BOX_M) > 0) == inside).all() and inside.any() and not inside.all()
    assert depth_m(HOME[None], BOX_M)[0] < -0.05 and depth_m(OVER[None], BOX_M)[0] > 0.1


def test_what_the_other_one_does_stops_this_one(wire):
    wire.agv = replace(wire.agv, stops=1)
    wire.cycles(5)
    wire.agv = replace(wire.agv, boot=4, stops=0)
    wire.cycles(5)
    assert wire.stops == ["the other stopped", "the other guard was started anew"]
    wire.agv = replace(wire.agv, unsafe="robot_safety:x")
    wire.cycles(5)
    assert wire.checker.causes(wire.now_s, 0.0) == ["the other guard's robot: robot_safety:x"]
    wire.heard = False
    wire.cycles(11)
    assert wire.checker.causes(wire.now_s, 0.0) == ["the other guard's robot: robot_safety:x"]
    wire.cycles(3)
    assert wire.checker.causes(wire.now_s, 0.0) == ["the other guard is silent"]


def test_a_stranger_is_not_the_partner(wire):
    wire.heard = False
    for _ in range(5):
        wire.checker.hears(wire.now_s, Beat("forklift", 9, 3))
        wire.cycles(3)
    assert wire.stops == [] and wire.checker.causes(wire.now_s, 0.0) == ["the other guard is silent"]


def test_a_stop_that_begins_here_is_told_and_no_other(wire):
    wire.checker.disarmed(wire.now_s, ["tracking: x"])
    wire.armed = False
    wire.cycles(2)
    assert "not told" in wire.found.pop()[1]
    wire.arm = replace(wire.arm, stops=1)
    wire.cycles(3)
    wire.checker.stop()  # also to a guard that stands
    wire.cycles(2)
    assert "not told" in wire.found.pop()[1] and wire.found == []


@pytest.mark.parametrize("causes, wrong", [(["peer: agv stopped"], True), (["disarmed: operator"], False)])
def test_a_stop_of_the_other_one_or_a_disarming_is_not_told_as_its_own(wire, causes, wrong):
    wire.agv = replace(wire.agv, stops=1)
    wire.checker.hears(wire.now_s, wire.agv)
    wire.checker.disarmed(wire.now_s, causes)
    assert wire.found == []
    wire.checker.tells(wire.now_s, replace(wire.arm, stops=1))
    wire.checker.disarmed(wire.now_s, causes)
    assert [what for what, _ in wire.found] == ["I13"]


def test_a_stop_with_causes_of_both_is_told_by_nobody_or_by_it(wire):
    for stops in (0, 1):
        wire.checker.tells(wire.now_s, replace(wire.arm, stops=stops))
        wire.checker.disarmed(wire.now_s, ["disarmed: operator", "tracking: x"])
        assert wire.found == []


def test_the_other_one_is_no_excuse(wire):
    wire.agv = replace(wire.agv, stops=1)  # long ago
    wire.cycles(25)
    wire.checker.disarmed(wire.now_s, ["peer:agv: silent"])
    assert wire.found == [("I9", "the cause of the stop is the other guard, which is heard and well")]


@pytest.mark.parametrize("news", [{"unsafe": "robot_safety:emergency"}, {"stops": 1}, {"boot": 3}])
def test_a_guard_that_was_held_up_names_what_it_heard_before(wire, news):
    wire.checker.hears(wire.now_s + DT_S / 4, replace(wire.agv, **news))
    wire.checker.disarmed(wire.now_s + 5 * DT_S, ["peer: agv stopped"])
    assert wire.found == []


@pytest.mark.parametrize("change", [
    lambda w: setattr(w, "q", OVER), lambda w: setattr(w, "age_s", 0.06), lambda w: w.reach(),
    lambda w: setattr(w, "q", np.full(6, np.nan)),
])  # fmt: skip
def test_it_may_not_say_that_it_is_clear_when_it_is_not(wire, change):
    change(wire)
    wire.cycles(8)
    assert wire.found and all(what == "I13" and "says that it is clear" in detail for what, detail in wire.found)


def test_what_was_to_reach_is_over_with_a_stop(wire):
    wire.reach()
    wire.checker.disarmed(wire.now_s, ["disarmed: operator"])
    wire.cycles(20)
    assert wire.found == []


@pytest.mark.parametrize("later", [Beat("arm", 5, 0), Beat("arm", 6, 1), Beat("arm", 6, 2)])
def test_one_guard_has_one_boot_and_its_stops_only_go_on(wire, later):
    wire.checker.tells(wire.now_s, replace(wire.arm, stops=1))
    assert wire.found == []
    wire.checker.tells(wire.now_s, later)
    assert [detail for _, detail in wire.found] == [f"boot {later.boot}, stops {later.stops} after 5, 1"]


def test_a_guard_tells_at_least_at_every_second_cycle(wire):
    measured = Feedback(wire.now_s, 0.0, HOME, np.zeros(6), HOME, np.zeros(6), 7, 1, True, 2, 1, 0, 0, 0.05, 0.05, False)
    wire.checker.tells(wire.now_s, wire.arm)
    for _ in range(2):
        wire.checker.cycle(wire.now_s, True, False, measured, 0.004)
    assert wire.found == []
    wire.checker.cycle(wire.now_s, True, False, measured, 0.004)
    assert wire.found.pop()[1] == "the other guard is told nothing"


def test_it_may_say_that_it_is_there_and_then_all_is_well(wire):
    wire.says("the arm is about to")
    wire.reach()
    wire.cycles(20)
    wire.q = OVER
    wire.cycles(20)
    assert wire.found == []


def test_clear_and_at_rest_it_says_so(wire):
    wire.says("the arm is over the vehicle")
    wire.armed = False
    wire.cycles(8)
    assert wire.found and "clear and at rest" in wire.found[0][1]


@pytest.mark.parametrize("zone, silent, wrong", [(MOVES, False, True), (CLEAR, True, True), (CLEAR, False, False)])
def test_it_does_not_begin_to_reach_over_a_vehicle_that_claims_or_is_unheard(wire, zone, silent, wrong):
    wire.agv = replace(wire.agv, zone=zone)
    wire.cycles(5)
    wire.heard = not silent
    wire.cycles(15)
    wire.reach()
    assert any("begins to reach" in detail for _, detail in wire.found) is wrong
    wire.found.clear()
    wire.reach(HOME + 0.05)  # elsewhere it may go
    assert wire.found == []


def test_over_a_vehicle_that_claims_it_may_leave_but_not_come_back_nor_stay(wire):
    wire.agv = replace(wire.agv, zone=MOVES)
    wire.cycles(5)

    def way(*corners, before=OVER):
        legs = [a + np.linspace(0, 1, 20)[:, None] * (b - a) for a, b in zip(corners, corners[1:])]
        chunk = Chunk(1, wire.k, wire.now_s, "c", "planner", list(ur5.JOINT_NAMES), 0.05, np.concatenate(legs).tolist())
        wire.checker.accepted(wire.now_s, chunk, before)
        return [what for what, _ in wire.found]

    assert way(OVER, HOME) == []
    assert way(OVER, HOME, OVER, HOME) == ["I13"]
    assert way(OVER, OVER) == 2 * ["I13"]  # it stays
    assert way(OVER, HOME, before=HOME) == 3 * ["I13"]  # it comes from outside


def test_a_guard_that_was_started_anew_tells_so(wire):
    wire.checker.reset()
    wire.arm = replace(wire.arm, boot=6)
    wire.cycles(2)
    assert wire.found == []
    wire.checker.reset()
    wire.cycles(2)
    assert wire.found == [("I13", "started anew, it tells the boot 6 of a guard before it")]


def test_its_own_safety_is_told_and_a_guard_that_tells_nothing_is_found(wire):
    wire.safety = 3
    wire.cycles(1)
    assert "safety mode 3" in wire.found.pop()[1]
    wire.arm = replace(wire.arm, unsafe="robot_safety:protective_stop")
    wire.cycles(4)
    wire.safety = 1
    wire.cycles(1)
    assert "safety mode 1" in wire.found.pop()[1]
    wire.checker.told = None
    wire.checker.cycle(wire.now_s, True, False, None, 0.0)
    assert wire.found.pop()[1] == "the other guard is told nothing"


def test_arm_and_vehicle_are_not_in_one_place_for_long(wire):
    for _ in range(30):
        wire.checker.together(wire.now_s, True, OVER)
    assert wire.found == []
    for _ in range(8):
        wire.checker.together(wire.now_s, True, OVER)
    assert len(wire.found) == 1
    wire.found.clear()
    for q_rad, armed in ((None, True), (OVER, False), (HOME, True)):
        for _ in range(60):
            wire.checker.together(wire.now_s, armed, q_rad)
    assert wire.found == []


def test_a_block_is_judged_by_where_its_set_points_are(wire):
    times_s = wire.now_s + DT_S * np.arange(1, 65)
    wire.checker.block(times_s, np.tile(HOME, (64, 1)), times_s[-1], 1)
    assert wire.found == []
    assert wire.checker.causes(times_s[-1], 0.0) == []  # it was heard meanwhile
    wire.checker.block(times_s, np.tile(OVER, (64, 1)), times_s[-1], 1)
    assert len(wire.found) == 1 and wire.found[0][0] == "I13"
    wire.found.clear()
    wire.reach()
    wire.checker.block(times_s, np.tile(HOME, (64, 1)), times_s[-1], 1)
    assert ["is about to reach" in detail for _, detail in wire.found] == [True]
