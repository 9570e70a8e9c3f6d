"""Choice of object, side and release point."""
import numpy as np
import pytest

from steadyhand import cell, kinematics, planner, skills
from steadyhand.errors import ConfigError
from steadyhand.planner import PlannerConfig
from steadyhand.types import Estimate, EstimateMode, ObjectEstimate

CONFIG = PlannerConfig()
HOME_M = kinematics.pose_base_link_tool(cell.HOME_Q_RAD)[:3, 3]


def thing(i, x, y, yaw=0.0, **more) -> ObjectEstimate:
    presence, std = more.pop("presence", 0.99), more.pop("std", 0.002)
    return ObjectEstimate(i, np.array([x, y, 0.02]), yaw, presence, std, 0.0, **more)


def estimate(*objects) -> Estimate:
    return Estimate(0.0, EstimateMode.NOMINAL, "", "o1", 0.0, objects)


def test_only_what_lies_in_the_tray_and_is_certain_is_picked():
    objects = [
        thing(1, 0.5, 0.0), thing(2, 0.5, 0.3, in_box=True), thing(3, 0.5, -0.1, presence=0.2),
        thing(4, 0.5, -0.2, std=0.05), thing(5, 0.9, 0.0), thing(6, 0.5, -0.05, in_box=True),
    ]
    assert [o.object_id for o in planner.in_tray(estimate(*objects), CONFIG)] == [1]


def test_the_nearest_comes_first_when_all_have_room():
    plan, unreachable = planner.plan_pick([thing(1, 0.6, -0.2), thing(2, 0.45, 0.0)], HOME_M, CONFIG)
    assert plan.object_id == 2 and unreachable == []


def test_preferred_first_and_avoided_last():
    objects = [thing(1, 0.6, -0.2), thing(2, 0.45, 0.0)]
    assert planner.plan_pick(objects, HOME_M, CONFIG, prefer=1)[0].object_id == 1
    assert planner.plan_pick(objects, HOME_M, CONFIG, avoid=frozenset({2}))[0].object_id == 1
    assert planner.plan_pick(objects[1:], HOME_M, CONFIG, avoid=frozenset({2}))[0].object_id == 2


@pytest.mark.parametrize("yaw", [-0.3, 0.0, 0.3])
def test_a_turn_is_the_other_orientation_of_the_preferred_object_only(yaw):
    objects = [thing(1, 0.52, -0.09, yaw)]
    plain, turned, other = (
        planner.plan_pick(objects, HOME_M, CONFIG, prefer=prefer, turn=turn)[0]
        for prefer, turn in ((1, False), (1, True), (2, True))
    )
    assert abs(turned.target.yaw_rad - plain.target.yaw_rad) == pytest.approx(np.pi / 2)
    assert turned.turned and not plain.turned and other.target.yaw_rad == plain.target.yaw_rad


def test_fingers_go_where_there_is_room():
    alone, _ = planner.plan_pick([thing(1, 0.52, -0.09)], HOME_M, CONFIG)
    assert not alone.turned and alone.target.yaw_rad == 0.0
    row = [thing(1, 0.52, -0.09), thing(2, 0.572, -0.09), thing(3, 0.468, -0.09)]  # in the fingers' direction
    plan, _ = planner.plan_pick(row, HOME_M, CONFIG, prefer=1)
    assert plan.turned and abs(abs(plan.target.yaw_rad) - np.pi / 2) < 1e-9
    assert plan.clearance_m > CONFIG.clearance_wanted_m


def test_clearance_is_a_distance():
    a, b = thing(1, 0.52, -0.09), thing(2, 0.62, -0.09)
    # finger's outer face at 31 + 12 mm, neighbour's near face at 80 mm
    assert planner.finger_clearance_m(a, 0.0, [b], 0.062) == pytest.approx(0.080 - 0.043, abs=1e-9)
    near = thing(3, 0.56, -0.09)
    assert planner.finger_clearance_m(a, 0.0, [near], 0.062) < 0
    assert planner.finger_clearance_m(thing(4, 0.40, -0.09), 0.0, [], 0.062) < 0  # tray wall 20 mm away


@pytest.mark.parametrize("yaw", np.linspace(-np.pi / 4, np.pi / 4, 5))
@pytest.mark.parametrize("turn", [False, True])
def test_the_whole_tray_is_within_reach(yaw, turn):
    for x in np.linspace(cell.TRAY.x_min_m + 0.02, cell.TRAY.x_max_m - 0.02, 5):
        for y in np.linspace(cell.TRAY.y_min_m + 0.02, cell.TRAY.y_max_m - 0.02, 5):
            plan, _ = planner.plan_pick([thing(1, x, y, yaw)], HOME_M, CONFIG, prefer=1, turn=turn)
            assert plan is not None, (x, y, yaw)
            above = planner.q_above(plan.target, planner.ABOVE_Z_M)
            tool = kinematics.pose_base_link_tool(above)
            assert np.allclose(tool[:3, 3], [x, y, planner.ABOVE_Z_M], atol=1e-5)
            assert np.abs(above - cell.HOME_Q_RAD).max() < np.pi  # the branch of home


def test_what_is_out_of_reach_is_named():
    plan, unreachable = planner.plan_pick([thing(7, 1.3, 0.0)], HOME_M, CONFIG)
    assert plan is None and unreachable == [7]


def test_release_points_are_used_one_after_the_other():
    used: set[int] = set()
    for _ in range(planner.RELEASE_POINTS):
        place = planner.plan_place(None, used)
        assert place.point not in used and cell.BOX.contains(place.target.position_m, margin_m=0.02)
        used.add(place.point)
    assert planner.plan_place(None, used).point == 0  # all used: begins anew


def test_an_occupied_release_point_is_passed_over():
    there = skills.release_target(0).position_m
    taken = ObjectEstimate(1, there, 0.0, 0.9, 0.002, 0.0, in_box=True)
    assert planner.plan_place(estimate(taken), set()).point == 1


@pytest.mark.parametrize("field, value", [("presence_min", 1.5), ("opening_m", 0.2), ("grasp_z_m", float("nan"))])
def test_config_out_of_range_names_field_and_value(field, value):
    with pytest.raises(ConfigError, match=field):
        PlannerConfig(**{field: value})
