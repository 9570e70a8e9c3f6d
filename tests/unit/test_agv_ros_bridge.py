"""The ROS bridge under the vehicle's guard, both sides of it in virtual time: what each fault does, by name."""
import dataclasses
import itertools
import math

import pytest

from steadyhand.agv import DriveTo, TaskState, Velocity, Waypoint
from steadyhand.guard_protocol import Arm, Drive, Heartbeat, Pause, Reply, Stop, Twist, Verdict
from steadyhand_firmware_bridge.agv_ros.link_core import GoalState, Navigation, SendGoal
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig
from steadyhand_firmware_bridge.guard.agv_core import AgvGuard
from tests.support.agv_ros_rig import World, config


class Rig:
    """Guard, bridge, link and base; a commander that drives while `commands`."""

    def __init__(self, **changes):
        self.world = World(config(**changes))
        self.agv, self.answers, tokens = self.world.agv, [], itertools.count(500)
        self.guard = AgvGuard(
            self.agv, AgvGuardConfig(rest_gap_s=0.5), "secret", lambda: next(tokens),
            lambda _, m: self.answers.append(m), self.world.now_s,
        )
        self.guard.open(self.world.now_s)
        self.guard.commander_changed("commander", self.world.now_s)
        self.state, self.commands, self.vx = None, False, 0.4
        self.run(0.5)

    @property
    def now_s(self):
        return self.world.now_s

    def run(self, seconds, each=lambda: None, until=None):
        for _ in range(round(seconds / self.agv.period_s)):
            self.world.tick(guard=False)
            each()
            self.state = self.guard.cycle(self.now_s)
            self.guard.handle("commander", Heartbeat("shell", True), self.now_s)
            if self.commands:
                s = self.state
                self.guard.handle("commander", Twist(s.token, s.stamp_s, "t", self.vx, 0.0, 0.0), self.now_s)
            if until is not None and until():
                return True
        return until is None

    def arm(self):
        self.guard.handle("operator", Arm("auto", "secret", "r"), self.now_s)
        self.run(1.0)
        return next(m for m in reversed(self.answers) if isinstance(m, Reply))

    def drive(self):
        s = self.state
        message = Drive(s.token, s.stamp_s, "t", "task", ["a", "b", "c"], [[0.0, 0.0], [2.0, 0.0], [4.0, 0.0]])
        self.guard.handle("commander", message, self.now_s)

    def moving(self):
        reply = self.arm()
        assert reply.ok, reply
        self.commands = not self.agv.config.nav2
        if self.agv.config.nav2:
            self.drive()
        assert self.run(3.0, until=lambda: self.world.base.v[0] > 0.3), self.answers[-1]
        return self

    def verdict(self):
        return next(m for m in reversed(self.answers) if isinstance(m, Verdict))


def spoilt(**changes):
    def set_spoil(rig):
        rig.world.spoil = lambda odom: dataclasses.replace(odom, **changes)

    return set_spoil


def shifted(rig):
    rig.world.spoil = lambda o: dataclasses.replace(o, pose=[o.pose[0] + 3.0, *o.pose[1:]])


def graph(**changes):
    return lambda rig: rig.world.graph.update(changes)


def crash(rig):
    rig.world.link.crash()


