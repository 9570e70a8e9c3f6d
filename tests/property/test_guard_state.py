"""The latched state machine, over every mode and every event."""
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand import guard_state as gs
from steadyhand.types import Mode
from steadyhand.watchdog import RestDetector

NOW_S = 50.0
FAULTS = sorted(gs.RULES) + ["input:camera", "never_heard_of"]


def stopped(**changes):
    return gs.GuardState(Mode.STOPPED, 1, at_rest=True, stop_since_s=NOW_S - 1.0, **changes)


STATES = {
    "started": gs.initial(1, NOW_S - 1.0),
    "stopped": stopped(latched=(("stop_requested", "x"),)),
    "arming": stopped(arming=Mode.ARMED_AUTO),
    "braking": gs.GuardState(Mode.STOPPED, 1, stopping=gs.Reaction.BRAKE, stop_since_s=NOW_S),
    "silent": gs.GuardState(Mode.STOPPED, 1, stopping=gs.Reaction.SILENCE, stop_since_s=NOW_S),
    "withdrawn": gs.GuardState(Mode.STOPPED, 1, stopping=gs.Reaction.WITHDRAW, stop_since_s=NOW_S),
    "rest_unknown": gs.GuardState(Mode.REST_UNKNOWN, 1),
    **{mode.value: gs.GuardState(mode, 1, at_rest=True) for mode in sorted(gs.ARMED)},
}
STOPS = {
    "request": gs.StopRequest("anyone"),
    "disarm": gs.DisarmRequest("anyone"),
    **{f"fault {name}": gs.FaultRaised(name) for name in FAULTS},
    **{f"holding {name}": gs.Cycle({name: ""}, False) for name in FAULTS},
}
EVENTS = {
    **STOPS,
    "quiet cycle": gs.Cycle({}, False),
    "rest": gs.Cycle({}, True),
    "arm": gs.ArmRequest(Mode.ARMED_AUTO, True, 2),
    "arm unverified": gs.ArmRequest(Mode.ARMED_AUTO, False, 3),
    "arm old token": gs.ArmRequest(Mode.ARMED_AUTO, True, 1),
    "arm nonsense": gs.ArmRequest(Mode.STOPPED, True, 4),
    "armed": gs.ArmingEnded(1, True),
    "arming of another": gs.ArmingEnded(9, True),
    "arming failed": gs.ArmingEnded(1, False, "why"),
}
PRODUCT = list(itertools.product(STATES, EVENTS))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("stop", STOPS)
def test_stop_wins_in_every_mode(state, stop):
    before, event = STATES[state], STOPS[stop]
    after, decisions = gs.step(before, event, NOW_S)
    concerned = before.mode if before.armed else before.arming
    if isinstance(event, gs.Cycle):  # a condition stops the modes that it forbids
        name = next(iter(event.holding))
        if concerned is None or concerned not in gs.rule_of(name).forbids:
            return
    assert not after.armed and after.arming is None
    if before.armed:
        assert after.stopping is not None and any(isinstance(d, gs.Stop) for d in decisions)
        assert not after.at_rest  # rest is measured anew


@pytest.mark.parametrize("state, event", PRODUCT)
def test_armed_is_reached_only_from_a_verified_arming(state, event):
    before = STATES[state]
    after, decisions = gs.step(before, EVENTS[event], NOW_S)
    if after.armed and not before.armed:
        assert (state, event) == ("arming", "armed") and after.mode is before.arming
    if after.arming is not None and before.arming is None:
        assert event == "arm" and state == "stopped"
        assert decisions == (gs.BeginArming(Mode.ARMED_AUTO, 2),) and after.token == 2 != before.token
    if event in ("arm unverified", "arm old token", "arm nonsense"):
        assert isinstance(decisions[0], gs.Refused) and decisions[0].causes


