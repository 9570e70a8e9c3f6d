"""The vehicle's guard against the in-process vehicle, time as an argument; and beside an arm's guard (I13)."""
import itertools
from dataclasses import replace

import numpy as np
import pytest

from steadyhand import cell as arm_cell
from steadyhand import guard_state as gs
from steadyhand import kinematics
from steadyhand.agv import AgvKind
from steadyhand.errors import ConfigError
from steadyhand.guard_protocol import (
    Arm, Drive, Gripper, Heartbeat, Link, Pause, Reply, Stop, Twist, VehicleAct, Verdict, decode, encode,
)  # fmt: skip
from steadyhand_firmware_bridge.fake_agv import FakeAgv
from steadyhand_firmware_bridge.guard.agv_config import AgvGuardConfig, load
from steadyhand_firmware_bridge.guard.agv_core import AgvGuard
from tests.unit import test_guard_core as arm_core

CREDENTIAL, DT_S, NAN = "secret", 0.02, float("nan")


class Rig:
    def __init__(self, kind=AgvKind.ORDER, **config):
        self.agv, self.now_s = FakeAgv(kind, DT_S), 100.0
        self.answers, tokens, self.trace = [], itertools.count(2000), itertools.count()
        self.guard = AgvGuard(
            self.agv, AgvGuardConfig(**config), CREDENTIAL, lambda: next(tokens), self.answered, self.now_s
        )
        self.guard.open(self.now_s)
        self.shell, self.beats, self.state = "commander", True, None
        self.guard.commander_changed(self.shell, self.now_s)

    def answered(self, client, message):
        self.answers.append(decode(encode(message)))

    def run(self, seconds, each=lambda: None):
        for _ in range(round(seconds / DT_S)):
            self.now_s += DT_S
            self.state = decode(encode(self.guard.cycle(self.now_s)))
            if self.beats:
                self.guard.handle(self.shell, Heartbeat("shell", True), self.now_s)
            each()
        return self

    def last(self, kind):
        return next(m for m in reversed(self.answers) if isinstance(m, kind))

    def arm(self, credential=CREDENTIAL, mode="auto"):
        self.guard.handle("operator", Arm(mode, credential, "r"), self.now_s)
        self.run(0.3)
        return self.last(Reply)

    def drive(self, goal_m=5.0, client=None, **changes):
        fields = dict(
            token=self.state.token, state_stamp_s=self.state.stamp_s, trace_id=f"t{next(self.trace)}", task_id="t",
            names=["a", "b"], poses=[[0.0, 0.0], [goal_m, 0.0]],
        ) | changes  # fmt: skip
        self.guard.handle(client or self.shell, Drive(**fields), self.now_s)

    def twist(self, vx=0.3, **changes):
        fields = dict(
            token=self.state.token, state_stamp_s=self.state.stamp_s, trace_id=f"t{next(self.trace)}", vx_m_s=vx,
            vy_m_s=0.0, omega_rad_s=0.0,
        ) | changes  # fmt: skip
        self.guard.handle(self.shell, Twist(**fields), self.now_s)

    def speed(self):
        return self.agv.feedback().twist_m_s_rad_s[0]


def moving(kind=AgvKind.ORDER, **config):
    rig = Rig(kind, **config).run(0.5)
    assert rig.arm().ok, rig.last(Reply)
    if kind is AgvKind.ORDER:
        rig.drive()
        rig.run(1.0)
    else:
        rig.run(1.0, rig.twist)
    assert rig.speed() > 0.2, rig.last(Verdict)
    return rig


KINDS = pytest.mark.parametrize("kind", list(AgvKind), ids=lambda kind: kind.value)


def test_it_starts_stopped_and_takes_the_credential_only():
    rig = Rig().run(0.5)
    assert rig.state.mode == "STOPPED" and rig.state.at_rest
    rig.drive()
    assert rig.last(Verdict).reason == "not_armed"
    assert rig.arm("wrong").causes == ["credential refused"]
    assert rig.arm().ok and rig.state.mode == "ARMED_AUTO"


