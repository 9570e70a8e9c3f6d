"""Kinematics against finite differences and against itself."""
import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand.errors import KinematicsError


@pytest.mark.parametrize("seed", range(10))
def test_the_jacobian_is_the_derivative_of_the_pose(seed):
    q = np.random.default_rng(seed).uniform(-3, 3, 6)
    pose, jacobian, h = kinematics.pose_base_link_tool(q), kinematics.jacobian(q), 1e-6
    for i in range(6):
        moved = kinematics.pose_base_link_tool(q + h * np.eye(6)[i])
        assert np.allclose((moved[:3, 3] - pose[:3, 3]) / h, jacobian[:3, i], atol=1e-5)
        turned = kinematics.rotation_vector(moved[:3, :3] @ pose[:3, :3].T) / h
        assert np.allclose(turned, jacobian[3:, i], atol=1e-5)


@pytest.mark.parametrize("x, y, z, yaw", [(0.52, -0.09, 0.02, 0.7), (0.38, 0.08, 0.3, -0.7), (0.47, 0.31, 0.07, 0.0)])
def test_the_inverse_reaches_what_was_asked(x, y, z, yaw):
    wanted = kinematics.tool_down(x, y, z, yaw)
    assert np.allclose(kinematics.pose_base_link_tool(kinematics.ik_near(wanted, cell.HOME_Q_RAD)), wanted, atol=2e-6)


def test_out_of_reach_is_refused_with_the_pose():
    with pytest.raises(KinematicsError, match="1.5"):
        kinematics.ik_near(kinematics.tool_down(1.5, 0.0, 0.2, 0.0), cell.HOME_Q_RAD)
