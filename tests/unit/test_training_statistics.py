"""Paired test and bootstrap over plants, against what they must be."""
import numpy as np
import pytest
from scipy import stats

from policies.training.statistics import bootstrap_low, mcnemar_p, rate


def test_mcnemar_is_the_sign_test_of_the_scenes_that_differ():
    before = np.array([1] * 9 + [0] * 2 + [1] * 50, bool)
    after = np.array([0] * 9 + [1] * 2 + [1] * 50, bool)
    assert mcnemar_p(before, after) == pytest.approx(stats.binomtest(9, 11, 0.5, alternative="greater").pvalue)
    assert mcnemar_p(before, before) == 1.0
    assert mcnemar_p(after, before) > 0.5  # more wins than losses


def test_mcnemar_refuses_what_is_not_paired():
    with pytest.raises(ValueError, match="shapes"):
        mcnemar_p(np.ones(3), np.ones(4))


def test_an_interval_over_plants_is_wider_than_over_episodes_when_plants_differ():
    by_plant = np.repeat([[1.0], [0.0]] * 10, 20, axis=1)  # half of the plants always, half never
    low, high = bootstrap_low(by_plant, n=2000)
    assert low < 0.32 and high > 0.68
    assert rate(by_plant.ravel())["low"] > 0.45


def test_an_interval_of_certainty_is_a_point():
    assert bootstrap_low(np.ones((5, 4)), n=100) == (1.0, 1.0)


def test_a_bootstrap_needs_plants():
    with pytest.raises(ValueError, match="expected"):
        bootstrap_low(np.ones(5))
