"""Forward kinematics against worked poses; the one-configuration forms agree with the general ones."""
import numpy as np
import pytest

from steadyhand import cell, kinematics, ur5
from steadyhand.errors import KinematicsError


@pytest.mark.parametrize("q_rad, flange_m, axis", [
    # stretched out forwards: the links along x, wrist offsets d4 + d6 along y, d1 - d5 high
    ([0, 0, 0, 0, 0, 0], [0.42500 + 0.39225, 0.10915 + 0.0823, 0.089159 - 0.09465], [0, 1, 0]),
    # stretched upwards
    ([0, -np.pi / 2, 0, -np.pi / 2, 0, 0], [0, 0.10915 + 0.0823, 0.089159 + 0.42500 + 0.39225 + 0.09465], [0, 1, 0]),
    # the same, turned about the base by a quarter
    ([np.pi / 2, -np.pi / 2, 0, -np.pi / 2, 0, 0], [-0.10915 - 0.0823, 0, 0.089159 + 0.42500 + 0.39225 + 0.09465],
     [-1, 0, 0]),
])  # fmt: skip
def test_forward_kinematics_of_poses_worked_out_by_hand(q_rad, flange_m, axis):
    flange = kinematics.link_transforms(np.array(q_rad, dtype=float))[-1]
    assert flange[:3, 3] == pytest.approx(flange_m, abs=1e-9) and flange[:3, 2] == pytest.approx(axis, abs=1e-9)
    tool = kinematics.pose_base_link_tool(np.array(q_rad, dtype=float))
    assert tool[:3, 3] == pytest.approx(np.array(flange_m) + ur5.TOOL_LENGTH_M * np.array(axis), abs=1e-9)


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
