"""Whatever is proposed: refused with a reason, or every set-point keeps every limit. Checked from q only."""

from dataclasses import replace

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhand import cell, kinematics, ur5
from steadyhand.limits import UR5_LIMITS as LIMITS
from steadyhand.plan import Published, hold_plan
from steadyhand.safety_gate import SafetyGate
from steadyhand.types import JointChunk, Mode, Reason, RobotState

T = 0.008
GATE = SafetyGate()
TOKEN = 5
REASONS = {r.value for r in Reason}
SLOW = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def offer(current, index, waypoints, now_s, age_s, period_s, names=ur5.JOINT_NAMES, published=True):
    """(verdict, plan) of a chunk that answers the state of `age_s` ago."""
    q, qd, _ = current.state_before(index)
    state = RobotState(now_s, 50, TOKEN, Mode.ARMED_AUTO, q, qd, q, qd, 0.08, 0.08, False)
    chunk = JointChunk(TOKEN, 50, now_s - age_s, "t", "policy", names, period_s, waypoints)
    answered = Published(now_s - age_s, q, qd)
    return GATE.admit(
        chunk, state, TOKEN, 49, now_s, now_s + T, current, index, published=(lambda _: answered) if published else None
    )


def assert_limits(history, q):
    """The independent checker: nothing but positions at 8 ms, held at the end."""
    assert np.isfinite(q).all()
    assert (q >= LIMITS.q_min_rad).all() and (q <= LIMITS.q_max_rad).all()
    points = np.vstack([history, q, [q[-1]] * 4])
    velocity = (points[1:] - points[:-1]) / 0.008
    acceleration = (velocity[1:] - velocity[:-1]) / 0.008
    jerk = (acceleration[1:] - acceleration[:-1]) / 0.008
    assert np.all(np.abs(velocity) <= LIMITS.qd_max_rad_s)
    assert np.all(np.abs(acceleration) <= LIMITS.qdd_max_rad_s2)
    assert np.all(np.abs(jerk) <= LIMITS.qddd_max_rad_s3)
    for point in q:
        tool = kinematics.pose_base_link_tool(point)[:3, 3]
        assert (tool >= LIMITS.tool_min_m).all() and (tool <= LIMITS.tool_max_m).all()


def wander(rng, count, scale, start=cell.HOME_Q_RAD):
    """(count, 6) way-points with random velocity and acceleration of about `scale` (rad/s, rad/s2)."""
    speed = np.cumsum(rng.normal(0, scale * 0.05, (count, 6)), axis=0)
    return start + np.cumsum(speed * 0.05, axis=0)


@st.composite
def hostile_waypoints(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, 64))
    q = wander(rng, count, 10 ** draw(st.floats(-2, 2)))
    spoil = draw(st.sampled_from(["none", "none", "none", "nan", "inf", "huge", "permuted", "jump", "constant", "far"]))
    row, column = draw(st.integers(0, count - 1)), draw(st.integers(0, 5))
    if spoil in ("nan", "inf", "huge"):
        q[row, column] = {"nan": np.nan, "inf": -np.inf, "huge": draw(st.sampled_from([1e3, 1e30, 1e300]))}[spoil]
    elif spoil == "permuted":
        q = q[:, rng.permutation(6)]
    elif spoil == "jump":
        q[row:, column] += draw(st.floats(-1, 1))
    elif spoil == "constant":
        q[:] = draw(st.floats(-7, 7))
    elif spoil == "far":
        q += draw(st.floats(-3, 3))
    return q


@SLOW
@given(
    first=hostile_waypoints(),
    second=hostile_waypoints(),
    index=st.integers(0, 120),
    age_s=st.floats(0, 0.1),
    period_s=st.floats(0.02, 0.1),
    published=st.booleans(),
)
def test_refused_with_a_reason_or_within_every_limit(first, second, index, age_s, period_s, published):
    current = hold_plan(cell.HOME_Q_RAD, T, 10.0)
    for waypoints, at in ((first, 0), (second, index)):
        verdict, plan = offer(current, at, waypoints, 10.0 + at * T, age_s, period_s, published=published)
        assert verdict.accepted == (plan is not None)
        if plan is None:
            assert verdict.reason in REASONS and verdict.detail
        else:
            assert_limits(current.history_at(at), plan.q_rad)
            current = plan


@SLOW
@given(seed=st.integers(0, 2**32), scale=st.floats(0.05, 1.0), index=st.integers(0, 60), age_s=st.floats(0, 0.05))
def test_gentle_motion_from_a_moving_plan_is_admitted_and_keeps_the_limits(seed, scale, index, age_s):
    """The counterpart: a gate that refuses everything would pass the test above."""
    rng = np.random.default_rng(seed)
    still = hold_plan(cell.HOME_Q_RAD, T, 10.0)
    verdict, plan = offer(still, 0, wander(rng, 8, scale), 10.0, 0.0, 0.05)
    assert verdict.accepted, verdict.detail
    q, qd, _ = plan.state_before(index)
    onward = wander(rng, 8, scale, q) + np.outer(np.arange(1, 9) * 0.05, qd)
    verdict, follow = offer(plan, index, onward, 10.0 + index * T, age_s, 0.05)
    assert verdict.accepted, verdict.detail
    assert_limits(plan.history_at(index), follow.q_rad)


@SLOW
@given(
    row=st.integers(0, 7),
    column=st.integers(0, 5),
    value=st.sampled_from([np.nan, np.inf, -np.inf]),
    where=st.sampled_from(["q", "period", "stamp", "answered_q", "answered_qd", "current"]),
)
def test_nan_is_never_admitted(row, column, value, where):
    current = hold_plan(cell.HOME_Q_RAD, T, 10.0)
    waypoints = np.repeat(cell.HOME_Q_RAD[None], 8, 0)
    period_s, stamp_s = 0.05, 9.99
    answered = Published(9.99, cell.HOME_Q_RAD.copy(), np.zeros(6))
    if where == "q":
        waypoints[row, column] = value
    elif where == "period":
        period_s = value
    elif where == "stamp":
        stamp_s = value
    elif where == "answered_q":
        answered.q_commanded_rad[column] = value
    elif where == "answered_qd":
        answered.qd_commanded_rad_s[column] = value
    else:
        history = current.history_rad.copy()
        history[-1, column] = value
        current = replace(current, history_rad=history)
    state = RobotState(10.0, 9, TOKEN, Mode.ARMED_AUTO, *[cell.HOME_Q_RAD] * 4, 0.0, 0.0, True)
    chunk = JointChunk(TOKEN, 9, stamp_s, "t", "policy", ur5.JOINT_NAMES, period_s, waypoints)
    verdict, plan = GATE.admit(chunk, state, TOKEN, 8, 10.0, 10.008, current, 0, published=lambda _: answered)
    assert plan is None and not verdict.accepted and verdict.reason in REASONS


@SLOW
@given(order=st.permutations(range(6)))
def test_permuted_joint_names_are_refused(order):
    names = tuple(ur5.JOINT_NAMES[k] for k in order)
    current = hold_plan(cell.HOME_Q_RAD, T, 10.0)
    verdict, plan = offer(current, 0, np.repeat(cell.HOME_Q_RAD[None], 8, 0), 10.0, 0.01, 0.05, names)
    if list(order) == list(range(6)):
        assert plan is not None
    else:
        assert plan is None and verdict.reason == Reason.JOINT_ORDER.value
