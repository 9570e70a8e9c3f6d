"""The clock map against clocks of known offset, drift and jitter, and against clocks that jump, repeat and lie."""
import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from steadyhand.clock_map import ClockMap, ClockMapConfig
from steadyhand.link_monitor import LinkMonitor

PERIOD_S = 0.008


def arrivals(seed, seconds, offset_s, drift_ppm, jitter_s, begin_s=0.0, period_s=PERIOD_S):
    """(stamps, received): exponential delays of this mean over a least delay of nought."""
    rng = np.random.default_rng(seed)
    stamps = begin_s + np.arange(round(seconds / period_s)) * period_s
    ours = offset_s + stamps + drift_ppm * 1e-6 * (stamps - begin_s)
    return stamps, np.maximum.accumulate(ours + rng.exponential(jitter_s, len(stamps)))


def feed(clock, stamps, received):
    return [clock.update(float(s), float(r)) for s, r in zip(stamps, received)]


SEEDS, OFFSETS = st.integers(0, 2**31), st.floats(-1e6, 1e6)
DRIFTS, JITTERS = st.floats(-200, 200), st.floats(1e-6, 2e-3)


@settings(max_examples=25, deadline=None)
@given(SEEDS, OFFSETS, DRIFTS, JITTERS)
def test_offset_and_drift_are_found(seed, offset_s, drift_ppm, jitter_s):
    clock = ClockMap()
    stamps, received = arrivals(seed, 60, offset_s, drift_ppm, jitter_s)
    assert all(feed(clock, stamps, received))
    # of 125 delays a second the least is about jitter / 125 on average; 60 such points fix the slope
    assert abs(clock.estimate().drift_ppm - drift_ppm) < 0.1 + 2e6 * (jitter_s / 125) / 10
    true_s = offset_s + stamps[-1] + drift_ppm * 1e-6 * stamps[-1]
    assert -1e-6 - jitter_s / 5 < clock.to_ours(stamps[-1]) - true_s < 1e-6 + jitter_s / 5
    assert clock.resets == 0 and not clock.refused


@settings(max_examples=25, deadline=None)
@given(SEEDS, OFFSETS, DRIFTS, JITTERS)
def test_no_arrival_is_earlier_than_the_map_says(seed, offset_s, drift_ppm, jitter_s):
    clock = ClockMap()
    for stamp, received in zip(*arrivals(seed, 20, offset_s, drift_ppm, jitter_s)):
        assert clock.update(stamp, received) and clock.delay_s(stamp, received) >= -1e-9 * max(1.0, abs(offset_s) / 1e3)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.floats(0.0, 0.9), st.floats(0.001, 0.045))
