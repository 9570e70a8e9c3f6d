"""The benchmark's arithmetic: worst seed, pairs, and plants that follow from the weights."""
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gymnasium")

from benchmarks import policy_success
from policies.training.rollout.actor import Actor
from steadyhand.errors import ConfigError


def line(won, low=0.5, **more):
    return {"success": float(np.mean(won)), "low": low, "n": len(won), "won": [int(w) for w in won], **more}


def actor(value: float) -> Actor:
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    return Actor(zero, one, 1.0, (np.full((1, 1), value, np.float32),), (zero,), one, -one, one)


def test_a_figure_is_that_of_the_worst_seed():
    kept = {
        ("ppo", 1): line([1, 1, 1, 1], 0.7), ("ppo", 2): line([1, 1, 0, 1], 0.4),
        ("bc50", 1): line([0, 1, 0, 0], 0.1), ("bc50", 2): line([1, 1, 0, 0], 0.2),
    }
    metrics = policy_success.summary(kept, 4)
    assert metrics["ppo"] == 0.75 and metrics["ppo_low"] == 0.4 and metrics["bc50"] == 0.25 and metrics["seeds"] == 2
    first = metrics["paired"]["bc50, ppo"][0]
    assert first == {"seed": 1, "first_only": 0, "second_only": 3, "p_second_no_better": 0.125}
    assert "won" not in metrics["by_seed"]["ppo"][0]


def test_the_learning_curve_is_in_order():
    kept = {(f"bc{n}_curve", 1): line([1] * k + [0] * (4 - k)) for n, k in ((10, 1), (200, 4), (50, 2))}
    assert policy_success.summary(kept, 4)["learning_curve"] == {"10": 0.25, "50": 0.5, "200": 1.0}


def test_plants_follow_from_all_weights():
    one, two = {("ppo", 1): (Path(), actor(1.0))}, {("ppo", 1): (Path(), actor(1.0)), ("bc50", 1): (Path(), actor(2.0))}
    assert policy_success.frozen_hash(one) != policy_success.frozen_hash(two)
    assert policy_success.frozen_hash(two) == policy_success.frozen_hash(dict(reversed(two.items())))


def test_what_was_not_trained_is_named(tmp_path):
    with pytest.raises(ConfigError, match="grasp_joint: no seed.*best.npz; train it"):
        policy_success.actors_of(tmp_path, ["ppo"])
    with pytest.raises(ConfigError, match="--arms none: known are bc50"):
        policy_success.actors_of(tmp_path, ["none"])
    actor(1.0).save(tmp_path / "grasp_joint" / "seed12" / "best.npz")
    assert list(policy_success.actors_of(tmp_path, ["ppo"])) == [("ppo", 12)]
