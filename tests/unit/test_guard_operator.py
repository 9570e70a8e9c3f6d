"""Operators at the guard: who commands in MANUAL, the operator link, the robot's status, the way out of a limit."""
import dataclasses

import numpy as np
import pytest

from steadyhand import cell, robot_status, ur5
from steadyhand.guard_protocol import Arm, Beat, Heartbeat, Link, Reply, Stop, Verdict
from steadyhand.limits import UR5_LIMITS
from steadyhand.safety_gate import GateConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.recovering import Recovering
from tests.unit.test_guard_core import CREDENTIAL, Rig

MANUAL = dict(source="manual")


def names(state):
    return [c.partition(" ")[0].rstrip(":") for c in state.causes]


def rig_of(**config):
    rig = Rig(**config)
    rig.run(0.3)
    return rig


def take(rig, client="teach", mode="manual"):
    """`client` arms and commands."""
    rig.guard.handle(client, Arm(mode, CREDENTIAL, "m", True), rig.now_s)
    rig.run(0.3)
    return rig.last(Reply)


def sweep(rig, seconds, client, **changes):
    """`client` streams chunks and beats; verdict of the last."""
    shell, rig.shell = rig.shell, client
    try:
        for _ in range(round(seconds / 0.048)):
            verdict = rig.chunk(**MANUAL, **changes)
            rig.run(0.048)
        return verdict
    finally:
        rig.shell = shell


# --- who commands ---


def test_an_operator_that_arms_for_itself_commands_alone():
    rig = rig_of()
    assert take(rig).ok and rig.state.mode == "ARMED_MANUAL"
    assert sweep(rig, 0.3, "teach").accepted
    rig.guard.handle("teach", Arm("disarm", "", "d"), rig.now_s)
    rig.run(1.0)
    assert rig.state.at_rest
    assert take(rig).ok
    assert rig.chunk(**MANUAL).reason == "second_commander"  # the shell's
    rig.guard.commander_changed(None, rig.now_s)  # its loss is nothing to an operator in MANUAL
    rig.run(0.1)
    assert rig.state.mode == "ARMED_MANUAL"


def test_command_is_the_shells_again_after_the_operators_arming():
    rig = rig_of()
    take(rig)
    rig.guard.handle("anyone", Arm("disarm", "", "d"), rig.now_s)
    rig.run(1.0)
    assert rig.arm("manual").ok
    assert rig.chunk(**MANUAL).accepted
    assert rig.guard.commander == rig.shell


@pytest.mark.parametrize("mode", ["auto", "nonsense"])
def test_command_is_for_manual_and_recover(mode):
    rig = rig_of()
    rig.guard.handle("teach", Arm(mode, CREDENTIAL, "m", True), rig.now_s)
    assert not rig.last(Reply).ok and rig.guard.state.arming is None


def test_a_second_request_while_one_arms_is_refused_and_changes_nothing():
    rig = rig_of()
    rig.guard.handle("teach", Arm("manual", CREDENTIAL, "first", True), rig.now_s)
    rig.guard.handle("other", Arm("manual", CREDENTIAL, "second", True), rig.now_s)
    assert rig.last(Reply) == Reply("second", False, "an arming is under way")
    rig.run(0.3)
    assert rig.last(Reply).request_id == "first" and rig.last(Reply).ok and rig.guard.commander == "teach"


def test_an_unverified_operator_does_not_command():
    rig = rig_of()
    rig.guard.handle("teach", Arm("manual", "wrong", "m", True), rig.now_s)
    rig.run(0.3)
    assert not rig.last(Reply).ok and rig.guard.commander == rig.shell and not rig.guard.state.armed


def test_a_stop_while_the_operator_arms_leaves_nobody_in_command():
    rig = rig_of()
    rig.guard.handle("teach", Arm("manual", CREDENTIAL, "m", True), rig.now_s)
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    rig.run(0.5)
    assert rig.state.mode == "STOPPED" and rig.guard.commander == rig.shell


