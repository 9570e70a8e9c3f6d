"""Impulse detector over any stream: a uniform motion of any speed changes no verdict; no input makes it fail."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from steadyhand.impulse import ImpulseConfig, ImpulseDetector
from steadyhand.impulse_filter import ImpulseFilter

CONFIG = ImpulseConfig((0.01,), 1.2)
noise = st.builds(
    lambda seed, n: np.random.default_rng(seed).normal(0, 0.3, n), st.integers(0, 2**31), st.integers(8, 40)
)
steps = st.lists(st.sampled_from([0.004, 0.008, 0.024]), min_size=40, max_size=40)


def scores(stamps, values, config=CONFIG):
    detector = ImpulseDetector(config)
    return np.array([v.score[0] for v in map(detector.update, stamps, values) if v is not None])


@settings(max_examples=80, deadline=None)
@given(noise, steps, st.floats(-20, 20), st.floats(-5, 5))
def test_a_uniform_motion_changes_nothing(values, gaps, speed, start):
    stamps = np.cumsum(gaps)[: len(values)]
    rest = values[:, None]
    still, moving = scores(stamps, rest), scores(stamps, rest + start + speed * stamps[:, None])
    assert moving == pytest.approx(still, rel=1e-4, abs=1e-6)


@settings(max_examples=80, deadline=None)
@given(noise, steps, st.integers(-9, 9))
def test_the_unit_of_a_channel_does_not_matter(values, gaps, power):
    stamps, rows = np.cumsum(gaps)[: len(values)], values[:, None]
    other = ImpulseConfig((0.01 * 2.0**power,), 1.2)
    assert scores(stamps, rows * 2.0**power, other) == pytest.approx(scores(stamps, rows), rel=1e-9)  # exact in floats


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), max_size=60))
def test_any_stream_is_judged_or_counted(stream):
    filter_, taken = ImpulseFilter(CONFIG), 0
    for stamp_s, value in stream:
        before = sum(filter_.detector.rejected.values())
        found = filter_.update(stamp_s, np.array([value]))
        taken += sum(filter_.detector.rejected.values()) == before
        assert found is None or found.delay_s > 0
    assert taken + sum(filter_.detector.rejected.values()) == len(stream)
