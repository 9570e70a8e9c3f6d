"""Onset, rest and minimum from synthetic traces whose answer is known."""
import math

import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand_cli.injection import minimum, onset
from steadyhand_cli.injection.onset import Trace

DT_S = 0.008
EVENT_S = 100.5


def trace(speed, noise=0.0, lag=3, seed=0):
    """A trace from (N,) commanded speeds of joint 0; measured speed follows `lag` samples later."""
    speed = np.asarray(speed, dtype=float)
    t = 100.0 + DT_S * np.arange(len(speed))
    target = np.zeros((len(speed), 6))
    target[:, 0] = speed + np.random.default_rng(seed).normal(0, noise, len(speed)) * (speed > 0)
    actual = np.zeros_like(target)
    actual[lag:, 0] = speed[:-lag]
    actual[:lag, 0] = speed[0]
    return Trace(t, target, actual)


def ramp(start_s, speed=0.4, rate=4.0, seconds=2.0):
    """Steady, then a fall that begins at `start_s` (its first lower sample is the first one after)."""
    t = 100.0 + DT_S * np.arange(round(seconds / DT_S))
    return np.clip(speed - rate * np.maximum(0.0, t - start_s), 0.0, None)


@pytest.mark.parametrize("noise", [0.0, 0.0005, 0.003])
@pytest.mark.parametrize("delay_s", [0.0, 0.0131, 0.06, 0.2])
def test_a_steady_fall_is_found_within_its_noise(noise, delay_s):
    start_s = EVENT_S + delay_s
    found = onset.steady_fall_s(trace(ramp(start_s), noise), EVENT_S)
    assert start_s <= found <= start_s + DT_S + 6 * noise / 4.0 + DT_S


def test_a_smaller_noise_never_finds_it_before_it_is():
    for seed in range(50):
        found = onset.steady_fall_s(trace(ramp(EVENT_S + 0.1), 0.002, seed=seed), EVENT_S)
        assert found >= EVENT_S + 0.1


def test_a_dip_that_comes_back_is_no_fall():
    speed = ramp(EVENT_S + 0.3)
    speed[(speed == 0.4).nonzero()[0][-20:-16]] = 0.3
    assert onset.steady_fall_s(trace(speed), EVENT_S) >= EVENT_S + 0.3


def test_what_never_falls_or_never_moved_has_no_onset():
    assert math.isnan(onset.steady_fall_s(trace(np.full(300, 0.4)), EVENT_S))
    assert math.isnan(onset.steady_fall_s(trace(np.full(300, 0.01)), EVENT_S))
    assert math.isnan(onset.steady_fall_s(Trace(np.zeros(0), np.zeros((0, 6)), np.zeros((0, 6))), EVENT_S))
    wild = 0.4 + 0.3 * np.sin(np.arange(300) / 5)
    assert math.isnan(onset.steady_fall_s(trace(wild), EVENT_S))


def test_a_motion_after_the_stop_does_not_hide_it():
    speed = np.concatenate([ramp(EVENT_S + 0.05), np.full(50, 0.4)])
    assert onset.steady_fall_s(trace(speed), EVENT_S) == pytest.approx(EVENT_S + 0.05, abs=1.5 * DT_S)
    assert onset.descent_s(trace(speed), EVENT_S) == pytest.approx(EVENT_S + 0.05, abs=2.5 * DT_S)


def test_a_descent_begins_at_the_last_rise():
    """The plan still accelerates when the fault strikes; braking begins 40 ms later."""
    t = 100.0 + DT_S * np.arange(250)
    start_s = EVENT_S + 0.04
    speed = np.clip(np.where(t < start_s, 0.2 + (t - 100.0), 0.2 + (start_s - 100.0) - 5 * (t - start_s)), 0, None)
    found = onset.descent_s(trace(speed, 0.001), EVENT_S)
    assert start_s <= found <= start_s + 2 * DT_S


def test_a_descent_under_way_begins_at_once():
    assert onset.descent_s(trace(ramp(EVENT_S - 0.05)), EVENT_S) <= EVENT_S + 2 * DT_S
    assert math.isnan(onset.descent_s(trace(np.full(300, 0.4)), EVENT_S))


def test_rest_begins_with_the_samples_that_confirm_it():
    samples = trace(ramp(EVENT_S))
    stands = samples.t_s[np.flatnonzero(samples.actual_speed < 0.01)[0]]
    assert onset.rest_s(samples, EVENT_S) == pytest.approx(stands)


def test_rest_needs_100_ms_without_motion_and_without_a_gap():
    short = trace(np.concatenate([ramp(EVENT_S, seconds=0.65), np.full(60, 0.3)]))
    assert math.isnan(onset.rest_s(short, EVENT_S))
    samples = trace(ramp(EVENT_S, seconds=0.9))
    keep = np.ones(len(samples.t_s), bool)
    first = np.flatnonzero(samples.actual_speed < 0.01)[0]
    keep[first + 5 : first + 20] = False
    gap = Trace(samples.t_s[keep], samples.target_qd_rad_s[keep], samples.actual_qd_rad_s[keep])
    assert onset.rest_s(gap, EVENT_S) == pytest.approx(samples.t_s[first + 20])
    assert gap.longest_gap_s() == pytest.approx(16 * DT_S)