@pytest.mark.parametrize("when", ["arming", "moving"])
def test_the_loss_of_the_operator_in_command_stops(when):
    rig = rig_of()
    if when == "arming":
        rig.guard.handle("teach", Arm("manual", CREDENTIAL, "m", True), rig.now_s)
    else:
        take(rig)
        sweep(rig, 0.3, "teach")
    rig.guard.forget("teach", rig.now_s)
    rig.run(0.01)
    assert rig.state.mode == "STOPPED"  # by the loss, not by the silence that follows
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and names(rig.state) == ["shell_lost"] and rig.state.at_rest
    assert rig.guard.commander == rig.shell


@pytest.mark.parametrize("mode", ["auto", "manual", "recover"])
def test_nobody_is_armed_behind_the_back_of_who_asked_and_gave_up(mode):
    rig = rig_of()
    rig.guard.handle("console", Arm(mode, CREDENTIAL, "m"), rig.now_s)
    rig.guard.forget("console", rig.now_s)
    rig.run(0.5)
    assert rig.state.mode == "STOPPED" and names(rig.state) == ["shell_lost"]


def test_an_operator_in_command_that_falls_silent_while_moving_stops():
    rig = rig_of()
    take(rig)
    sweep(rig, 0.3, "teach")
    rig.run(0.3)  # the shell beats on; it does not stand in for the operator
    assert rig.state.mode == "STOPPED" and names(rig.state)[0] in ("shell_lost", "command_source_silent")


def test_shells_that_come_and_go_do_not_stand_in_for_a_silent_operator():
    rig = rig_of()
    take(rig)
    rig.shell, q = "teach", np.array(rig.state.q_commanded_rad)
    path = q + np.outer(np.arange(1, 41) * 0.005, [1, 0, 0, 0, 0, 0])
    assert rig.chunk(source="planner", q_rad=path.tolist()).accepted
    rig.beats, since_s = False, rig.now_s
    for number in range(20):
        rig.guard.commander_changed(f"shell {number}", rig.now_s)
        rig.run(0.016)
    assert names(rig.state) == ["shell_lost"] and rig.guard.state.stop_since_s - since_s < 0.13


def test_hand_back_to_auto_needs_inputs_heard_of_after_the_manual_mode():
    rig = rig_of(inputs={"estimator": 5.0})
    rig.guard.handle(rig.shell, Heartbeat("estimator", True), rig.now_s)
    rig.run(0.01)
    assert rig.arm("manual").ok
    rig.guard.handle(rig.shell, Heartbeat("estimator", True), rig.now_s)
    rig.guard.handle("x", Arm("disarm", "", "d"), rig.now_s)
    rig.run(0.5)
    reply = rig.arm("auto")
    assert not reply.ok and reply.causes == ["input:estimator: not heard of since a person moved the arm"]
    rig.guard.handle(rig.shell, Heartbeat("estimator", True), rig.now_s)
    rig.run(0.01)
    assert rig.arm("auto").ok


# --- operator link ---


def test_an_operator_in_control_that_falls_silent_stops():
    rig = rig_of()
    rig.arm()
    rig.guard.handle("console", Link("ann", True, "l"), rig.now_s)
    assert rig.last(Reply).ok
    for _ in range(10):
        rig.guard.handle("console", Link("ann", True), rig.now_s)
        rig.run(0.4)
    assert rig.state.mode == "ARMED_AUTO"
    rig.run(0.2, until=lambda s: s.mode == "STOPPED")
    assert names(rig.state) == ["operator_link:ann"]
    rig.run(1.0)
    assert not rig.arm().ok  # persists while the link is silent
    rig.guard.handle("console", Link("ann", False), rig.now_s)
    rig.run(0.01)
    assert rig.arm().ok


