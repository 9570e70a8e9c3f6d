"""The agent's envelope: goals, cancels, stops, verdicts and policy replies. Virtual time, no ROS."""
import dataclasses

import numpy as np
import pytest

from steadyhand import kinematics, policy_io
from steadyhand.agent import Agent, AgentConfig
from steadyhand.errors import ConfigError
from steadyhand.task import Code, Goal, Inputs, PolicyReply
from steadyhand.types import ActionChunk, EstimateMode, Mode, Verdict
from tests.scenario.fake_cell import FakeCell, scatter, scripted_policy


def cell_in() -> FakeCell:
    """A cell with one cube and an idle agent."""
    c = FakeCell(scatter(1, 0), 0)
    c.warm_up()
    return c


def reach(phase: str, **more) -> FakeCell:
    """A cell whose agent has just entered a phase of goal "a"."""
    c = FakeCell(scatter(1, 0), 0, **more)
    c.warm_up()
    c.goal()
    for _ in range(3000):
        if c.phases[-1] == phase:
            return c
        c.step()
    raise AssertionError(f"never in {phase}: {c.phases}")


def commands(decisions) -> int:
    return sum(d.chunk is not None or d.gripper is not None for d in decisions)


@pytest.mark.parametrize("phase", ["pick", "grasp", "place", "home"])
def test_stop_in_the_middle_ends_the_goal_once_at_rest(phase):
    c = reach(phase)
    c.step()
    c.stop()
    before = len(c.decisions)
    result = c.run(3.0)
    assert result.code is Code.STOPPED and result.at_rest and f"was in {phase}" in result.message
    c.rearm()
    c.run(1.0, until_result=False)
    assert len(c.results) == 1
    assert commands(c.decisions[before:]) == 0


def test_a_new_token_ends_the_goal_even_when_armed_again_at_once():
    c = reach("pick")
    c.rearm()
    c.step()  # a reply may cross the state with the new token: the guard refuses its chunk as foreign
    before = len(c.decisions)
    assert (c.results or [c.run(3.0)])[-1].code is Code.STOPPED
    assert set(c.violations) <= {"foreign_token"}
    assert commands(c.decisions[before:]) == 0


def test_guard_silence_ends_in_rest_unknown():
    c = reach("place")
    c.guard_on = False
    result = c.run(5.0)
    assert (result.code, result.at_rest) == (Code.STOPPED, False)
    assert c.agent.counters["fault_guard_silent"] == 1


def test_rest_never_measured_is_said(monkeypatch):
    c = reach("pick")
    monkeypatch.setattr(FakeCell, "state", _never_at_rest(FakeCell.state))
    c.step(cancels=("a",))
    start = c.now_s
    result = c.run(5.0)
    assert (result.code, result.at_rest) == (Code.CANCELLED, False)
    assert 1.9 < c.now_s - start < 2.2
    assert c.agent.counters["fault_rest_unknown"] == 1


def _never_at_rest(state):
    return lambda self: dataclasses.replace(state(self), at_rest=False)


@pytest.mark.parametrize(
    "phase", ["back_off", "observe", "pick", "grasp", "lift", "place", "release", "retreat", "home"]
)
def test_cancel_means_at_rest(phase):
    c = reach(phase)
    c.step(cancels=("a",))
    result = c.run(3.0) if not c.results else c.results[-1]
    assert (result.code, result.at_rest) == (Code.CANCELLED, True)
    assert np.abs(c.qd).max() < 0.01
    c.run(0.5, until_result=False)
    assert len(c.results) == 1


def test_cancel_stops_sooner_than_the_plan_would():
    c = reach("place")
    c.run(0.6, until_result=False)
    assert np.abs(c.qd).max() > 0.3
    start = c.now_s
    c.step(cancels=("a",))
    while np.abs(c.qd).max() > 0.02:
        c.step()
        assert c.now_s - start < 0.7