@pytest.mark.parametrize("state, event", PRODUCT)
def test_the_token_changes_only_when_arming_begins(state, event):
    before = STATES[state]
    after, decisions = gs.step(before, EVENTS[event], NOW_S)
    assert (after.token != before.token) == any(isinstance(d, gs.BeginArming) for d in decisions)


@pytest.mark.parametrize("state, event", PRODUCT)
def test_a_stop_under_way_is_never_weakened(state, event):
    before = STATES[state]
    after, decisions = gs.step(before, EVENTS[event], NOW_S)
    if before.stopping is not None and after.stopping is not None:
        assert after.stopping >= before.stopping
    assert sum(isinstance(d, gs.HaltProgram) for d in decisions) == (state == "braking" and event == "rest")


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("mode", sorted(gs.ARMED))
def test_a_cause_that_persists_blocks_arming_the_modes_it_forbids(name, mode):
    state, _ = gs.step(stopped(), gs.Cycle({name: "detail"}, True), NOW_S)
    after, decisions = gs.step(state, gs.ArmRequest(mode, True, 2), NOW_S)
    forbidden = mode in gs.rule_of(name).forbids
    assert (after.arming is None) == forbidden
    assert (decisions == (gs.Refused((f"{name}: detail",)),)) == forbidden
    cleared, _ = gs.step(after, gs.Cycle({}, True), NOW_S)
    if forbidden:
        assert gs.step(cleared, gs.ArmRequest(mode, True, 3), NOW_S)[0].arming is mode


def test_the_highest_reaction_wins_among_several():
    state = STATES["ARMED_AUTO"]
    for order in itertools.permutations(["input:camera", "feedback_lost", "robot_safety"]):
        after, decisions = gs.step(state, gs.Cycle(dict.fromkeys(order, ""), False), NOW_S)
        assert decisions == (gs.Stop(gs.Reaction.WITHDRAW),)
        assert {n for n, _ in after.latched} == set(order)
        _, decisions = gs.step(STATES["braking"], gs.Cycle(dict.fromkeys(order, ""), False), NOW_S)
        assert decisions == (gs.Stop(gs.Reaction.WITHDRAW),)


MANY = {f"robot_mode:{i}": "x" * 9999 for i in range(5000)}


@pytest.mark.parametrize("worst", ["robot_safety:e_stop", "robot_unreachable", "peer:arm", "margin"])
@pytest.mark.parametrize("mode", sorted(gs.ARMED))
def test_thousands_of_causes_are_shortened_and_decide_the_same(worst, mode):
    others = MANY if worst.startswith("robot_safety") else {f"input:{i}": "x" * 9999 for i in range(5000)}
    holding = others | {worst: "y"}
    one, wanted = gs.step(STATES[mode.value], gs.Cycle({worst: "y"}, False), NOW_S)
    after, decisions = gs.step(STATES[mode.value], gs.Cycle(holding, False), NOW_S)
    stopped_by_worst = mode in gs.rule_of(worst).forbids
    assert bool(decisions) >= bool(wanted) and (decisions[:1] == wanted or not stopped_by_worst)
    assert len(after.holding) == gs.MAX_CAUSES and (worst, "y") in after.holding
    after, _ = gs.step(after, gs.FaultRaised("shutdown", "z" * 9999), NOW_S)
    causes = after.causes()
    assert len(causes) <= gs.MAX_CAUSES and all(len(c) <= gs.NAME_MAX + 2 + gs.DETAIL_MAX for c in causes)
    _, (refused,) = gs.step(after, gs.ArmRequest(mode, True, 2), NOW_S)
    assert len(refused.causes) <= gs.MAX_CAUSES + 4


def test_rest_unknown_after_two_seconds_and_back_when_measured():
    state = STATES["braking"]
    state, none = gs.step(state, gs.Cycle({}, False), NOW_S + 1.9)
    assert none == () and state.mode is Mode.STOPPED
    state, decisions = gs.step(state, gs.Cycle({}, False), NOW_S + 2.1)
    assert state.mode is Mode.REST_UNKNOWN and decisions == (gs.Stop(gs.Reaction.WITHDRAW),)
    assert gs.step(state, gs.ArmRequest(Mode.ARMED_MANUAL, True, 2), NOW_S + 2.2)[0].arming is None
    state, _ = gs.step(state, gs.Cycle({}, True), NOW_S + 3.0)
    assert state.mode is Mode.STOPPED