def test_the_orderly_end_of_a_link_stops_nothing_and_its_loss_does():
    rig = rig_of()
    rig.arm()
    rig.guard.handle("console", Link("ann", True), rig.now_s)
    rig.guard.handle("console", Link("ann", False), rig.now_s)
    rig.guard.forget("console", rig.now_s)
    rig.run(1.0)
    assert rig.state.mode == "ARMED_AUTO"
    rig.guard.handle("console", Link("ann", True), rig.now_s)
    rig.guard.forget("console", rig.now_s)
    rig.run(0.01)
    assert rig.state.mode == "STOPPED" and names(rig.state) == ["operator_link"]


@pytest.mark.parametrize("name", ["", "x" * 4000])
def test_the_loss_of_a_link_stops_whatever_its_name(name):
    rig = rig_of()
    rig.arm()
    rig.guard.handle("console", Link(name, True), rig.now_s)
    rig.guard.forget("console", rig.now_s)
    rig.run(0.01)
    assert rig.state.mode == "STOPPED" and names(rig.state) == ["operator_link"]


# --- the robot's own status ---

STATUS = {
    "protective": (dict(safety_mode=3), "robot_safety:protective_stop", "WITHDRAW"),
    "recovery": (dict(safety_mode=4), "robot_safety:recovery_mode", "WITHDRAW"),
    "safeguard": (dict(safety_mode=5), "robot_safety:safeguard_stop", "WITHDRAW"),
    "system emergency": (dict(safety_mode=6), "robot_safety:system_emergency_stop", "WITHDRAW"),
    "robot emergency": (dict(safety_mode=7), "robot_safety:robot_emergency_stop", "WITHDRAW"),
    "violation": (dict(safety_mode=8), "robot_safety:violation", "WITHDRAW"),
    "fault": (dict(safety_mode=9), "robot_safety:fault", "WITHDRAW"),
    "unknown safety mode": (dict(safety_mode=77), "robot_safety:unknown", "WITHDRAW"),
    "power off": (dict(robot_mode=3), "robot_mode:power_off", "WITHDRAW"),
    "backdrive": (dict(robot_mode=6), "robot_mode:freedrive", "WITHDRAW"),
    "unknown robot mode": (dict(robot_mode=77), "robot_mode:unknown", "WITHDRAW"),
    "freedrive": (dict(freedrive=True), "robot_mode:freedrive", "WITHDRAW"),
    "reduced": (dict(safety_mode=2), "robot_reduced", "BRAKE"),
    "local": (dict(local=True), "robot_local", "BRAKE"),
}


@pytest.mark.parametrize("mode", ["auto", "manual", "recover"])
@pytest.mark.parametrize("name", STATUS)
def test_what_the_robot_says_stops_under_its_own_name(name, mode):
    changes, cause, reaction = STATUS[name]
    rig = rig_of()
    rig.arm(mode)
    for field, value in changes.items():
        setattr(rig.robot, field, value)
    assert rig.run(0.1, until=lambda s: not s.mode.startswith(("ARMED", "RECOVER")))
    assert names(rig.state)[0] == cause
    assert rig.guard.state.stopping.name == reaction and (rig.robot.stops > 0) == (reaction == "WITHDRAW")
    rig.run(1.0)
    assert not rig.arm(mode).ok
    assert cause in " ".join(rig.last(Reply).causes)


def test_a_protective_stop_that_becomes_a_violation_is_shown_as_one_and_forbids_arming():
    """A joint that is moved while a stop acts: the robot's safety system goes on to category 0."""
    rig = rig_of()
    rig.arm("auto")
    rig.robot.safety_mode = 3
    assert rig.run(0.2, until=lambda s: "robot_safety:protective_stop" in names(s))
    rig.robot.safety_mode, rig.robot.robot_mode = 8, 3
    assert rig.run(0.2, until=lambda s: {"robot_safety:violation", "robot_mode:power_off"} <= set(names(s)))
    assert not rig.arm("auto").ok and "robot_safety:violation" in " ".join(rig.last(Reply).causes)
    rig.robot.safety_mode = 1  # restarted: without power yet
    rig.run(0.1)
    assert not rig.arm("auto").ok and "robot_mode:power_off" in " ".join(rig.last(Reply).causes)
    rig.robot.robot_mode = 7
    rig.run(0.3)
    assert rig.arm("auto").ok


