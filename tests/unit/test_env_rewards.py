"""The rewards: gradients are true and false ones are found, diagnostics count, and why a vehicle freezes."""
import math
from dataclasses import dataclass

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand_sim.envs import rewards  # noqa: E402
from steadyhand_sim.envs.rewards import Gradient, GradientMonitor, Reward, RewardStatistics, Term  # noqa: E402
from steadyhand_sim.envs.rewards.crossing import Crossing, evaluate, learn  # noqa: E402
from steadyhand_sim.envs.rewards.functions import Linear  # noqa: E402
from steadyhand_sim.envs.rewards.tasks import HIT  # noqa: E402

ALL = [(task, name) for task in ("grasp", "insert", "dock") for name in rewards.names(task)]


def points(task, n, seed=0):
    """States an episode may pass, actions, times."""
    rng = np.random.default_rng(seed)
    names = rewards.STATE_NAMES[task]
    size = {"success": 1.0, "held": 1.0, "hit": 1.0, "along": 4.0, "across": 1.0, "person_gap": 5.0, "joint_rate": 2.0}
    scale = np.array([size.get(name, 0.3) for name in names])
    flags = [names.index(k) for k in ("success", "held", "hit") if k in names]
    for _ in range(n):
        state = rng.uniform(-scale, scale)
        state[flags] = rng.integers(0, 2, len(flags))
        action = rng.uniform(-0.9, 0.9, 2 if task == "dock" else 5) * rng.choice([1.0, 4.0])  # out of range too
        yield state, action, float(rng.uniform(0, 8))


@pytest.mark.parametrize(("task", "name"), ALL)
def test_every_gradient_is_that_of_its_function(task, name):
    monitor = GradientMonitor(rewards.make(task, name, 160))
    for point in points(task, 200):
        assert monitor.check(*point) == []
    assert monitor.checked == 200 and max(monitor.worst.values()) < 1e-3


@dataclass(frozen=True)
class Wrong:
    """x^2 of the first element, with a gradient that is off by a factor."""

    factor: float

    def value(self, state, action, time_s):
        return float(state[0]) ** 2 + 0.5 * float(action[0]) + 0.1 * time_s

    def gradient(self, state, action, time_s):
        g = Gradient.zero(len(state), len(action))
        g.state[0], g.action[0] = self.factor * 2 * state[0], 0.5
        return Gradient(g.state, g.action, 0.1 * self.factor)


@pytest.mark.parametrize(("factor", "alarms"), [(1.0, 0), (1.1, 0), (1.25, 2), (-1.0, 2), (0.0, 2)])
def test_a_gradient_that_is_off_by_more_than_15_percent_alarms(factor, alarms):
    reward = Reward("test", ("x",), [Term("wrong", "free", Wrong(factor), 0.0)], 10, unbounded=True)
    found = GradientMonitor(reward).check(np.array([0.7]), np.array([0.3]), 1.0)
    assert [(a.term, a.variable) for a in found] == [("wrong", "state"), ("wrong", "time")][:alarms]


def test_a_gradient_that_is_not_finite_alarms():
    reward = Reward("test", ("x",), [Term("wrong", "free", Wrong(math.nan), 0.0)], 10, unbounded=True)
    assert GradientMonitor(reward).check(np.array([0.7]), np.array([0.3]), 1.0)


def test_budgets_are_held_to_a_tenth_of_success():
    success, much = Term("success", "outcome", Linear(0, 1.0), 1.0), Term("help", "potential", Linear(1, 0.11), 0.11)
    with pytest.raises(ConfigError, match="0.11"):
        Reward("greedy", ("success", "x"), [success, much], 10)
    with pytest.raises(ConfigError, match="unbounded"):
        Reward("free", ("success", "x"), [success, Term("speed", "free", Linear(1, 1.0), 0.0)], 10)
    with pytest.raises(ConfigError, match="kind"):
        Reward("odd", ("x",), [Term("odd", "bonus", Linear(0, 1.0), 1.0)], 10)
    with pytest.raises(ConfigError, match="one name"):
        Reward("twice", ("x",), [success, success], 10)
    for task, name in ALL:
        reward = rewards.make(task, name, 100)
        assert reward.unbounded == (name == "source")
        assert name == "source" or reward.process_bound <= 0.1 * reward.success_value + 1e-12