def test_the_snapshot_is_kept_until_armed_and_handed_over_once():
    state, _ = gs.step(STATES["ARMED_AUTO"], gs.StopRequest("x", snapshot={"trace_id": "t"}), NOW_S)
    state, _ = gs.step(state, gs.StopRequest("y", snapshot={"trace_id": "later"}), NOW_S)
    state, _ = gs.step(state, gs.Cycle({}, True), NOW_S + 0.5)
    state, _ = gs.step(state, gs.ArmRequest(Mode.ARMED_AUTO, True, 2), NOW_S + 1)
    state, decisions = gs.step(state, gs.ArmingEnded(2, True), NOW_S + 1)
    assert decisions == (gs.Armed(Mode.ARMED_AUTO, 2, {"trace_id": "t"}),)
    assert state.snapshot == {} and state.latched == ()


def test_counters_count():
    state = STATES["ARMED_AUTO"]
    state, _ = gs.step(state, gs.StopRequest("panel", count=3), NOW_S)
    state, _ = gs.step(state, gs.StopRequest("panel"), NOW_S)
    state, _ = gs.step(state, gs.FaultRaised("tracking"), NOW_S)
    state, _ = gs.step(state, gs.ArmRequest(Mode.ARMED_AUTO, False, 2), NOW_S)
    assert state.counts == {"stop:panel": 4, "fault:tracking": 1, "arm_refused": 1}
    for i in range(200):
        state, _ = gs.step(state, gs.StopRequest(f"name {i}"), NOW_S)
    assert len(state.counts) <= gs.MAX_COUNTED_NAMES + 1 and sum(state.counts.values()) == 206


def test_an_armed_state_with_a_stop_under_way_cannot_be_built():
    with pytest.raises(ValueError, match="stopping"):
        gs.GuardState(Mode.ARMED_AUTO, 1, stopping=gs.Reaction.BRAKE)


EVENT = st.sampled_from(sorted(EVENTS)).map(EVENTS.get)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(EVENT, st.floats(0, 1)), max_size=40), st.integers(0, 2**31))
def test_over_any_history_the_invariants_hold(history, first_token):
    """Tokens are fresh at each arming; nothing is armed without a verified request since the last stop."""
    state, now_s, verified = gs.initial(first_token, 0.0), 0.0, False
    tokens = itertools.count(first_token + 1)
    seen = {first_token}
    for event, dt_s in history:
        now_s += dt_s
        if isinstance(event, gs.ArmRequest):
            event = gs.ArmRequest(event.mode, event.verified, next(tokens))
        if isinstance(event, gs.ArmingEnded) and event.token == 1:
            event = gs.ArmingEnded(state.token, event.ok, event.detail)
        before = state
        state, decisions = gs.step(state, event, now_s)
        for decision in decisions:
            if isinstance(decision, gs.BeginArming):
                assert isinstance(event, gs.ArmRequest) and event.verified and decision.token not in seen
                seen.add(decision.token)
                verified = True
            if isinstance(decision, gs.Stop):
                verified = False
        assert not state.armed or verified
        assert state.armed or not before.armed or any(isinstance(d, gs.Stop) for d in decisions)


def test_a_gap_in_the_feedback_is_no_rest():
    rest = RestDetector(max_gap_s=0.04)
    for stamp_s in (0.0, 0.09, 0.11):  # the arm may have moved between the first two
        rest.update([0.0] * 6, stamp_s)
    assert not rest.at_rest(0.11)
    for k in range(1, 13):
        rest.update([0.0] * 6, 0.11 + 0.008 * k)
    assert rest.at_rest(0.21)
