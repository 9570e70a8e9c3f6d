"""What an action means: displacement asked for, approached within an acceleration; the tool keeps pointing down."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("gymnasium")

from steadyhand import cell, kinematics, policy_io  # noqa: E402
from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand.policy_io import PERIOD_S, STEP_M  # noqa: E402
from steadyhand_sim.envs import formulations as f  # noqa: E402
from steadyhand_sim.envs.formulations import Arm, Unreachable, check_formulation, joint_step  # noqa: E402

Q = kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.2, 0.3), cell.HOME_Q_RAD, max_iterations=100)
actions = st.lists(st.floats(-1.0, 1.0), min_size=5, max_size=5).map(np.array)


def arm(twist=np.zeros(6)):
    """The arm at Q with a tool velocity (6,)."""
    return Arm.at(Q, np.linalg.solve(kinematics.jacobian(Q), twist))


def test_the_arm_is_that_of_the_runtime():
    moving = arm(np.array([0.1, 0.05, -0.1, 0, 0, 0.2]))
    assert np.allclose(moving.pose, kinematics.pose_base_link_tool(Q))
    assert np.allclose(moving.twist, [0.1, 0.05, -0.1, 0, 0, 0.2]) and moving.speed_m_s == pytest.approx(0.15)


@given(actions)
@settings(max_examples=60, deadline=None)
def test_from_rest_the_velocity_changes_by_the_acceleration_and_no_more(action):
    first, later = joint_step(f.CARTESIAN, action, arm())
    jacobian = kinematics.jacobian(Q)
    for step, periods in ((first, 1), (later, 2)):
        velocity = jacobian @ step / PERIOD_S
        wanted = np.linalg.norm(action[:3]) * STEP_M / PERIOD_S
        speed = np.linalg.norm(velocity[:3])
        assert speed <= min(wanted, periods * f.START_M_S2 * PERIOD_S) + 1e-9
        if speed > 1e-6:
            assert np.allclose(velocity[:3] / speed, action[:3] / np.linalg.norm(action[:3]), atol=1e-6)


def test_a_motion_that_is_wanted_is_kept():
    action = np.array([0.5, -0.3, 0.2, 0.4, -1.0])
    twist = np.array([*(action[:3] * STEP_M), 0, 0, action[3] * policy_io.STEP_YAW_RAD]) / PERIOD_S
    first, later = joint_step(f.CARTESIAN, action, arm(twist))
    assert np.allclose(first, later, atol=1e-5)
    assert np.allclose(kinematics.jacobian(Q) @ first / PERIOD_S, twist, atol=1e-4)


def test_a_tilted_tool_is_brought_down():
    tilted = Q + [0, 0, 0, 0.05, 0.03, 0]
    now = Arm.at(tilted, np.zeros(6))
    first, _ = joint_step(f.CARTESIAN, np.zeros(5), now)
    before = np.linalg.norm(now.pose[:2, 2])
    after = np.linalg.norm(kinematics.pose_base_link_tool(tilted + first)[:2, 2])
    assert after == pytest.approx(0.5 * before, rel=0.05)


def test_at_a_singularity_nothing_is_asked():
    straight = np.array([0.0, -1.57, 0.0, -1.57, -1.57, 0.0])
    with pytest.raises(Unreachable):
        joint_step(f.CARTESIAN, np.array([0.0, 0, -1.0, 0, 0]), Arm.at(straight, np.zeros(6)))


@given(st.lists(st.floats(-1.0, 1.0), min_size=7, max_size=7).map(np.array))
@settings(max_examples=60, deadline=None)
def test_joint_steps_keep_their_direction_within_the_acceleration(action):
    first, later = joint_step(f.JOINT, action, arm())
    room = f.JOINT_ACCELERATION_RAD_S2 * PERIOD_S**2
    assert (np.abs(first) <= room + 1e-12).all() and (np.abs(later) <= 2 * room + 1e-12).all()
    wanted = action[:6] * f.STEP_Q_RAD
    assert np.abs(first * np.linalg.norm(wanted) - wanted * np.linalg.norm(first)).max() < 1e-12


def test_names_fit_and_an_unknown_formulation_is_refused():
    assert [len(f.ACTION_NAMES[k]) for k in (f.CARTESIAN, f.JOINT)] == [5, 7]
    assert f.ACTION_NAMES[f.CARTESIAN] == policy_io.ACTION_NAMES
    with pytest.raises(ConfigError, match="polar"):
        check_formulation("polar")