def test_rewards_are_selected_by_name():
    with pytest.raises(ConfigError, match="bounded, source"):
        rewards.make("grasp", "generous", 100)
    arm = rewards.make("insert", "source", 100)
    assert [t.name for t in arm.terms] == ["position_error", "joint_speed"]


def test_the_sources_reward_pays_for_error_and_speed_only():
    arm = rewards.make("grasp", "source", 100)
    names = rewards.STATE_NAMES["grasp"]
    state = np.zeros(len(names))
    arm.reset(state)
    state[names.index("success")] = state[names.index("held")] = 1.0
    paid, _ = arm.step(state, np.ones(5), 0.05)
    assert abs(paid) < 2e-3  # success is nothing to it
    state[names.index("dx")], state[names.index("joint_rate")] = 0.1, 1.0
    assert arm.step(state, np.zeros(5), 0.1)[0] == pytest.approx(-0.2, abs=1e-3)


def test_statistics_count_what_was_paid():
    s = RewardStatistics()
    values = np.concatenate([np.full(30, 0.5), np.full(20, -0.25), [0.0, 40.0, -40.0, np.nan, np.inf]])
    for v in values:
        s.add(float(v), {"a": 1.0})
    finite = values[np.isfinite(values)]
    assert s.n == len(finite) and s.not_finite == 2
    assert s.mean == pytest.approx(finite.mean()) and s.deviation == pytest.approx(finite.std())
    assert s.sign_ratio == pytest.approx(31 / 21)
    assert (s.below, s.above, s.counts.sum()) == (1, 1, 51)
    found = s.summary()
    assert found["inside_share"] == pytest.approx(51 / 53) and found["paid"]["a"] == 53.0
    assert found["histogram"][int((0.5 + 10) / 0.5)] == 30


def test_the_clamp_makes_arriving_and_half_arriving_the_same_and_says_so():
    """The sources' trap: +-5 beside +10 and -50."""
    s = RewardStatistics()
    assert s.clamp_reward(10.0) == s.clamp_reward(5.5) == 5.0 and s.clamp_reward(-50.0) == -5.0
    assert s.clamped == 3 and s.clamp_reward(4.9) == 4.9


def test_without_negative_rewards_the_ratio_is_reported_not_judged():
    s = RewardStatistics()
    s.add(1.0)
    assert math.isinf(s.sign_ratio) and s.summary()["sign_ratio"] is None


@pytest.mark.parametrize("bad", [{"low": 1.0, "high": 0.0}, {"bins": 0}, {"clamp": 0.0}, {"high": math.nan}])
def test_statistics_refuse_what_is_no_histogram(bad):
    with pytest.raises(ConfigError, match="give"):
        RewardStatistics(**bad)


@pytest.mark.parametrize("seed", [1, 2])
def test_plus_ten_minus_fifty_teaches_to_freeze_and_ours_does_not(seed):
    source = Crossing()
    ours = Crossing(arrival=1.0, collision=HIT)
    assert source.going_pays < 0.0 < ours.going_pays
    frozen, mended = (evaluate(c, learn(c, seed), seed) for c in (source, ours))
    assert frozen.frozen > 0.95
    assert mended.arrived > 0.6 and mended.frozen < 0.1
    assert mended.hit < 2 * ours.unseen_share  # it waits while it sees somebody


def test_with_a_better_scanner_the_source_reward_goes_too():
    """It is the ratio of the rewards against the chance unseen that freezes, nothing else of the model."""
    sharp = Crossing(seen=0.98)
    assert sharp.going_pays > 0.0
    assert evaluate(sharp, learn(sharp, 1), 1).arrived > 0.7


@pytest.mark.parametrize("bad", [{"seen": 1.5}, {"cells": 0}, {"arrival": 0.0}, {"collision": 1.0}])
def test_a_crossing_refuses_nonsense(bad):
    with pytest.raises(ConfigError, match="crossing"):
        Crossing(**bad)