def test_cancel_before_acceptance_never_starts():
    c = cell_in()
    c.step(cancels=("early",))
    c.goal("early")
    assert c.results[-1].code is Code.CANCELLED
    assert commands(c.decisions) == 0 and not c.agent.busy
    c.goal("early")  # one cancel, one goal
    assert c.agent.busy


@pytest.mark.parametrize("task, code", [("dance", Code.UNKNOWN_TASK), ("", Code.UNKNOWN_TASK)])
def test_unknown_tasks_are_refused_by_name(task, code):
    c = cell_in()
    c.goal(task=task)
    assert c.results[-1].code is code and "clear_tray" in c.results[-1].message


def test_a_second_goal_is_busy_and_the_first_goes_on():
    c = reach("pick")
    c.goal("b")
    assert (c.results[-1].goal_id, c.results[-1].code) == ("b", Code.BUSY)
    assert c.run(60.0).goal_id == "a"


def test_without_a_state_nothing_starts():
    d = Agent("t").step(Inputs(1.0, goals=(Goal("a", "clear_tray"),)))
    assert d.results[0].code is Code.NOT_ARMED and "no state from the guard" in d.results[0].message


def test_an_exception_inside_asks_for_a_stop(monkeypatch):
    c = reach("place")
    monkeypatch.setattr(c.agent._executor, "_place", lambda *a: 1 / 0)
    result = c.run(3.0)
    assert result.code is Code.INTERNAL and "ZeroDivisionError" in result.message and result.at_rest
    assert c.mode is Mode.STOPPED  # the agent asked for it
    assert c.agent.counters["fault_internal_error"] == 1


def test_an_exception_in_every_step_still_ends_the_goal_once(monkeypatch):
    c = reach("place")
    monkeypatch.setattr(c.agent, "_await_rest", lambda *a: 1 / 0)
    start_s = c.now_s
    c.step(cancels=("a",))
    result = c.run(5.0)
    assert (result.code, result.at_rest) == (Code.INTERNAL, False)
    assert 1.9 < c.now_s - start_s < 2.2 and c.mode is Mode.STOPPED
    c.run(1.0, until_result=False)
    assert len(c.results) == 1


def test_a_guard_whose_clock_began_anew_is_known_to_rest():
    c = reach("place")
    c.stop()
    c.run(3.0)
    c.now_s -= 90.0  # the guard's machine was started again
    c.still_since_s = c.next_image_s = c.now_s
    c.rearm()
    c.run(1.0, until_result=False)
    c.step(goals=(Goal("b", "clear_tray"),), cancels=("b",))
    result = c.results[-1] if c.results[-1].goal_id == "b" else c.run(3.0)
    assert (result.goal_id, result.code, result.at_rest) == ("b", Code.CANCELLED, True)


def test_late_and_foreign_replies_are_dropped_and_counted():
    c = reach("pick")
    c.policy_delay_s = 10.0  # nothing comes by itself
    request = next(d.policy_request for d in iter(lambda: (c.step(), c.decisions[-1])[1], None) if d.policy_request)
    chunk = ActionChunk(request.observation_id, scripted_policy(request.observation), "local", 0.0)
    state = c.state()
    foreign = c.agent.step(Inputs(c.now_s, state, c.estimate, PolicyReply("other", chunk)))
    assert foreign.chunk is None and [f.name for f in foreign.faults] == ["policy_reply_foreign"]
    late = c.agent.step(Inputs(c.now_s + 0.06, state, c.estimate, PolicyReply(request.observation_id, chunk)))
    assert late.chunk is None and "policy_timeout" in [f.name for f in late.faults]
    again = c.agent.step(Inputs(c.now_s + 0.06, state, c.estimate, PolicyReply(request.observation_id, chunk)))
    assert again.chunk is None and "policy_reply_foreign" in [f.name for f in again.faults]


