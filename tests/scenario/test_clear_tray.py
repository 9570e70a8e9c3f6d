"""The agent in closed loop with a kinematic cell: clears the tray, and ends well when things go wrong."""
import dataclasses

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.phases import Phase
from steadyhand.task import Code
from steadyhand.types import Mode
from tests.scenario.fake_cell import Cube, FakeCell, scatter


def started(count=1, seed=0, **faults) -> FakeCell:
    c = FakeCell(scatter(count, seed), seed, **faults)
    c.warm_up()
    c.goal()
    return c


def until(c: FakeCell, phase: str, limit_s: float = 60.0) -> None:
    """Run until the feedback names a phase."""
    end = c.now_s + limit_s
    while not (c.phases and c.phases[-1] == phase):
        c.step()
        assert c.now_s < end and not c.results, f"no {phase} before {c.results}; phases {c.phases}"


@pytest.mark.parametrize("seed", range(3))
def test_clears_a_tray_of_five(seed):
    c = started(5, seed)
    start = c.now_s
    result = c.run(90.0)
    assert (result.code, result.placed, result.attempted, result.at_rest) == (Code.OK, 5, 5, True)
    assert c.in_box() == 5
    assert c.violations == {}  # nothing was refused, the command source was never silent
    assert c.now_s - start < 60.0
    assert result.statistics["served_by"] == {"local": result.statistics["policy_calls"]}


def test_stops_after_the_number_asked_for():
    c = FakeCell(scatter(3, 1), 1)
    c.warm_up()
    c.goal(max_objects=2)
    assert c.run(60.0).placed == 2 and c.in_box() == 2


def test_stop_rearm_and_the_goal_again_finishes_the_job():
    c = started(3, 2)
    until(c, "place")
    c.stop()
    stopped = c.run(3.0)
    assert stopped.code is Code.STOPPED and "holding an object" in stopped.message
    chunks = sum(d.chunk is not None for d in c.decisions)
    c.rearm()
    c.run(2.0, until_result=False)
    assert sum(d.chunk is not None for d in c.decisions) == chunks  # nothing resumes by itself
    c.goal("b")
    result = c.run(60.0)
    assert result.code is Code.OK and c.in_box() == 3
    assert c.phases[c.phases.index("stopping") + 1] == "lift"  # what is in the fingers is placed first


def test_slipping_grasps_are_retried_differently():
    c = started(2, 3, slips=2)
    result = c.run(90.0)
    assert result.code is Code.OK and c.in_box() == 2
    failures = result.statistics["failures"]
    assert len(failures) == 2 and all("grasp_empty" in f for f in failures)
    assert failures[0].split("next: ")[1] != failures[1].split("next: ")[1]


def test_frictionless_fingers_end_in_a_report():
    c = started(2, 4, friction=False)
    result = c.run(150.0)
    assert (result.code, result.placed, result.at_rest) == (Code.L3_FAILURE, 0, True)
    assert c.in_box() == 0 and len(result.statistics["failures"]) == 5
    [report] = c.reports
    assert "**Layer:** hardware (100%" in report and "finger pads" in report
    assert np.abs(c.qd).max() == 0.0


def test_an_object_lost_on_the_way_is_found_again():
    c = started(2, 5)
    until(c, "place")
    c.drop()
    result = c.run(90.0)
    assert result.code is Code.OK and c.in_box() == 2 and "grasp_lost" in result.statistics["failures"][0]


def test_a_gripper_that_does_not_open_is_not_counted_as_placed():
    c = started(1, 6)
    until(c, "place")
    c.gripper_opens = False
    result = c.run(150.0)
    assert result.code is Code.L3_FAILURE and result.placed == 0
    assert all("release_unverified" in f for f in result.statistics["failures"])


def test_a_gripper_that_opens_late_still_places():
    c = started(1, 6)
    until(c, "place")
    c.gripper_opens = False
    until(c, "back_off")
    c.gripper_opens = True
    result = c.run(60.0)
    assert result.code is Code.OK and c.in_box() == 1


def test_fingers_that_open_half_say_neither_held_nor_free():
    c = started(1, 6)
    until(c, "release")
    fingers = c._fingers

    def jammed(dt):
        fingers(dt)
        c.width_m = min(c.width_m, 0.048)

    c._fingers = jammed
    until(c, "back_off")
    del c._fingers
    result = c.run(60.0)
    assert result.placed == 0 and result.code is not Code.INTERNAL
    [failure] = result.statistics["failures"]
    assert "release_unverified in release" in failure and "next: re-perceive" in failure


def test_fingers_that_hold_while_the_brake_is_planned_anew():
    c = started(1, 6)
    until(c, "grasp")
    c.run(0.25)
    assert c.phases[-1] == "grasp"
    executor, state = c.agent._executor, c.state()
    executor.run.steady, executor.run.entered_s = 5, state.stamp_s - 1.0
    executor.run.last_width_m = cell.CUBE_SIZE_M
    away = dataclasses.replace(  # commanded far from the path, as after refusals
        state, q_commanded_rad=state.q_commanded_rad + 0.2, gripper_width_m=cell.CUBE_SIZE_M, gripper_commanded_m=0.0
    )
    assert executor.tick(away, c.estimate).waypoints_rad is None and executor.run.phase is Phase.GRASP