def test_every_safety_mode_but_normal_is_a_cause():
    rig = rig_of()
    feedback = rig.robot.feedback()
    assert robot_status.causes(feedback) == {}
    for number in [n for n in range(-5, 40) if n != 1]:
        assert robot_status.causes(dataclasses.replace(feedback, safety_mode=number))


# --- stop domain ---


def domain_rig():
    rig = Rig(name="left", peers={"right": "slot:1"})
    rig.boot, rig.stops, rig.unsafe = 7, 0, ""
    cycle = rig.guard.cycle

    def with_peer(now_s):
        if rig.boot:
            rig.guard.peer_beat(Beat("right", rig.boot, rig.stops, "why", rig.unsafe), now_s)
        return cycle(now_s)

    rig.guard.cycle = with_peer
    rig.run(0.3)
    assert rig.arm().ok, rig.last(Reply)
    return rig


def test_a_stop_of_a_peer_stops_and_a_new_arming_is_needed():
    rig = domain_rig()
    rig.stops = 1
    rig.run(0.05)
    assert rig.state.mode == "STOPPED" and rig.state.causes == ["peer: right stopped (why)"]
    assert rig.guard.beat().stops == 0  # not passed on: it would come back
    rig.run(1.0)
    assert rig.arm().ok


def test_a_silent_peer_stops_and_forbids():
    rig = domain_rig()
    rig.boot = 0
    assert rig.run(0.2, until=lambda s: s.mode == "STOPPED") and names(rig.state) == ["peer:right"]
    rig.run(1.0)
    assert not rig.arm().ok
    rig.boot = 7
    rig.run(0.1)
    assert rig.arm().ok


def test_a_peer_started_anew_or_unsafe_stops():
    rig = domain_rig()
    rig.boot = 8
    rig.run(0.02)
    assert rig.state.causes == ["peer: right was started anew"]
    rig.run(1.0)
    assert rig.arm().ok
    rig.unsafe = "robot_safety:protective_stop"
    rig.run(0.02)
    assert names(rig.state) == ["peer:right"] and not rig.arm().ok


def test_a_stop_here_is_told_and_a_disarming_is_not():
    rig = domain_rig()
    rig.guard.handle("anyone", Arm("disarm", "", "d"), rig.now_s)
    rig.run(1.0)
    assert rig.guard.beat().stops == 0
    for count in (1, 2):  # also while standing: the cell shall stop
        rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
        assert rig.guard.beat().stops == count
    rig.run(0.2)
    rig.arm()
    rig.robot.safety_mode = 3
    rig.run(0.05)
    beat = rig.guard.beat()
    assert beat.stops == 3 and beat.unsafe == beat.cause == "robot_safety:protective_stop"


def test_strangers_are_counted():
    rig = domain_rig()
    rig.guard.peer_beat(Beat("stranger", 1, 99, ""), rig.now_s)
    rig.run(0.05)
    assert rig.state.mode == "ARMED_AUTO" and rig.guard.domain.strangers == 1


# --- RECOVERING ---


def jog(rig, direction, steps=6, speed_rad_s=0.06):
    """Joint 2 in RECOVERING; the verdicts."""
    verdicts = []
    for _ in range(steps):
        s = rig.state
        q = np.array(s.q_commanded_rad) + np.outer(np.arange(1, 9) * 0.05 * speed_rad_s, direction)
        verdicts.append(rig.chunk(source="manual", q_rad=q.tolist()))
        rig.run(0.048)
    return verdicts


INWARD, OUTWARD = np.array([0, 0, -1.0, 0, 0, 0]), np.array([0, 0, 1.0, 0, 0, 0])


def limits_around(q_rad, by_rad=0.05):
    """Limits that joint 2 of a free pose violates by so much."""
    q_max = ur5.Q_MAX_RAD.copy()
    q_max[2] = q_rad[2] - by_rad
    return dataclasses.replace(UR5_LIMITS, q_max_rad=q_max)


