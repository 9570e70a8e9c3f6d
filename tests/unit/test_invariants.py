"""The outside checker of the guard's states finds each kind of broken promise, and is silent on a good run."""
from dataclasses import replace

import pytest

from steadyhand.guard_protocol import State
from steadyhand_cli.invariants import InvariantMonitor

BASE = State(
    stamp_s=0.0, seq=0, token=1, mode="STOPPED", q_rad=[0.0] * 6, qd_rad_s=[0.0] * 6, q_commanded_rad=[0.0] * 6,
    qd_commanded_rad_s=[0.0] * 6, gripper_width_m=0.06, gripper_commanded_m=0.06, at_rest=True, causes=[], robot_mode=7,
    safety_mode=1, trace_id="", plan_left_s=0.0, counters={}, scheduler="SCHED_OTHER",
)


class Run:
    """Feeds a monitor one state per 8 ms."""

    def __init__(self):
        self.monitor, self.k, self.token = InvariantMonitor(), 0, 1

    def feed(self, count, mode, speed=0.0, **changes):
        for _ in range(count):
            self.k += 1
            fields = dict(
                stamp_s=self.k * 0.008, seq=self.k, token=self.token, mode=mode, qd_commanded_rad_s=[speed] + [0.0] * 5,
                at_rest=speed == 0.0,
            )
            self.monitor.update(replace(BASE, **(fields | changes)))
        return self

    def arm(self):
        self.token += 1
        return self.feed(1, "ARMED_AUTO")

    @property
    def broken(self):
        return [v.invariant for v in self.monitor.violations]


@pytest.fixture
def run():
    return Run().feed(5, "STOPPED").arm()


def test_a_good_run_is_silent(run):
    run.monitor.allow_motion(True)
    run.feed(20, "ARMED_AUTO", 0.5)
    for k in range(25):
        run.feed(1, "STOPPED", 0.5 * (24 - k) / 25)
    run.feed(50, "STOPPED").arm()
    assert run.broken == [] and (run.monitor.stops, run.monitor.armings) == (1, 2)


def test_motion_after_rest(run):
    run.feed(10, "STOPPED").feed(3, "STOPPED", q_commanded_rad=[0.01] + [0.0] * 5)
    assert run.broken == ["I1"]


def test_a_controller_that_comes_back_anew_shows_a_pose_of_its_own_once(run):
    away = dict(causes=["robot_unreachable: reset"])
    other = dict(q_commanded_rad=[0.3] + [0.0] * 5, gripper_commanded_m=0.085)
    run.feed(10, "STOPPED").feed(20, "STOPPED", **away).feed(20, "STOPPED", **away, **other)
    assert run.broken == []
    run.feed(1, "STOPPED", **(away | other | {"gripper_commanded_m": 0.0}))
    run.feed(5, "STOPPED", **(other | {"gripper_commanded_m": 0.0}))
    run.feed(1, "STOPPED", **(other | {"gripper_commanded_m": 0.0, "q_commanded_rad": [0.4] + [0.0] * 5}))
    assert run.broken == ["I12", "I1"]


def test_a_pose_that_changes_without_the_controller_gone(run):
    run.feed(10, "STOPPED", causes=["feedback_lost: 40 ms"])
    run.feed(5, "STOPPED", causes=["feedback_lost: 40 ms"], q_commanded_rad=[0.3] + [0.0] * 5, gripper_commanded_m=0.085)
    assert run.broken == ["I12", "I1"]


def test_the_last_set_point_of_an_arm_all_but_at_rest_is_no_motion_after_the_stop(run):
    moved = dict(q_commanded_rad=[2e-4] + [0.0] * 5)
    run.feed(3, "STOPPED").feed(10, "STOPPED", **moved)
    assert run.broken == []
    run.feed(1, "STOPPED")
    assert run.broken == ["I1"]


