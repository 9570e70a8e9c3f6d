"""Budgets and free space as pure rules: oldest first, the newest never, hysteresis, a clock that was set."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ConfigError
from steadyhand.retention import (
    BUDGETS, CLOCK_DOUBT_S, DAY_S, HOLD_S, MB, Budget, Entry, SpaceRule, StorageConfig, config_of, surplus,
)

NOW_S = 1.8e9
ENTRIES = st.lists(
    st.tuples(st.integers(0, 2 * MB), st.floats(-100, 100)), max_size=12
).map(lambda rows: [Entry(f"f{k}", size, NOW_S + days * DAY_S) for k, (size, days) in enumerate(rows)])


@given(ENTRIES, st.integers(0, MB), st.sets(st.integers(0, 11)), st.floats(0.1, 50))
def test_what_stays_fits_unless_only_what_must_stay_is_left(entries, room, kept, max_age_days):
    budget, keep = Budget(3.0, max_age_days), {f"f{k}" for k in kept}
    gone = surplus(entries, budget, NOW_S, keep, room)
    oldest_first = sorted(entries, key=lambda e: (e.changed_s, e.name))
    stays = [e for e in oldest_first if e not in gone]
    deletable = [e for e in oldest_first[:-1] if e.name not in keep]
    assert gone == deletable[:len(gone)]  # a prefix: oldest first, neither the newest nor what is in use
    if [e for e in stays if e in deletable]:
        assert sum(e.size_bytes for e in stays) + room <= budget.max_bytes
    ages_known = NOW_S > max((e.changed_s for e in entries), default=0.0) - CLOCK_DOUBT_S
    if gone and not (ages_known and NOW_S - gone[-1].changed_s > max_age_days * DAY_S):  # nothing goes without need
        assert sum(e.size_bytes for e in [*stays, gone[-1]]) + room > budget.max_bytes


def entry(name, days, size=0):
    return Entry(name, size, NOW_S - days * DAY_S)


def test_what_is_too_old_goes_and_the_newest_stays_however_old():
    entries = [entry("a", 90), entry("b", 31), entry("c", 29)]
    assert [e.name for e in surplus(entries, Budget(1, 30), NOW_S)] == ["a", "b"]
    assert [e.name for e in surplus(entries[:1], Budget(1, 30), NOW_S)] == []


def test_a_clock_that_was_set_back_makes_nothing_old():
    entries = [entry("a", 90), entry("new", -1)]  # written by a clock that was right: this one is a day behind
    assert surplus(entries, Budget(1, 30), NOW_S) == []
    assert [e.name for e in surplus([entry("a", 90, MB), *entries[1:]], Budget(1, 30), NOW_S, room_bytes=1)] == ["a"]


def test_recording_stops_and_goes_on_with_hysteresis_and_each_stop_is_counted():
    rule = SpaceRule(StorageConfig(100, 200))
    looks = [rule.look(mb * MB, 0.0) for mb in (150, 99, 150, 199, 200, 150, 99)]
    assert looks == [True, False, False, False, True, True, False]
    assert rule.pauses == 2 and rule.why == "99 MB free, less than min_free_mb (100)"


def test_a_refused_write_holds_whatever_the_disk_says_to_be_free():
    rule = SpaceRule(StorageConfig(100, 200))
    rule.refused("quota", 50.0)
    rule.refused("quota", 51.0)
    assert not rule.look(1e12, 51.0 + HOLD_S - 0.1) and (rule.pauses, rule.why) == (1, "quota")
    assert rule.look(1e12, 51.0 + HOLD_S) and rule.why == ""


def test_the_shipped_file_shows_the_defaults():
    import yaml

    from tests.unit.test_operations import OPS

    assert config_of(yaml.safe_load((OPS.parent / "config/storage.yaml").read_text())) == StorageConfig()
    assert config_of({}) == StorageConfig() and set(BUDGETS) == {
        "trace", "stops", "interventions", "reports", "log", "commissioning", "replay",
    }


@pytest.mark.parametrize(("raw", "named"), [
    ({"min_free_mb": -1}, "min_free_mb = -1"),
    ({"min_free_mb": float("nan")}, "min_free_mb = nan"),
    ({"min_free_mb": True}, "min_free_mb = True"),
    ({"resume_free_mb": 1}, "resume_free_mb = 1: give min_free_mb (500.0) or more"),
    ({"log_file_mb": "20"}, "log_file_mb = '20'"),
    ({"free": 1}, "unknown parameter 'free'"),
    ({"budgets": 3}, "budgets = 3"),
    ({"budgets": {"traces": {}}}, "budgets.traces: unknown"),
    ({"budgets": {"trace": 5}}, "budgets.trace = 5"),
    ({"budgets": {"trace": {"max": 5}}}, "budgets.trace = {'max': 5}"),
    ({"budgets": {"trace": {"max_mb": 0}}}, "budgets.trace.max_mb = 0"),
])  # fmt: skip
def test_a_wrong_file_is_named_by_field_and_value(raw, named):
    with pytest.raises(ConfigError) as caught:
        config_of(raw)
    assert named in str(caught.value)
