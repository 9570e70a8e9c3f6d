"""What the link process decides: what goes out on cmd_vel, and what ends an arming."""
import math

import pytest

from steadyhand_firmware_bridge.agv_ros.link_core import (
    CancelGoals, GoalState, LinkCore, Navigation, Publish, SendGoal, Stage,
)
from steadyhand_firmware_bridge.agv_ros.wire import Alive, Begin, Goal, Halt, Hold, Odom, SetPoint
from tests.support.agv_ros_rig import config

DT_S = 0.02


class Rig:
    """A link with a guard that lives while `lives`."""

    def __init__(self, **changes):
        self.config, self.now_s, self.lives, self.seq = config(**changes), 100.0, True, 0
        self.core = LinkCore(self.config, self.now_s)
        self.acts = []

    def begin(self, token=7):
        self.core.take(Begin(token, self.now_s), self.now_s)
        return self

    def set_point(self, vx=0.3, omega=0.0, **changes):
        self.seq += 1
        fields = dict(token=7, seq=self.seq, stamp_s=self.now_s, vx_m_s=vx, vy_m_s=0.0, omega_rad_s=omega) | changes
        self.core.take(SetPoint(**fields), self.now_s)

    def goal(self, **changes):
        self.seq += 1
        fields = dict(token=7, seq=self.seq, stamp_s=self.now_s, x_m=1.0, y_m=0.0, yaw_rad=0.0) | changes
        self.core.take(Goal(**fields), self.now_s)

    def run(self, seconds, each=lambda: None, dt_s=DT_S):
        """The velocities that went out."""
        out = []
        for _ in range(round(seconds / dt_s)):
            self.now_s += dt_s
            if self.lives:
                self.core.take(Alive(self.now_s), self.now_s)
            each()
            self.acts = self.core.step(self.now_s)
            out += [a.velocity for a in self.acts if isinstance(a, Publish)]
        return out

    def moving(self, vx=0.3, omega=0.0):
        self.run(2.0, lambda: self.set_point(vx, omega))
        assert self.core.velocity == (vx, 0.0, omega)
        return self


def decelerations(out):
    return [(a[0] - b[0]) / DT_S for a, b in zip(out, out[1:])]


def test_nothing_goes_out_before_the_first_arming_and_zero_afterwards():
    rig = Rig()
    assert rig.run(0.5) == []
    out = rig.begin().run(0.5)
    assert out and set(out) == {(0.0, 0.0, 0.0)}


def test_a_set_point_is_reached_by_the_loads_ramp():
    rig = Rig().begin()
    out = rig.run(2.0, rig.set_point)
    assert max(-d for d in decelerations(out)) == pytest.approx(rig.config.limits.accel_m_s2)
    assert out[-1] == (0.3, 0.0, 0.0)
    out = rig.run(2.0, lambda: rig.set_point(0.1))
    assert max(decelerations(out)) == pytest.approx(rig.config.limits.decel_m_s2)


@pytest.mark.parametrize("load, stop", [("empty", 1.2), ("pallet", 0.3)])
def test_a_stop_ramps_to_zero_as_the_load_allows_and_holds_zero(load, stop):
    rig = Rig(load=load).begin().moving(0.3, 0.4)
    rig.core.take(Halt(rig.now_s), rig.now_s)
    out = [(0.3, 0.0, 0.4), *rig.run(3.0, rig.set_point)]  # whoever still commands
    assert max(decelerations(out)) == pytest.approx(stop)
    moving = [v for v in out if v[0]]
    assert len(moving) == pytest.approx(0.3 / stop / DT_S, abs=2)
    assert all(v[2] / v[0] == pytest.approx(0.4 / 0.3) for v in moving)  # on its curve
    assert out[-1] == (0.0, 0.0, 0.0) and rig.core.stage is Stage.STOPPED
    assert rig.core.counts["foreign"] == 150 and rig.core.token == 0


def test_a_set_point_expires_into_the_stops_ramp():
    rig = Rig().begin().moving()
    out = rig.run(2.0)
    last = next(k for k, v in enumerate(out) if v[0] < 0.3)
    assert last * DT_S == pytest.approx(rig.config.expire_s, abs=2 * DT_S)
    assert max(decelerations(out)) == pytest.approx(1.2) and out[-1] == (0.0, 0.0, 0.0)
    assert rig.core.counts["ran_out"] == 1 and rig.core.token == 7


@pytest.mark.parametrize("changes, reason", [
    (dict(token=8), "foreign"), (dict(token=0), "foreign"), (dict(seq=0), "reordered"),
    (dict(stamp_s=99.0), "expired"), (dict(stamp_s=1e9), "expired"), (dict(stamp_s=math.nan), "expired"),
    (dict(vx_m_s=math.nan), "beyond_limits"), (dict(vx_m_s=0.6), "beyond_limits"), (dict(vy_m_s=0.1), "beyond_limits"),
    (dict(omega_rad_s=math.inf), "beyond_limits"),
])  # fmt: skip
def test_a_set_point_that_is_wrong_is_counted_and_never_followed(changes, reason):
    rig = Rig().begin()
    rig.set_point(**changes)
    assert rig.core.counts == {reason: 1}
    assert set(rig.run(0.3)) == {(0.0, 0.0, 0.0)}


@pytest.mark.parametrize("changes", [dict(token=0), dict(token=-1), dict(stamp_s=99.0), dict(stamp_s=math.nan)])
def test_an_arming_that_is_late_or_has_no_token_is_none(changes):
    rig = Rig()
    rig.core.take(Begin(**(dict(token=7, stamp_s=rig.now_s) | changes)), rig.now_s)
    assert rig.core.token == 0 and rig.core.counts == {"arming_refused": 1}


