"""The guard against the in-process robot, time as an argument: arming, motion, every stop, every refusal."""
import dataclasses
import itertools

import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.guard_protocol import (
    Arm, Beat, Chunk, Drive, Gripper, Heartbeat, Pause, Reply, Stop, Twist, Verdict, decode, encode,
)
from steadyhand.protocols import Command, ProgramState
from steadyhand.types import Mode
from steadyhand_firmware_bridge import fake
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard

CREDENTIAL = "secret"
DT_S = 0.008


class Rig:
    """A guard, a fake robot, one commander; `run` advances time cycle by cycle."""

    def __init__(self, q_rad=cell.HOME_Q_RAD, **config):
        self.robot = FakeRobot(DT_S, q_rad)
        self.now_s = 100.0
        self.answers = []
        tokens = itertools.count(1000)
        self.guard = Guard(
            self.robot, GuardConfig(**config), CREDENTIAL, lambda: next(tokens), self.answered, self.now_s
        )
        self.robot.open(self.now_s)
        self.shell = "commander"
        self.beats = True
        self.guard.commander_changed(self.shell, self.now_s)
        self.state = None
        self.trace = itertools.count()

    def answered(self, client, message):
        """Every answer goes through the wire: one that does not fit, or that no client can read, is an error here."""
        self.answers.append((client, decode(encode(message))))

    def run(self, seconds, until=None):
        for _ in range(round(seconds / DT_S)):
            self.now_s += DT_S
            self.state = self.guard.cycle(self.now_s)
            if self.beats:
                self.guard.handle(self.shell, Heartbeat("shell", True), self.now_s)
            if self.guard.pending:
                self.guard.admit(self.now_s + DT_S, self.now_s)
            if until is not None and until(self.state):
                return True
        return until is None

    def arm(self, mode="auto", credential=CREDENTIAL):
        self.guard.handle("operator", Arm(mode, credential, "r"), self.now_s)
        self.run(0.3)
        return self.last(Reply)

    def last(self, kind):
        return next(m for _, m in reversed(self.answers) if isinstance(m, kind))

    def chunk(self, step_rad=0.01, n=8, **changes):
        """Joint 0 moves on by `step_rad` each 50 ms, answering the newest state."""
        s = self.state
        q = np.array(s.q_commanded_rad) + np.outer(np.arange(1, n + 1) * step_rad, [1, 0, 0, 0, 0, 0])
        fields = dict(
            token=s.token, state_seq=s.seq, state_stamp_s=s.stamp_s, trace_id=f"t{next(self.trace)}", source="policy",
            joint_names=list(ur5.JOINT_NAMES), period_s=0.05, q_rad=q.tolist(),
        ) | changes
        self.guard.handle(self.shell, Chunk(**fields), self.now_s)
        if self.guard.pending:
            self.guard.admit(self.now_s + DT_S, self.now_s)
        return self.last(Verdict)

    def move(self, seconds=0.5):
        """Move under a chunk every 48 ms."""
        for _ in range(round(seconds / 0.048)):
            assert self.chunk().accepted, self.last(Verdict)
            self.run(0.048)


def armed(mode="auto", **config):
    rig = Rig(**config)
    rig.run(0.3)
    assert rig.arm(mode).ok, rig.last(Reply)
    return rig


def target_speed(rig):
    return float(np.abs(rig.robot.feedback().qd_target_rad_s).max())


def test_starts_stopped_and_sends_nothing():
    rig = Rig()
    rig.run(0.3)
    assert rig.state.mode == "STOPPED" and rig.robot.sent == [] and rig.state.at_rest


def test_a_plan_that_turns_round_is_not_at_rest_in_the_moment_it_stands():
    rig = armed()
    steps = np.array([1, 2, 3, 4, 3, 2, 1, 0]) * 2e-4  # 4 mrad/s: below what is measured as rest all the time
    q_rad = np.array(rig.state.q_commanded_rad) + np.outer(steps, [1, 0, 0, 0, 0, 0])
    verdict = rig.chunk(q_rad=q_rad.tolist(), source="planner")
    assert verdict.accepted, verdict
    seen = []
    rig.run(0.4, lambda s: seen.append((s.at_rest, abs(s.qd_commanded_rad_s[0]))) or s.plan_left_s == 0.0)
    assert max(speed for _, speed in seen) < 0.01 and min(speed for _, speed in seen[20:30]) < 1e-3
    assert not any(at_rest for at_rest, _ in seen)
    rig.run(0.3)
    assert rig.state.at_rest