def test_what_is_let_go_beside_the_box_is_not_counted_as_placed(monkeypatch):
    c = started(1, 6)
    until(c, "release")
    monkeypatch.setattr(type(cell.BOX), "contains", lambda *_, **__: False)
    c.run(3.0)
    assert c.agent._executor.run.placed == 0
    assert [f.fault for f in c.agent._executor.run.failures] == ["release_unverified"]


def test_an_object_taken_away_is_not_chased():
    c = started(1, 7)
    until(c, "pick")
    c.run(0.3)
    c.cubes[0].position_m = np.array([5.0, 5.0, 0.0])
    result = c.run(60.0)
    assert result.code is Code.EMPTY_TRAY and "target_lost" in result.statistics["failures"][0]
    assert "grasp" not in c.phases


def test_an_object_that_moves_is_seen_again():
    c = started(1, 8)
    until(c, "pick")
    c.run(0.2)
    c.cubes[0].position_m[:2] = cell.TRAY.centre_m - np.sign(c.cubes[0].position_m[:2] - cell.TRAY.centre_m) * 0.05
    result = c.run(60.0)
    assert result.code is Code.OK and c.in_box() == 1 and len(result.statistics["failures"]) == 1


def test_a_track_that_leaves_its_place_is_not_followed():
    c = started(1, 8)
    until(c, "pick")
    executor, seen = c.agent._executor, c.estimate.objects[0]
    for off_m, phase in ((0.025, Phase.PICK), (0.035, Phase.BACK_OFF)):
        moved = dataclasses.replace(seen, position_m=executor.run.pick.target.position_m + [off_m, 0, 0], age_s=0.0)
        executor.tick(c.state(), dataclasses.replace(c.estimate, objects=(moved,)))
        assert executor.run.phase is phase
    assert [f.fault for f in executor.run.failures] == ["target_moved"]


@pytest.mark.parametrize("phase", ["pick", "place", "home"])
def test_perception_lost_for_good(phase):
    c = started(2, 9)
    until(c, phase)
    c.camera_on = False
    result = c.run(20.0)
    assert result.code is Code.PERCEPTION_LOST and result.at_rest
    assert np.abs(c.qd).max() == 0.0


def test_perception_lost_for_a_while():
    c = started(2, 10)
    until(c, "pick")
    c.camera_on = False
    c.run(1.5)
    assert c.phases[-1] == "blind" and np.abs(c.qd).max() == 0.0
    c.camera_on = True
    assert c.run(90.0).code is Code.OK and c.in_box() == 2


@pytest.mark.parametrize("step_s", [-5.0, 5.0, 3600.0, -3600.0])
def test_a_clock_that_is_set_changes_nothing(step_s):
    c = started(2, 9)
    until(c, "pick")
    c.camera_clock_s += step_s
    result = c.run(60.0)
    assert result.code is Code.OK and c.in_box() == 2
    assert result.statistics["failures"] == [] and "blind" not in c.phases
    assert c.estimator.counters["detection_out_of_order"] == 0


def test_a_blank_camera_places_nothing():
    c = FakeCell(scatter(3, 11), 11, camera_on=False)
    c.warm_up()
    c.goal()
    result = c.run(20.0)
    assert result.code is Code.PERCEPTION_LOST and c.in_box() == 0


def test_an_empty_tray_is_said():
    c = FakeCell([], 0)
    c.warm_up()
    c.goal()
    assert c.run(20.0).code is Code.EMPTY_TRAY


def test_a_camera_that_dies_over_an_empty_tray_sees_no_empty_tray():
    c = FakeCell([], 0)
    c.warm_up()
    c.goal()
    until(c, "observe")
    c.run(0.2)
    assert len(c.agent._executor.run.seen) >= 3
    c.camera_on = False
    assert c.run(20.0).code is Code.PERCEPTION_LOST


def test_objects_out_of_reach_are_said():
    far = Cube(np.array([0.85, -0.25, 0.02]), 0.0)
    c = FakeCell([far], 0)
    region, x_max_m = cell.TRAY, cell.TRAY.x_max_m
    try:
        object.__setattr__(region, "x_max_m", 1.2)  # a tray longer than the arm
        c.warm_up()
        c.cubes[0].position_m[0] = 1.1
        c.run(1.0, until_result=False)
        c.goal()
        result = c.run(20.0)
    finally:
        object.__setattr__(region, "x_max_m", x_max_m)
    assert result.code is Code.UNREACHABLE and result.placed == 0


def test_crowded_objects_are_taken_from_the_side_with_room():
    spacing = 0.052  # nearer than the cell promises: fingers fit on one side only
    centre = cell.TRAY.centre_m
    cubes = [Cube(np.array([*(centre + [dx, 0.0]), 0.02]), 0.0) for dx in (-spacing, 0.0, spacing)]
    c = FakeCell(cubes, 12)
    c.warm_up()
    c.goal()
    result = c.run(90.0)
    assert "turn" in c.phases
    assert result.code is Code.OK and c.in_box() == 3


def test_nothing_is_commanded_when_not_armed():
    c = FakeCell(scatter(1, 0), 0, mode=Mode.STOPPED)
    c.warm_up()
    c.goal()
    assert c.results[-1].code is Code.NOT_ARMED
    assert all(d.chunk is None and d.gripper is None for d in c.decisions)