@pytest.fixture
def beyond():
    """A guard whose arm stands 0.05 rad beyond the limit of joint 2."""
    rig = Rig()
    limits = limits_around(cell.HOME_Q_RAD)
    old = rig.guard
    rig.guard = Guard(rig.robot, old.config, CREDENTIAL, old.fresh_token, old.answer, rig.now_s, limits)
    rig.guard.commander_changed(rig.shell, rig.now_s)
    rig.run(0.3)
    return rig


@pytest.mark.parametrize("mode", ["auto", "manual"])
def test_beyond_a_limit_only_recovering_may_be_armed(beyond, mode):
    reply = beyond.arm(mode)
    assert not reply.ok and "margin" in reply.causes[0]
    assert beyond.arm("recover").ok and beyond.state.mode == "RECOVERING"


def test_beyond_a_limit_the_arm_is_jogged_inward_only(beyond):
    beyond.arm("recover")
    assert jog(beyond, OUTWARD, 1)[0].reason == "position"
    assert all(v.accepted for v in jog(beyond, INWARD, 12))
    assert beyond.state.mode == "RECOVERING"
    assert beyond.state.q_commanded_rad[2] < cell.HOME_Q_RAD[2] - 0.02
    assert jog(beyond, OUTWARD, 1)[0].reason == "position"  # what has been won is kept


def test_each_arming_begins_with_the_margin_that_it_finds(beyond):
    beyond.arm("recover")
    assert all(v.accepted for v in jog(beyond, INWARD, 12))
    beyond.guard.stop_requests([(Stop("panel"), 1)], beyond.now_s)
    beyond.run(1.0)
    beyond.robot._target = beyond.robot._q = np.array(cell.HOME_Q_RAD)  # moved out again by hand
    beyond.run(0.3)
    assert beyond.arm("recover").ok and jog(beyond, INWARD, 1)[0].accepted


def test_recovering_is_slow(beyond):
    beyond.arm("recover")
    verdict = jog(beyond, INWARD, 1, speed_rad_s=0.15)[0]
    assert verdict.reason == "velocity" and "limit 0.1" in verdict.detail


def test_recovering_needs_no_camera_and_no_agent(beyond):
    rig = Rig(inputs={"camera": 0.5})
    rig.run(0.3)
    assert not rig.arm("auto").ok and rig.arm("recover").ok
    assert jog(rig, INWARD, 1)[0].accepted
    assert not rig.arm("manual").ok  # armed already
    rig.run(1.0)
    assert rig.arm("manual").ok


def test_standing_still_never_gives_margin_away():
    limits = limits_around(cell.HOME_Q_RAD)
    recovering = Recovering(limits, GateConfig(), 0.1)
    first = recovering.gate(cell.HOME_Q_RAD).limits.q_max_rad[2]
    q = np.array(cell.HOME_Q_RAD)
    for _ in range(200):  # creeping outward by less than the slack at each step
        q = q + 0.0005 * OUTWARD
        allowed = recovering.gate(q).limits.q_max_rad[2]
    assert allowed == pytest.approx(first) and first < cell.HOME_Q_RAD[2] + 0.0011


def test_an_arm_too_close_to_something_may_leave_it():
    q = np.array(cell.HOME_Q_RAD)
    q[1], q[2] = -0.25, 0.6  # tool into the table
    recovering = Recovering(UR5_LIMITS, GateConfig(), 0.1)
    margins = recovering.margins(q)
    assert margins[18] < 0 and margins[14] < 0  # clearance, and the height of the tool
    gate = recovering.gate(q)
    assert gate.min_clearance_m == pytest.approx(UR5_LIMITS.min_clearance_m + margins[18] - 1e-3)


def test_verdicts_name_the_second_commander():
    rig = rig_of()
    take(rig)
    rig.chunk(**MANUAL)
    assert "commander" in rig.last(Verdict).detail
