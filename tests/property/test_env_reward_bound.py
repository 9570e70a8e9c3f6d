"""Over any episode, whatever it passes through, the process terms move the return by a tenth of a success at most."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

pytest.importorskip("gymnasium")

from steadyhand_sim.envs import rewards  # noqa: E402

STEPS = 40
FLAGS = ("success", "held", "hit")


TASKS = st.sampled_from(["grasp", "insert", "dock"])


@given(TASKS, st.integers(0, 2**31), st.integers(1, STEPS), st.floats(0.001, 50.0))
@settings(max_examples=150, deadline=None)
def test_process_terms_are_bounded_over_any_episode(task, seed, length, scale):
    """States jump about as no physics would: the bound rests on nothing but the terms."""
    rng = np.random.default_rng(seed)
    names = rewards.STATE_NAMES[task]
    flags = [names.index(k) for k in FLAGS if k in names]
    reward = rewards.make(task, "bounded", STEPS)
    limit_s = STEPS * (0.2 if task == "dock" else 0.05)

    def state():
        s = rng.normal(size=len(names)) * scale
        s[flags] = rng.integers(0, 2, len(flags))
        return s

    reward.reset(state())
    total = 0.0
    for k in range(length):
        action = rng.uniform(-1, 1, 2 if task == "dock" else 5) * rng.choice([1.0, 5.0])  # out of range too
        _, paid = reward.step(state(), action, limit_s * (k + 1) / STEPS)
        total += reward.process_paid(paid)
        assert abs(total) <= reward.process_bound + 1e-9
    assert reward.process_bound <= rewards.PROCESS_SHARE * reward.success_value + 1e-12


@given(TASKS, st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_going_round_and_coming_back_pays_nothing(task, seed):
    """No term pays for activity: a closed way costs its effort and its time."""
    rng = np.random.default_rng(seed)
    names = rewards.STATE_NAMES[task]
    flags = [names.index(k) for k in FLAGS if k in names]
    reward = rewards.make(task, "bounded", STEPS)
    start = rng.normal(size=len(names))
    start[flags] = 0.0
    reward.reset(start)
    total = 0.0
    for k in range(20):
        free = ~np.isin(np.arange(len(names)), flags)
        state = start if k == 19 else start + rng.normal(size=len(names)) * free
        total += reward.step(state, rng.uniform(-1, 1, 5), 0.05 * (k + 1))[0]
    assert total <= 1e-12
