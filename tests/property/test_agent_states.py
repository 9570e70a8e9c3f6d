"""Every phase of the executor against every event: one terminal result, at rest, nothing commanded that may not be."""
import copy
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steadyhand.phases import Phase
from steadyhand.task import Code
from steadyhand.types import Mode
from tests.scenario.fake_cell import FakeCell, scatter

# DIAGNOSE from standstill lasts less than one state: there is nothing to come between.
PHASES = [p.value for p in Phase if p not in (Phase.DONE, Phase.TURN, Phase.DIAGNOSE)]

EVENTS = {
    "stop": lambda c: c.stop(),
    "stop and re-arm at once": lambda c: (c.stop(), c.step(), c.rearm()),
    "new token": lambda c: c.rearm(),
    "recovering": lambda c: setattr(c, "mode", Mode.RECOVERING),
    "rest unknown": lambda c: setattr(c, "mode", Mode.REST_UNKNOWN),
    "cancel": lambda c: c.step(cancels=("a",)),
    "guard silent": lambda c: setattr(c, "guard_on", False),
    "camera off": lambda c: setattr(c, "camera_on", False),
    "policy dead": lambda c: setattr(c, "policy", None),
    "policy hangs": lambda c: setattr(c, "policy_delay_s", 10.0),
    "policy says nan": lambda c: setattr(c, "policy", lambda o: np.full((8, 5), np.nan)),
    "everything refused": lambda c: setattr(c, "refuse", "workspace"),
    "object lost": lambda c: c.drop(),
    "no friction": lambda c: setattr(c, "friction", False),
    "gripper stuck": lambda c: setattr(c, "gripper_opens", False),
    "tray taken away": lambda c: [cube.position_m.__iadd__(3.0) for cube in c.cubes if not cube.held],
}
MUST_STOP = {"stop", "stop and re-arm at once", "new token", "recovering", "rest unknown"}


@lru_cache(maxsize=1)
def snapshots() -> dict[str, FakeCell]:
    """A cell in each phase, on the way through a task that also fails, goes blind and gives up."""
    found: dict[str, FakeCell] = {}
    c = FakeCell(scatter(1, 1), 1)
    c.warm_up()
    c.goal()

    def keep(c: FakeCell) -> None:
        if c.phases and not c.results and c.phases[-1] not in found:
            found[c.phases[-1]] = copy.deepcopy(c)

    c.run(6.0, each=keep)
    ill = copy.deepcopy(found["pick"])
    ill.camera_on = False
    ill.run(1.5, each=keep)
    ill.camera_on, ill.friction = True, False
    ill.run(120.0, each=keep)
    while set(PHASES) - set(found) and not c.results:
        keep(c)
        c.step()
    assert set(PHASES) <= set(found), set(PHASES) - set(found)
    return found


def check_decisions(c: FakeCell, since: int) -> None:
    for d in c.decisions[since:]:
        if d.chunk is not None:
            assert np.isfinite(d.chunk.q_rad).all() and d.chunk.q_rad.shape[1] == 6
        assert len(d.results) <= 1


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("phase", PHASES)
def test_every_event_in_every_phase_ends_in_one_result(phase, event):
    c = copy.deepcopy(snapshots()[phase])
    before = len(c.decisions)
    EVENTS[event](c)
    result = c.results[-1] if c.results else c.run(220.0)
    assert result is not None, c.phases
    after = len(c.decisions)
    c.guard_on, c.policy_delay_s = True, 0.004
    c.run(0.5, until_result=False)
    assert len(c.results) == 1
    assert all(d.chunk is None and d.gripper is None and d.policy_request is None for d in c.decisions[after:])
    check_decisions(c, before)
    assert c.agent.counters["fault_internal_error"] == 0
    assert c.violations["command_source_silent"] == 0 or event in ("everything refused", "guard silent")
    if event in MUST_STOP:
        assert result.code in (Code.STOPPED, Code.PERCEPTION_LOST) and result.at_rest
    if event == "cancel":
        assert (result.code, result.at_rest) == (Code.CANCELLED, True)
    if event == "guard silent":
        assert (result.code, result.at_rest) == (Code.STOPPED, False)
    if result.at_rest:
        assert np.abs(c.qd).max() < 0.01


@pytest.mark.parametrize("phase", PHASES)
def test_a_stop_is_obeyed_with_the_very_next_state(phase):
    c = copy.deepcopy(snapshots()[phase])
    c.stop()
    c.step()
    since = len(c.decisions)
    c.run(3.0)
    assert all(d.chunk is None and d.gripper is None and d.policy_request is None for d in c.decisions[since:])


events = st.lists(st.tuples(st.floats(0.0, 6.0), st.sampled_from(sorted(EVENTS))), min_size=1, max_size=4)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events, st.integers(0, 3))
def test_any_sequence_of_events_ends_in_one_result(schedule, seed):
    c = FakeCell(scatter(1, seed), seed)
    c.warm_up()
    c.goal()
    for delay_s, event in schedule:
        c.run(delay_s)
        if not c.results:
            EVENTS[event](c)
    if not c.results:
        c.run(220.0)
    assert len(c.results) == 1
    c.run(0.3, until_result=False)
    assert len(c.results) == 1 and c.agent.counters["fault_internal_error"] == 0
    check_decisions(c, 0)