def test_arms_with_the_credential_only_and_with_a_new_token_each_time():
    rig = Rig()
    rig.run(0.3)
    first = rig.state.token
    refused = rig.arm(credential="wrong")
    assert not refused.ok and refused.causes == ["credential refused"] and rig.state.mode == "STOPPED"
    assert rig.arm().ok and rig.state.mode == "ARMED_AUTO" and rig.state.token != first
    second = rig.state.token
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(1.0)
    assert rig.arm().ok and rig.state.token not in (first, second)


def test_failed_credentials_are_limited():
    rig = Rig()
    rig.run(0.3)
    for _ in range(5):
        rig.guard.handle("operator", Arm("auto", "wrong", "r"), rig.now_s)
    rig.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), rig.now_s)
    assert "too many" in rig.last(Reply).message
    rig.run(1.1)
    assert rig.arm().ok  # one try a second is given back
    rig.now_s += 1000.0
    for _ in range(6):  # and never more than five in all
        rig.guard.handle("operator", Arm("auto", "wrong", "r"), rig.now_s)
    assert "too many" in rig.last(Reply).message


def test_moves_under_chunks_and_runs_out_at_rest():
    rig = armed(streaming_sources=())
    start = rig.state.q_rad[0]
    rig.move(0.5)
    assert rig.state.q_rad[0] > start + 0.05
    q = np.array(rig.state.q_commanded_rad)
    rig.chunk(n=8, step_rad=0.0, q_rad=np.repeat(q[None], 8, 0).tolist())
    rig.run(1.0)
    assert rig.state.at_rest and rig.state.mode == "ARMED_AUTO" and rig.state.trace_id == ""


@pytest.mark.parametrize("source", ["operator", "console"])
def test_a_stop_brakes_along_the_path_latches_and_halts_the_program(source):
    rig = armed()
    rig.move(0.5)
    speed, at = target_speed(rig), rig.now_s
    rig.guard.stop_requests([(Stop(source), 1)], rig.now_s)
    sent = len(rig.robot.sent)
    rig.run(DT_S)
    first = rig.robot.sent[sent]
    assert first[0] is Command.SERVO and rig.state.mode == "STOPPED"
    rig.run(0.024)
    assert target_speed(rig) < speed
    assert rig.run(1.0, until=lambda s: s.at_rest) and rig.now_s - at < 0.7
    rig.run(0.1)
    assert rig.robot._state is ProgramState.HALTED
    sent = len(rig.robot.sent)
    assert not rig.chunk().accepted and rig.last(Verdict).reason == "not_armed"
    rig.run(0.5)
    assert len(rig.robot.sent) == sent  # silent
    assert any(source in c for c in rig.state.causes)
    assert rig.state.counters[f"stop:{source}"] == 1
    reply = rig.arm()
    assert reply.ok and reply.snapshot["source"] == "policy" and reply.snapshot["mode"] == "ARMED_AUTO"


CHANGES = {
    "foreign_token": dict(token=7),
    "expired": dict(state_stamp_s=99.0),
    "from_future": dict(state_stamp_s=1e6),
    "out_of_order": dict(state_seq=0),
    "wrong_observation": dict(state_seq=10**6),
    "joint_order": dict(joint_names=list(reversed(ur5.JOINT_NAMES))),
    "not_finite": dict(q_rad=[[float("nan")] * 6] * 8),
    "shape": dict(q_rad=[[0.0] * 5] * 8),
    "malformed": dict(q_rad=[[0.0] * 5, [0.0] * 6]),
    "position": dict(q_rad=[[9.0] * 6] * 8),
}


