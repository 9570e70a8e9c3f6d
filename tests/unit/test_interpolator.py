"""Way-points become a smooth plan that starts where the robot is told to be and ends at rest."""

import numpy as np
import pytest

from steadyhand import cell, ur5
from steadyhand.errors import ConfigError
from steadyhand.interpolator import InterpolatorConfig, PlanRefused, build_plan
from steadyhand.limits import UR5_LIMITS
from steadyhand.plan import Published, hold_plan
from steadyhand.types import JointChunk, Reason

T = 0.008
HOME = cell.HOME_Q_RAD


def chunk(q_rad, stamp_s=0.0, period_s=0.05):
    return JointChunk(1, 1, stamp_s, "t", "policy", ur5.JOINT_NAMES, period_s, np.asarray(q_rad, dtype=float))


def published(q_rad=HOME, qd_rad_s=np.zeros(6), stamp_s=0.0):
    return Published(stamp_s, np.asarray(q_rad), np.asarray(qd_rad_s))


def line(speed_rad_s, count=8, start=HOME, period_s=0.05):
    return start + np.outer(np.arange(1, count + 1) * period_s, speed_rad_s)


def test_uniform_motion_under_way_is_followed_exactly_and_on_time():
    speed = np.array([0.3, -0.2, 0.1, 0.0, 0.2, 0.4])
    moving = build_plan(chunk(line(speed)), 0.008, hold_plan(HOME, T, 0.0), 0, answered=published(qd_rad_s=speed))
    index = 25  # 0.208 s: hand-over done
    q, qd, qdd = moving.setpoint(index)
    assert np.allclose(q, HOME + speed * (0.008 + index * T), atol=1e-12)
    assert np.allclose(qd, speed) and np.allclose(qdd, 0.0, atol=1e-9)


def test_waypoint_k_is_wanted_at_stamp_plus_k_plus_1_periods():
    speed = np.full(6, 0.2)
    plan = build_plan(
        chunk(line(speed, 8), stamp_s=10.0), 10.024, hold_plan(HOME, T, 10.0), 0, answered=published(qd_rad_s=speed)
    )
    at_waypoint_5 = round((10.3 - plan.start_s) / T)  # 0.3 s = 6 periods
    assert np.allclose(plan.q_rad[at_waypoint_5], HOME + 0.2 * (plan.start_s + at_waypoint_5 * T - 10.0), atol=1e-9)
    assert np.allclose(plan.q_rad[at_waypoint_5], line(speed)[5], atol=0.2 * T)


def test_last_waypoint_is_met_and_the_plan_ends_at_rest_there_plus_the_tail():
    waypoints = line(np.full(6, 0.2))
    waypoints[-1] = waypoints[-2]  # comes in at rest: no tail to travel
    plan = build_plan(chunk(waypoints), 0.008, hold_plan(HOME, T, 0.0), 0, answered=published())
    assert np.allclose(plan.q_rad[-1], waypoints[-1], atol=1e-6)
    assert not plan.qd_rad_s[-1].any() and not plan.qdd_rad_s2[-1].any()


@pytest.mark.parametrize("blend_s", [0.176, 0.034])  # the second one is no whole number of periods
def test_derivatives_belong_to_the_positions(blend_s):
    rng = np.random.default_rng(3)
    plan = build_plan(
        chunk(HOME + np.cumsum(rng.normal(0, 0.002, (8, 6)), 0)), 0.02, hold_plan(HOME, T, 0.0), 0,
        config=InterpolatorConfig(blend_s=blend_s), answered=published(),
    )  # fmt: skip
    q = np.vstack([plan.history_rad[-1:], plan.q_rad])
    middle = (q[2:] - q[:-2]) / (2 * T)
    assert np.abs(middle - plan.qd_rad_s[:-1]).max() < 2e-2  # second order: jerk * T^2 / 6 at a few hundred rad/s3
    assert np.abs((q[2:] - 2 * q[1:-1] + q[:-2]) / T**2 - plan.qdd_rad_s2[:-1]).max() < 6.0  # jerk * T


def hand_over_step(period_s):
    """Change of (qd, qdd) across the hand-over to a chunk that wants the opposite velocity."""
    config = InterpolatorConfig(period_s=period_s)
    start = hold_plan(HOME, period_s, 0.0)
    first = build_plan(chunk(line(np.full(6, 0.3))), period_s, start, 0, config=config, answered=published())
    index = round(0.096 / period_s)
    q, qd, qdd = first.state_before(index)
    now_s = index * period_s
    other = chunk(line(np.full(6, -0.1), start=q), stamp_s=now_s)
    second = build_plan(other, now_s + period_s, first, index, config=config, answered=published(q, qd, now_s))
    assert np.array_equal(second.history_rad, first.history_at(index))
    return np.abs(second.qd_rad_s[0] - qd).max(), np.abs(second.qdd_rad_s2[0] - qdd).max()


def test_hand_over_steps_neither_velocity_nor_acceleration():
    coarse, fine = hand_over_step(0.008), hand_over_step(0.0005)
    assert fine[0] < coarse[0] / 8 and fine[1] < coarse[1] / 8  # a step would stay whatever the period


def test_from_standstill_the_first_setpoint_hardly_moves():
    plan = build_plan(chunk(line(np.full(6, 0.2))), 0.02, hold_plan(HOME, T, 0.0), 0, answered=published())
    assert np.abs(plan.q_rad[0] - HOME).max() < 2e-4
    assert np.abs(plan.qd_rad_s[0]).max() < 0.03


def test_everything_past_is_refused():
    with pytest.raises(PlanRefused) as refusal:
        build_plan(chunk(line(np.full(6, 0.2))), 0.41, hold_plan(HOME, T, 0.0), 0)
    assert refusal.value.reason is Reason.EXPIRED


def test_too_fast_at_the_end_is_refused_with_joint_and_limit():
    speed = np.zeros(6)
    speed[2] = 4.0
    with pytest.raises(PlanRefused, match="elbow_joint 4.000 rad/s at the last way-point, limit 3.142"):
        build_plan(chunk(line(speed)), 0.008, hold_plan(HOME, T, 0.0), 0, answered=published())


def test_unknown_commanded_state_is_refused():
    with pytest.raises(PlanRefused) as refusal:
        build_plan(chunk(line(np.zeros(6))), 0.008, hold_plan(HOME, T, 0.0), 0, answered=published(np.full(6, np.nan)))
    assert refusal.value.reason is Reason.NOT_FINITE


@pytest.mark.parametrize("count", [1, 2, 64])
def test_few_and_many_waypoints(count):
    plan = build_plan(
        chunk(line(np.full(6, 0.05), count)), 0.008, hold_plan(HOME, T, 0.0), 0, UR5_LIMITS, answered=published()
    )
    assert np.isfinite(plan.q_rad).all() and not plan.qd_rad_s[-1].any()
    assert len(plan) >= 22  # at least the hand-over


@pytest.mark.parametrize("change", [{"period_s": 0.0}, {"period_s": float("nan")}, {"blend_s": 0.01}, {"blend_s": 2.0}])
def test_bad_configuration_is_refused_by_name(change):
    with pytest.raises(ConfigError, match=f"interpolator.{next(iter(change))}"):
        InterpolatorConfig(**change)
