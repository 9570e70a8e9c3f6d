"""Overlapping chunks: the delay that is reckoned with, the steps that are over on arrival, the seam."""
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand.errors import ConfigError, PolicyError, PolicyTimeout
from steadyhand.types import ActionChunk
from steadyhand_policies import repository
from steadyhand_policies.chunking import ChunkConfig, SeamWatch, bridges, steps_over
from steadyhand_policies.fallback import FallbackPolicy
from steadyhand_policies.latency import LatencyConfig, LatencyTracker
from steadyhand_policies.local_onnx import LocalOnnxPolicy

CONFIG = ChunkConfig(0.05, 8)


@given(st.lists(st.floats(0.0, 2.0), min_size=1, max_size=400))
def test_the_delay_is_one_that_happened_among_the_recent_and_rarely_exceeded(seconds):
    tracker = LatencyTracker()
    for value in seconds:
        tracker.add(value)
    recent = seconds[-200:]
    assert tracker.delay_s() in recent and len(tracker) == len(recent)
    assert sum(v > tracker.delay_s() for v in recent) <= 0.01 * len(recent)


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_what_is_no_time_is_not_remembered(value):
    tracker = LatencyTracker()
    tracker.add(value)
    assert tracker.delay_s() == 0.0 and tracker.rejected == 1


@pytest.mark.parametrize("make, match", [
    (lambda: LatencyConfig(0), "window"), (lambda: LatencyConfig(10, 0.1), "quantile"),
    (lambda: ChunkConfig(0.0, 8), "period_s"), (lambda: ChunkConfig(0.05, 0), "horizon"),
    (lambda: ChunkConfig(0.05, 8, reserve_steps=8), "reserve_steps"),
    (lambda: ChunkConfig(0.05, 8, seam_max=0.0), "seam_max"),
])
def test_a_wrong_configuration_is_named(make, match):
    with pytest.raises(ConfigError, match=match):
        make()


@given(st.floats(0.0, 1.0))
def test_a_chunk_that_bridges_has_a_step_left_until_the_next_takes_over(delay_s):
    """Simulated on the time axis: chunk n is asked for at n periods and in force from n periods + delay on."""
    if bridges(delay_s, CONFIG):
        next_takes_over_s = CONFIG.period_s + delay_s
        assert next_takes_over_s <= CONFIG.horizon * CONFIG.period_s
        assert steps_over(delay_s, CONFIG) < CONFIG.horizon
    else:
        assert delay_s > 0.29  # eight steps of 50 ms, one in reserve, one until the next


def test_nothing_is_left_of_a_chunk_that_never_came():
    assert steps_over(math.inf, CONFIG) == 8 and not bridges(math.inf, CONFIG) and steps_over(0.0, CONFIG) == 0


def ramp(first: float, slope: float) -> np.ndarray:
    """Motion that changes by `slope` each step; votes of one."""
    chunk = np.ones((8, 5))
    chunk[:, :4] = (first + slope * np.arange(8))[:, None]
    return chunk


@given(st.floats(-0.5, 0.5), st.floats(-0.05, 0.05), st.integers(1, 3), st.floats(0.0, 0.14))
def test_a_chunk_that_continues_the_last_has_no_seam_wherever_it_takes_over(first, slope, periods, delay_s):
    watch = SeamWatch(CONFIG)
    assert watch.take(ramp(first, slope), 10.0, delay_s) is None
    seam = watch.take(ramp(first + periods * slope, slope), 10.0 + periods * 0.05, delay_s)
    assert seam.step < 1e-9 and seam.at == steps_over(delay_s, CONFIG) and watch.over == 0


def test_a_jump_is_measured_where_the_new_chunk_takes_over_and_counted():
    watch = SeamWatch(CONFIG)
    watch.take(ramp(0.0, 0.0), 0.0, 0.0)
    new = ramp(0.0, 0.0)
    new[2, 1] = 0.7
    assert watch.take(new, 0.05, 0.11).step == pytest.approx(0.7)  # step 2 is the first that is not over
    assert (watch.over, watch.count, watch.largest) == (1, 1, pytest.approx(0.7))


def test_votes_make_no_seam_and_a_new_motion_has_none():
    watch = SeamWatch(CONFIG)
    watch.take(ramp(0.0, 0.0), 0.0, 0.0)
    asking = ramp(0.0, 0.0)
    asking[:, 4] = -1.0
    assert watch.take(asking, 0.05, 0.0).step == 0.0
    watch.clear()
    assert watch.take(ramp(0.9, 0.0), 0.10, 0.0) is None
    assert watch.take(ramp(0.9, 0.0), 5.0, 0.0) is None  # the old chunk is long over


class Slow:
    """A server that takes its time, on a clock of its own; its canaries are quick."""

    def __init__(self, local, monkeypatch, error=None):
        self.local, self.error, self.asked, self.now_s = local, error, [], 100.0
        monkeypatch.setattr("steadyhand_policies.fallback.time", SimpleNamespace(monotonic=lambda: self.now_s))

    def infer(self, observation, observation_id, deadline_s):
        self.asked.append(observation_id)
        self.now_s += 0.32  # three hundred milliseconds late for a chunk of four hundred
        if self.error is not None:
            raise self.error
        return ActionChunk(observation_id, np.array(self.local.contract.canary.actions), "triton", 0.32)

    def canary(self, deadline_s):
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [None, PolicyTimeout("too late")])
def test_a_primary_too_slow_for_its_chunks_to_overlap_is_not_asked(monkeypatch, error):
    """A call that was given up counts with the time it took, or a hung server would pass for a fast one."""
    local = LocalOnnxPolicy(repository.policy_files()).open()
    slow = Slow(local, monkeypatch, error)
    policy = FallbackPolicy(slow, local, local.contract, primary_deadline_s=0.5)
    policy._breaker.closed = True
    golden = np.float32(local.contract.canary.observation)
    assert policy.infer(golden, "a", 1.0).served_by == ("triton" if error is None else "local")
    assert policy.infer(golden, "b", 1.0).served_by == "local" and slow.asked == ["a"]
    said = policy.statistics()
    assert said.primary_healthy  # by its canaries: only its delay keeps it from being asked
    assert said.too_slow == 1 and said.delay_ms == pytest.approx(320.0) and said.steps_over == 6


def test_a_slow_primary_that_broke_and_came_back_is_asked_again(monkeypatch):
    local = LocalOnnxPolicy(repository.policy_files()).open()
    slow = Slow(local, monkeypatch, PolicyError("gone"))
    policy = FallbackPolicy(slow, local, local.contract, primary_deadline_s=0.5)
    policy._breaker.closed = True
    golden = np.float32(local.contract.canary.observation)
    assert policy.infer(golden, "a", 1.0).served_by == "local" and not policy.statistics().primary_healthy
    slow.error = None
    for _ in range(3):
        policy._ask_canary()
    assert policy.infer(golden, "b", 1.0).served_by == "triton"