ACTS = {
    "stop": lambda rig: rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s),
    "e-stop of the vehicle": lambda rig: setattr(rig.agv, "e_stop", True),
    "manual": lambda rig: setattr(rig.agv, "operating_mode", "MANUAL"),
    "another master": lambda rig: setattr(rig.agv, "foreign", True),
    "unreachable": lambda rig: setattr(rig.agv, "reachable", False),
    "commander gone": lambda rig: rig.guard.commander_changed(None, rig.now_s),
    "commander frozen": lambda rig: setattr(rig, "beats", False),
    "fault": lambda rig: rig.guard.fault("internal_error", "x", rig.now_s),
    "disarm": lambda rig: rig.guard.handle("operator", Arm("disarm", "", "r"), rig.now_s),
    "operator silent": lambda rig: rig.guard.handle("pendant", Link("anna", True), rig.now_s),
}


@KINDS
@pytest.mark.parametrize("act", ACTS)
def test_whatever_stops_it_is_latched_and_resumed_by_nobody(act, kind):
    rig = moving(kind)
    ACTS[act](rig)
    command = rig.twist if kind is AgvKind.VELOCITY else rig.drive
    rig.run(0.7, lambda: command() if rig.beats else None)
    assert not rig.guard.state.armed and rig.agv.stops >= 1
    rig.agv.reachable, rig.agv.e_stop, rig.agv.foreign, rig.agv.operating_mode = True, False, False, "AUTOMATIC"
    rig.beats = True
    rig.run(5.0)
    if act != "unreachable":  # the fake drives on to its goal when nobody reaches it: no bridge of ours repeats there
        assert rig.speed() == 0.0 and rig.state.at_rest
    assert rig.state.mode in ("STOPPED", "REST_UNKNOWN") and rig.state.causes


def test_rest_that_is_not_measured_is_said_to_be_unknown():
    rig = moving()
    rig.agv.deaf = True
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(2.5)
    assert rig.state.mode == "REST_UNKNOWN" and not rig.arm().ok
    stops = rig.agv.stops
    assert stops >= 2


def test_a_velocity_that_is_not_renewed_stops():
    rig = moving(AgvKind.VELOCITY)
    rig.run(0.4)
    assert rig.guard.state.armed
    rig.run(0.2)
    assert not rig.guard.state.armed and "command_source_silent" in str(rig.state.causes)


@KINDS
def test_after_a_stop_rest_is_measured_anew_and_nothing_of_the_arming_before_is_left(kind):
    rig = Rig(kind).run(0.5)
    rig.guard.handle("operator", Arm("manual", CREDENTIAL, "r", command=True), rig.now_s)
    rig.run(0.3)
    rig.shell, shell = "operator", rig.shell
    move = rig.twist if kind is AgvKind.VELOCITY else rig.drive
    move()
    assert rig.last(Verdict).accepted and rig.state.at_rest
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(0.06)
    assert not rig.state.at_rest
    rig.run(1.0)
    rig.shell = shell
    assert rig.arm().ok
    rig.run(1.0)
    assert rig.state.mode == "ARMED_AUTO" and rig.speed() == 0.0
    move()
    assert rig.last(Verdict).accepted


def test_a_vehicle_that_was_told_to_stand_needs_no_further_command_nor_commander():
    rig = moving(AgvKind.VELOCITY)
    rig.twist(0.0)
    rig.run(2.0)
    assert rig.speed() == 0.0
    rig.beats = False
    rig.run(2.0)
    assert rig.guard.state.armed


def test_a_held_task_still_needs_its_commander():
    rig = moving()
    rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "h", True), rig.now_s)
    rig.run(2.0)
    assert rig.guard.state.armed and not rig.agv.feedback().driving
    rig.beats = False
    rig.run(0.6)
    assert "shell_lost" in str(rig.state.causes)


def test_in_recover_no_task_is_taken():
    rig = Rig().run(0.5)
    assert rig.arm(mode="recover").ok
    rig.drive()
    assert rig.last(Verdict).reason == "not_armed" and "RECOVERING" in rig.last(Verdict).detail


RESTLESS = {
    "driving, it says": lambda f: dict(driving=True),
    "turning": lambda f: dict(twist_m_s_rad_s=(0.0, 0.0, -0.02)),
    "no number": lambda f: dict(twist_m_s_rad_s=(0.0, NAN, 0.0)),
    "old state": lambda f: dict(stamp_s=f.stamp_s - 1.0),
    "old twist": lambda f: dict(twist_stamp_s=f.stamp_s - 1.0),
}