def test_a_silent_guard_ends_the_arming_by_a_stop():
    rig = Rig().begin().moving()
    rig.lives = False
    out = rig.run(2.0, rig.set_point)
    assert out[-1] == (0.0, 0.0, 0.0) and rig.core.token == 0 and "guard was silent" in rig.core.ended
    rig.lives = True
    assert set(rig.run(0.5, rig.set_point)) == {(0.0, 0.0, 0.0)}  # and its return resumes nothing


def test_a_guard_that_dies_is_braked_for_and_then_the_link_ends():
    rig = Rig(load="pallet").begin().moving()
    rig.lives = False
    rig.core.guard_gone(rig.now_s)
    out = rig.run(0.9)
    assert max(decelerations(out)) == pytest.approx(0.3) and not rig.core.done(rig.now_s)
    out = rig.run(1.0)
    assert out[-1] == (0.0, 0.0, 0.0) and rig.core.done(rig.now_s)


def test_a_guard_that_dies_before_anything_was_armed_is_not_waited_for():
    rig = Rig()
    rig.core.guard_gone(rig.now_s)
    rig.lives = False
    assert rig.run(0.04) == [] and rig.core.done(rig.now_s)


def test_a_link_that_was_held_up_stops_from_what_is_measured():
    rig = Rig().begin().moving()
    rig.core.measured((0.1, 0.0, 0.0), rig.now_s + 0.75)
    rig.now_s += 0.8
    out = rig.run(0.3, rig.set_point)
    assert 0.0 < out[0][0] < 0.1 and out[-1] == (0.0, 0.0, 0.0) and "held up for 0.8" in rig.core.ended


def test_hold_slows_down_gently_and_resumes_by_new_set_points_only():
    rig = Rig().begin().moving()
    rig.core.take(Hold(7, True), rig.now_s)
    out = rig.run(2.0, rig.set_point)
    assert max(decelerations([(0.3,), *out])) == pytest.approx(rig.config.limits.decel_m_s2)
    assert out[-1] == (0.0, 0.0, 0.0) and rig.core.counts == {"not_now": 100}
    rig.core.take(Hold(7, False), rig.now_s)
    assert rig.run(0.3)[-1] == (0.0, 0.0, 0.0)
    rig.moving()


def test_a_stop_while_held_is_not_undone_by_resuming():
    rig = Rig().begin().moving()
    rig.core.take(Hold(7, True), rig.now_s)
    rig.core.take(Halt(rig.now_s), rig.now_s)
    rig.core.take(Hold(7, False), rig.now_s)
    assert rig.run(1.0, rig.set_point)[-1] == (0.0, 0.0, 0.0) and rig.core.stage is Stage.STOPPED


def test_under_nav2_nothing_goes_out_and_a_stop_begins_at_what_is_measured():
    rig = Rig(drive="nav2").begin()
    rig.goal()
    assert rig.run(DT_S) == [] and [type(a) for a in rig.acts] == [SendGoal]
    assert rig.run(1.0) == []  # told once
    rig.core.navigation = Navigation(1, GoalState.UNDER_WAY, "", True)
    rig.core.measured((0.4, 0.0, 0.2), rig.now_s)
    rig.core.take(Halt(rig.now_s), rig.now_s)
    first = rig.run(DT_S)
    assert CancelGoals() in rig.acts and first[0][0] == pytest.approx(0.4 - 1.2 * DT_S)
    cancelled = []
    out = rig.run(1.0, lambda: cancelled.append(CancelGoals() in rig.acts))
    assert out[-1] == (0.0, 0.0, 0.0) and sum(cancelled) == 4  # again every 0.3 s while Nav2 is busy
    rig.core.navigation = Navigation(1, GoalState.FAILED)
    assert rig.run(1.0) and not any(isinstance(a, CancelGoals) for a in rig.acts)


@pytest.mark.parametrize("twist", [(math.nan, 0.0, 0.0), (9.0, 0.0, 0.0), (0.4, 3.0, 50.0)])
def test_a_stop_under_nav2_never_begins_above_the_loads_limits(twist):
    rig = Rig(drive="nav2").begin()
    rig.core.measured(twist, rig.now_s)
    rig.core.take(Halt(rig.now_s), rig.now_s)
    (v,) = rig.run(DT_S)
    assert abs(v[0]) <= 0.5 and v[1] == 0.0 and abs(v[2]) <= 0.8


def test_a_goal_of_a_stopped_arming_or_no_number_is_not_sent():
    rig = Rig(drive="nav2").begin()
    rig.goal(x_m=math.nan)
    rig.goal(token=8)
    rig.set_point()
    rig.goal()
    rig.core.take(Halt(rig.now_s), rig.now_s)  # before it went out
    rig.run(0.2)
    assert not any(isinstance(a, SendGoal) for a in rig.acts)
    rig.core.take(Begin(9, rig.now_s), rig.now_s)
    rig.run(DT_S)
    assert rig.acts == []
    assert rig.core.counts == {"beyond_limits": 1, "foreign": 1, "not_now": 1}


def test_what_is_no_message_of_the_guard_is_counted():
    rig = Rig()
    rig.core.take(Odom(0.0, 0.0, "", "", [], []), rig.now_s)
    assert rig.core.counts == {"strange": 1}


def test_a_goal_that_was_held_before_it_went_out_is_not_sent_by_resuming():
    rig = Rig(drive="nav2").begin()
    rig.goal()
    rig.core.take(Hold(7, True), rig.now_s)
    rig.core.take(Hold(7, False), rig.now_s)
    rig.run(0.2)
    assert not any(isinstance(a, SendGoal) for a in rig.acts)
    rig.goal()
    rig.run(DT_S)
    assert any(isinstance(a, SendGoal) for a in rig.acts)
