"""Impulse detector and filter: spikes found in motion, steps and motion not, bad readings refused and counted."""
import numpy as np
import pytest

from benchmarks._spike_recordings import Channels, scores
from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.impulse import ImpulseConfig, ImpulseDetector, prediction_weights
from steadyhand.impulse_filter import DELAY_SAMPLES, ImpulseFilter, JointFilter

CONFIG = ImpulseConfig((0.01, 0.01), 1.5)
PERIOD_S = 0.008


def motion(n=400, noise=0.002, seed=0):
    """Two channels: a fast sine of 3 Hz and a trapezoid of velocity, with noise; stamps with a lost sample here and
    there."""
    rng = np.random.default_rng(seed)
    cycles = np.cumsum(rng.choice([1, 1, 1, 3], n))
    t = cycles * PERIOD_S
    x = np.stack([np.sin(2 * np.pi * 3 * t), np.clip(2 * np.sin(2 * np.pi * t), -1, 1)], axis=1)
    return t, x + rng.normal(0, noise, x.shape)


def judge(t, x, config=CONFIG):
    detector = ImpulseDetector(config)
    return [v for v in (detector.update(s, row) for s, row in zip(t, x)) if v is not None]


def test_spikes_are_found_named_by_channel_and_repaired():
    t, x = motion()
    dirty, at = x.copy(), list(range(20, 380, 31))
    for k in at:
        dirty[k, k % 2] += 0.2 if k % 4 else -0.2
    found = judge(t, dirty)
    assert {(v.stamp_s, c) for v in found for c in np.flatnonzero(v.spikes)} == {(t[k], k % 2) for k in at}
    clean = {s: row for s, row in zip(t, x)}
    assert max(np.abs(v.repaired - clean[v.stamp_s]).max() for v in found) < 0.08
    assert all((v.raw == v.repaired)[~v.spikes].all() for v in found)


def test_a_repaired_spike_does_not_bend_the_repair_of_the_next():
    t, line = np.arange(30) * PERIOD_S, np.arange(30)[:, None] * [0.01, -0.01]
    dirty = line.copy()
    dirty[10, 0] += 0.4
    dirty[12, 0] += 0.2
    found = judge(t, dirty)
    assert [v.stamp_s for v in found if v.spikes.any()] == [t[10], t[12]]
    assert np.array([v.repaired for v in found]) == pytest.approx(line[2:-2], abs=1e-9)


def test_fast_motion_is_no_spike_where_a_plain_threshold_misfires():
    t, x = motion()
    assert (np.abs(np.diff(x, axis=0)) > 5 * 0.01).mean() > 0.5
    assert not any(v.spikes.any() for v in judge(t, x))


def test_a_step_is_no_spike():
    t = np.arange(60) * PERIOD_S
    x = np.where(np.arange(60) < 30, 0.0, 1.0)[:, None] * [1.0, -1.0]
    x += np.random.default_rng(1).normal(0, 0.001, (60, 2))
    assert not any(v.spikes.any() for v in judge(t, x))


def test_the_verdict_comes_two_samples_later():
    t, x = motion(10)
    detector = ImpulseDetector(CONFIG)
    stamps = [v and v.stamp_s for v in (detector.update(s, row) for s, row in zip(t, x))]
    assert stamps == [None] * 4 + t[2:-2].tolist()


def test_refused_readings_are_counted_and_change_nothing():
    t, x = motion(40)
    detector, plain = ImpulseDetector(CONFIG), judge(t, x)
    found = []
    for s, row in zip(t, x):
        found.append(detector.update(s, row))
        for stamp_s, bad in ((s, row), (s - 0.001, row + 9), (s + 0.001, row * np.nan), (np.nan, row), (np.inf, row)):
            assert detector.update(stamp_s, bad) is None
    found = [v for v in found if v is not None]
    assert [v.score.tolist() for v in found] == [v.score.tolist() for v in plain]
    assert detector.rejected == {"duplicate": 40, "out_of_order": 40, "not_finite": 120}


