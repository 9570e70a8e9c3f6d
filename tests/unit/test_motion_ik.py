"""All branches of the inverse, and with them an outside witness of our own kinematics."""
import numpy as np
import pytest

from steadyhand import cell, kinematics, ur5
from steadyhand.errors import KinematicsError

pytest.importorskip("ur_analytic_ik")
from steadyhand_motion.ik import branches  # noqa: E402


def test_every_branch_reaches_the_pose_and_the_seed_is_among_them():
    rng = np.random.default_rng(0)
    for _ in range(50):
        q = rng.uniform(-2.5, 2.5, 6)
        q[4] = rng.choice([-1, 1]) * rng.uniform(0.3, 2.5)  # wrist 2 at 0 is a singularity
        pose = kinematics.pose_base_link_tool(q)
        found = branches(pose, q)
        assert 1 <= len(found) <= 8
        assert np.abs(found[0] - q).max() < 1e-5
        for other in found:
            assert np.abs(kinematics.pose_base_link_tool(other) - pose).max() < 1e-6


@pytest.mark.parametrize("region", [cell.TRAY, cell.BOX])
def test_the_branch_that_moves_the_arm_is_the_nearest_one(region):
    for x in np.linspace(region.x_min_m + 0.03, region.x_max_m - 0.03, 4):
        for y in np.linspace(region.y_min_m + 0.03, region.y_max_m - 0.03, 4):
            pose = kinematics.tool_down(x, y, 0.12, 0.2)
            q = kinematics.ik_near(pose, cell.HOME_Q_RAD)
            assert np.abs(branches(pose, q)[0] - q).max() < 1e-4


@pytest.mark.parametrize("share", [-0.99, 0.99])
def test_near_the_end_of_the_range_no_branch_leaves_it(share):
    pose = kinematics.pose_base_link_tool(np.array([0.3, -1.2, 1.4, -1.7, -1.5, 0.4]))
    found = branches(pose, share * ur5.Q_MAX_RAD)
    assert len(found) == 8 and (found >= ur5.Q_MIN_RAD).all() and (found <= ur5.Q_MAX_RAD).all()
    assert max(np.abs(kinematics.pose_base_link_tool(q) - pose).max() for q in found) < 1e-6


def test_out_of_reach_is_empty():
    assert branches(kinematics.tool_down(1.2, 0.0, 0.1, 0.0), cell.HOME_Q_RAD).shape == (0, ur5.DOF)


@pytest.mark.parametrize("pose", [np.full((4, 4), np.nan), np.eye(3), np.diag([2.0, 1, 1, 1])])
def test_what_is_no_pose_is_refused(pose):
    with pytest.raises(KinematicsError, match="pose"):
        branches(pose, cell.HOME_Q_RAD)


@pytest.mark.parametrize("near", [np.full(6, np.nan), np.zeros(5), np.full(6, 7.0)])
def test_what_is_no_configuration_is_refused(near):
    with pytest.raises(KinematicsError, match="q_near_rad"):
        branches(kinematics.tool_down(0.5, 0.0, 0.12, 0.0), near)
