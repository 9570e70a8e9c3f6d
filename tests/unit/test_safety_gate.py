"""Every refusal of the gate: its reason, and a detail that names joint, value and limit."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks._policy_chunks import TOKEN, Noise, Session, move, random_target
from steadyhand import cell, kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand.limits import UR5_LIMITS
from steadyhand.plan import Plan, Published, hold_plan
from steadyhand.safety_gate import GateConfig, SafetyGate, setpoint_differences, stop_admissible
from steadyhand.types import JointChunk, Mode, Reason, RobotState

T = 0.008
HOME = cell.HOME_Q_RAD
GATE = SafetyGate()
STILL = np.zeros(6)
STATE = RobotState(10.0, 100, TOKEN, Mode.ARMED_AUTO, HOME, STILL, HOME, STILL, 0.08, 0.08, True)


def chunk(**changes):
    values = dict(
        token=TOKEN, state_seq=99, state_stamp_s=9.99, trace_id="t", source="policy", joint_names=ur5.JOINT_NAMES,
        period_s=0.05, q_rad=np.repeat(HOME[None], 8, 0),
    )  # fmt: skip
    return JointChunk(**(values | changes))


def check(proposal, state=STATE, last_seq=98, now_s=10.0, published=None):
    return GATE.check_chunk(proposal, state, TOKEN, last_seq, now_s, published)


def spoiled(value, row=3, column=2):
    q = np.repeat(HOME[None], 8, 0)
    q[row, column] = value
    return q


def test_good_chunk_passes():
    assert check(chunk()).accepted


@pytest.mark.parametrize(
    ("changes", "reason", "says"),
    [
        ({"q_rad": spoiled(np.nan)}, Reason.NOT_FINITE, r"q_rad\[3, 2\]=nan"),
        ({"q_rad": spoiled(np.inf)}, Reason.NOT_FINITE, "inf"),
        ({"q_rad": [[1.0], [1.0, 2.0]]}, Reason.MALFORMED, "q_rad"),
        ({"q_rad": [["a"] * 6]}, Reason.MALFORMED, "could not convert"),
        ({"period_s": float("nan")}, Reason.NOT_FINITE, "period_s"),
        ({"state_stamp_s": float("inf")}, Reason.NOT_FINITE, "state_stamp_s"),
        ({"state_seq": "next"}, Reason.MALFORMED, "state_seq"),
        ({"state_seq": float("nan")}, Reason.MALFORMED, "state_seq"),
        ({"q_rad": [[None] * 6]}, Reason.NOT_FINITE, "nan"),
        ({"period_s": None}, Reason.MALFORMED, "NoneType"),
        ({"q_rad": np.zeros((8, 5))}, Reason.SHAPE, r"\(8, 5\)"),
        ({"q_rad": np.zeros((0, 6))}, Reason.SHAPE, r"\(0, 6\)"),
        ({"q_rad": np.zeros((65, 6))}, Reason.SHAPE, r"\(65, 6\)"),
        ({"q_rad": np.zeros(6)}, Reason.SHAPE, r"\(6,\)"),
        ({"period_s": 0.001}, Reason.MALFORMED, "0.001"),
        ({"period_s": -0.05}, Reason.MALFORMED, "-0.05"),
        ({"joint_names": ur5.JOINT_NAMES[::-1]}, Reason.JOINT_ORDER, "wrist_3_joint"),
        ({"token": TOKEN + 1}, Reason.FOREIGN_TOKEN, str(TOKEN + 1)),
        ({"state_stamp_s": 9.89}, Reason.EXPIRED, "110.0 ms"),
        ({"state_stamp_s": 10.002}, Reason.FROM_FUTURE, "2.0 ms"),
        ({"state_seq": 98}, Reason.OUT_OF_ORDER, "98 after 98"),
        ({"state_seq": 101}, Reason.WRONG_OBSERVATION, "not published"),
    ],
)
def test_protocol_refusals(changes, reason, says):
    import re

    verdict = check(chunk(**changes))
    assert not verdict.accepted and verdict.reason == reason.value
    assert re.search(says, verdict.detail)


@pytest.mark.parametrize("mode", [Mode.STOPPED, Mode.REST_UNKNOWN])
def test_disarmed_is_refused_before_the_token_is_looked_at(mode):
    assert check(chunk(token=0), replace(STATE, mode=mode)).reason == Reason.NOT_ARMED.value


def test_stamp_must_be_the_one_published_with_the_sequence():
    known = {99: Published(9.99, HOME, STILL)}
    assert check(chunk(), published=known.get).accepted
    assert check(chunk(state_stamp_s=9.991), published=known.get).reason == Reason.WRONG_OBSERVATION.value
    assert check(chunk(state_seq=100), published=known.get).reason == Reason.WRONG_OBSERVATION.value


def motion(offset_of_time, seconds=1.2, start=HOME, history=None):
    """Plan of start + offset(t), resting at its end."""
    t = T * np.arange(1, round(seconds / T) + 1)
    q = start + np.stack([offset_of_time(x) for x in t])
    q[-4:] = q[-4]
    qd = np.vstack([np.diff(q, axis=0) / T, STILL])
    still = np.repeat(start[None], 3, 0) if history is None else history
    return Plan(T, 0.0, q, qd, np.zeros_like(q), still, STILL, STILL, "t")


def bump(joint, height, seconds=1.2):
    """A smooth excursion of one joint and back; acceleration up to 4 pi^2 h / s^2 / 2."""
    return motion(lambda t: np.eye(6)[joint] * height * np.sin(np.pi * min(t / (seconds - 0.05), 1.0)) ** 4, seconds)


def verdict_of(plan):
    return GATE.check_plan(plan, plan.history_rad)


def test_smooth_excursion_passes():
    verdict = verdict_of(bump(0, 0.15))
    assert verdict.accepted, verdict.detail


@pytest.mark.parametrize(
    ("plan", "reason", "says"),
    [
        (bump(0, 0.35, 0.6), Reason.ACCELERATION, "shoulder_pan_joint"),
        (bump(5, 3.0, 1.6), Reason.VELOCITY, "wrist_3_joint"),
        (motion(lambda t: np.eye(6)[2] * (0.02 if t > 0.3 else 0.0)), Reason.ACCELERATION, "elbow_joint"),
        (motion(lambda t: np.eye(6)[2] * (0.0004 if t > 0.3 else 0.0)), Reason.JERK, "elbow_joint"),
        (motion(lambda t: np.eye(6)[4] * 0.02), Reason.CONTINUITY, "set-point 0"),
        (bump(1, 1.0, 3.6), Reason.WORKSPACE, "tool "),
    ],
)
def test_motion_refusals_name_joint_value_and_limit(plan, reason, says):
    verdict = verdict_of(plan)
    assert verdict.reason == reason.value, verdict
    assert says in verdict.detail and "set-point" in verdict.detail


@pytest.mark.parametrize("side", ["tool_min_m", "tool_max_m"])
@pytest.mark.parametrize("axis", range(3))
def test_each_side_of_the_tools_box_is_a_limit(axis, side):
    plan = bump(0, 0.15)
    tool = kinematics.pose_base_link_tool(plan.q_rad)[:, axis, 3]
    box = {name: getattr(UR5_LIMITS, name).copy() for name in ("tool_min_m", "tool_max_m")}
    box[side][axis] = tool.min() + 1e-4 if side == "tool_min_m" else tool.max() - 1e-4
    verdict = SafetyGate(replace(UR5_LIMITS, **box)).check_plan(plan, plan.history_rad)
    assert verdict.reason == Reason.WORKSPACE.value and f"tool {'xyz'[axis]} " in verdict.detail


def test_position_refusal():
    start = HOME.copy()
    start[5] = 2 * np.pi - 0.01
    plan = motion(lambda t: np.eye(6)[5] * 0.05 * min(t, 1.0), start=start)
    verdict = verdict_of(plan)
    assert verdict.reason == Reason.POSITION.value and "wrist_3_joint 6.28" in verdict.detail


def test_self_collision_refusal():
    wide = SafetyGate(replace(UR5_LIMITS, tool_min_m=np.full(3, -2.0), tool_max_m=np.full(3, 2.0)))
    fold = motion(lambda t: np.eye(6)[2] * 1.35 * np.sin(np.pi / 2 * min(t / 3.5, 1.0)) ** 4, 4.0)
    verdict = wide.check_plan(fold, fold.history_rad)
    assert verdict.reason == Reason.SELF_COLLISION.value and " mm, limit 5.0 mm" in verdict.detail


def test_carried_object_counts():
    near_base = motion(lambda t: np.zeros(6))
    assert GATE.check_plan(near_base, near_base.history_rad, carried_radius_m=0.03).accepted
    assert GATE.check_plan(near_base, near_base.history_rad, carried_radius_m=0.4).reason == Reason.SELF_COLLISION.value


@pytest.mark.parametrize("name", ["q_rad", "qd_rad_s", "qdd_rad_s2", "history_rad", "qd_before_rad_s"])
def test_nan_anywhere_in_a_plan_is_refused(name):
    plan = bump(0, 0.1)
    broken = getattr(plan, name).copy()
    broken.flat[-1] = np.nan
    assert GATE.check_plan(replace(plan, **{name: broken}), plan.history_rad).reason == Reason.NOT_FINITE.value


def test_nan_history_is_refused():
    plan = bump(0, 0.1)
    assert GATE.check_plan(plan, np.full((3, 6), np.nan)).reason == Reason.CONTINUITY.value


def test_plan_from_another_place_is_refused():
    plan = bump(0, 0.1)
    assert GATE.check_plan(plan, plan.history_rad + 1e-6).reason == Reason.CONTINUITY.value


def test_plan_that_does_not_end_at_rest_is_refused():
    plan = bump(0, 0.1)
    qd = plan.qd_rad_s.copy()
    qd[-1, 0] = 0.01
    verdict = GATE.check_plan(replace(plan, qd_rad_s=qd), plan.history_rad)
    assert verdict.reason == Reason.STOP_INADMISSIBLE.value and "rest" in verdict.detail


def test_motion_too_curved_to_be_braked_is_refused_although_within_limits():
    """Full speed of the wrist while the shoulder shakes at its acceleration limit: no headroom left to brake."""
    t = T * np.arange(-2, 301)
    shake = 7.8 / 25.0**2
    q = HOME + np.outer(np.sin(25.0 * t) * shake, np.eye(6)[0]) + np.outer(3.0 * t, np.eye(6)[5])
    inside = stop_admissible(q, T)[:200]
    differences = setpoint_differences(q, T)
    assert (np.abs(differences[Reason.ACCELERATION]) < UR5_LIMITS.qdd_max_rad_s2).all()
    assert inside.mean() < 0.9  # refused for most phases of the shake
    calm = HOME + np.outer(1.0 * t, np.ones(6) * 0.4)
    assert stop_admissible(calm, T)[:200].all()


def test_tracking_bound_at_rest_and_moving():
    times = 10.0 + T * np.arange(20)
    still = np.repeat(HOME[None], 20, 0)
    assert GATE.check_cycle(times, still, HOME + 0.029, times[-1], 0.01).accepted
    verdict = GATE.check_cycle(times, still, HOME + np.eye(6)[1] * 0.031, times[-1], 0.01)
    assert (
        verdict.reason == Reason.TRACKING.value and "shoulder_lift_joint 0.0310 rad off, bound 0.0300" in verdict.detail
    )
    moving = HOME + np.outer(times - times[0], np.full(6, 1.0))
    lagging = moving[-1] - 0.02  # 20 ms behind
    assert GATE.check_cycle(times, moving, lagging, times[-1], 0.02).accepted
    assert not GATE.check_cycle(times, moving, lagging - 0.05, times[-1], 0.02).accepted
    assert GATE.check_cycle(times, still, np.full(6, np.nan), times[-1], 0.01).reason == Reason.NOT_FINITE.value
    assert not GATE.check_cycle(times, still * np.nan, HOME, times[-1], 0.01).accepted


def test_refused_chunk_leaves_the_plan_in_force_and_says_why():
    current = hold_plan(HOME, T, 10.0)
    far = chunk(q_rad=np.repeat(HOME[None] + 1.0, 8, 0))
    verdict, plan = GATE.admit(far, STATE, TOKEN, -1, 10.0, 10.008, current, 0)
    assert plan is None and verdict.reason in (
        Reason.ACCELERATION.value,
        Reason.CONTINUITY.value,
        Reason.VELOCITY.value,
    )
    outside = chunk(q_rad=np.repeat(HOME[None] + 9.0, 8, 0))
    verdict, plan = GATE.admit(outside, STATE, TOKEN, -1, 10.0, 10.008, current, 0)
    assert plan is None and verdict.reason == Reason.POSITION.value and "way-point 0" in verdict.detail


def test_realistic_policy_chunks_pass():
    """Under 1 % refused in closed loop (the figure with its n: benchmarks/gate_admission.py)."""
    rng = np.random.default_rng(5)
    session = Session(GATE, HOME)
    for k in range(4):
        move(session, random_target(rng), rng, reactive=bool(k % 2), noise=Noise())
    refused = [v for v in session.verdicts if not v.accepted]
    assert len(session.verdicts) > 150
    assert len(refused) <= 0.01 * len(session.verdicts), [v.detail for v in refused]
    tool = kinematics.pose_base_link_tool(session.commanded[-1])
    assert 0 < tool[2, 3] < 0.4


@pytest.mark.parametrize("change", [
    {"max_age_s": 0.0}, {"max_age_s": float("inf")}, {"max_waypoints": float("nan")}, {"collision_stride": 0},
])  # fmt: skip
def test_bad_configuration_is_refused_by_name(change):
    with pytest.raises(ConfigError, match=f"gate.{next(iter(change))}"):
        GateConfig(**change)