@pytest.mark.parametrize("why", RESTLESS)
def test_rest_is_not_taken_for_granted(why):
    rig = Rig(rest_gap_s=0.5).run(0.5)
    assert rig.state.at_rest
    measured = rig.agv.feedback
    rig.agv.feedback = lambda: replace(measured(), **RESTLESS[why](measured()))
    rig.run(0.6)
    assert not rig.state.at_rest and "rest not measured" in str(rig.arm().causes)


def test_a_task_goes_on_without_new_commands_while_its_commander_lives():
    rig = moving()
    rig.run(3.0)
    assert rig.guard.state.armed and rig.speed() > 0.2


@pytest.mark.parametrize("changes, reason", [
    (dict(token=1), "foreign_token"), (dict(state_stamp_s=1.0), "expired"), (dict(state_stamp_s=1e9), "from_future"),
    (dict(state_stamp_s=NAN), "from_future"), (dict(poses=[[0.0], [1.0, 0.0]]), "malformed"),
    (dict(names=["a"]), "malformed"), (dict(poses=[[0.0, 0.0], [float("nan"), 0.0]]), "malformed"),
    (dict(client="stranger"), "second_commander"),
])  # fmt: skip
def test_what_is_late_foreign_or_wrong_is_refused_by_name(changes, reason):
    rig = Rig().run(0.5)
    assert rig.arm().ok
    rig.drive(**changes)
    rig.run(0.5)
    assert rig.last(Verdict).reason == reason and rig.speed() == 0.0
    assert rig.guard.counters()[f"refused:{reason}"] == 1


WIDE = "\U0001f6a7"  # four bytes on the wire


def test_thousands_of_errors_and_long_names_of_a_vehicle_leave_every_state_and_answer_readable():
    rig = moving()
    measured = rig.agv.feedback
    rig.agv.feedback = lambda: replace(measured(), last_waypoint=WIDE * 60000)
    rig.agv.troubles = lambda now_s: {f"robot_mode:{i}{WIDE * 40}": WIDE * 200 for i in range(5000)}
    rig.run(0.1)
    assert not rig.guard.state.armed and len(rig.state.causes) == gs.MAX_CAUSES
    assert not rig.arm().ok and rig.last(Reply).causes
    rig.agv.troubles = lambda now_s: {}
    rig.run(3.0)
    assert rig.arm().ok and len(rig.last(Reply).snapshot["last_waypoint"]) < 1000


def test_hold_and_go_on():
    rig = moving()
    rig.guard.handle(rig.shell, Pause(rig.state.token, 0.0, "h", True), rig.now_s)
    rig.run(2.0)
    assert rig.last(Verdict).accepted and rig.speed() == 0.0 and rig.guard.state.armed
    for stamp_s, reason in ((rig.now_s - 0.6, "expired"), (rig.now_s + 1.0, "from_future"), (NAN, "from_future")):
        rig.guard.handle(rig.shell, Pause(rig.state.token, stamp_s, "late", False), rig.now_s)
        assert rig.last(Verdict).reason == reason
    rig.run(1.0)
    assert rig.speed() == 0.0
    rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "g", False), rig.now_s)
    rig.run(1.0)
    assert rig.speed() > 0.2


# --- beside an arm's guard ---

OVER_M = (-2.0, -2.0, -2.0, 2.0, 2.0, 2.0)  # the arm can only be in it
FAR_M = (5.0, 5.0, 0.0, 6.0, 6.0, 1.0)  # and never in this one


class Cell:
    """An arm's and a vehicle's guard that hear each other after each cycle of the vehicle's."""

    def __init__(self, zone_m, kind=AgvKind.ORDER, **agv):
        self.arm = arm_core.Rig(name="arm", peers={"agv": "x"}, interlock=("agv",), interlock_zone_m=zone_m)
        self.agv = Rig(kind, name="agv", peers={"arm": "x"}, interlock=("arm",), **agv)
        self.run(0.5)

    def run(self, seconds, each=lambda: None):
        for _ in range(round(seconds / DT_S)):
            self.agv.run(DT_S)
            self.arm.run(3 * arm_core.DT_S)  # nearly as long; they have clocks of their own
            self.arm.guard.peer_beat(self.agv.guard.beat(), self.arm.now_s)
            self.agv.guard.peer_beat(self.arm.guard.beat(), self.agv.now_s)
            each()

    def armed(self):
        self.agv.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), self.agv.now_s)
        self.arm.guard.handle("operator", Arm("auto", arm_core.CREDENTIAL, "r"), self.arm.now_s)
        self.run(0.5)
        assert self.agv.guard.state.armed and self.arm.guard.state.armed
        return self