@pytest.mark.parametrize("spoil", [
    lambda a: np.full_like(a, np.nan), lambda a: a[:4], lambda a: a + 5.0, lambda a: a[:, :4], lambda a: a * np.inf,
])
def test_invalid_policy_output_is_refused(spoil):
    c = reach("pick")
    c.policy = lambda o: spoil(scripted_policy(o) + 0.1)
    policy_chunks = c.agent.counters["chunks_policy"]
    c.run(0.3)
    assert c.agent.counters["chunks_policy"] <= policy_chunks + 1  # one was under way
    assert c.agent.counters["fault_policy_output_invalid"] >= 3


def test_a_dead_policy_ends_in_policy_unavailable():
    c = reach("pick")
    c.policy = None
    result = c.run(60.0)
    assert (result.code, result.at_rest) == (Code.POLICY_UNAVAILABLE, True)
    assert c.violations["command_source_silent"] == 0  # the agent braked before the guard had to


def test_a_policy_that_comes_back_is_used_again():
    c = reach("place")
    c.policy = None
    c.run(0.3)
    c.policy = scripted_policy
    assert c.run(60.0).code is Code.OK and c.violations == {}


def test_refused_chunks_change_the_action():
    c = reach("pick")
    c.refuse = "workspace"
    c.run(0.4)
    c.refuse = ""
    result = c.run(60.0)
    assert result.code is Code.OK
    assert "chunks_refused in pick" in result.statistics["failures"][0]


@pytest.mark.parametrize("accepted", [False, True])
def test_verdicts_on_the_chunks_of_others_are_not_the_agents(accepted):
    c = reach("pick")

    def stranger(c):
        c.verdicts += [Verdict(f"teleop-{i}", accepted, "" if accepted else "not_armed", "not yours") for i in range(9)]

    if accepted:  # they hide no refusal of ours
        c.refuse = "workspace"
        c.run(0.4, each=stranger)
        c.refuse = ""
    result = c.run(60.0, each=None if accepted else stranger)
    failures = result.statistics["failures"]
    assert result.code is Code.OK and [f for f in failures if "not yours" in f] == []
    assert any("chunks_refused in pick" in f for f in failures) == accepted
    assert c.agent.counters["verdicts_of_others"] > 100


def test_a_stalled_policy_is_re_approached_from_above():
    c = reach("pick")
    c.policy = lambda o: np.zeros((8, 5))
    c.run(8.5)
    assert c.phases[-2:] == ["back_off", "above"] or c.phases[-1] == "back_off"
    c.policy = scripted_policy
    result = c.run(60.0)
    assert result.code is Code.OK and "next: from above" in result.statistics["failures"][0]


def test_an_infeasible_path_is_a_failure_not_a_crash():
    c = reach("pick")
    away = np.zeros((8, 5))
    away[:, 1] = -0.6  # 12 mm a step sideways, until the arm is stretched
    c.policy = lambda o: away
    c.run(4.0)
    assert c.agent.counters["fault_path_infeasible"] >= 1 and c.agent.counters["fault_internal_error"] == 0
    c.policy = scripted_policy
    result = c.run(60.0)
    assert result.code is Code.OK and "path_infeasible" in result.statistics["failures"][0]


def test_refused_policy_chunks_are_braked_before_the_guard_must():
    c = reach("pick")
    c.run(0.4)
    assert np.abs(c.qd).max() > 0.1
    too_fast = np.full((8, 5), 1.2)
    good, c.policy = c.policy, lambda o: too_fast
    c.run(0.3)
    c.policy = good
    assert c.violations["velocity"] > 0 and c.violations["command_source_silent"] == 0
    assert c.run(60.0).code is Code.OK


def test_a_state_that_is_not_finite_is_dropped():
    c = reach("pick")
    bad = dataclasses.replace(c.state(), q_rad=np.full(6, np.nan), stamp_s=c.now_s + 0.001)
    d = c.agent.step(Inputs(c.now_s, bad, c.estimate))
    assert d.chunk is None and [f.name for f in d.faults] == ["state_invalid"]
    assert c.run(60.0).code is Code.OK