@pytest.mark.parametrize("reason", CHANGES)
def test_a_bad_chunk_is_refused_counted_and_changes_nothing(reason):
    rig = armed(streaming_sources=())
    rig.move(0.3)
    plan = rig.guard.motion.plan
    verdict = rig.chunk(**CHANGES[reason])
    assert (verdict.accepted, verdict.reason) == (False, reason)
    assert rig.guard.motion.plan is plan
    rig.run(DT_S)
    assert rig.state.counters[f"refused:{reason}"] == 1


def test_an_agent_that_falls_silent_in_a_long_planned_motion_stops_it():
    rig = Rig(inputs={"agent": 0.5}, moving_inputs={"agent": 0.075})
    rig.run(0.3)
    rig.guard.handle(rig.shell, Heartbeat("agent", True), rig.now_s)
    rig.run(DT_S)
    assert rig.arm().ok
    rig.guard.handle(rig.shell, Heartbeat("agent", True), rig.now_s)
    assert rig.chunk(source="planner", n=32, step_rad=0.005).accepted
    heard_s = rig.now_s
    rig.run(0.06)
    assert rig.guard.motion.moving and rig.state.mode == "ARMED_AUTO"
    rig.run(0.04, until=lambda s: s.mode == "STOPPED")
    assert rig.now_s - heard_s <= 0.075 + DT_S and rig.state.last_stop["cause"] == "input:agent"


def test_of_several_causes_in_one_cycle_the_one_that_decided_is_named():
    rig = Rig(inputs={"agent": 0.5})
    rig.run(0.3)
    rig.guard.handle(rig.shell, Heartbeat("agent", True), rig.now_s)
    rig.run(DT_S)
    assert rig.arm().ok
    rig.guard.inputs.renew()  # the agent is silent in the very cycle in which the program has ended
    rig.robot.stop_program(rig.now_s)
    rig.run(DT_S)
    assert [name for name, _ in rig.guard.state.latched][0] == "program_lost" != rig.guard.state.latched[-1][0]
    assert rig.state.last_stop["cause"] == "program_lost"


def test_the_commanders_seat_is_free_only_after_a_long_silence():
    rig = armed()
    assert not rig.guard.seat_free(rig.now_s)
    rig.run(2.0)
    assert not rig.guard.seat_free(rig.now_s)  # it beats
    rig.beats = False
    rig.run(0.9)
    assert not rig.guard.seat_free(rig.now_s)
    rig.run(0.2)
    assert rig.guard.seat_free(rig.now_s)
    rig.guard.commander_changed(None, rig.now_s)
    assert rig.state.mode == "ARMED_AUTO" and rig.guard.state.mode is Mode.STOPPED and rig.guard.seat_free(rig.now_s)


def test_another_connection_than_the_commanders_is_refused():
    rig = armed()
    s = rig.state
    chunk = Chunk(s.token, s.seq, s.stamp_s, "t", "policy", list(ur5.JOINT_NAMES), 0.05, [s.q_rad] * 8)
    rig.guard.handle("stranger", chunk, rig.now_s)
    assert rig.last(Verdict).reason == "second_commander" and not rig.guard.pending


NOT_FOR_AN_ARM = (
    Drive(1, 1.0, "t", "task", ["a"], [[0.0, 0.0]]), Twist(1, 1.0, "t", 0.1, 0.0, 0.0), Pause(1, 1.0, "t", False),
    Verdict("t", True), Beat("guard", 1, 99), Reply("t", True),
)  # fmt: skip


@pytest.mark.parametrize("message", NOT_FOR_AN_ARM, ids=lambda message: type(message).__name__)
def test_what_is_no_command_of_an_arm_is_refused_by_name_and_counted(message):
    rig = armed()
    rig.guard.handle(rig.shell, message, rig.now_s)
    assert rig.last(Verdict).reason == "malformed" and rig.last(Verdict).trace_id in ("t", "")
    assert rig.last(Verdict).detail == f"{type(message).__name__}: as commands this guard takes Chunk, Gripper, Payload"
    rig.run(0.1)
    assert rig.state.mode == "ARMED_AUTO" and rig.state.counters["refused:malformed"] == 1