def test_a_vehicle_never_leaves_under_an_arm_that_is_not_clear():
    cell = Cell(OVER_M).armed()
    assert "over the vehicle" in cell.agv.state.interlock
    cell.agv.drive()
    cell.run(1.0)
    assert "interlock" in cell.agv.last(Verdict).detail and cell.agv.speed() == 0.0
    assert cell.agv.guard.state.armed and cell.arm.guard.state.armed  # refused, and nobody had to stop


def test_an_arm_that_has_left_by_its_newest_plan_is_clear():
    home_m = kinematics.pose_base_link_tool(np.array(arm_cell.HOME_Q_RAD))[:3, 3]
    cell = Cell((*(home_m - 0.02), *(home_m + 0.02))).armed()
    assert "over the vehicle" in cell.agv.state.interlock
    way = 0.2 * (1 - np.cos(np.pi * np.linspace(0.0, 1.0, 31)[1:])) / 2  # one plan: it begins in the zone, ends beyond
    q_rad = np.array(arm_cell.HOME_Q_RAD) + np.outer(way, [1, 0, 0, 0, 0, 0])
    assert cell.arm.chunk(source="planner", q_rad=q_rad.tolist()).accepted
    cell.run(3.0)
    assert cell.arm.guard.state.armed and not cell.agv.state.interlock
    cell.agv.drive()
    cell.run(1.0)
    assert cell.agv.speed() > 0.2


def test_a_vehicle_leaves_when_the_arm_is_clear_and_says_so_first():
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    assert cell.agv.guard.beat().zone and cell.agv.guard.agv.feedback().task_id == ""  # told first
    cell.run(1.0)
    assert cell.agv.speed() > 0.2


def test_the_arm_is_told_from_before_the_vehicle_leaves_until_it_rests():
    cell = Cell(FAR_M).armed()
    assert not cell.agv.guard.beat().zone
    told = []
    cell.agv.drive(1.0)
    cell.run(0.08, lambda: told.append((bool(cell.agv.guard.beat().zone), cell.agv.guard.agv.feedback().task_id)))
    assert told == [(True, "")] * 4
    cell.run(1.0, lambda: told.append((bool(cell.agv.guard.beat().zone), cell.agv.guard.agv.feedback().task_id)))
    assert cell.agv.speed() > 0.2 and all(zone for zone, _ in told)
    cell.run(6.0)
    assert cell.agv.speed() == 0.0 and cell.agv.guard.state.armed and not cell.agv.guard.beat().zone


def test_a_velocity_begins_when_the_arm_has_been_told():
    cell = Cell(FAR_M, kind=AgvKind.VELOCITY).armed()
    cell.run(0.08, cell.agv.twist)
    assert cell.agv.guard.beat().zone and cell.agv.speed() == 0.0 and "being told" in cell.agv.last(Verdict).detail
    cell.run(1.0, cell.agv.twist)
    assert cell.agv.speed() > 0.2


def test_the_arm_is_told_of_a_vehicle_that_somebody_else_moves():
    cell = Cell(FAR_M)
    measured = cell.agv.guard.agv.feedback
    cell.agv.guard.agv.feedback = lambda: replace(measured(), driving=True)
    cell.run(0.1)
    assert cell.agv.guard.beat().zone


def test_an_arm_that_is_over_the_vehicle_by_the_time_it_would_leave_keeps_it():
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    cell.arm.guard.zone = type(cell.arm.guard.zone)(OVER_M)
    cell.run(1.0)
    assert "interlock" in cell.agv.last(Verdict).detail and not cell.agv.last(Verdict).accepted
    assert cell.agv.guard.agv.feedback().task_id == "" and cell.agv.guard.state.armed


