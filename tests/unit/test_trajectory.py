"""Planned paths: boundary states, limits, straightness."""
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand import cell, kinematics, trajectory
from steadyhand.errors import KinematicsError

HOME = cell.HOME_Q_RAD
vectors = st.lists(st.floats(-1.0, 1.0), min_size=6, max_size=6).map(np.array)


def derivatives(path, h=5e-4):
    t = np.arange(0.0, path.duration_s + 2 * h, h)
    q = np.stack([path.q_rad(path.start_s + x) for x in t])
    return q, np.gradient(q, h, axis=0), np.gradient(np.gradient(q, h, axis=0), h, axis=0)


@settings(max_examples=15, deadline=None)
@given(vectors, vectors)
def test_joint_moves_keep_their_limits_and_end_at_rest(goal, velocity):
    path = trajectory.joint_move(5.0, HOME, 0.5 * velocity, HOME + goal, 1.6, 5.0)
    q, qd, qdd = derivatives(path)
    assert np.allclose(q[0], HOME) and np.allclose(q[-1], HOME + goal, atol=1e-6)
    assert np.allclose(qd[0], 0.5 * velocity, atol=2e-2) and np.abs(qd[-1]).max() < 1e-3
    assert np.abs(qd).max() < 3.0 and np.abs(qdd[2:-2]).max() < 9.0


@pytest.mark.parametrize("distance_rad, order, limit", [(2.0, 1, 1.6), (0.1, 2, 5.0)])
def test_a_joint_move_from_rest_uses_its_speed_or_its_acceleration_to_the_full(distance_rad, order, limit):
    path = trajectory.joint_move(0.0, HOME, np.zeros(6), HOME + distance_rad, 1.6, 5.0)
    assert np.abs(derivatives(path)[order][2:-2]).max() == pytest.approx(limit, rel=0.01)


def test_a_fast_arm_gets_time_to_end_a_short_move():
    path = trajectory.joint_move(0.0, HOME, np.full(6, 2.0), HOME + 0.01, 1.6, 5.0)
    assert path.duration_s >= 2.0 * 2.0 / 5.0


@settings(max_examples=15, deadline=None)
@given(vectors)
def test_braking_goes_on_in_its_own_direction_and_stops(velocity):
    path = trajectory.brake(0.0, HOME, velocity, 4.0)
    q, qd, qdd = derivatives(path)
    assert np.abs(qd[-1]).max() < 2e-3 and np.abs(qdd[2:-2]).max() < 4.5
    assert (qd * velocity > -1e-6).all()  # never backwards
    assert path.duration_s <= max(0.1, 1.5 * np.abs(velocity).max() / 4.0) + 1e-9


def test_a_tool_line_is_straight_and_on_its_branch():
    start = kinematics.pose_base_link_tool(HOME)[:3, 3]
    goal = start + [0.1, -0.15, -0.12]
    path = trajectory.tool_line(2.0, HOME, goal, 0.4, 0.3, 1.0)
    for t in np.linspace(0, path.duration_s, 60):
        tool = kinematics.pose_base_link_tool(path.q_rad(2.0 + t))
        along = (tool[:3, 3] - start) @ (goal - start) / np.linalg.norm(goal - start)
        off = tool[:3, 3] - start - along * (goal - start) / np.linalg.norm(goal - start)
        assert np.linalg.norm(off) < 5e-4
        assert tool[2, 2] < -0.9999  # points down all the way
    assert np.allclose(kinematics.pose_base_link_tool(path.goal_q_rad)[:3, 3], goal, atol=1e-5)


@pytest.mark.parametrize("joint, tilt_rad", [(4, 0.68), (4, -0.5), (3, 0.4), (5, 2.5)])
def test_a_tool_that_is_tilted_at_first_is_turned_upright_on_the_way(joint, tilt_rad):
    tilted = HOME + tilt_rad * np.eye(6)[joint]
    position = kinematics.pose_base_link_tool(tilted)[:3, 3]
    path = trajectory.tool_line(2.0, tilted, position + [0.0, 0.0, 0.05], 0.0, 0.3, 1.0)
    q = np.stack([path.q_rad(2.0 + t) for t in np.arange(0.0, path.duration_s + 0.008, 0.008)])
    assert np.allclose(q[0], tilted) and np.abs(np.diff(q, axis=0) / 0.008).max() < 2.0
    pose = kinematics.pose_base_link_tool(q[-1])
    assert np.allclose(pose[:3, 3], position + [0.0, 0.0, 0.05], atol=1e-5)
    assert pose[2, 2] < -0.9999 and abs(np.arctan2(pose[1, 0], pose[0, 0])) < 1e-4


def test_a_line_out_of_reach_raises():
    with pytest.raises(KinematicsError):
        trajectory.tool_line(0.0, HOME, np.array([1.5, 0.0, 0.2]), 0.0, 0.3, 1.0)


def test_windows_slide_and_hold_the_end():
    path = trajectory.joint_move(1.0, HOME, np.zeros(6), HOME + 0.3, 1.6, 5.0)
    a, b = path.waypoints(1.0, 12, 0.05), path.waypoints(1.05, 12, 0.05)
    assert np.allclose(a[1:], b[:-1])
    assert np.allclose(path.waypoints(99.0, 3, 0.05), HOME + 0.3)
    assert not path.over(1.0) and path.over(1.0 + path.duration_s)