def test_states_out_of_order_are_dropped():
    c = reach("pick")
    old = dataclasses.replace(c.state(), stamp_s=c.now_s - 1.0)
    assert c.agent.step(Inputs(c.now_s, old, c.estimate)).chunk is None
    assert c.agent.counters["state_out_of_order"] == 1


def ask(c: FakeCell, estimate) -> tuple:
    """Steps until the policy is asked; the state that it is asked about and the request."""
    for _ in range(10):
        c._advance(0.016)
        c.seq += 1
        state = c.state()
        d = c.agent.step(Inputs(c.now_s, state, estimate))
        if d.policy_request is not None:
            return state, d.policy_request
    raise AssertionError("the policy was not asked")


def test_half_speed_while_the_estimate_predicts():
    """Time is scaled: the policy sees its own velocity, the same way-points come later; nothing contradicts itself."""
    c = reach("pick")
    c.run(0.3)
    c.plan_source = "test"  # the guard's watchdog is not what is looked at
    predicting = dataclasses.replace(c.estimate, mode=EstimateMode.DEGRADED)
    actions, periods_s = np.tile([0.5, 0, 0, 0, 0], (8, 1)), []
    for estimate in (c.estimate, *[predicting] * 4, c.estimate):
        state, request = ask(c, estimate)
        chunk = c.agent.step(Inputs(c.now_s, state, estimate, PolicyReply(
            request.observation_id, ActionChunk(request.observation_id, actions, "local", 0.0)))).chunk
        c._take_chunk(chunk)
        periods_s.append(chunk.period_s)
        tool_m_s = kinematics.jacobian(state.q_commanded_rad)[:3] @ state.qd_commanded_rad_s
        assert request.observation[5:8] == pytest.approx(tool_m_s * chunk.period_s / 0.05, abs=1e-5)
        assert np.array_equal(chunk.q_rad, policy_io.joint_waypoints(actions, state.q_commanded_rad))
    assert periods_s == pytest.approx([0.05, 0.05 / 0.8, 0.05 / 0.6, 0.1, 0.1, 0.05 / 0.7])


def test_every_command_is_traced_to_its_observation():
    c = FakeCell(scatter(1, 0), 0)
    c.warm_up()
    c.goal()
    c.run(60.0)
    records = [r for d in c.decisions for r in d.records]
    chunks = {d.chunk.trace_id: d.chunk for d in c.decisions if d.chunk is not None}
    traced = {r.fields["trace_id"]: r for r in records if r.kind == "chunk"}
    requests = {r.fields["observation_id"] for r in records if r.kind == "request"}
    assert set(traced) == set(chunks)
    for trace_id, chunk in chunks.items():
        if chunk.source == "policy":
            assert traced[trace_id].fields["observation_id"] in requests
    verdicts = [r.fields["trace_id"] for r in records if r.kind == "verdict"]
    assert set(verdicts) <= set(chunks) and len(verdicts) == len(chunks)


def test_chunks_are_sliding_windows_of_the_contract():
    c = FakeCell(scatter(1, 0), 0)
    c.warm_up()
    c.goal()
    c.run(60.0)
    chunks = [d.chunk for d in c.decisions if d.chunk is not None]
    assert {len(x.q_rad) for x in chunks if x.source == "planner"} == {12}
    assert {len(x.q_rad) for x in chunks if x.source == "policy"} == {8}
    assert all(a.state_seq < b.state_seq for a, b in zip(chunks, chunks[1:]))


@pytest.mark.parametrize(
    "field, value", [
        ("rest_limit_s", 0.0), ("policy_deadline_s", float("nan")), ("refusals_max", 0), ("refusals_max", 2.5),
        ("rest_limit_s", "2"), ("rest_limit_s", None), ("refusals_max", True), ("rest_limit_s", np.float32(99.0)),
    ]
)
def test_config_out_of_range_names_field_and_value(field, value):
    with pytest.raises(ConfigError, match=field):
        AgentConfig(**{field: value})
