"""The environment whose policy reads sensors: noise and filters are where they are said to be, seeds repeat."""
import numpy as np
import pytest

pytest.importorskip("pybullet")

from policies.training.pick_place.expert import expert_actions  # noqa: E402
from steadyhand_sim.envs.sensed import ImpulseNoiseConfig, SensedPickPlaceEnv, Senses  # noqa: E402

pytestmark = pytest.mark.sim
NOISE = ImpulseNoiseConfig(sigmas=5.0, every_steps=30.0)


def observations(senses, n=30, seed=4):
    """(n, OBSERVATION_DIM) of the demonstrator's first steps, and the error of the joints as read, per control cycle."""
    env = SensedPickPlaceEnv(senses=senses)
    observation, _ = env.reset(seed=seed)
    seen, errors = [observation], []
    player = env._player
    advance = player.advance

    def recorded():
        advance()
        errors.append(np.abs(player.q_rad - player._world.q_rad).max())

    player.advance = recorded
    for _ in range(n - 1):
        observation, _, terminated, truncated, _ = env.step(expert_actions(observation[None])[0])
        seen.append(observation)
        assert not truncated
        if terminated:
            break
    env.close()
    return np.array(seen), np.array(errors)


def test_without_noise_and_filter_the_joints_are_the_measured_ones():
    _, errors = observations(Senses())
    assert errors.max() == 0.0


def test_impulses_are_read_raw_and_taken_out_by_the_filter():
    _, raw = observations(Senses(NOISE))
    _, filtered = observations(Senses(NOISE, filtered=True))
    assert raw.max() > 0.02
    assert np.percentile(filtered, 99) < 0.5 * np.percentile(raw, 99)


def test_the_same_seed_repeats_bit_by_bit():
    first, second = observations(Senses(NOISE, filtered=True)), observations(Senses(NOISE, filtered=True))
    assert (first[0] == second[0]).all() and (first[1] == second[1]).all()
