"""The capsule model agrees with geometry computed another way, and bounds whole paths soundly."""

import numpy as np
import pytest

from steadyhand import cell, collision, kinematics, ur5

HOME_LINKS = kinematics.link_transforms(cell.HOME_Q_RAD[None])


def test_segment_distance_agrees_with_a_search():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 4, 3))
    points[:5, 3] = points[:5, 2] + (points[:5, 1] - points[:5, 0])  # parallel
    points[5:10, 1] = points[5:10, 0]  # a point
    mine = collision.segment_distance(*(points[:, k] for k in range(4)))
    s = np.linspace(0, 1, 301)[:, None]
    for (a, b, c, d), distance in zip(points, mine):
        first, second = a + s * (b - a), c + s * (d - c)
        best = np.linalg.norm(first[:, None] - second[None], axis=2).min()
        spacing = (np.linalg.norm(b - a) + np.linalg.norm(d - c)) / 600
        assert best - spacing - 1e-9 <= distance <= best + 1e-9


def test_crossing_segments_touch():
    ends = np.array([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]], dtype=float)
    assert collision.segment_distance(*ends) == pytest.approx(0.0, abs=1e-12)


def test_chain_of_capsules_is_connected_from_foot_to_tool():
    start, end = collision.capsule_axes(HOME_LINKS)
    assert np.allclose(start[0, 0], 0.0) and np.allclose(start[0, 1:], end[0, :-1])
    pose = kinematics.pose_base_link_tool(cell.HOME_Q_RAD)
    assert np.allclose(end[0, -1], pose[:3, 3] + 0.015 * pose[:3, 2])  # the fingertips reach 15 mm past the grasp point
    lengths = np.linalg.norm(end - start, axis=-1)[0]
    assert lengths[[2, 4]] == pytest.approx([0.425, 0.39225])
    assert lengths[[6, 7]] == pytest.approx([ur5.DH_D_M[4], ur5.DH_D_M[5]])


def test_home_is_clear():
    values, _ = collision.clearances(HOME_LINKS, carried_radius_m=0.03)
    assert values.min() > 0.03


@pytest.mark.parametrize(
    ("q_rad", "hit"),
    [
        ([0.0, -1.6, 2.9, -1.6, -1.57, 0.0], {"upper_arm", "shoulder", "base"}),  # folded elbow
        ([0.0, -1.6, 1.0, 1.57, 3.14, 0.0], {"forearm"}),  # wrist folded back
        ([0.0, 0.3, 0.3, 0.0, 0.0, 0.0], {"table"}),  # below the table
    ],
)
def test_known_collisions_are_found(q_rad, hit):
    values, pairs = collision.clearances(kinematics.link_transforms(np.array([q_rad])))
    found = {name for k in np.flatnonzero(values[0] < 0) for name in pairs[k]}
    assert found & hit


def test_base_rotation_changes_no_clearance():
    q = np.repeat(cell.HOME_Q_RAD[None], 5, 0)
    q[:, 0] = np.linspace(-3, 3, 5)
    values, _ = collision.clearances(kinematics.link_transforms(q), 0.03)
    assert np.abs(values - values[0]).max() < 1e-9  # so joint 1 needs no lever


def test_levers_bound_how_fast_clearances_change():
    rng = np.random.default_rng(1)
    q = rng.uniform(-np.pi, np.pi, (500, 6))
    step = rng.normal(size=q.shape) * 1e-4
    before, _ = collision.clearances(kinematics.link_transforms(q), 0.03)
    after, _ = collision.clearances(kinematics.link_transforms(q + step), 0.03)
    assert (np.abs(after - before).max(axis=1) <= np.abs(step) @ collision.LEVER_M + 1e-9).all()


def test_path_bound_is_below_every_clearance_on_the_way():
    rng = np.random.default_rng(2)
    for _ in range(30):
        ends = rng.uniform(-2, 2, (2, 6))
        q = ends[0] + np.linspace(0, 1, 61)[:, None] * 0.3 * (ends[1] - ends[0])
        found = collision.path_clearance(q, kinematics.link_transforms(q), 0.005)
        fine = ends[0] + np.linspace(0, 1, 601)[:, None] * 0.3 * (ends[1] - ends[0])
        least = collision.clearances(kinematics.link_transforms(fine))[0].min()
        assert found.clearance_m <= least + 1e-9
        if least > 0.2:
            assert found.clearance_m > 0.005  # and not so cautious that it refuses free space


def test_a_graze_between_strided_setpoints_is_not_missed():
    q = np.repeat(cell.HOME_Q_RAD[None], 17, 0)
    q[:, 1] += 1.2 * np.exp(-(((np.arange(17) - 4) / 1.5) ** 2))  # dips into the table between samples 0 and 8
    found = collision.path_clearance(q, kinematics.link_transforms(q), 0.005, stride=8)
    assert found.clearance_m < 0 and "table" in found.pair and 2 <= found.index <= 6