def test_newest_chunk_wins_and_the_older_is_counted():
    rig = armed()
    s = rig.state
    for name in "ab":
        q_rad = [s.q_commanded_rad] * 8
        chunk = Chunk(s.token, s.seq, s.stamp_s, name, "policy", list(ur5.JOINT_NAMES), 0.05, q_rad)
        rig.guard.handle(rig.shell, chunk, rig.now_s)
    assert rig.last(Verdict).trace_id == "a" and rig.last(Verdict).reason == "flood"
    rig.guard.admit(rig.now_s + DT_S, rig.now_s)
    assert rig.last(Verdict).trace_id == "b" and rig.last(Verdict).accepted


def test_a_chunk_that_waits_to_be_judged_is_refused_by_a_stop():
    rig = armed()
    s = rig.state
    chunk = Chunk(s.token, s.seq, s.stamp_s, "t", "policy", list(ur5.JOINT_NAMES), 0.05, [s.q_commanded_rad] * 8)
    rig.guard.handle(rig.shell, chunk, rig.now_s)
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    assert not rig.guard.pending and rig.last(Verdict).reason == "not_armed"


def stop_cause(rig, seconds=1.0):
    assert rig.run(seconds, until=lambda s: s.mode == "STOPPED")
    return rig.state.causes[0]


def test_policy_silence_while_moving_stops_within_its_limit():
    rig = armed()
    rig.move(0.5)
    last = rig.now_s - 0.048
    assert stop_cause(rig).startswith("command_source_silent: policy")
    assert 0.1 <= rig.now_s - last <= 0.1 + 2 * DT_S


def test_planner_silence_counts_when_its_way_points_ran_out_in_motion():
    rig = armed()
    rig.chunk(source="planner", n=20)
    assert stop_cause(rig, 2.0).startswith("command_source_silent: planner")


def test_a_planner_chunk_that_ends_at_rest_is_no_fault():
    rig = armed()
    q0 = np.array(rig.state.q_commanded_rad)
    u = np.minimum(np.arange(1, 31) / 25, 1.0)
    path = q0 + np.outer(0.2 * (10 * u**3 - 15 * u**4 + 6 * u**5), [1, 0, 0, 0, 0, 0])
    assert rig.chunk(source="planner", q_rad=path.tolist()).accepted, rig.last(Verdict)
    rig.run(3.0)
    assert rig.state.mode == "ARMED_AUTO" and rig.state.at_rest
    assert abs(rig.state.q_rad[0] - q0[0] - 0.2) < 1e-3


def test_a_frozen_commander_stops_a_moving_arm():
    rig = armed()
    rig.move(0.3)
    rig.beats, at = False, rig.now_s
    assert stop_cause(rig).startswith("shell_lost")
    assert rig.now_s - at <= 0.040 + 2 * DT_S


def test_a_gone_commander_stops():
    rig = armed()
    rig.guard.commander_changed(None, rig.now_s)
    assert stop_cause(rig).startswith("shell_lost")


def test_lost_feedback_is_silence():
    rig = armed()
    rig.move(0.5)
    rig.robot.silent, at = True, rig.now_s
    assert stop_cause(rig).startswith("feedback_lost") and rig.now_s - at <= 0.040 + 2 * DT_S
    sent = len(rig.robot.sent)
    rig.run(0.2)
    assert len(rig.robot.sent) == sent and rig.robot._state is ProgramState.STOPPED_HEARTBEAT
    rig.run(2.5)
    assert rig.state.mode == "REST_UNKNOWN"
    assert "rest not measured" in " ".join(rig.arm().causes)
    rig.robot.silent = False
    rig.run(0.5)
    assert rig.state.mode == "STOPPED" and rig.arm().ok


@pytest.mark.parametrize("field, value, cause", [("safety_mode", 3, "robot_safety"), ("robot_mode", 5, "robot_mode")])
def test_the_robots_own_stop_is_withdrawn_from_at_once_and_blocks_arming(field, value, cause):
    rig = armed()
    rig.move(0.3)
    setattr(rig.robot, field, value)
    sent = len(rig.robot.sent)
    rig.run(2 * DT_S)
    assert rig.robot.stops == 1 and len(rig.robot.sent) <= sent + 1
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and any(c.startswith(cause) for c in rig.arm().causes)
    assert rig.robot.stops == 1
    setattr(rig.robot, field, {"safety_mode": 1, "robot_mode": 7}[field])
    rig.run(0.3)
    assert rig.state.mode == "STOPPED"  # releasing moves nothing
    assert rig.arm().ok