@pytest.mark.parametrize("pose", [None, (NAN, 0.0, 0.0), (49.0, 0.0, 0.0)])
def test_near_the_arm_is_also_where_the_vehicle_does_not_know_its_place(pose):
    cell = Cell(OVER_M, interlock_xy_m=(50.0, 0.0)).armed()
    assert not cell.agv.state.interlock
    measured = cell.agv.guard.agv.feedback
    cell.agv.guard.agv.feedback = lambda: replace(measured(), pose_m_rad=pose)
    cell.agv.drive()
    assert "interlock" in cell.agv.last(Verdict).detail


def test_a_hold_before_the_vehicle_left_keeps_it_where_it_is():
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    cell.agv.guard.handle(cell.agv.shell, Pause(cell.agv.state.token, cell.agv.state.stamp_s, "h", True), cell.agv.now_s)
    refused, held = [m for m in cell.agv.answers if isinstance(m, Verdict)][-2:]
    assert refused.detail == "held before it began" and held.accepted
    cell.agv.guard.handle(cell.agv.shell, Pause(cell.agv.state.token, cell.agv.now_s, "g", False), cell.agv.now_s)
    cell.run(1.0)
    assert cell.agv.speed() == 0.0 and cell.agv.guard.agv.feedback().task_id == ""


def test_an_operators_resume_and_pause_heed_the_arm_too():
    cell = Cell(OVER_M).armed()
    cell.agv.agv.hold(cell.agv.now_s)
    cell.run(0.1)
    act = dict(token=cell.agv.state.token, state_stamp_s=cell.agv.state.stamp_s)
    cell.agv.guard.handle("operator", VehicleAct("resume", CREDENTIAL, "q", **act), cell.agv.now_s)
    cell.run(0.5)
    assert "interlock" in cell.agv.last(Reply).message and cell.agv.state.paused
    clear = Cell(FAR_M).armed()
    clear.agv.drive()
    clear.agv.guard.handle("operator", VehicleAct("pause", "", "q"), clear.agv.now_s)
    assert clear.agv.last(Verdict).detail == "held before it began" and clear.agv.last(Reply).ok
    clear.run(1.0)
    assert clear.agv.speed() == 0.0 and clear.agv.guard.agv.feedback().task_id == ""


def test_what_an_operator_paused_only_an_operator_lets_go_on():
    rig = moving()
    rig.guard.handle("operator", VehicleAct("pause", "", "p"), rig.now_s)
    assert rig.last(Reply).ok
    rig.run(2.0)
    for drive in (
        lambda: rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "g", False), rig.now_s),
        lambda: rig.drive(),
        lambda: rig.guard.handle(rig.shell, Twist(rig.state.token, rig.state.stamp_s, "t", 0.1, 0.0, 0.0), rig.now_s),
    ):
        drive()
        assert not rig.last(Verdict).accepted and "an operator resumes it" in rig.last(Verdict).detail
    rig.run(1.0)
    assert rig.speed() == 0.0 and rig.guard.state.armed
    act = dict(token=rig.state.token, state_stamp_s=rig.state.stamp_s)
    rig.guard.handle("operator", VehicleAct("resume", "wrong", "r", **act), rig.now_s)
    assert not rig.last(Reply).ok
    rig.agv._paused = False  # let go at the vehicle's own panel: here it stays paused until an operator says so here
    rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "g", False), rig.now_s)
    assert not rig.last(Verdict).accepted
    rig.guard.handle("operator", VehicleAct("resume", CREDENTIAL, "r", **act), rig.now_s)
    assert rig.last(Reply).ok
    rig.run(1.0)
    assert rig.speed() > 0.2
    rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "h", True), rig.now_s)
    rig.run(2.0)
    rig.guard.handle(rig.shell, Pause(rig.state.token, rig.state.stamp_s, "g", False), rig.now_s)
    assert rig.last(Verdict).accepted  # a commander's own pause is its own


def test_a_stop_ends_an_operators_pause_too():
    rig = moving()
    rig.guard.handle("operator", VehicleAct("pause", "", "p"), rig.now_s)
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(3.0)
    assert rig.arm().ok
    rig.drive()
    rig.run(1.0)
    assert rig.last(Verdict).accepted and rig.speed() > 0.2


