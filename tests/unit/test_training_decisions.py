"""What decides in fine-tuning, apart from what learns: exploration, alarms, the verdict of the clean set."""
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policies.training.config import AlarmsConfig, ExplorationConfig
from policies.training.ppo.alarms import Alarm, Vitals, Watch, alarms
from policies.training.ppo.exploration import entropy_nats, std_ceiling
from policies.training.ppo.validation import judge

SANE = {"entropy": -0.2, "entropy_ceiling": -0.19, "kl": 0.02, "spread": 1.0, "finite": True}


def test_the_ceiling_falls_linearly_then_stays():
    config = ExplorationConfig(0.2, 0.1, 0.5)
    assert [round(std_ceiling(config, d), 6) for d in (0, 0.25, 0.5, 0.9, 1)] == [0.2, 0.15, 0.1, 0.1, 0.1]
    assert std_ceiling(ExplorationConfig(0.2, 0.1, 0.0), 0.0) == 0.1


def test_entropy_is_that_of_a_gaussian():
    draws = np.random.default_rng(0).normal(0, 0.2, 200_000)
    density = np.exp(-0.5 * (draws / 0.2) ** 2) / (0.2 * math.sqrt(2 * math.pi))
    assert entropy_nats(math.log(0.2)) == pytest.approx(-np.log(density).mean(), abs=0.01)


def test_a_sane_update_gives_no_alarm():
    assert alarms(Vitals(**SANE), AlarmsConfig()) == []


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"entropy": -1.0}, "entropy"), ({"kl": 0.3}, "divergence"), ({"spread": 0.1}, "spread"),
        ({"finite": False}, "not_finite"), ({"kl": math.nan}, "divergence"), ({"entropy": math.nan}, "entropy"),
        ({"spread": math.nan}, "spread"),
    ],
)
def test_each_alarm(wrong, name):
    assert [a.name for a in alarms(Vitals(**SANE | wrong), AlarmsConfig())] == [name]


def test_only_a_standing_alarm_is_due():
    entropy, kl = Alarm("entropy", 0, 0), Alarm("divergence", 0, 0)
    watch = Watch().after([entropy]).after([entropy, kl])
    assert watch.due(3) == "" and watch.after([kl]).due(3) == ""
    assert watch.after([entropy]).due(3) == "entropy"
    assert Watch().after([Alarm("not_finite", 0, 0)]).due(3) == "not_finite"


@given(st.lists(st.sampled_from(["", "entropy", "divergence"]), max_size=30), st.integers(1, 5))
@settings(max_examples=100, deadline=None)
def test_due_is_the_length_of_the_last_run(names, patience):
    watch, run, before = Watch(), 0, ""
    for name in names:
        watch = watch.after([Alarm(name, 0, 0)] if name else [])
        run = (run + 1 if name == before else 1) if name else 0
        before = name
        assert watch.due(patience) == (name if run >= patience else "")


def test_the_first_checkpoint_is_the_best():
    assert judge(None, np.zeros(10, bool), 0.01).better


def test_a_checkpoint_is_worse_only_if_chance_hardly_explains_it():
    best = np.arange(100) < 90
    slip, fall = best.copy(), best.copy()
    slip[:3] = False
    fall[:12] = False
    assert not judge(best, slip, 0.01).worse and judge(best, fall, 0.01).worse
    assert not judge(best, best, 0.01).better  # an equal one replaces nothing
    better = best.copy()
    better[95] = True
    assert judge(best, better, 0.01).better and not judge(best, better, 0.01).worse


def test_losses_that_wins_make_up_for_are_no_reason():
    best, now = np.arange(100) < 50, np.arange(100) >= 50
    assert not judge(best, now, 0.01).worse and judge(best, now, 0.01).success == 0.5