def test_a_program_that_ends_by_itself_stops_the_guard():
    rig = armed()
    rig.robot._state = ProgramState.STOPPED_RESUMED
    assert stop_cause(rig).startswith("program_lost")


def test_another_program_on_the_controller_stops_the_guard():
    rig = armed()
    measure = rig.robot._measure
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), program_token=7)
    assert stop_cause(rig).startswith("program_lost: the controller runs another program")


def test_auto_needs_its_inputs_and_manual_does_not():
    rig = Rig(inputs={"camera": 0.2})
    rig.run(0.3)
    assert any(c.startswith("input:camera") for c in rig.arm().causes)
    assert rig.arm("manual").ok
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(1.0)
    rig.guard.inputs.limits_s = {"camera": 1.0}
    rig.guard.handle("stranger", Heartbeat("camera", True), rig.now_s)  # not the commander's
    rig.run(DT_S)
    assert not rig.arm().ok
    rig.guard.handle(rig.shell, Heartbeat("camera", True), rig.now_s)
    rig.run(DT_S)
    assert rig.arm().ok
    rig.guard.handle(rig.shell, Heartbeat("camera", False, "frozen"), rig.now_s)
    assert stop_cause(rig) == "input:camera: frozen"


def test_policy_chunks_need_auto():
    rig = armed("manual")
    assert rig.chunk().reason == "not_armed"
    assert rig.chunk(source="manual").accepted


def test_a_hand_does_not_move_the_arm_in_auto():
    rig = armed()
    rig.move(0.3)
    plan, verdict = rig.guard.motion.plan, rig.chunk(source="manual")
    assert verdict.reason == "not_armed" and "take over first" in verdict.detail
    assert rig.guard.motion.plan is plan and rig.chunk(source="planner").accepted


def test_recovery_is_slow():
    rig = armed("recover")
    assert rig.state.mode == Mode.RECOVERING.value
    assert rig.chunk(source="manual", step_rad=0.01).reason in ("velocity", "continuity")
    assert rig.chunk(source="manual", step_rad=0.001).accepted, rig.last(Verdict)


def test_no_stop_writes_the_gripper():
    rig = armed()
    rig.guard.handle(rig.shell, Gripper(rig.state.token, 0.0, "g"), rig.now_s)
    assert rig.last(Verdict).accepted and rig.robot.gripper_writes == 1
    rig.move(0.3)
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(1.0)
    rig.guard.handle(rig.shell, Gripper(rig.state.token, 0.085, "g"), rig.now_s)  # nor a command that comes after it
    assert rig.last(Verdict).reason == "not_armed"
    assert rig.robot.gripper_writes == 1 and rig.robot.feedback().gripper_commanded_m == 0.0


def test_a_gripper_command_that_the_link_does_not_take_is_refused():
    rig = armed()
    rig.robot.command_gripper = lambda width_m: False
    rig.guard.handle(rig.shell, Gripper(rig.state.token, 0.0, "g"), rig.now_s)
    assert rig.last(Verdict).reason == "flood" and "send it again" in rig.last(Verdict).detail


@pytest.mark.parametrize(
    "width, token, reason", [(float("nan"), 0, "not_finite"), (0.5, 0, "position"), (0.0, 5, "foreign_token")]
)
def test_bad_gripper_commands_are_refused(width, token, reason):
    rig = armed()
    rig.guard.handle(rig.shell, Gripper(token or rig.state.token, width, "g"), rig.now_s)
    assert rig.last(Verdict).reason == reason and rig.robot.gripper_writes == 0