def test_a_command_that_waits_is_refused_by_a_stop_and_begins_in_no_later_arming():
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    cell.agv.guard.stop_requests([(Stop("panel"), 1)], cell.agv.now_s)
    assert cell.agv.last(Verdict).detail == "stopped"
    cell.run(0.5)
    cell.armed()
    cell.run(1.0)
    assert cell.agv.speed() == 0.0 and cell.agv.guard.agv.feedback().task_id == ""


def test_an_arms_command_is_refused_by_name():
    rig = Rig().run(0.5)
    assert rig.arm().ok
    rig.guard.handle(rig.shell, Gripper(rig.state.token, 0.0, "g"), rig.now_s)
    assert rig.last(Verdict).reason == "malformed" and "takes Drive, Twist, Pause" in rig.last(Verdict).detail


def test_way_points_without_names_are_told():
    rig = Rig().run(0.5)
    assert rig.arm().ok
    rig.drive(names=["a", "b", "c"])
    assert rig.last(Verdict).detail == "names: 3, poses: 2; give a name and a pose for each way-point"


def test_of_two_commands_that_wait_the_newer_is_carried_out():
    cell = Cell(FAR_M).armed()
    cell.agv.drive(task_id="older")
    cell.agv.drive(task_id="newer")
    assert cell.agv.last(Verdict).detail == "superseded before it began"
    cell.run(0.3)
    assert cell.agv.last(Verdict).accepted and cell.agv.guard.agv.feedback().task_id == "newer"


@pytest.mark.parametrize("peer_timeout_s", [0.1, 1.5])
def test_the_place_is_claimed_from_the_command_to_the_tasks_end_however_long_the_arm_is_given(peer_timeout_s):
    cell = Cell(FAR_M, peer_timeout_s=peer_timeout_s).armed()
    claimed = []
    cell.agv.drive()
    cell.run(peer_timeout_s + 0.5, lambda: claimed.append(bool(cell.agv.guard.beat().zone)))
    assert cell.agv.speed() > 0.05
    cell.agv.guard.handle(cell.agv.shell, Pause(cell.agv.state.token, cell.agv.state.stamp_s, "h", True), cell.agv.now_s)
    cell.run(3.0, lambda: claimed.append(bool(cell.agv.guard.beat().zone)))
    assert cell.agv.speed() == 0.0 and all(claimed)
    cell.agv.guard.handle("operator", Arm("disarm", "", "r"), cell.agv.now_s)
    cell.run(1.0)
    assert not cell.agv.guard.beat().zone


def test_an_arm_does_not_reach_over_a_vehicle_that_moves():
    cell = Cell(FAR_M).armed()
    cell.arm.guard.zone._box = None
    cell.agv.drive()
    cell.run(0.5)
    cell.arm.guard.zone = type(cell.arm.guard.zone)(OVER_M)
    verdict = cell.arm.chunk()
    assert not verdict.accepted and "interlock" in verdict.detail


def test_an_arm_over_a_moving_vehicle_stops_it():
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    cell.run(0.5)
    cell.arm.guard.zone = type(cell.arm.guard.zone)(OVER_M)
    cell.run(0.2)
    assert not cell.agv.guard.state.armed and "interlock" in str(cell.agv.state.causes)
    assert not cell.arm.guard.state.armed  # one stop domain


def test_a_silent_arm_is_not_clear():
    cell = Cell(FAR_M).armed()
    cell.agv.run(0.2)
    assert not cell.agv.guard.state.armed and "silent" in cell.agv.state.interlock


def test_far_from_where_they_meet_the_arm_does_not_matter():
    cell = Cell(OVER_M, interlock_xy_m=(50.0, 0.0)).armed()
    cell.agv.drive()
    cell.run(1.0)
    assert cell.agv.speed() > 0.2


def test_an_arm_whose_controller_is_not_heard_is_not_clear():
    cell = Cell(FAR_M)
    cell.arm.robot.silent = True
    cell.run(0.2)
    assert cell.arm.guard.beat().zone == "where the arm is, is unknown"
    cell.agv.arm()
    cell.run(0.3)
    cell.agv.drive()
    cell.run(0.3)
    assert not cell.agv.last(Verdict).accepted and cell.agv.speed() == 0.0
    cell.arm.robot.silent = False
    cell.run(0.2)
    assert cell.arm.guard.beat().zone == ""