def test_speed_that_rises_while_stopping(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(10, "STOPPED", 0.3).feed(1, "STOPPED", 0.5)
    assert run.broken == ["I1"]


def test_a_stop_that_never_rests(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(140, "STOPPED", 0.3)
    assert run.broken == ["I1"]


def test_a_stop_in_the_middle_of_an_acceleration_may_end_it_first(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(2, "STOPPED", 0.45)
    assert run.feed(10, "STOPPED", 0.4).broken == []
    assert run.feed(1, "STOPPED", 0.5).broken == ["I1"]


def test_rest_is_not_said_while_motion_is_commanded(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(140, "STOPPED", 0.3, at_rest=True)
    assert run.broken == ["I1"]


def test_motion_that_nobody_asked_for(run):
    run.feed(5, "ARMED_AUTO", 0.3)
    assert run.broken == ["I2"]


def test_a_token_used_twice(run):
    run.feed(5, "STOPPED").feed(1, "ARMED_AUTO")
    assert run.broken == ["I3"]


@pytest.mark.parametrize("changes", [{"stamp_s": 0.001}, {"seq": 2}, {"seq": 10}], ids=str)
def test_states_out_of_order(run, changes):
    assert run.feed(4, "STOPPED").broken == []
    assert run.feed(1, "STOPPED", **changes).broken == ["I3"]


def test_not_finite_when_armed_only(run):
    run.feed(1, "ARMED_AUTO", q_commanded_rad=[float("nan")] + [0.0] * 5)
    assert run.broken == ["I4"]
    early = Run().feed(3, "STOPPED", q_commanded_rad=[float("nan")] * 6)
    assert early.broken == []


def test_a_stop_that_opens_the_gripper(run):
    run.feed(3, "STOPPED", gripper_commanded_m=0.0)
    assert run.broken == ["I12"]


UNKNOWN = dict(
    q_rad=[float("nan")] * 6, q_commanded_rad=[float("nan")] * 6, gripper_width_m=float("nan"),
    gripper_commanded_m=float("nan"), at_rest=False, causes=["feedback_lost: none yet"],
)


class Restart(Run):
    """A guard that was moving (`before`: what it did last) dies; a new one sees nothing yet for 3 s, then the arm."""

    def __init__(self, before):
        super().__init__()
        self.feed(5, "STOPPED").arm()
        self.monitor.allow_motion(True)
        self.feed(5, "ARMED_AUTO", 0.3)
        before(self)
        self.shift, self.k, self.token = self.k + 250, 0, self.token + 1
        self.feed(375, "STOPPED", **UNKNOWN)
        self.feed(1, "STOPPED", gripper_commanded_m=float("nan"), at_rest=False)  # the arm is known before the gripper

    def feed(self, count, mode, speed=0.0, **changes):
        for _ in range(count):
            stamp = {"stamp_s": (self.shift + self.k + 1) * 0.008} if hasattr(self, "shift") else {}
            super().feed(1, mode, speed, **(stamp | changes))
        return self


BEFORE = {
    "armed": lambda run: None,
    "stopping": lambda run: run.feed(10, "STOPPED", 0.3),
    "at rest": lambda run: run.feed(10, "STOPPED", 0.1).feed(10, "STOPPED"),
}
before = pytest.mark.parametrize("before", BEFORE.values(), ids=BEFORE)


@before
def test_a_new_guard_has_its_own_time_to_see_rest(before):
    run = Restart(before)
    run.feed(100, "STOPPED", at_rest=False).feed(200, "STOPPED").arm().feed(5, "ARMED_AUTO", 0.3)
    assert run.broken == [] and (run.monitor.stops, run.monitor.armings) == (1, 2)


@before
def test_a_new_guard_whose_arm_never_rests(before):
    run = Restart(before).feed(140, "STOPPED", at_rest=False)
    assert run.broken == ["I1"] and "not at rest 1.0 s" in run.monitor.violations[0].detail


@before
def test_a_new_guard_whose_arm_moves_after_rest(before):
    run = Restart(before).feed(20, "STOPPED").feed(3, "STOPPED", q_commanded_rad=[0.01] + [0.0] * 5)
    assert run.broken == ["I1"]


@before
def test_a_new_guard_that_moves_the_gripper(before):
    run = Restart(before).feed(20, "STOPPED").feed(3, "STOPPED", gripper_commanded_m=0.0)
    assert run.broken == ["I12"]


@before
def test_a_new_guard_that_commands_before_it_is_armed(before):
    run = Restart(before).feed(20, "STOPPED", 0.04, at_rest=False)
    assert run.broken == ["I1"] and "before it was armed" in run.monitor.violations[0].detail


def test_a_new_guard_that_comes_up_armed(run):
    run.feed(5, "STOPPED")
    run.token, run.k = 9, 0
    assert "I3" in run.feed(1, "ARMED_AUTO", stamp_s=1.0).broken


def test_rest_that_cannot_be_measured_must_be_said(run):
    run.monitor.allow_motion(True)
    lost = dict(at_rest=False, causes=["feedback_lost: no state for more than 40 ms"])
    run.feed(5, "ARMED_AUTO", 0.3).feed(250, "STOPPED", **lost).feed(300, "REST_UNKNOWN", **lost)
    assert run.feed(20, "STOPPED", causes=lost["causes"]).broken == []
    silent = Run().feed(5, "STOPPED").arm()
    assert silent.feed(270, "STOPPED", **lost).broken == ["I1"]
    assert Run().feed(5, "STOPPED").arm().feed(140, "REST_UNKNOWN", at_rest=False).broken == ["I1"]