def test_a_stop_while_arming_ends_it():
    rig = Rig()
    rig.run(0.3)
    rig.guard.handle("operator", Arm("auto", CREDENTIAL, "r"), rig.now_s)
    rig.run(DT_S)
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(1.0)
    assert rig.state.mode == "STOPPED" and rig.robot.stops == 1
    assert not next(m for c, m in rig.answers if c == "operator").ok


def test_shutdown_brakes_and_settles():
    rig = armed()
    rig.move(0.3)
    rig.guard.fault("shutdown", "", rig.now_s)
    assert not rig.guard.settled
    rig.run(1.5)
    assert rig.guard.settled and rig.state.at_rest


def test_an_arm_beyond_a_limit_can_only_be_jogged_back():
    q = cell.HOME_Q_RAD.copy()
    q[5] = 2 * np.pi + 0.05
    rig = Rig(q)
    rig.run(0.3)
    for mode in ("auto", "manual"):
        assert any(c.startswith("margin: wrist_3_joint") for c in rig.arm(mode).causes)
    assert rig.arm("recover").ok

    def jog(step):
        s = np.array(rig.state.q_commanded_rad)
        path = s + np.outer(np.arange(1, 9) * step, [0, 0, 0, 0, 0, 1])
        return rig.chunk(source="manual", q_rad=path.tolist())

    assert jog(+0.001).reason == "position"
    for _ in range(60):
        verdict = jog(-0.002)
        assert verdict.accepted, verdict
        rig.run(0.048)
    assert rig.state.q_rad[5] < 2 * np.pi
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(1.0)
    assert rig.arm("manual").ok


def test_a_controller_that_repeats_itself_is_lost():
    rig = armed()
    rig.move(0.3)
    measure, frozen = rig.robot._measure, rig.robot.feedback().controller_stamp_s
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), controller_stamp_s=frozen)
    assert stop_cause(rig).startswith("feedback_lost")


def test_feedback_that_is_not_finite_is_lost():
    rig = armed()
    measure = rig.robot._measure
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), q_rad=np.full(6, np.nan))
    assert "not finite" in stop_cause(rig)


def test_an_arm_that_does_not_follow_stops():
    rig = armed()
    rig.move(0.3)
    measure = rig.robot._measure
    off = np.array([0.08, 0, 0, 0, 0, 0])
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), q_rad=measure(now_s).q_rad + off)
    assert stop_cause(rig).startswith("tracking: shoulder_pan_joint")


def test_a_link_that_takes_nothing_is_lost():
    rig = armed()
    rig.robot.send = lambda *_: False
    assert stop_cause(rig).startswith("link_lost")


def test_a_package_now_and_then_that_is_not_taken_is_no_lost_link():
    rig = armed()
    send, number = rig.robot.send, itertools.count()
    rig.robot.send = lambda *package: next(number) % 3 == 2 and send(*package)  # never three in a row
    rig.run(0.4)
    assert rig.state.mode == "ARMED_AUTO"


def test_arming_is_refused_when_the_controllers_target_is_not_where_the_arm_is():
    rig = Rig()
    rig.run(0.3)
    measure = rig.robot._measure
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), q_rad=measure(now_s).q_rad + 0.05)
    reply = rig.arm()
    assert not reply.ok and "controller's target 0.0500 rad from the measured pose" in " ".join(reply.causes)
    assert rig.robot.stops == 1 and any(c.startswith("arming_failed") for c in rig.state.causes)


def test_the_first_set_point_is_the_controllers_target():
    rig = Rig()
    rig.run(0.3)
    rig.arm()
    first = next(p for p in rig.robot.sent if p[0] is Command.SERVO)
    assert np.array_equal(first[3], cell.HOME_Q_RAD)


def test_rest_is_measured_anew_after_a_stop():
    rig = armed()
    rig.run(0.3)
    assert rig.state.at_rest
    rig.guard.handle("x", Stop("me"), rig.now_s)
    rig.run(0.096)
    assert not rig.state.at_rest
    assert rig.run(0.05, until=lambda s: s.at_rest)


