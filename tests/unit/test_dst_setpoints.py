"""The simulator's checker of set-points: its kinematics agrees with ours, each kind of bad set-point is found."""
import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand_cli.dst.setpoints import SetpointChecker, tool_position_m

DT_S = 0.008


def test_tool_position_agrees_with_the_core():
    q = np.random.default_rng(1).uniform(-3, 3, (50, 6))
    assert np.allclose(tool_position_m(q), kinematics.pose_base_link_tool(q)[:, :3, 3], atol=1e-12)


def judged(q):
    found = []
    checker = SetpointChecker(DT_S, lambda invariant, stamp_s, detail: found.append(detail))
    checker.rest_at(cell.HOME_Q_RAD)
    checker.add_block(DT_S * np.arange(len(q)), q, "ARMED_AUTO")
    return found, checker


def smooth(distance_rad=0.3, n=200):
    s = np.linspace(0, 1, n)[:, None]
    return cell.HOME_Q_RAD + distance_rad * s**3 * (10 - 15 * s + 6 * s * s) * np.array([1.0, 0, 0, 0, 0, 0])


def test_a_smooth_move_is_silent_and_counted():
    found, checker = judged(smooth())
    assert found == [] and 150 < checker.moving < 200


@pytest.mark.parametrize("word, change", [
    ("jerk", lambda q: q.__setitem__((100, 0), q[100, 0] + 1e-3)),
    ("acceleration", lambda q: q.__setitem__((slice(100, None), 0), q[100:, 0] + 2e-3)),
    ("velocity", lambda q: q.__setitem__((slice(100, None), 0), q[100:, 0] + 0.1)),
    ("not finite", lambda q: q.__setitem__((100, 3), np.nan)),
    ("range", lambda q: q.__setitem__((slice(None), 2), q[:, 2] + 2.0)),
    ("outside its box", lambda q: q.__setitem__((slice(None), 0), q[:, 0] + 2.0)),
])  # fmt: skip
def test_each_kind_of_bad_setpoint(word, change):
    q = smooth()
    change(q)
    assert any(word in detail for detail in judged(q)[0])


def test_one_by_one_finds_what_a_block_finds():
    q = smooth()
    q[100, 0] += 1e-3
    found = []
    checker = SetpointChecker(DT_S, lambda *violation: found.append(violation[2]))
    checker.rest_at(cell.HOME_Q_RAD)
    for k, row in enumerate(q):
        checker.add(k * DT_S, row, "ARMED_AUTO")
    assert found and set(judged(q)[0]) <= set(found)


def test_after_a_cut_nothing_is_concluded():
    found, checker = judged(smooth()[:100])
    checker.cut()
    checker.add(1.0, smooth()[150], "ARMED_AUTO")
    assert found == [] and checker.speed_rad_s == 0.0


@pytest.mark.parametrize("z_m, wrong", [(0.0149, True), (0.0151, False)])
def test_the_tools_box_is_kept_to_a_tenth_of_a_millimetre(z_m, wrong):
    low, high = cell.HOME_Q_RAD.copy(), cell.HOME_Q_RAD.copy()
    low[1] += 1.0
    assert tool_position_m(low[None])[0, 2] < z_m
    for _ in range(60):  # between home and the table, by halves
        q = (low + high) / 2
        low, high = (q, high) if tool_position_m(q[None])[0, 2] < z_m else (low, q)
    found = []
    checker = SetpointChecker(DT_S, lambda *violation: found.append(violation[2]))
    checker.rest_at(q)
    checker.add_block(np.array([1.0]), q[None], "ARMED_AUTO")
    assert bool(found) is wrong and all("outside its box" in detail for detail in found)
