"""Where arm and vehicle meet (I13): boxes round points of the arm that kinematics gives, and plans that pass them."""
import dataclasses

import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand.plan import Plan, hold_plan
from steadyhand_firmware_bridge.guard.zone import BEHIND, EVERY, Zone

HOME = np.array(cell.HOME_Q_RAD)


def turned(angle_rad):
    return HOME + np.array([angle_rad, 0, 0, 0, 0, 0])


def sweep(start_rad, end_rad, n=201):
    """A plan of joint 0 between two angles off home."""
    q = np.array([turned(a) for a in np.linspace(start_rad, end_rad, n)])
    zero = np.zeros_like(q)
    return Plan(0.008, 0.0, q, zero, zero.copy(), np.repeat(q[:1], 3, 0), np.zeros(6), np.zeros(6))


def box_round(point_m, half_m=0.02):
    return (*(point_m - half_m), *(point_m + half_m))


def tool_at(angle_rad):
    return kinematics.pose_base_link_tool(turned(angle_rad))[:3, 3]


MIDWAY = Zone(box_round(tool_at(1.0)))  # only the tool comes there, half way from 0 to 2 rad


def test_the_tool_a_joint_and_the_middle_of_a_link_count():
    joints = kinematics.link_transforms(HOME[None])[0, :, :3, 3]
    for point in (tool_at(0.0), joints[2], 0.5 * (joints[1] + joints[2])):
        found = Zone(box_round(point)).inside(np.array([HOME, turned(1.0)]))
        assert found.tolist() == [True, False]


@pytest.mark.parametrize("start, end, forbidden", [
    (0.0, 2.0, True),  # passes it
    (0.0, 1.0, True),  # ends in it
    (1.0, 1.01, True),  # stays in it
    (1.0, 0.0, False),  # leaves it
    (0.0, 0.5, False),
])  # fmt: skip
def test_a_plan_may_leave_the_zone_but_neither_enter_it_nor_stay(start, end, forbidden):
    assert MIDWAY.forbids(sweep(start, end), turned(start)) is forbidden


def test_a_plan_that_leaves_the_zone_may_not_come_back_into_it():
    there_and_back = np.concatenate([sweep(1.0, 0.0).q_rad, sweep(0.0, 2.0).q_rad])  # it begins in it and ends clear of it
    plan = sweep(1.0, 0.0)
    assert not MIDWAY.forbids(plan, turned(1.0))
    assert MIDWAY.forbids(dataclasses.replace(plan, q_rad=there_and_back), turned(1.0))


def test_a_plan_that_is_in_it_at_its_last_set_point_only_is_seen():
    plan = sweep(0.0, 1.0, n=EVERY * 2)  # the last one is none of every fourth
    assert Zone(box_round(tool_at(1.0), 0.001)).forbids(plan, HOME)


def test_what_the_vehicle_is_told():
    zone = Zone(box_round(tool_at(1.0)))
    assert zone.says(HOME, None) == "" == zone.says(HOME, hold_plan(HOME, 0.008, 0.0))
    assert "about to" in zone.says(HOME, sweep(0.0, 2.0))
    assert zone.says(HOME, sweep(0.0, 0.5)) == ""
    assert "over the vehicle" in zone.says(turned(1.0), sweep(1.0, 0.0))
    leaves = sweep(1.0, 0.0)
    first, end = 20, len(leaves)  # the tool is out of the box, but the plan began there
    assert "about to" in zone.says(turned(0.85), leaves, first) and zone.says(turned(0.85), leaves, first + BEHIND) == ""
    assert zone.says(HOME, leaves, end) == "" == zone.says(HOME, leaves, end, True)
    barely = sweep(1.0, 0.85, n=30)  # it ends within the lag of leaving: then the arm's own rest says that it is out
    assert "about to" in zone.says(turned(0.85), barely, 30) and zone.says(turned(0.85), barely, 30, True) == ""
    late = sweep(0.0, 1.01)  # it would end there: claimed to its end, and after it while it may still get there
    assert "about to" in zone.says(HOME, late, len(late) - 1) and "about to" in zone.says(HOME, late, len(late), True)
    for unknown in (None, np.full(6, np.nan), np.array([*HOME[:5], np.inf])):
        assert "unknown" in zone.says(unknown, None)


def test_without_a_box_there_is_no_zone():
    none = Zone(())
    assert none.says(None, None) == "" and not none.forbids(sweep(0.0, 2.0), HOME) and not none.inside(HOME[None]).any()
