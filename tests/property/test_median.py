"""The sliding median over any stream: numbers as numpy has it, angles whatever turn they are given in."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from steadyhand.median_filter import SlidingMedian

values = st.floats(-1e3, 1e3)


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=30), st.sampled_from([1, 3, 5, 9]))
def test_it_is_the_median_of_the_last_samples(stream, window):
    median = SlidingMedian(window, (0.0,))
    for k, value in enumerate(stream):
        found = median.add(float(k), [value])
        assert found.values[0] == pytest.approx(np.median(stream[max(0, k + 1 - window) : k + 1]))
        assert 0.0 <= found.delay_s <= median.delay_samples


@settings(deadline=None)
@given(
    st.lists(st.floats(-0.7, 0.7), min_size=5, max_size=20), st.floats(-10, 10),
    st.lists(st.integers(-3, 3), min_size=20, max_size=20), st.sampled_from([math.pi / 2, 2 * math.pi]),
)
def test_turns_and_the_place_of_the_seam_change_nothing(stream, middle, turns, period):
    """Angles within less than half a period of one another: their median is that of the numbers."""
    stream = [period / math.pi * 0.7 * v for v in stream]
    plain, turned = SlidingMedian(5, (0.0,)), SlidingMedian(5, (period,))
    for k, value in enumerate(stream):
        number = plain.add(float(k), [value]).values[0]
        angle = turned.add(float(k), [middle + value + turns[k] * period]).values[0]
        assert -period / 2 - 1e-9 < angle <= period / 2 + 1e-9
        assert abs(math.remainder(angle - middle - number, period)) < 1e-6


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(-1, 5), values), max_size=40))
def test_in_any_order_of_arrival_only_rising_stamps_count(stream):
    median, kept = SlidingMedian(5, (0.0,)), []
    for stamp_s, value in stream:
        found = median.add(stamp_s, [value])
        assert (found is not None) == (not kept or stamp_s > kept[-1][0])
        if found is not None:
            kept.append((stamp_s, value))
            assert found.values[0] == pytest.approx(np.median([v for _, v in kept[-5:]]))
    assert len(kept) + sum(median.rejected.values()) == len(stream)