def test_a_gap_begins_the_window_anew():
    t, x = motion(20)
    t[10:] += 1.0
    detector = ImpulseDetector(CONFIG)
    found = [detector.update(s, row) for s, row in zip(t, x)]
    assert detector.restarts == 1 and [v is None for v in found] == ([True] * 4 + [False] * 6) * 2


def test_predictions_are_exact_for_a_straight_line_at_any_stamps():
    stamps = (0.0, 0.008, 0.032, 0.041, 0.1)
    line = 3.0 * np.delete(np.array(stamps), 2) + 1.0
    assert prediction_weights(stamps) @ line == pytest.approx(np.full(5, 3.0 * 0.032 + 1.0))


def test_the_fast_scores_of_the_benchmark_are_the_detectors():
    t, x = motion(200, noise=0.01)
    config = ImpulseConfig((0.01, 0.02), threshold=1e6)
    assert scores(Channels(t, x), config) == pytest.approx(np.array([v.score for v in judge(t, x, config)]))


@pytest.mark.parametrize(("changes", "says"), [
    ({"noise_std": ()}, "noise_std"), ({"noise_std": (0.1, 0.0)}, "noise_std"), ({"noise_std": (np.nan,)}, "noise_std"),
    ({"threshold": -1.0}, "threshold = -1.0"), ({"recent_samples": 0}, "recent_samples = 0"),
    ({"max_gap_s": float("nan")}, "max_gap_s = nan"),
])
def test_configuration_is_refused_by_name(changes, says):
    with pytest.raises(ConfigError, match=says):
        ImpulseConfig(**{"noise_std": (0.1,), **changes})


def test_another_number_of_channels_is_refused():
    with pytest.raises(ProtocolError, match=r"shape \(3,\): expected \(2,\)"):
        ImpulseDetector(CONFIG).update(0.0, np.zeros(3))


# -- repaired and smoothed --


def test_the_filter_takes_out_spikes_and_ripple_and_says_how_late_it_is():
    t = np.arange(300) * PERIOD_S
    slow = np.sin(2 * np.pi * t)[:, None] * [1.0, 1.0]
    dirty = slow + 0.02 * np.sin(2 * np.pi * 58 * t)[:, None]
    dirty[50::40, 0] += 0.5
    filter_ = ImpulseFilter(ImpulseConfig((0.02, 0.02), 1.5))
    found = [v for v in (filter_.update(s, row) for s, row in zip(t, dirty)) if v is not None]
    assert len(found) == len(t) - 2 * DELAY_SAMPLES
    assert max(np.abs(v.values - slow[round(v.stamp_s / PERIOD_S)]).max() for v in found) < 0.03
    assert all(v.delay_s == pytest.approx(DELAY_SAMPLES * PERIOD_S) for v in found)
    assert sum(v.spikes[0] for v in found) == len(range(50, 300, 40))


def test_the_filters_window_does_not_span_a_gap():
    t, x = motion(30)
    t[15:] += 1.0
    filter_ = ImpulseFilter(CONFIG)
    found = [filter_.update(s, row) for s, row in zip(t, x)]
    assert [v is None for v in found] == ([True] * 6 + [False] * 9) * 2
    assert all(v.delay_s < 0.2 for v in found if v is not None)


def test_the_joint_filter_says_where_the_joints_are_now():
    filter_, t = JointFilter(), np.arange(200) * PERIOD_S
    q, qd = np.sin(3 * t)[:, None] * np.ones(6), 3 * np.cos(3 * t)[:, None] * np.ones(6)
    q[60::50, 2] += 0.1
    found = [filter_.update(s, *read) for s, read in zip(t, zip(q, qd))]
    assert [f is None for f in found[:7]] == [True] * 6 + [False]
    now = np.array([f[0] for f in found[6:]])
    assert np.abs(now - np.sin(3 * t)[6:, None]).max() < 0.004  # half of acceleration times delay squared: 2.6 mrad


@pytest.mark.parametrize("weight", [-0.1, 0.34, float("nan")])
def test_the_kernel_is_a_mean(weight):
    with pytest.raises(ConfigError, match="side_weight"):
        ImpulseFilter(CONFIG, weight)
