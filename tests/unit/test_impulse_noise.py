"""Simulated impulse noise: rate, size, coupling to current steps, seed, switch."""
import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand.impulse_channels import CHANNELS
from steadyhand_sim.impulse_noise import ImpulseNoise, ImpulseNoiseConfig

SIGMA = np.concatenate([np.full(12, 2.0), [1.0]])


def run(noise, currents):
    return np.array([noise.draw(row) for row in currents])


def walk(n, seed=0, scale=0.2):
    """Currents (n, 6) of moving joints: steps of very different sizes."""
    return np.cumsum(np.random.default_rng(seed).standard_t(3, (n, 6)) * scale, axis=0)


@pytest.fixture(scope="module")
def long_run():
    """(currents, impulses) of an arm in motion."""
    currents = walk(40_000)
    return currents, run(ImpulseNoise(SIGMA, 3), currents)


def test_every_channel_is_hit_once_in_a_hundred_steps_with_five_sigma(long_run):
    _, found = long_run
    rate = (found != 0).mean(axis=0)
    assert rate == pytest.approx(np.full(13, 0.01), rel=0.15)
    sizes = found[:, :12][found[:, :12] != 0]
    assert sizes.std() == pytest.approx(5 * 2.0, rel=0.05) and abs(sizes.mean()) < 0.5


def test_larger_steps_of_the_current_disturb_more(long_run):
    currents, found = long_run
    hit = found[1:, :6] != 0
    steps = np.abs(np.diff(currents, axis=0))
    large = steps > np.median(steps)
    assert hit[large].mean() > 2.5 * hit[~large].mean()


def test_an_arm_at_rest_is_not_disturbed_nor_is_the_first_step_after_it_a_burst():
    still = np.random.default_rng(1).normal(0, 1e-4, (5000, 6))
    assert not run(ImpulseNoise(SIGMA, 3), still).any()
    starts = [run(ImpulseNoise(SIGMA, seed), np.vstack([still[:500], walk(20, seed)])) for seed in range(40)]
    assert np.mean([(s[500:, :12] != 0).mean() for s in starts]) < 0.02


def test_only_the_joint_that_moves_is_disturbed():
    currents = np.zeros((5000, 6))
    currents[:, 2] = walk(5000)[:, 2]
    hit = run(ImpulseNoise(SIGMA, 3), currents) != 0
    assert set(np.flatnonzero(hit.any(axis=0))) == {2, 8, 12}


def test_same_seed_same_noise_and_no_sigmas_none():
    a, b, c = (run(ImpulseNoise.of_joints(seed), walk(2000)) for seed in (1, 1, 2))
    assert (a == b).all() and (a != c).any() and a.shape[1] == 12
    assert not run(ImpulseNoise.of_joints(1, ImpulseNoiseConfig(sigmas=0.0)), walk(2000)).any()
    assert np.abs(a[:, :6]).max() > 3 * max(CHANNELS["position"].noise_std)


@pytest.mark.parametrize(("make", "says"), [
    (lambda: ImpulseNoiseConfig(sigmas=-1.0), "sigmas = -1.0"),
    (lambda: ImpulseNoiseConfig(every_steps=0.5), "every_steps = 0.5"),
    (lambda: ImpulseNoiseConfig(every_steps=float("nan")), "every_steps = nan"),
    (lambda: ImpulseNoise(np.array([1.0, np.nan]), 0), "sigma ="),
])
def test_bad_values_are_refused_by_name(make, says):
    with pytest.raises(ConfigError, match=says):
        make()
