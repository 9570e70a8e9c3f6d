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


def test_speed_that_rises_while_stopping(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(10, "STOPPED", 0.3).feed(1, "STOPPED", 0.5)
    assert run.broken == ["I1"]


def test_a_stop_that_never_rests(run):
    run.monitor.allow_motion(True)
    run.feed(5, "ARMED_AUTO", 0.3).feed(140, "STOPPED", 0.3)
    assert run.broken == ["I1"]


def test_motion_that_nobody_asked_for(run):
    run.feed(5, "ARMED_AUTO", 0.3)
    assert run.broken == ["I2"]


def test_a_token_used_twice(run):
    run.feed(5, "STOPPED").feed(1, "ARMED_AUTO")
    assert run.broken == ["I3"]


def test_states_out_of_order(run):
    run.feed(1, "ARMED_AUTO", stamp_s=0.001)
    assert "I3" in run.broken


def test_not_finite_when_armed_only(run):
    run.feed(1, "ARMED_AUTO", q_commanded_rad=[float("nan")] + [0.0] * 5)
    assert run.broken == ["I4"]
    early = Run().feed(3, "STOPPED", q_commanded_rad=[float("nan")] * 6)
    assert early.broken == []


def test_a_stop_that_opens_the_gripper(run):
    run.feed(3, "STOPPED", gripper_commanded_m=0.0)
    assert run.broken == ["I12"]