def test_a_program_that_ignores_silence_is_ended_by_the_controllers_own_stop(monkeypatch):
    monkeypatch.setattr(fake, "HEARTBEAT_LIMIT_S", float("inf"))
    rig = armed()
    rig.guard.fault("internal_error", "injected", rig.now_s)
    rig.run(0.1)
    assert rig.robot.stops == 0
    rig.run(0.2)
    assert rig.robot.stops == 1


def test_a_program_that_does_not_halt_is_ended_by_the_controllers_own_stop():
    rig = armed()
    send = rig.robot.send
    rig.robot.send = lambda command, *rest: send(Command.HOLD if command is Command.HALT else command, *rest)
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    assert rig.run(1.0, until=lambda s: s.at_rest)
    rig.run(0.1)
    assert rig.robot.stops == 0 and not rig.guard.settled
    rig.run(0.2)
    assert rig.robot.stops == 1 and rig.guard.settled


def test_the_newest_stop_is_stamped_when_received_and_when_braking_first_goes_out():
    rig = armed()
    assert rig.state.last_stop == {}
    rig.move(0.5)
    received_s = rig.now_s + 0.001
    rig.guard.stop_requests([(Stop("panel"), 1)], received_s)
    rig.run(DT_S)
    stop = dict(number=1, cause="stop_requested", reaction="BRAKE", received_s=received_s, braking_s=rig.now_s)
    assert rig.state.last_stop == stop
    rig.run(1.0)
    assert rig.state.last_stop == stop  # later set-points do not move it


def test_an_escalated_stop_keeps_when_it_was_received_and_silence_has_no_braking_set_point():
    rig = armed()
    rig.move(0.5)
    rig.guard.fault("loop_late", "", rig.now_s)
    received_s = rig.now_s
    rig.run(DT_S)
    assert rig.state.last_stop["reaction"] == "SILENCE" and "braking_s" not in rig.state.last_stop
    rig.run(3.0)
    assert rig.state.last_stop["received_s"] == received_s and rig.state.last_stop["number"] == 1
    rig.arm()
    rig.move(0.3)
    rig.guard.stop_requests([(Stop("panel"), 1)], rig.now_s)
    assert rig.guard._last_stop["number"] == 2


LONG = "x" * 4000  # the wire takes texts of up to 4096 bytes


def test_long_texts_of_clients_leave_every_answer_and_state_readable():
    rig = Rig(inputs={"camera": 9.0})
    rig.guard.handle(rig.shell, Heartbeat("camera", True), rig.now_s)
    rig.run(0.3)
    assert rig.arm().ok
    verdict = rig.chunk(trace_id=LONG, joint_names=["y" * 12] * 4000)
    assert verdict.reason == "joint_order" and verdict.trace_id == LONG
    rig.guard.handle(rig.shell, Heartbeat("camera", False, LONG), rig.now_s)
    rig.run(DT_S)
    rig.guard.handle("x", Stop(LONG, LONG, LONG), rig.now_s)
    rig.run(DT_S)
    state = decode(encode(rig.state))
    assert state.mode == "STOPPED" and [c[:14] for c in state.causes] == ["input:camera: ", "stop_requested"]
    assert any(c.startswith("input:camera") for c in rig.arm().causes)


# -- clock and link --


def test_clock_and_link_are_measured_and_published():
    rig = Rig()
    rig.run(12.0)
    before = rig.state.counters
    assert before["link_states"] > 1000 and before["link_missed"] == before["link_gaps"] == before["clock_resets"] == 0
    assert abs(before["clock_drift_ppb"]) < 1000 and before["clock_window_s"] >= 10
    rig.robot.silent = True
    rig.run(0.04)
    rig.robot.silent = False
    rig.run(1.5)
    assert (rig.state.counters["link_missed"], rig.state.counters["link_gaps"]) == (5, 1)
    assert 47_000 <= rig.state.counters["link_gap_max_us"] <= 49_000


def test_stamps_that_are_no_time_are_counted_and_the_loop_goes_on():
    rig = Rig()
    rig.run(2.0)
    measure = rig.robot._measure
    rig.robot._measure = lambda now_s: dataclasses.replace(measure(now_s), controller_stamp_s=float("nan"))
    rig.run(1.5)
    assert rig.state.counters["clock_refused:not_finite"] > 100
