"""The agent on PyBullet through the guard's own interpolator and gate, with the scripted demonstrator as policy."""
import numpy as np
import pytest

from steadyhand.task import Code

pytestmark = pytest.mark.sim


@pytest.fixture
def cell():
    from tests.scenario.sim_cell import SimCell
    from policies.training.pick_place.expert import expert_actions

    made = []

    def make(count: int, seed: int, **more) -> SimCell:
        c = SimCell(count, seed, lambda o: expert_actions(o[None].astype(float))[0], **more)
        made.append(c)
        c.warm_up(0.6)
        return c

    yield make
    for c in made:
        c.close()


def until(c, phase: str) -> None:
    for _ in range(3000):
        if c.phases and c.phases[-1] == phase:
            return
        c.step()
    raise AssertionError(f"never in {phase}: {c.phases}")


def test_two_cubes_reach_the_box_and_the_gate_refuses_nothing(cell):
    c = cell(2, 0)
    c.goal()
    start = c.now_s
    result = c.run(60.0)
    assert (result.code, result.placed, c.in_box()) == (Code.OK, 2, 2)
    assert c.violations == {} and result.statistics["failures"] == []
    assert (c.now_s - start) / 2 < 12.0


def test_no_friction_no_cube(cell):
    c = cell(1, 1)
    c.world.set_finger_friction(0.0)
    c.goal()
    result = c.run(150.0)
    assert result.code is not Code.OK and (result.placed, c.in_box()) == (0, 0)


@pytest.mark.parametrize("phase, after_s", [("pick", 0.8), ("lift", 0.25), ("place", 0.9), ("retreat", 0.2)])
def test_the_gate_accepts_the_braking_of_a_cancel(cell, phase, after_s):
    c = cell(1, 2)
    c.goal()
    until(c, phase)
    c.run(after_s, until_result=False)
    assert np.abs(c.qd).max() > 0.2
    start = c.now_s
    c.step(cancels=("a",))
    result = c.run(3.0)
    assert (result.code, result.at_rest) == (Code.CANCELLED, True)
    assert c.violations == {} and c.now_s - start < 0.6


def test_a_policy_that_dies_in_motion_is_braked_without_a_stop_of_the_guard(cell):
    c = cell(1, 3)
    c.goal()
    until(c, "pick")
    c.run(0.7, until_result=False)
    policy, c.policy = c.policy, None
    c.run(1.0, until_result=False)
    assert c.violations == {} and not c.results
    c.policy = policy
    assert c.run(60.0).code is Code.OK and c.in_box() == 1
