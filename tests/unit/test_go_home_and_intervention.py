"""The way home is checked whole; interventions are recorded, labelled, and become demonstrations."""
import dataclasses
import json

import numpy as np
import pytest

from steadyhand import cell, go_home, kinematics, policy_io
from steadyhand.errors import ConfigError
from steadyhand.intervention import BadRecording, Recorder, demonstration, label
from steadyhand.jog import JogCommand
from steadyhand.limits import UR5_LIMITS
from steadyhand.trace import encode
from steadyhand.types import Mode, RobotState

CONFIG = go_home.HomeConfig()


def at(x_m, y_m, z_m, yaw_rad=0.0):
    return kinematics.ik_near(kinematics.tool_down(x_m, y_m, z_m, yaw_rad), cell.HOME_Q_RAD)


def sampled(legs):
    end_s = legs[-1].start_s + legs[-1].duration_s
    times = np.arange(legs[0].start_s, end_s, 0.02)
    return np.concatenate([go_home.waypoints(legs, t, 1, 0.02) for t in times])


@pytest.mark.parametrize("place", [(0.5, -0.2, 0.03), (0.6, 0.3, 0.05), (0.4, 0.0, 0.30), (0.35, 0.2, 0.34)])
def test_home_is_reached_slowly_and_within_limits(place):
    legs = go_home.plan_home(at(*place), 5.0)
    q = sampled(legs)
    assert np.allclose(legs[-1].goal_q_rad, cell.HOME_Q_RAD) and go_home.check(legs, UR5_LIMITS) == ""
    assert np.abs(np.diff(q, axis=0)).max() / 0.02 <= CONFIG.joint_rad_s * 1.01
    assert (len(legs) == 2) == (place[2] < CONFIG.heights_m[0])
    assert all(a.start_s + a.duration_s == pytest.approx(b.start_s) for a, b in zip(legs, legs[1:]))


def test_a_low_tool_rises_straight_with_its_orientation_kept():
    q0 = at(0.5, -0.2, 0.03, 0.4)
    lift = go_home.plan_home(q0, 0.0)[0]
    poses = kinematics.pose_base_link_tool(np.stack([lift.at(t) for t in np.linspace(0, lift.duration_s, 60)]))
    assert np.abs(poses[:, :2, 3] - poses[0, :2, 3]).max() < 5e-4 and (np.diff(poses[:, 2, 3]) >= -1e-6).all()
    assert np.abs(poses[:, :3, :3] - poses[0, :3, :3]).max() < 2e-3


def test_the_lift_keeps_the_joints_slow_too():
    slow = go_home.HomeConfig(joint_rad_s=0.05)
    lift = go_home.plan_home(at(0.5, -0.2, 0.03), 0.0, slow)[0]
    q = np.stack([lift.at(t) for t in np.arange(0.0, lift.duration_s, 0.01)])
    assert 0.04 < np.abs(np.diff(q, axis=0)).max() / 0.01 <= 0.05 * 1.02


def test_no_way_home_says_what_is_in_the_way():
    narrow = dataclasses.replace(UR5_LIMITS, tool_max_m=np.array([0.85, 0.60, 0.20]))
    with pytest.raises(go_home.NoWayHome, match="tool z .* leaves its box.*jog the arm free"):
        go_home.plan_home(at(0.5, -0.2, 0.03), 0.0, limits=narrow)


def test_a_way_that_comes_too_close_is_no_way():
    wide = dataclasses.replace(UR5_LIMITS, min_clearance_m=0.15)
    with pytest.raises(go_home.NoWayHome, match="come within"):
        go_home.plan_home(at(0.5, -0.2, 0.03), 0.0, limits=wide)


def test_a_way_that_is_not_finite_is_wrong():
    leg = dataclasses.replace(go_home.plan_home(at(0.4, 0.0, 0.30), 0.0)[0], at=lambda t: np.full(6, np.nan))
    assert "leaves its range" in go_home.check([leg], UR5_LIMITS)


@pytest.mark.parametrize("heights_m", [(), (0.3, 0.2), (-0.1, 0.3), (0.3, float("nan")), (0.3, 2.0)])
def test_heights_that_do_not_rise_are_refused_by_name(heights_m):
    with pytest.raises(ConfigError, match="heights_m"):
        go_home.HomeConfig(heights_m=heights_m)


# --- interventions ---


def state(k, mode=Mode.ARMED_MANUAL, q=cell.HOME_Q_RAD, causes=(), gripper_m=0.085):
    q = np.array(q, dtype=float)
    return RobotState(0.008 * k, k, 7, mode, q, np.zeros(6), q, np.zeros(6), gripper_m, gripper_m, True, causes)


def play(recorder, states, command=None):
    return [r for s in states for r in recorder.step(s, command)]


TAKEOVER = ("stop_requested: takeover: by ann",)


