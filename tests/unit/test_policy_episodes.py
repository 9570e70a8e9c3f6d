"""Episodes as the agent's own records tell them: a task of several objects, stopped, cancelled, failing."""
from collections import Counter

import pytest

from steadyhand.trace import Record
from steadyhand_policies.episodes import Begun, Ended, EpisodeWatch
from steadyhand_policies.release import Outcome
from tests.scenario.fake_cell import FakeCell, scatter


def watched(cell, events, watch, seconds, until_result=True):
    """Run the cell and take the records of each decision."""
    seen = len(cell.decisions)
    result = cell.run(seconds, until_result=until_result)
    for decision in cell.decisions[seen:]:
        events += watch.take(decision.records)
    return result


def started(count=1, **more):
    cell = FakeCell(scatter(count, 0), 0, **more)
    cell.warm_up()
    cell.goal()
    return cell, [], EpisodeWatch()


def ends(events):
    return [(e.skill, e.outcome) for e in events if isinstance(e, Ended)]


def test_each_object_is_two_episodes_that_succeed_and_every_policy_call_lies_within_one():
    cell, events, watch = started(2)
    seen, calls = len(cell.decisions), 0
    cell.run(60.0)
    for decision in cell.decisions[seen:]:
        events += watch.take(decision.records)  # as the node does: before the request of the same step is sent
        if decision.policy_request is not None:
            calls += 1
            assert watch.running
    assert calls > 50
    assert Counter(ends(events)) == {("pick", Outcome.SUCCESS): 2, ("place", Outcome.SUCCESS): 2}
    assert [type(e) for e in events] == [Begun, Ended] * 4 and not watch.running
    assert [e.skill for e in events if isinstance(e, Begun)] == ["pick", "place"] * 2


def test_a_cancelled_task_and_an_operators_stop_are_void():
    cell, events, watch = started()
    while not watch.running:
        watched(cell, events, watch, 0.02, until_result=False)
    seen = len(cell.decisions)
    cell.step(cancels=("a",))
    for decision in cell.decisions[seen:]:
        events += watch.take(decision.records)
    watched(cell, events, watch, 5.0)
    assert ends(events) == [("pick", Outcome.VOID)]


@pytest.mark.parametrize(
    "fault, detail, outcome",
    [
        ("disarmed", "stop_requested: operator", Outcome.VOID), ("disarmed", "command_source_silent", Outcome.FAILURE),
        ("target_moved", "", Outcome.VOID), ("grasp_empty", "", Outcome.FAILURE),
        ("chunks_refused", "velocity", Outcome.FAILURE), ("policy_unavailable", "", Outcome.FAILURE),
        ("step_deadline", "", Outcome.FAILURE),
    ],
)
def test_whose_fault_an_end_is(fault, detail, outcome):
    watch = EpisodeWatch()
    begun = watch.take([Record("phase", 1.0, {"phase": "pick", "before": "observe"})])
    assert begun == [Begun("pick")]
    records = [Record("fault", 2.0, {"name": fault, "detail": detail})]
    records += [Record("result", 2.0, {"code": "STOPPED"})] if fault == "disarmed" else \
        [Record("phase", 2.0, {"phase": "back_off", "before": "pick"})]
    assert watch.take(records) == [Ended("pick", outcome, fault)]


def test_a_blind_camera_is_void_though_its_fault_is_recorded_after_the_phase():
    watch = EpisodeWatch()
    watch.take([Record("phase", 1.0, {"phase": "pick", "before": "home"})])
    blind = Record("phase", 2.0, {"phase": "blind", "before": "pick"})
    records = [blind, Record("fault", 2.0, {"name": "perception_lost"})]
    assert watch.take(records) == [Ended("pick", Outcome.VOID, "")]


def test_a_fault_of_before_says_nothing_of_the_next_attempt():
    watch = EpisodeWatch()
    watch.take([Record("fault", 0.0, {"name": "target_moved"})])
    watch.take([Record("phase", 1.0, {"phase": "pick", "before": "home"})])
    found = watch.take([Record("phase", 2.0, {"phase": "back_off", "before": "grasp"})])
    assert found == [Ended("pick", Outcome.FAILURE, "")]


def test_a_void_attempt_does_not_make_the_next_one_void():
    watch = EpisodeWatch()
    pick, back_off = (Record("phase", 1.0, {"phase": phase, "before": "home"}) for phase in ("pick", "back_off"))
    moved = Record("fault", 1.0, {"name": "target_moved"})
    assert watch.take([pick, moved, back_off]) == [Begun("pick"), Ended("pick", Outcome.VOID, "target_moved")]
    assert watch.take([pick, back_off]) == [Begun("pick"), Ended("pick", Outcome.FAILURE, "")]