FAULTS = {
    "feedback_lost:odom_stale": lambda rig: setattr(rig.world, "spoil", lambda odom: None),
    "feedback_lost:odom_not_finite": spoilt(twist=[math.nan] * 6),
    "feedback_lost:odom_frame": spoilt(frame="map"),
    "feedback_lost:odom_jump": shifted,
    "feedback_lost:odom_back_in_time": lambda rig: setattr(rig.world, "clock_s", rig.world.clock_s - 5.0),
    "feedback_lost:odom_speed": spoilt(twist=[7.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
    "feedback_lost:odom_publishers": graph(odom=[["/base", "nav_msgs/msg/Odometry"], ["/x", "nav_msgs/msg/Odometry"]]),
    "feedback_lost:odom_type": graph(odom=[["/base", "geometry_msgs/msg/PoseStamped"]]),
    "agv_foreign: /joystick also publishes to /cmd_vel": graph(others=["/joystick"]),
    "robot_mode:cmd_vel_type: /base takes /cmd_vel as geometry_msgs/msg/Twist, we send geometry_msgs/msg/TwistStamped: "
    "set vehicle.cmd_vel_type: Twist": graph(takers=[["/base", "geometry_msgs/msg/Twist"]], matched=0),
    "robot_unreachable: nobody listens to /cmd_vel": graph(takers=[], matched=0),
    "robot_unreachable: /base listens to /cmd_vel with another quality of service": graph(matched=0),
    "robot_unreachable: the link process has gone": crash,
    "robot_unreachable: the link process has been silent": lambda rig: setattr(rig.world, "link_frozen", True),
}


@pytest.mark.parametrize("drive", ["cmd_vel", "nav2"])
@pytest.mark.parametrize("cause", FAULTS)
def test_each_fault_disarms_by_its_name_and_nobody_resumes(cause, drive):
    rig = Rig(drive=drive).moving()
    FAULTS[cause](rig)
    assert rig.run(1.0, until=lambda: not rig.guard.state.armed)
    assert any(c.startswith(cause) for c in rig.state.causes), rig.state.causes
    rig.world.link_frozen = False
    rig.run(3.0)
    assert not rig.guard.state.armed
    assert rig.world.base.v == (0.0, 0.0, 0.0)
    rig.world.spoil = lambda odom: odom
    rig.run(3.0)
    assert rig.world.base.v == (0.0, 0.0, 0.0) and rig.agv.feedback().task_state in (TaskState.NONE, TaskState.STOPPED)


@pytest.mark.parametrize("cause", FAULTS)
def test_each_fault_that_persists_forbids_arming(cause):
    rig = Rig()
    FAULTS[cause](rig)
    rig.run(0.8)
    if cause.startswith("robot_unreachable: the link process has gone"):
        assert rig.run(2.0, until=lambda: not rig.agv.troubles(rig.now_s)) and rig.world.started == 2
    elif "jump" not in cause and "back_in" not in cause:  # told for a second, then a new beginning
        reply = rig.arm()
        assert not reply.ok and any(c.startswith(cause) for c in reply.causes), reply
    assert all(v == (0.0, 0.0, 0.0) for _, v in rig.world.published)


@pytest.mark.parametrize("drive", ["cmd_vel", "nav2"])
def test_a_stop_is_measured_rest_and_latched(drive):
    rig = Rig(drive=drive).moving()
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    assert rig.run(2.0, until=lambda: rig.state.mode == "STOPPED" and rig.state.at_rest)
    at = rig.world.base.x_m
    rig.run(2.0)
    assert rig.world.base.x_m == at and rig.world.published[-1][1] == (0.0, 0.0, 0.0)
    assert rig.world.published[-1][0] > rig.now_s - 0.03  # zero is held
    rig.commands = False
    rig.moving()


@pytest.mark.parametrize("load, decel", [("empty", 1.2), ("pallet", 0.3)])
def test_the_way_of_a_stop_is_the_loads(load, decel):
    rig = Rig(load=load).moving()
    rig.run(2.0)
    v, at = rig.world.base.v[0], rig.world.base.x_m
    rig.commands = False
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(4.0)
    assert v == 0.4 and rig.world.base.x_m - at == pytest.approx(v * v / (2 * decel), abs=0.02)


def test_a_link_that_is_started_anew_is_told_the_stop_and_holds_zero():
    rig = Rig().moving()
    rig.world.link.crash()
    rig.run(4.0)
    assert rig.world.started == 2 and rig.world.link.core.stage.value == "stopped"
    assert rig.agv.counters()["link:restarts"] == 1
    rig.commands = False
    rig.moving()


def test_a_link_that_hangs_is_ended_and_started_anew():
    rig = Rig().moving()
    rig.world.link_frozen = True
    rig.run(4.0)
    assert not rig.guard.state.armed and rig.world.started == 1
    rig.world.link_frozen = False
    rig.world.link.cycle = lambda now_s: None  # this one alone hangs
    rig.run(3.0)
    assert rig.world.started == 2
    rig.commands = False
    assert rig.run(2.0, until=lambda: rig.state.mode == "STOPPED")
    rig.moving()


def test_a_link_that_cannot_be_started_is_named_and_tried_again():
    rig, opens = Rig(), []

    def refuse(config):
        opens.append(rig.now_s)
        raise OSError(11, "Resource temporarily unavailable")

    open_link, rig.agv._open_link = rig.agv._open_link, refuse
    rig.world.link.crash()
    rig.run(4.0)
    assert "cannot be started: [Errno 11]" in str(rig.state.causes) and 2 <= len(opens) <= 4
    rig.agv._open_link = open_link
    rig.run(5.0)
    assert rig.moving()


def test_a_hold_is_no_stop_and_a_velocity_is_taken_again_after_it():
    rig = Rig().moving()
    pause = Pause(rig.state.token, rig.state.stamp_s, "p", True)
    rig.guard.handle("commander", pause, rig.now_s)
    rig.run(2.0)  # whoever commands on is refused
    assert rig.guard.state.armed and rig.world.base.v == (0.0, 0.0, 0.0) and "held: resume" in rig.verdict().detail
    rig.guard.handle("commander", dataclasses.replace(pause, hold=False, state_stamp_s=rig.state.stamp_s), rig.now_s)
    assert rig.run(2.0, until=lambda: rig.world.base.v[0] > 0.3)


def test_a_guard_that_freezes_comes_back_to_a_stopped_vehicle():
    rig = Rig().moving()
    rig.world.run(1.5, guard=False)
    assert rig.world.base.v == (0.0, 0.0, 0.0)
    rig.run(0.5)
    assert not rig.guard.state.armed and "the guard was silent" in str(rig.state.causes), rig.state.causes


def test_what_is_above_the_loads_limits_is_refused_and_named():
    rig = Rig()
    assert rig.arm().ok
    rig.commands, rig.vx = True, 0.6
    rig.run(0.2)
    assert "vx_m_s=0.6: give at most 0.5 m/s with this load" in rig.verdict().detail
    assert rig.world.base.v == (0.0, 0.0, 0.0)


def test_a_vehicle_that_moves_is_not_armed():
    rig = Rig()

    def pushed():
        rig.world.base.told, rig.world.base.told_s = (0.1, 0.0, 0.0), rig.now_s

    rig.world.run(0.2, pushed)
    rig.agv.begin_arming(9, rig.now_s)
    assert rig.world.run(6.0, pushed, lambda: rig.agv.arming().phase.value == "failed")
    assert "it moves" in rig.agv.arming().detail


def armed_nav():
    rig = Rig(drive="nav2")
    assert rig.arm().ok
    return rig


A, B = Waypoint("a", 0.0, 0.0), Waypoint("b", 1.0, 0.0)


@pytest.mark.parametrize("command, says", [
    (DriveTo("t", (A, B), 0.5), "speed_m_s=0.5: Nav2 has limits of its own"),
    (DriveTo("t", (A, dataclasses.replace(B, map_id="hall"))), "waypoints[1].map_id='hall': give 'map'"),
    (Velocity(0.1, 0.0, 0.0), "driven by orders"),
])  # fmt: skip
def test_what_nav2_cannot_be_told_is_refused(command, says):
    assert says in armed_nav().agv.go(command, 0.0)


def test_way_points_are_goals_one_after_the_other_with_the_way_as_heading():
    rig = armed_nav()
    rig.drive()
    assert rig.run(30.0, until=lambda: rig.state.task_state == "arrived"), rig.state
    assert [(g.x_m, g.yaw_rad) for g in rig.world.nav.goals] == [(2.0, 0.0), (4.0, 0.0)]
    assert rig.state.last_waypoint == "c" and rig.guard.state.armed


def test_a_stop_is_not_at_rest_before_nav2_has_given_the_goal_up():
    rig = Rig(drive="nav2").moving()
    rig.world.nav.deaf = True
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(3.0)
    assert rig.state.mode == "REST_UNKNOWN" and rig.world.base.v == (0.0, 0.0, 0.0)  # by the mux
    rig.world.nav.deaf = False
    assert rig.run(1.0, until=lambda: rig.state.mode == "STOPPED")


def test_somebody_elses_goal_stops_and_is_named():
    rig = armed_nav()
    rig.world.nav.foreign = 1
    rig.run(0.5)
    assert "agv_foreign: /navigate_to_pose has a goal of somebody else" in str(rig.state.causes)
    assert rig.world.nav.foreign == 0  # a stop cancels every goal


def test_no_action_server_is_named():
    rig = armed_nav()
    rig.world.graph["server"] = False
    rig.run(0.2)
    assert "no action server /navigate_to_pose: is Nav2 active?" in str(rig.state.causes)


def test_a_goal_that_nav2_gives_up_fails_the_task_with_its_words():
    rig = Rig(drive="nav2").moving()
    nav = rig.world.nav
    nav.goal = None
    nav.state = dataclasses.replace(nav.state, state=GoalState.FAILED, detail="no valid path", busy=False)
    rig.run(0.2)
    assert rig.state.task_state == "failed" and rig.state.task_detail == "no valid path"


def test_a_goal_that_nav2_does_not_answer_is_a_stop_for_it_may_still_be_driven():
    rig = armed_nav()
    nav = rig.world.nav
    take, cancelled = nav.act, []

    def deaf(act):
        if isinstance(act, SendGoal):
            nav.state = Navigation(act.goal.seq, GoalState.SENT, "", True)
        else:
            cancelled.append(act)

    nav.act = deaf
    rig.drive()
    assert rig.run(5.0, until=lambda: not rig.guard.state.armed)
    assert "robot_mode:nav2: Nav2 did not answer the goal" in str(rig.state.causes)
    assert rig.run(1.0, until=lambda: len(cancelled) > 1) and not rig.state.at_rest
    nav.act, nav.state = take, Navigation()
    rig.run(1.0)
    assert rig.arm().ok


def test_publishers_that_are_allowed_are_no_strangers():
    rig = Rig(other_publishers=("/joystick",))
    rig.world.graph["others"] = ["/joystick"]
    assert rig.moving()