def recorded():
    recorder = Recorder()
    records = play(recorder, [state(0, Mode.ARMED_AUTO), state(1, Mode.STOPPED, causes=TAKEOVER)])
    assert records == []
    path = [at(0.40 + 0.0002 * k, 0.1, 0.2, 0.001 * k) for k in range(100)]
    states = [state(2 + k, q=q, gripper_m=0.085 if k < 50 else 0.0) for k, q in enumerate(path)]
    records += play(recorder, states, JogCommand(0.0, (0.025, 0, 0, 0, 0, 0.1)))
    ended = [state(102, Mode.STOPPED, causes=("disarmed: operator",)), state(103, Mode.STOPPED)]
    return records + play(recorder, ended)


def lines(records):
    return [json.loads(encode(r)) for r in records]


def test_an_intervention_has_a_beginning_its_steps_and_an_end():
    records = recorded()
    kinds = [r.kind for r in records]
    assert kinds[0] == "begin" and kinds[-1] == "end" and kinds.count("begin") == kinds.count("end") == 1
    begin, end = records[0].fields, records[-1].fields
    assert (begin["label"], begin["from_mode"], begin["causes"]) == ("takeover", "ARMED_AUTO", list(TAKEOVER))
    assert kinds.count("step") == end["steps"] == pytest.approx(100 * 0.008 / policy_io.PERIOD_S, abs=1)
    assert end["ended_by"] == ["disarmed: operator"] and end["at_rest"]
    assert records[1].fields["command"] == {"kind": "twist", "frame": "base_link", "values": [0.025, 0, 0, 0, 0, 0.1]}


def test_it_becomes_a_demonstration_in_the_policys_action_space():
    demo = demonstration(lines(recorded()))
    assert demo.label == "takeover" and demo.complete and demo.tilt_rad < 1e-3
    moved = demo.actions[:, 0].sum() * policy_io.STEP_M
    ends = kinematics.pose_base_link_tool(demo.q_commanded_rad[[0, -1]])[:, 0, 3]
    assert moved == pytest.approx(ends[1] - ends[0], abs=1e-5) and moved > 0.015
    assert demo.actions[:, 3].sum() * policy_io.STEP_YAW_RAD == pytest.approx(0.001 * 94, abs=0.01)
    assert demo.actions[0, 4] == -1.0 and demo.actions[-1, 4] == 1.0


def test_its_actions_lead_back_to_its_motion():
    demo = demonstration(lines(recorded()))
    poses = policy_io.tool_waypoints(demo.actions, kinematics.pose_base_link_tool(demo.q_commanded_rad[0]))
    assert np.abs(poses - kinematics.pose_base_link_tool(demo.q_commanded_rad[1:])).max() < 1e-4


def test_a_turn_through_half_a_circle_is_no_jump():
    recorded_lines = lines(recorded())
    start, steps = at(0.5, -0.1, 0.2, np.pi - 0.05), [r for r in recorded_lines if r["kind"] == "step"]
    for k, r in enumerate(steps):
        r["q_commanded_rad"] = [*start[:5], start[5] - 0.02 * k]
    demo = demonstration(recorded_lines)
    turned = np.abs(kinematics.pose_base_link_tool(demo.q_commanded_rad[[0, -1]])[:, 1, 0]).max()
    assert turned < 0.5 and np.allclose(np.abs(demo.actions[:, 3]), 0.02 / policy_io.STEP_YAW_RAD, atol=1e-3)
    yaws = [policy_io.tool_yaw(p) for p in kinematics.pose_base_link_tool(demo.q_commanded_rad)]
    assert max(yaws) - min(yaws) > 6.0  # the seam was crossed


@pytest.mark.parametrize("spoil", [
    lambda r: r[1:], lambda r: r[:2], lambda r: [], lambda r: [r[0], {"kind": "step"}, {"kind": "step"}],
    lambda r: [r[0], *({**x, "q_commanded_rad": ["NaN"] * 6} for x in r[1:4])],
    lambda r: [r[0], *({**x, "q_commanded_rad": [0.0] * 5} for x in r[1:4])],
    lambda r: [r[0], *({**x, "q_rad": ["nan"] * 6} for x in r[1:4])],
    lambda r: [r[0], *({**x, "gripper_commanded_m": "nan"} for x in r[1:4])],
    lambda r: [r[0], *({**x, "stamp_s": "inf"} for x in r[1:4])],
])  # fmt: skip
def test_what_is_no_whole_intervention_is_refused(spoil):
    with pytest.raises(BadRecording):
        demonstration(spoil(lines(recorded())))


def test_an_intervention_cut_off_is_said_to_be_so():
    assert not demonstration(lines(recorded()[:-1])).complete


@pytest.mark.parametrize("mode, causes, name", [
    (Mode.RECOVERING, ("margin: x",), "recover"),
    (Mode.ARMED_MANUAL, TAKEOVER, "takeover"),
    (Mode.ARMED_MANUAL, ("stop_requested: cli",), "manual"),
    (Mode.ARMED_MANUAL, ("started: arm to begin",), "manual"),
    (Mode.ARMED_MANUAL, ("tracking: shoulder", "disarmed: operator"), "after_fault"),
])  # fmt: skip
def test_labels(mode, causes, name):
    assert label(mode, causes) == name
