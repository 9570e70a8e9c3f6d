"""Stops end at rest, soon, on the path and within the limits."""

import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.braking import profiles, scale_to_rest, stop_tail
from steadyhand.interpolator import build_plan
from steadyhand.limits import UR5_LIMITS
from steadyhand.plan import Published, hold_plan
from steadyhand.types import JointChunk

T = 0.008
HOME = cell.HOME_Q_RAD


def moving_plan(speed, count=20):
    ramp = np.minimum(np.arange(1, count + 1) / 8, 1.0)  # full speed after 0.4 s
    q = HOME + np.outer(np.cumsum(ramp) * 0.05, speed)
    chunk = JointChunk(1, 1, 0.0, "t", "policy", ur5.JOINT_NAMES, 0.05, q)
    return build_plan(chunk, 0.008, hold_plan(HOME, T, 0.0), 0, answered=Published(0.0, HOME, np.zeros(6)))


def differences(plan):
    points = np.vstack([plan.history_rad, plan.q_rad, np.repeat(plan.q_rad[-1:], 3, 0)])
    return [np.abs(np.diff(points, k, axis=0)).max(axis=0) / T**k for k in (1, 2, 3)]


def test_profiles_are_their_own_derivatives_and_end_at_half_their_duration():
    for profile in profiles(T):
        assert profile.s_s[-1] == pytest.approx(profile.duration_s / 2)  # the mean of a profile symmetric about 1/2
        fine = np.diff(np.append(0.0, profile.s_s)) / T
        assert np.all(np.diff(np.append(1.0, profile.sd)) <= 1e-12) and profile.sd[-1] == 0.0
        between = (np.append(1.0, profile.sd[:-1]) + profile.sd) / 2
        assert np.abs(fine - between).max() <= profile.jerk_1_s2 * T**2 / 8


def test_stop_from_uniform_motion_is_near_the_time_optimum():
    plan = moving_plan(np.array([1.0, 0.3, -0.5, 0, 0, 0]) * 0.5)
    stop = scale_to_rest(plan, 60)
    fastest = 0.5 / UR5_LIMITS.qdd_max_rad_s2[0]
    assert fastest < stop.stop_s < 2.5 * fastest + 0.02
    assert not stop.ran_out and not stop.plan.qd_rad_s[-1].any()
    assert np.allclose(stop.distance_rad, np.abs(stop.plan.q_rad[-1] - plan.q_rad[59]))


def test_first_setpoint_already_brakes():
    plan = moving_plan(np.full(6, 0.4))
    stop = scale_to_rest(plan, 60)
    assert (np.abs(stop.plan.q_rad[0] - plan.q_rad[59]) < np.abs(plan.q_rad[60] - plan.q_rad[59])).all()
    assert stop.plan.start_s == pytest.approx(plan.start_s + 60 * T)


@pytest.mark.parametrize("index", [0, 1, 5, 20, 60, 130])
def test_stop_keeps_the_limits(index):
    stop = scale_to_rest(moving_plan(np.array([0.5, 0.4, -0.6, 0.5, 0.3, -0.9])), index)
    for value, limit in zip(
        differences(stop.plan), (UR5_LIMITS.qd_max_rad_s, UR5_LIMITS.qdd_max_rad_s2, UR5_LIMITS.qddd_max_rad_s3)
    ):
        assert (value <= limit).all()


def test_past_the_end_there_is_nothing_to_stop():
    plan = moving_plan(np.full(6, 0.2))
    stop = scale_to_rest(plan, len(plan) + 100)
    assert np.array_equal(stop.plan.q_rad, np.repeat(plan.q_rad[-1:], len(stop.plan), 0))
    assert not stop.distance_rad.any()


def test_at_standstill_it_stays():
    stop = scale_to_rest(hold_plan(HOME, T, 0.0), 0)
    assert np.array_equal(stop.plan.q_rad[-1], HOME)


def test_tail_is_continuous_and_ends_at_rest():
    qd = np.array([1.0, -0.5, 0.3, 0.0, 2.0, -1.0])
    q, v, a = stop_tail(HOME, qd, np.zeros(6))
    points = np.vstack([HOME - qd * T * np.array([[3], [2], [1]]) + qd * T, q])  # uniform motion up to HOME
    assert np.abs(np.diff(points, 2, axis=0) / T**2).max(axis=0) == pytest.approx(np.abs(a).max(axis=0), abs=1.0)
    assert (np.abs(a) <= UR5_LIMITS.stop_qdd_rad_s2 + 1e-9).all()
    assert not v[-1].any() and not a[-1].any()


def test_tail_from_standstill_is_one_setpoint():
    q, v, a = stop_tail(HOME, np.zeros(6), np.zeros(6))
    assert q.shape == (1, 6) and np.array_equal(q[0], HOME)
