"""What `spikes` and `filter_success` count, and how."""
import numpy as np
import pytest

from benchmarks import filter_success, spikes
from steadyhand.errors import ConfigError


def test_spikes_are_placed_a_hundred_samples_apart_on_average_and_never_near():
    where = spikes.placed((20_000, 30), np.random.default_rng(0))
    gaps = np.concatenate([np.diff(np.flatnonzero(c)) for c in where.T])
    assert gaps.mean() == pytest.approx(100, rel=0.05) and gaps.min() > spikes.APART
    assert not where[: spikes.EDGE].any() and not where[-spikes.EDGE :].any()


def test_rates_are_counted_per_block_of_a_second():
    where, flagged = np.zeros((258, 2), dtype=bool), np.zeros((258, 2), dtype=bool)
    where[[10, 150], [0, 1]] = True
    flagged[[10, 60, 61], [0, 0, 1]] = True
    counts = spikes.counted(where, flagged, np.arange(258) * 0.008)
    assert counts.spikes.tolist() == [1, 1] and counts.found.tolist() == [1, 0]
    assert counts.alarms.sum() == 2 and counts.others.sum() == 2 * 250 - 2
    rates = (counts + counts).rates()
    assert rates["tpr"] == 0.5 and rates["tpr_low"] <= 0.5 <= rates["tpr_high"] and rates["spikes"] == 4


def test_the_rate_at_one_percent_lies_between_the_points_of_the_roc():
    assert spikes.at_one_percent([{"fpr": 0.0, "tpr": 0.4}, {"fpr": 0.02, "tpr": 0.8}]) == pytest.approx(0.6)


def test_the_plain_rule_is_not_blamed_for_the_way_back():
    values, where = np.zeros((9, 1)), np.zeros((9, 1), dtype=bool)
    values[4], where[4] = 1.0, True
    assert np.flatnonzero(spikes.plain(values, np.array([0.5]), where)).tolist() == [4]


def line(arm, seed, success, failure=""):
    figures = {"duration_s": 7.0, "refused": 1, "chunks": 9}
    return {"arm": arm, "seed": seed, "success": success, "failure": failure, **figures}


def test_arms_are_compared_on_the_scenes_that_both_tried():
    a, b = "noisy 5/100", "noisy_filtered 5/100"
    lines = [line(a, 1, False, "time"), line(b, 1, True), line(a, 2, True), line(b, 2, True), line(a, 3, True)]
    found = filter_success.summary(lines, ["5/100"])
    assert found["pairs"][f"{a}, {b}"] == {"first_only": 0, "second_only": 1, "scenes": 2}
    assert found[a]["success"] == 0.6667 and found[a]["failures"] == {"time": 1} and found["told"]["n"] == 0


@pytest.mark.parametrize("level", ["5", "a/b", "5/100/1", "-1/100", "5/0"])
def test_a_level_that_is_none_is_refused(level):
    pytest.importorskip("pybullet")
    with pytest.raises(ConfigError):
        filter_success.environment(f"noisy {level}")
