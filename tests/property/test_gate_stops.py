"""From any set-point of an admitted plan: the S1 stop stays on the path, within limits, and ends at rest in time."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from steadyhand import cell, ur5
from steadyhand.braking import scale_to_rest, stop_tail
from steadyhand.limits import UR5_LIMITS as LIMITS
from steadyhand.plan import Published, hold_plan
from steadyhand.safety_gate import SafetyGate
from steadyhand.types import JointChunk, Mode, RobotState

T = 0.008
GATE = SafetyGate()
SLOW = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


def admitted_plan(seed, count, scale):
    """A plan that the gate admitted from standstill, or None."""
    rng = np.random.default_rng(seed)
    speed = np.cumsum(rng.normal(0, scale * 0.05, (count, 6)), axis=0)
    waypoints = cell.HOME_Q_RAD + np.cumsum(speed * 0.05, axis=0)
    state = RobotState(10.0, 9, 5, Mode.ARMED_AUTO, *[cell.HOME_Q_RAD] * 4, 0.0, 0.0, True)
    chunk = JointChunk(5, 9, 10.0, "t", "planner", ur5.JOINT_NAMES, 0.05, waypoints)
    answered = Published(10.0, cell.HOME_Q_RAD, np.zeros(6))
    return GATE.admit(
        chunk, state, 5, 8, 10.0, 10.008, hold_plan(cell.HOME_Q_RAD, T, 10.0), 0, published=lambda _: answered
    )[1]


def assert_sound(plan, index):
    stop = scale_to_rest(plan, index)
    held = np.vstack([plan.history_rad, plan.q_rad, [plan.q_rad[-1]] * (index + 3)])
    history = held[index : index + 3]
    q = stop.plan.q_rad
    points = np.vstack([history, q, [q[-1]] * 4])
    for order, limit in ((1, LIMITS.qd_max_rad_s), (2, LIMITS.qdd_max_rad_s2), (3, LIMITS.qddd_max_rad_s3)):
        assert (np.abs(np.diff(points, order, axis=0)) / T**order <= limit).all()
    assert not stop.plan.qd_rad_s[-1].any()
    assert stop.stop_s <= LIMITS.max_stop_s + T
    # a chord lies within |qdd| T^2 / 8 of its arc; the path between set-points is an arc
    polyline = held[index + 2 :]
    assert distance_to_polyline(q, polyline).max() <= np.linalg.norm(LIMITS.qdd_max_rad_s2) * T**2 / 8
    # never behind where the plan itself would be, and never back
    along = np.linalg.norm(np.diff(np.vstack([history[-1:], q]), axis=0), axis=1).sum()
    assert along <= np.linalg.norm(np.diff(polyline, axis=0), axis=1).sum() + 1e-9
    return stop


def distance_to_polyline(points, polyline):
    """(K,) least distance of points to a polyline in joint space."""
    a, u = polyline[:-1], np.diff(polyline, axis=0)
    length = np.maximum((u * u).sum(axis=1), 1e-30)
    w = points[:, None] - a
    t = np.clip((w * u).sum(axis=2) / length, 0, 1)
    return np.linalg.norm(w - t[..., None] * u, axis=2).min(axis=1)


@SLOW
@given(seed=st.integers(0, 2**32), count=st.integers(2, 64), scale=st.floats(0.1, 6.0), where=st.floats(0, 1.1))
def test_stop_from_any_setpoint(seed, count, scale, where):
    plan = admitted_plan(seed, count, scale)
    assume(plan is not None)
    assert_sound(plan, int(where * len(plan)))


@pytest.mark.parametrize("seed", range(6))
def test_stop_from_every_setpoint_of_a_long_lively_plan(seed):
    plan = next(p for s in range(1000) if (p := admitted_plan([seed, s], 40, 2.5)) is not None)
    stops = [assert_sound(plan, k) for k in range(len(plan))]
    assert max(s.distance_rad.max() for s in stops) > 0.05  # it moved
    assert not all(s.ran_out for s in stops)


@SLOW
@given(
    qd=st.lists(st.floats(-np.pi, np.pi), min_size=6, max_size=6),
    qdd=st.lists(st.floats(-5, 5), min_size=6, max_size=6),
)
def test_tail_from_any_state_ends_at_rest_within_its_limits(qd, qdd):
    q, v, a = stop_tail(cell.HOME_Q_RAD, np.array(qd), np.array(qdd))
    assert not v[-1].any() and not a[-1].any() and np.isfinite(q).all()
    assert (np.abs(a) <= np.maximum(LIMITS.stop_qdd_rad_s2, np.abs(qdd)) + 1e-6).all()
    jerk = np.diff(np.vstack([qdd, a]), axis=0) / T
    assert (np.abs(jerk) <= LIMITS.stop_qddd_rad_s3 * 1.001 + 1e-6).all()
