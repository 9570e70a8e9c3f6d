"""The one-configuration forms agree with the general ones, and the Jacobian with differences."""
import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand.errors import KinematicsError


@pytest.mark.parametrize("seed", range(20))
def test_jacobian_is_the_derivative_of_the_tool_pose(seed):
    q = np.random.default_rng(seed).uniform(-np.pi, np.pi, 6)
    j, rotation = kinematics.jacobian(q), kinematics.pose_base_link_tool(q)[:3, :3]
    for k in range(6):
        d = np.zeros(6)
        d[k] = 1e-6
        slope = (kinematics.pose_base_link_tool(q + d) - kinematics.pose_base_link_tool(q - d)) / 2e-6
        spin = slope[:3, :3] @ rotation.T
        assert j[:, k] == pytest.approx([*slope[:3, 3], spin[2, 1], spin[0, 2], spin[1, 0]], abs=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_inverse_returns_to_where_it_came_from(seed):
    q = cell.HOME_Q_RAD + np.random.default_rng(seed).uniform(-0.2, 0.2, 6)
    found = kinematics.ik_near(kinematics.pose_base_link_tool(q), cell.HOME_Q_RAD)
    assert found == pytest.approx(q, abs=1e-4)


def test_a_pose_out_of_reach_is_refused():
    with pytest.raises(KinematicsError, match="not reached"):
        kinematics.ik_near(kinematics.tool_down(2.0, 0.0, 0.1, 0.0), cell.HOME_Q_RAD)