def test_moving_again_and_the_speed_at_an_event():
    samples = trace(np.concatenate([ramp(EVENT_S), np.linspace(0.0, 0.4, 50)]))
    again = onset.moves_s(samples, EVENT_S + 1.0)
    assert again > samples.t_s[len(ramp(EVENT_S)) - 1]
    assert onset.speed_at(samples, EVENT_S) == pytest.approx(0.4)
    assert math.isnan(onset.speed_at(samples, 0.0)) and math.isnan(onset.moves_s(samples, again + 10))


def test_traces_are_checked():
    with pytest.raises(ConfigError, match="target_qd_rad_s"):
        Trace(np.zeros(3), np.zeros((2, 6)), np.zeros((3, 6)))
    with pytest.raises(ConfigError, match="times fall"):
        Trace(np.array([1.0, 0.5]), np.zeros((2, 6)), np.zeros((2, 6)))


def test_the_minimum_grows_with_speed_and_holds_its_parts():
    slow, fast = minimum.minimum_rest_s([0.2, 0, 0, 0, 0, 0]), minimum.minimum_rest_s([1.0, 0, 0, 0, 0, 0])
    assert minimum.minimum_rest_s([0.0] * 6) == 0.0
    # at least the dead time and the time-optimal stop of the set-points: v / a + a / j
    assert 1.0 / 8 + 8 / 1000 + 0.009 < fast < 0.8
    assert 0.009 + 2 * math.sqrt(0.2 / 1000) < slow < fast
    # the wrist overshoots less than the base and may brake harder
    assert minimum.minimum_rest_s([0, 0, 0, 0, 0, 1.0]) < fast


@pytest.mark.parametrize("qd", [[0.0] * 5, [float("nan")] * 6, [9.0, 0, 0, 0, 0, 0]])
def test_the_minimum_refuses_what_is_no_motion(qd):
    with pytest.raises(ConfigError, match="qd_rad_s"):
        minimum.minimum_rest_s(qd)


@pytest.mark.parametrize(("height", "new_motion"), [(0.11, False), (0.35, True)])
def test_the_swing_of_the_servo_law_is_part_of_the_descent_a_new_motion_is_not(height, new_motion):
    speed = ramp(EVENT_S + 0.03, speed=1.05, rate=8.0)
    end = int(np.flatnonzero(speed < 0.02)[0])
    speed[end - 1:] = 0.0
    speed[end - 1 : end + 24] = 0.02 + height * np.sin(np.linspace(0.0, math.pi, 25)) ** 2
    began_s = onset.descent_s(trace(speed), EVENT_S)
    top_s = trace(speed).t_s[end + 11]
    assert began_s == pytest.approx(top_s if new_motion else EVENT_S + 0.03, abs=3 * DT_S)


def test_set_points_that_slow_down_or_cease_end_a_motion():
    slows = trace(ramp(EVENT_S + 0.02))
    assert onset.setpoints_end_s(slows, EVENT_S) == pytest.approx(EVENT_S + 0.02, abs=2 * DT_S)
    ceases = slows.between(0.0, EVENT_S + 0.01)
    assert onset.setpoints_end_s(ceases, EVENT_S) == ceases.t_s[-1]
    assert onset.setpoints_end_s(slows.between(0.0, EVENT_S - 0.1), EVENT_S) == EVENT_S


def test_set_points_that_come_in_a_burst_after_a_pause_had_ceased():
    slows = trace(ramp(EVENT_S + 0.02))
    at_once, later = EVENT_S, EVENT_S + 0.012
    for ceased_s, end_s in ((at_once, EVENT_S), (later, slows.between(0.0, later).t_s[-1])):
        t_s = np.where(slows.t_s <= ceased_s, slows.t_s, slows.t_s + 0.5)
        held = Trace(t_s, slows.target_qd_rad_s, slows.actual_qd_rad_s)
        assert onset.setpoints_end_s(held, EVENT_S) == pytest.approx(end_s, abs=1e-9)


def test_whether_the_arm_was_gaining_speed():
    rising = trace(0.1 + 0.002 * np.arange(200))
    assert onset.accelerating(rising, EVENT_S) and not onset.accelerating(trace(np.full(200, 0.4), 0.001), EVENT_S)
    assert not onset.accelerating(trace(ramp(EVENT_S - 0.1)), EVENT_S)


def test_a_tail_that_dies_away_is_no_motion_after_rest():
    tail = 0.009 * np.exp(-np.arange(100) / 10)
    assert onset.greatest_rise(tail) == 0.0 and onset.greatest_rise(np.zeros(0)) == 0.0
    assert onset.greatest_rise(np.concatenate([tail, [0.02, 0.0]])) == pytest.approx(0.02, abs=1e-4)
