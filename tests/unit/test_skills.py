"""The rule that grants gripper votes, and the predicates of success."""
import numpy as np
import pytest

from steadyhand import cell, skills
from steadyhand.policy_io import Target
from steadyhand.types import Skill

PICK = Target(Skill.PICK, np.array([0.5, -0.1, 0.02]), 0.3)
PLACE = Target(Skill.PLACE, np.array([0.47, 0.31, 0.07]), 0.0)


def test_close_is_granted_at_the_target_and_slow():
    assert skills.grant_close(0.9, PICK, PICK.position_m + [0.005, 0.005, 0.005], 0.01)


@pytest.mark.parametrize(
    "vote, target, offset, speed, word",
    [
        (-0.5, PICK, [0, 0, 0], 0.0, "not asked"),
        (0.0, PICK, [0, 0, 0], 0.0, "not asked"),
        (float("nan"), PICK, [0, 0, 0], 0.0, "not asked"),
        (1.0, PLACE, [0, 0, 0], 0.0, "pick"),
        (1.0, PICK, [0.009, 0.009, 0], 0.0, "xy"),
        (1.0, PICK, [0, 0, 0.011], 0.0, "z"),
        (1.0, PICK, [0, 0, -0.011], 0.0, "z"),
        (1.0, PICK, [0, 0, 0], 0.2, "speed"),
        (1.0, PICK, [np.nan, 0, 0], 0.0, "xy"),
        (1.0, PICK, [0, 0, np.nan], 0.0, "z"),
        (1.0, PICK, [0, 0, 0], float("nan"), "speed"),
    ],
)
def test_close_is_refused_with_its_reason(vote, target, offset, speed, word):
    grant = skills.grant_close(vote, target, target.position_m + np.array(offset), speed)
    assert not grant and word in grant.reason


def test_open_is_granted_only_in_place():
    assert skills.grant_open(-1.0, PLACE, PLACE.position_m + [0.02, 0, 0.01], 0.02)
    assert not skills.grant_open(1.0, PLACE, PLACE.position_m, 0.0)
    assert not skills.grant_open(-1.0, PICK, PICK.position_m, 0.0)
    assert not skills.grant_open(-1.0, PLACE, PLACE.position_m + [0.03, 0, 0], 0.0)


@pytest.mark.parametrize("width, closed, held", [(0.040, True, True), (0.005, True, False), (0.062, True, False),
                                                 (0.040, False, False), (float("nan"), True, False)])
def test_a_grasp_is_a_width_between_the_limits_while_closed(width, closed, held):
    assert skills.grasp_verified(width, closed) is held


def test_done_needs_height_and_width():
    assert skills.pick_done(0.04, True, 0.13, 0.02)
    assert not skills.pick_done(0.04, True, 0.10, 0.02)
    assert not skills.pick_done(0.005, True, 0.13, 0.02)
    assert skills.place_done(0.06, False, 0.21)
    assert not skills.place_done(0.06, False, 0.10)
    assert not skills.place_done(0.06, True, 0.21)


def test_release_points_are_apart_and_inside_the_box():
    points = np.array([skills.release_target(i).position_m[:2] for i in range(9)])
    assert all(cell.BOX.contains(p, margin_m=0.045) for p in points)
    gaps = np.linalg.norm(points[:, None] - points[None], axis=-1) + np.eye(9)
    assert gaps.min() >= cell.CUBE_SIZE_M + 0.019
    with pytest.raises(ValueError, match="placed"):
        skills.release_target(-1)