def test_late_packages_do_not_move_the_map(seed, share, late_s):
    """Packages stay in order, so one is in time only if those before it, for the time of a delay, are. Where a few are in
    each interval, the map stays with them."""
    assume((1.0 - share) ** (1 + late_s // 0.008) >= 0.02)
    rng = np.random.default_rng(seed)
    stamps, received = arrivals(seed, 40, 100.0, 20.0, 1e-5)
    late = received + late_s * (rng.random(len(stamps)) < share)
    clock = ClockMap()
    feed(clock, stamps, np.maximum.accumulate(late))
    assert abs(clock.to_ours(stamps[-1]) - (100.0 + stamps[-1] * (1 + 20e-6))) < 2e-3 and clock.resets == 0


@settings(max_examples=50, deadline=None)
@given(SEEDS, st.floats(-1e5, 1e5).filter(lambda j: abs(j) > 0.1), st.floats(0.0, 30.0))
def test_a_clock_that_jumps_is_mapped_anew_after_a_second(seed, jump_s, gap_s):
    clock = ClockMap()
    before = arrivals(seed, 20, 5.0, 10.0, 1e-4, begin_s=1000.0)
    feed(clock, *before)
    after = arrivals(seed + 1, 20, 5.0 + gap_s - jump_s, 10.0, 1e-4, begin_s=1020.0 + jump_s)
    accepted = feed(clock, *after)
    first = accepted.index(True)
    if abs(gap_s - jump_s) < 0.049:  # our clock saw as much time pass as theirs: no jump at all
        assert clock.resets == 0
    elif abs(gap_s - jump_s) > 0.051:
        assert clock.resets == 1 and all(accepted[first:])
        assert 1.0 <= after[1][first] - after[1][0] < 1.1
        assert abs(clock.to_ours(after[0][-1]) - after[1][-1]) < 2e-3


def test_a_jam_that_passes_is_no_jump():
    """Nothing arrives for 0.8 s, then what was sent in that time, then it is as before."""
    stamps, received = arrivals(1, 30, 5.0, 10.0, 1e-4)
    clock = ClockMap()
    accepted = feed(clock, stamps, np.where((stamps > 20.0) & (stamps < 20.8), 25.8, received))
    assert clock.resets == 0
    assert clock.refused["off_the_map"] == accepted.count(False) > 50 and accepted[-1]


def test_one_wild_stamp_is_refused_and_changes_nothing():
    stamps, received = arrivals(1, 30, 5.0, 10.0, 1e-4)
    wild, clock, calm = stamps.copy(), ClockMap(), ClockMap()
    wild[1000], wild[2000] = 1e9, -1e9
    assert feed(clock, wild, received).count(False) == 2 and clock.resets == 0
    feed(calm, stamps, received)
    assert clock.estimate() == calm.estimate()


def test_repeated_backward_and_not_finite_stamps_are_counted_by_name():
    clock = ClockMap()
    stamps, received = arrivals(1, 1, 5.0, 0.0, 1e-5)
    feed(clock, stamps, received)
    last_s, at_s = float(stamps[-1]), float(received[-1])
    again, before = (last_s, at_s + 0.001), (last_s - PERIOD_S, at_s + 0.002)
    for stamp, when in (again, before, (math.nan, at_s), (last_s, math.inf), (1e308, at_s)):
        assert not clock.update(stamp, when)
    assert not clock.update(last_s + PERIOD_S, at_s - 0.003)  # our own clock, backward
    assert clock.refused == {"repeated": 1, "backward": 2, "not_finite": 3}


@settings(deadline=None)
@given(st.lists(st.tuples(st.floats(allow_nan=True), st.floats(allow_nan=True)), max_size=60))
def test_whatever_comes_it_neither_fails_nor_grows(pairs):
    clock, monitor = ClockMap(ClockMapConfig(intervals=4)), LinkMonitor(PERIOD_S)
    for stamp, received in pairs:
        clock.update(stamp, received)
        monitor.update(stamp, received)
        assert len(clock._earliest) <= 4
        assert all(isinstance(n, int) for n in monitor.finish().values())


def test_the_link_counts_gaps_missed_cycles_and_jitter():
    stamps, received = arrivals(3, 20, 7.0, 30.0, 1e-4)
    kept = np.ones(len(stamps), bool)
    kept[[500, 900, 901, 902]] = False  # four cycles in two holes, the second of 32 ms
    monitor = LinkMonitor(PERIOD_S)
    for stamp, at_s in zip(stamps[kept], received[kept]):
        monitor.update(stamp, at_s)
        monitor.update(stamp, at_s)  # asked twice in a cycle: counted once
    counters = monitor.finish()
    assert counters["link_states"] == kept.sum() and counters["link_missed"] == 4 and counters["link_gaps"] == 1
    assert 31_000 < counters["link_gap_max_us"] < 34_000
    assert abs(counters["clock_drift_ppb"] - 30_000) < 1_000 and abs(counters["clock_offset_us"] - 7_000_570) < 40
    # exponential delays of 100 us: median 69 us, 99th percentile 460 us
    assert 40 < counters["link_jitter_p50_us"] < 100 and 350 < counters["link_jitter_p99_us"] < 600
    assert counters["clock_resets"] == 0 and not any(name.startswith("clock_refused") for name in counters)


def test_a_state_that_is_refused_is_counted_once_however_often_it_is_asked_for():
    monitor = LinkMonitor(PERIOD_S)
    monitor.update(5.0, 10.0)
    for stamp, at_s in ((5.0, 10.008), (4.9, 10.016), (9.0, 10.024)):
        for _ in range(50):  # the loop goes on while the controller is silent
            monitor.update(stamp, at_s)
    counters = monitor.finish()
    assert {name: n for name, n in counters.items() if "refused" in name} == {
        "clock_refused:repeated": 1, "clock_refused:off_the_map": 2,
    }  # fmt: skip
    assert counters["link_states"] == 1


@pytest.mark.parametrize("begin_s", [3.0, 90_000.0])
def test_a_restarted_controller_is_no_hole(begin_s):
    monitor = LinkMonitor(PERIOD_S)
    for part in (arrivals(1, 5, 5.0, 0.0, 1e-4, 5000.0), arrivals(2, 5, 5010.0 - begin_s, 0.0, 1e-4, begin_s)):
        for stamp, at_s in zip(*part):
            monitor.update(stamp, at_s)
    assert monitor.finish()["clock_resets"] == 1 and monitor.finish()["link_missed"] == 0


def test_states_that_are_held_up_are_a_gap_and_no_missed_cycle():
    monitor = LinkMonitor(PERIOD_S)
    for k in range(300):
        held = {100: 4, 101: 3, 102: 2, 103: 1, 200: 3, 201: 2, 202: 1}.get(k, 0)  # 40 ms, later 32 ms
        monitor.update(k * PERIOD_S, 50.0 + (k + held) * PERIOD_S)
    counters = monitor.finish()
    assert (counters["link_gaps"], counters["link_missed"], counters["link_states"]) == (2, 0, 300)
    assert 39_900 < counters["link_gap_max_us"] < 40_100


def good(clock, k):
    assert clock.update(k * PERIOD_S, 50.0 + k * PERIOD_S)


def test_a_map_begins_anew_only_with_enough_arrivals_that_are_in_step():
    clock = ClockMap()
    good(clock, 0)
    few = [clock.update(10.0 + 0.6 * k, 50.1 + 0.6 * k) for k in range(5)]
    assert few == [False] * 4 + [True]
    wild = [clock.update(100.0 * (1 + k % 2) + PERIOD_S * k, 60.0 + PERIOD_S * k) for k in range(400)]
    assert not any(wild) and clock.resets == 1


def test_single_stamps_of_another_clock_do_not_add_up():
    clock = ClockMap()
    for k in range(500):
        good(clock, k)
        if k % 50 == 49:
            assert not clock.update(k * PERIOD_S + 10.0, 50.0 + k * PERIOD_S + 0.001)
    assert clock.resets == 0 and clock.refused == {"off_the_map": 10}
