"""Pose functions of the language against scipy's rotations."""
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steadyhand_sim.urscript import Pose, poses

RNG = np.random.default_rng(7)
PAIRS = [(RNG.normal(size=6) * 1.5, RNG.normal(size=6) * 1.5) for _ in range(200)]


def homogeneous(pose):
    t = np.eye(4)
    t[:3, :3], t[:3, 3] = Rotation.from_rotvec(pose[3:]).as_matrix(), pose[:3]
    return t


def assert_same(pose, t):
    np.testing.assert_allclose(homogeneous(pose), t, atol=1e-9)


@pytest.mark.parametrize("a, b", PAIRS[:50])
def test_trans_and_inverse(a, b):
    assert_same(poses.trans(Pose(a), Pose(b)), homogeneous(a) @ homogeneous(b))
    assert_same(poses.inverse(Pose(a)), np.linalg.inv(homogeneous(a)))


@pytest.mark.parametrize("a, b", PAIRS[50:100])
def test_add_sub_and_interpolate(a, b):
    added, left = poses.add(Pose(a), Pose(b)), poses.sub(Pose(a), Pose(b))
    ra, rb = Rotation.from_rotvec(a[3:]), Rotation.from_rotvec(b[3:])
    np.testing.assert_allclose(added[:3], a[:3] + b[:3])
    np.testing.assert_allclose(Rotation.from_rotvec(added[3:]).as_matrix(), (ra * rb).as_matrix(), atol=1e-9)
    np.testing.assert_allclose(Rotation.from_rotvec(left[3:]).as_matrix(), (ra * rb.inv()).as_matrix(), atol=1e-9)
    half = poses.interpolate(Pose(a), Pose(b), 0.5)
    step = Rotation.from_rotvec((ra.inv() * rb).as_rotvec() / 2)
    np.testing.assert_allclose(Rotation.from_rotvec(half[3:]).as_matrix(), (ra * step).as_matrix(), atol=1e-9)
    assert_same(poses.interpolate(Pose(a), Pose(b), 1.0), homogeneous(b))


@pytest.mark.parametrize("angle", [0.0, 1e-13, 1e-9, 1e-5, 1.0, np.pi - 1e-5, np.pi - 1e-9, np.pi])
@pytest.mark.parametrize("axis", [[1, 0, 0], [0, -1, 0], [0.6, 0, 0.8], [-0.48, 0.6, -0.64]])
def test_rotation_vector_is_exact_near_zero_and_half_a_turn(angle, axis):
    vector = (np.array(axis) * angle).tolist()
    back = Rotation.from_rotvec(poses.rotation_vector(poses.matrix(vector)))
    assert (back.inv() * Rotation.from_rotvec(vector)).magnitude() < 1e-7