def test_a_vehicle_that_has_not_said_where_it_is_for_long_may_be_under_the_arm():
    cell = Cell(FAR_M, interlock_xy_m=(50.0, 0.0), rest_gap_s=0.5)
    assert not cell.agv.guard.beat().zone
    cell.agv.agv.silent = True
    cell.run(0.4)
    assert not cell.agv.guard.beat().zone
    cell.run(0.2)
    assert cell.agv.guard.beat().zone


@pytest.mark.parametrize("act", ["stop", "e-stop of the vehicle"])
def test_whatever_stops_the_vehicle_stops_the_arm(act):
    cell = Cell(FAR_M).armed()
    ACTS[act](cell.agv)
    cell.run(0.3)
    assert not cell.arm.guard.state.armed and not cell.agv.guard.state.armed


@pytest.mark.parametrize("act", ["stop", "protective"])
def test_whatever_stops_the_arm_stops_the_vehicle(act):
    cell = Cell(FAR_M).armed()
    cell.agv.drive()
    cell.run(0.5)
    if act == "stop":
        cell.arm.guard.stop_requests([(Stop("panel"), 1)], cell.arm.now_s)
    else:
        cell.arm.robot.safety_mode = 3
    cell.run(3.0)
    assert not cell.agv.guard.state.armed and cell.agv.speed() == 0.0 and np.isfinite(cell.agv.state.pose_m_rad).all()


# --- configuration ---

GOOD = """
vehicle: {manufacturer: acme, serial_number: agv-1, release_nodes: 2}
broker: {host: localhost}
guard: {peers: {arm: "slot:3"}, interlock: [arm], interlock_xy_m: [1.0, 2.0]}
"""


def test_the_files_are_read(tmp_path):
    (tmp_path / "agv.yaml").write_text(GOOD)
    file = load(tmp_path / "agv.yaml")
    assert file.vehicle.release_nodes == 2 and file.guard.interlock == ("arm",) and file.broker.port == 1883
    load("config/agv.yaml")


@pytest.mark.parametrize("text, match", [
    ("vehicle: {serial_number: x}", "manufacturer"), ("robot: {}", "unknown section 'robot'"), ("[]", "map"),
    (GOOD.replace("release_nodes", "nodes"), "vehicle: unknown parameter 'nodes'"),
    (GOOD.replace("interlock: [arm]", "interlock: [leg]"), "'leg' is none of the peers"),
    (GOOD.replace("[1.0, 2.0]", "[1.0]"), "interlock_xy_m"), (GOOD.replace("localhost", "''"), "broker.host"),
    (GOOD.replace("agv-1", "a/b"), "serial_number"), (GOOD.split("guard:")[0] + "guard: 5", "map of parameters"),
])  # fmt: skip
def test_a_wrong_file_is_refused_by_name(tmp_path, text, match):
    (tmp_path / "agv.yaml").write_text(text)
    with pytest.raises(ConfigError, match=match):
        load(tmp_path / "agv.yaml")


@pytest.mark.parametrize("changes, match", [
    (dict(velocity_timeout_s=0.6), "velocity_timeout_s"), (dict(name=""), "name"),
    (dict(peers={"agv": "x"}), "peers.agv"), (dict(peers={"arm": "x"}, interlock="arm"), "interlock='arm'"),
    (dict(interlock=None), "interlock=None"), (dict(interlock=(["arm"],)), r"interlock: \['arm'\] is none"),
    (dict(interlock_xy_m=(0.0, 1.0)), "without interlock"),
    (dict(peers={"arm": "x"}, interlock=("arm",), interlock_xy_m=(True, 1.0)), "interlock_xy_m"),
    (dict(peers={"arm": "x"}, interlock=("arm",), interlock_xy_m=5), "interlock_xy_m"),
    (dict(peers={"arm": "x"}, interlock=("arm",), interlock_xy_m=None), "interlock_xy_m"),
    (dict(moving_inputs={"agent": 0.1}), "moving_inputs.agent"),
])  # fmt: skip
def test_a_wrong_guard_is_refused(changes, match):
    with pytest.raises(ConfigError, match=match):
        AgvGuardConfig(**changes)
