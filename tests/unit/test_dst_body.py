"""The checker's own geometry of the arm: certain overlap only, and reported."""
from collections import Counter

import numpy as np

from steadyhand import cell, collision, kinematics
from steadyhand_cli.dst import body
from steadyhand_cli.dst.kinds import aimed
from steadyhand_cli.dst.setpoints import SetpointChecker


def test_what_it_calls_overlap_is_well_within_the_robots_own_shape():
    q = np.random.default_rng(1).uniform(-3.1, 3.1, (2000, 6))
    found = np.array([bool(limbs) for limbs in body.overlap(q)])
    clearance_m = collision.clearances(kinematics.link_transforms(q))[0].min(axis=1)
    assert found.sum() > 200 and clearance_m[found].max() < -0.01


def test_limbs_are_neither_forgotten_nor_thinner_than_they_may_be():
    found = Counter(body.overlap(np.random.default_rng(1).uniform(-3.1, 3.1, (2000, 6))))
    least = {
        "forearm and hand": 200, "column and forearm": 150, "upper arm and wrist": 20, "upper arm and hand": 15,
        "column and hand": 12,
    }  # fmt: skip
    assert all(found[limbs] >= n for limbs, n in least.items()), found


def test_points_are_those_of_the_robots_kinematics():
    q = np.random.default_rng(2).uniform(-3.1, 3.1, (50, 6))
    flange = kinematics.link_transforms(q)[:, -1, :3, 3]
    assert np.allclose(body.points_m(q)[:, 8] * [-1, -1, 1], flange, atol=1e-9)


def test_an_arm_inside_itself_is_reported_and_one_that_is_not_is_not():
    for q, broken in ((aimed._folded()[0], True), (cell.HOME_Q_RAD, False)):
        seen = []
        checker = SetpointChecker(0.008, lambda *what: seen.append(what))
        checker.rest_at(q)
        checker.add_block(np.array([1.0]), q[None], "ARMED_AUTO")
        assert [what[0] for what in seen] == (["I4"] if broken else [])
        assert all("overlap" in what[2] for what in seen)
