"""Single-step: the agent waits before each phase until the operator says next; nothing else waits."""
import numpy as np

from steadyhand.agent import Agent
from steadyhand.task import Code
from steadyhand_sim import kinematic_cell
from tests.scenario.fake_cell import FakeCell, scatter


def stepping(count=1, seed=0):
    c = FakeCell(scatter(count, seed), seed)
    c.warm_up()
    c.step(single_step=True)
    c.goal()
    return c


def settle(c, seconds):
    for _ in range(round(seconds / 0.016)):
        c.step()


def waiting(c):
    feedback = c.decisions[-1].feedback
    return feedback is not None and feedback.detail.startswith("waiting for the operator before")


def test_without_a_word_nothing_ever_moves():
    c = stepping()
    q = c.state().q_rad.copy()
    settle(c, 30.0)  # longer than any deadline
    assert waiting(c) and not c.results and c.agent.busy
    assert np.abs(c.state().q_rad - q).max() < 1e-6
    assert c.agent.counters["policy_calls"] == 0


def test_one_word_one_step_and_the_task_is_done():
    c = stepping()
    words, phases = 0, []
    while not c.results:
        assert words < 40, c.phases
        while not waiting(c) and not c.results:
            c.step()
        if c.results:
            break
        phases.append(c.decisions[-1].feedback.phase)
        settle(c, 6.0)  # the operator looks first; step deadlines are shorter than this
        assert waiting(c) and c.decisions[-1].feedback.phase == phases[-1]
        assert np.abs(c.state().qd_commanded_rad_s).max() < 1e-3
        c.step(next_step=True)
        words += 1
    assert c.results[-1].code is Code.OK and c.results[-1].placed == 1 and c.in_box() == 1
    assert c.violations == {}
    assert {"pick", "grasp", "lift", "place", "release"} <= set(phases)
    assert c.agent.counters["fault_step_deadline"] == 0


def test_words_do_not_pile_up():
    c = stepping()
    settle(c, 0.2)
    first = c.decisions[-1].feedback.phase
    for _ in range(10):
        c.step(next_step=True)
    settle(c, 20.0)
    assert waiting(c) and not c.results
    assert c.decisions[-1].feedback.phase != first and len(set(c.phases)) == 2


def test_a_word_of_before_the_goal_does_not_count():
    c = FakeCell(scatter(1, 0), 0)
    c.warm_up()
    c.step(single_step=True)
    c.step(next_step=True)
    c.goal()
    settle(c, 2.0)
    assert waiting(c)


def test_turned_off_it_runs_on():
    c = stepping()
    settle(c, 2.0)
    c.step(single_step=False)
    assert c.run(60.0).code is Code.OK


def test_turned_on_under_way_the_step_ends_and_the_next_waits():
    c = FakeCell(scatter(1, 0), 0)
    c.warm_up()
    c.goal()
    while c.phases[-1:] != ["pick"]:
        c.step()
    settle(c, 0.3)
    c.step(single_step=True)
    settle(c, 15.0)
    assert waiting(c) and c.decisions[-1].feedback.phase == "grasp" and c.violations == {}


def test_cancel_and_stop_do_not_wait():
    c = stepping()
    settle(c, 1.0)
    c.step(cancels=("a",))
    assert (c.results or [c.run(3.0)])[-1].code is Code.CANCELLED
    c.goal("b")
    settle(c, 1.0)
    c.stop()
    assert c.run(3.0).code is Code.STOPPED


def test_an_object_lost_while_waiting_is_noticed():
    c = stepping()
    for _ in range(40):
        while not waiting(c):
            c.step()
        if c.decisions[-1].feedback.phase == "place":
            break
        c.step(next_step=True)
    for cube in c.cubes:
        cube.held, cube.position_m = False, np.array([0.5, 0.0, 0.02])
    settle(c, 1.0)
    assert c.agent.counters["fault_grasp_lost"] == 1 and waiting(c)


def test_an_object_lost_while_waiting_is_noticed_however_seldom_states_come(monkeypatch):
    monkeypatch.setattr(kinematic_cell, "STATE_S", 0.04)
    test_an_object_lost_while_waiting_is_noticed()


def test_off_is_the_default():
    assert not Agent("x")._single_step.on
