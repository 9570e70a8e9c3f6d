"""What the summary of the main job calls a problem; each one by itself makes it not ok."""
from dataclasses import replace
from types import SimpleNamespace

import pytest
from steadyhand_interfaces.action import ExecuteTask

from steadyhand.errors import ConfigError
from steadyhand_cli.invariants import Violation
from steadyhand_cli.job import JobConfig, JobProgress, _Job
from steadyhand_cli.session import Goal
from tests.unit.test_invariants import BASE


def goal(code: int, calls: int = 0, triton: int = 0) -> Goal:
    statistics = f'{{"policy_calls": {calls}, "served_by": {{"triton": {triton}}}}}'
    return Goal(result=ExecuteTask.Result(code=code, statistics_json=statistics))


def summary(at_rest=True, in_box=5, **changes) -> dict:
    job = _Job(JobConfig(), None, None, JobProgress(), None, None)
    monitor = SimpleNamespace(violations=[], stops=1, armings=2, states=1000)
    job.watcher, job.session = SimpleNamespace(state=replace(BASE), monitor=monitor), SimpleNamespace(faults=[])
    job.goals, job.stop_report = [goal(5, 300, 300), goal(0, 1000, 995)], {"rearmed": True}
    for name, value in changes.items():
        setattr(monitor if name == "violations" else job, name, value)
    return job._summary({"in_box": in_box}, {}, at_rest)


def test_a_good_run_is_ok():
    good = summary()
    assert good["ok"] and good["problems"] == [] and good["results"] == ["STOPPED", "OK"]
    assert good["triton_share"] == 0.995  # of the agent's own total, not of the sum over goals


@pytest.mark.parametrize(("changes", "problem"), [
    ({"in_box": 4}, "4 of 5 cubes"),
    ({"violations": [Violation("I1", 1.0, "moved")]}, "1 invariant violations"),
    ({"goals": [goal(5), goal(0, 1000, 989)]}, "Triton served 98.9%"),
    ({"goals": [goal(5), goal(0, 0, 0)]}, "Triton served 0.0%"),
    ({"stop_report": {}}, "operator stop"),
    ({"stop_report": {"rearmed": False}}, "operator stop"),
    ({"at_rest": False}, "not known to be at rest"),
    ({"goals": [goal(5), goal(0, 1000, 1000), Goal()]}, "without a result"),
], ids=lambda x: x if isinstance(x, str) else "")
def test_each_problem_alone_is_not_ok(changes, problem):
    bad = summary(**changes)
    assert not bad["ok"] and len(bad["problems"]) == 1 and problem in bad["problems"][0]


@pytest.mark.parametrize("wrong", [{"cubes": 0}, {"cubes": 9}, {"seed": -1}], ids=str)
def test_a_wrong_number_is_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"{name}={wrong[name]}"):
        JobConfig(**wrong)
