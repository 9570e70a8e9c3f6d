"""Small parts: the median, the trace and health with hysteresis."""
import json

import numpy as np
import pytest

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.health import Component, HealthConfig, Level
from steadyhand.median_filter import PoseMedian, SlidingMedian, wrap_quarter_turn
from steadyhand.trace import Record, TraceBuffer, encode


def test_two_wild_samples_of_five_change_nothing():
    median = PoseMedian(5)
    for k, x in enumerate((0.50, 0.50, 0.50, 0.90, 0.10)):
        found = median.add(0.05 * k, [x, 0.0, 0.02, 0.1])
    assert found.values[0] == 0.50 and found.values[3] == pytest.approx(0.1)


def test_the_median_of_angles_knows_the_seam():
    median = PoseMedian(5)
    for k, yaw in enumerate((np.pi / 4 - 0.01, -np.pi / 4 + 0.01, np.pi / 4 - 0.02, -np.pi / 4 + 0.02, np.pi / 4)):
        found = median.add(0.05 * k, [0, 0, 0, yaw])
    assert abs(wrap_quarter_turn(found.values[3] - np.pi / 4)) < 1e-9


def test_the_delay_of_a_ramp_is_the_published_one():
    median = PoseMedian(5)
    for k in range(10):
        found = median.add(0.05 * k, [float(k), 0, 0, 0])
    assert 9 - found.values[0] == median.delay_samples == 2 and found.delay_s == pytest.approx(0.1)


def test_a_window_with_two_middles_is_as_old_as_the_older_one():
    median = PoseMedian(5)
    delays = [median.add(0.05 * k, [0.0, 0, 0, 0]).delay_s for k in range(5)]
    assert delays == pytest.approx([0.0, 0.05, 0.05, 0.1, 0.1])


def test_late_repeated_and_not_finite_samples_change_nothing():
    median = PoseMedian(5)
    for k in range(5):
        before = median.add(0.05 * k, [float(k), 0, 0, 0])
    for stamp_s, x in ((0.2, 9.0), (0.1, 9.0), (0.3, np.nan), (np.nan, 9.0), (np.inf, 9.0)):
        assert median.add(stamp_s, [x, 0, 0, 0]) is None
    assert median.rejected == {"duplicate": 1, "out_of_order": 1, "not_finite": 3} and median.latest is before
    assert median.add(0.25, [5.0, 0, 0, 0]).values[0] == 3.0


def test_the_median_refuses_another_number_of_channels():
    with pytest.raises(ProtocolError, match=r"shape \(2,\): expected \(4,\)"):
        PoseMedian(5).add(0.0, [0, 0])


@pytest.mark.parametrize("window", [0, 2, -1])
def test_the_window_is_odd(window):
    with pytest.raises(ConfigError, match=f"window = {window}"):
        PoseMedian(window)


@pytest.mark.parametrize("periods", [(), (-1.0,), (float("nan"),)])
def test_periods_are_numbers_from_zero(periods):
    with pytest.raises(ConfigError, match="periods"):
        SlidingMedian(5, periods)


@pytest.mark.parametrize("yaw", np.linspace(-7, 7, 57))
def test_wrapping_keeps_the_orientation(yaw):
    wrapped = wrap_quarter_turn(yaw)
    assert -np.pi / 4 < wrapped <= np.pi / 4 + 1e-12
    assert np.allclose([np.cos(4 * wrapped), np.sin(4 * wrapped)], [np.cos(4 * yaw), np.sin(4 * yaw)])


def test_a_record_is_one_json_line_whatever_it_holds():
    fields = {"q": np.arange(3.0), "n": np.int64(3), "bad": float("nan"), "who": Level.OK, "x": None}
    line = encode(Record("chunk", 1.5, fields))
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    body = json.loads(line)
    assert body["q"] == [0.0, 1.0, 2.0] and body["bad"] == "nan" and body["kind"] == "chunk" and body["x"] is None


def test_the_trace_drops_the_oldest_and_counts():
    buffer = TraceBuffer(capacity=3)
    for i in range(5):
        buffer.put(Record("phase", float(i)))
    stamps = [json.loads(line)["stamp_s"] for line in buffer.take().splitlines()]
    assert stamps == [2.0, 3.0, 4.0] and buffer.dropped == 2 and buffer.written == 3
    assert buffer.take() == b""


def test_health_gets_worse_and_better_only_after_a_streak():
    c = Component("policy", HealthConfig(misses=3, hits=2))
    c.report(Level.OK, "", 0.0)
    levels = []
    for level in (Level.ERROR, Level.ERROR, Level.OK, Level.ERROR, Level.ERROR, Level.ERROR, Level.OK, Level.OK):
        c.report(level, "", 0.0)
        levels.append(c.level(0.0))
    assert levels == [Level.OK] * 5 + [Level.ERROR, Level.ERROR, Level.OK]


def test_worse_and_better_in_turn_are_no_streak():
    c = Component("policy", HealthConfig(misses=3, hits=3))
    for level in (Level.WARN, *[Level.ERROR, Level.OK] * 5):
        c.report(level, "", 0.0)
        assert c.level(0.0) is Level.WARN


def test_silence_is_stale():
    c = Component("guard", HealthConfig(stale_after_s=1.0))
    assert c.level(0.0) is Level.STALE
    c.report(Level.OK, "", 0.0)
    assert c.level(1.0) is Level.OK and c.level(1.1) is Level.STALE
