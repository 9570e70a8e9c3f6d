"""The demonstrator is a bounded, continuous function of the observation."""
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from policies.training.pick_place.expert import ExpertConfig, expert_actions
from steadyhand.policy_io import ACTION_DIM, HORIZON, OBSERVATION_NAMES, PERIOD_S, STEP_M

AT = {name: i for i, name in enumerate(OBSERVATION_NAMES)}


def observe(error=(0, 0, 0), yaw=0.0, v=(0, 0, 0), yaw_rate=0.0, z=0.2, width=0.062, closed=0.0, pick=1.0):
    return np.array([*error, np.sin(4 * yaw), np.cos(4 * yaw), *v, yaw_rate, z, width, closed, pick, 1 - pick])


def ask(**k):
    return expert_actions(observe(**k)[None])[0]


def test_shape_and_range():
    chunk = ask(error=(0.3, -0.4, -0.3), yaw=0.7)
    assert chunk.shape == (HORIZON, ACTION_DIM) and np.abs(chunk).max() <= 1.0


@given(
    st.lists(st.floats(-0.5, 0.5), min_size=3, max_size=3), st.floats(-0.78, 0.78), st.floats(0.02, 0.4),
    st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3), st.floats(0.0, 1.0),
)
@settings(max_examples=100, deadline=None)
def test_speed_and_acceleration_stay_bounded(error, yaw, z, direction, speed_share):
    start = speed_share * ExpertConfig().speed_m_s * np.array(direction) / max(np.linalg.norm(direction), 1.0)
    chunk = ask(error=tuple(error), yaw=yaw, z=z, v=start)
    velocity = np.vstack([start, chunk[:, :3] * STEP_M / PERIOD_S])
    assert np.linalg.norm(velocity, axis=1).max() <= ExpertConfig().speed_m_s + 1e-9
    step = np.linalg.norm(np.diff(velocity, axis=0), axis=1) / PERIOD_S
    assert step.max() <= ExpertConfig().acceleration_m_s2 + 1e-9


@given(st.integers(0, 10_000))
@settings(max_examples=40, deadline=None)
def test_the_motion_has_no_jump_on_the_way_from_one_observation_to_another(seed):
    rng = np.random.default_rng(seed)
    scale = np.array([0.2] * 3 + [0.7] + [0.2] * 3 + [0.5])  # error, yaw, velocity, yaw rate
    one, other = rng.uniform(-scale, scale, (2, 8))
    other *= rng.choice([0.0, 1.0])  # some end at the target
    z, width = rng.uniform(0.02, 0.3, 2), rng.uniform(0.035, 0.065, 2)
    closed, pick = rng.integers(0, 2, 2).astype(float)

    def at(shares):
        mix = lambda pair, s: pair[0] + s * (pair[1] - pair[0])
        parts = [(mix((one, other), s), mix(z, s), mix(width, s)) for s in shares]
        return expert_actions(np.array(
            [observe(x[:3], x[3], x[4:7], x[7], height, opening, closed, pick) for x, height, opening in parts]
        ))

    low, high = 0.0, 1.0
    for points in (2000, 100, 100, 100):  # closer and closer round the greatest change
        shares = np.linspace(low, high, points)
        change = np.abs(np.diff(at(shares), axis=0)).max(axis=(1, 2))
        low, high = shares[np.argmax(change) : np.argmax(change) + 2]
    assert change.max() < 1e-3


@pytest.mark.parametrize(
    "state, vote",
    [
        (dict(error=(0, 0, 0), z=0.02), 1),
        (dict(error=(0.02, 0, 0), z=0.02), -1),
        (dict(error=(0, 0, -0.03), z=0.05), -1),
        (dict(error=(0, 0, 0), yaw=0.3, z=0.02), -1),
        (dict(error=(0, 0, 0), v=(0.2, 0, 0), z=0.02), -1),
        (dict(error=(0, 0, 0), z=0.07, closed=1.0, width=0.04, pick=0.0), -1),
        (dict(error=(0.1, 0, 0), z=0.15, closed=1.0, width=0.04, pick=0.0), 1),
        (dict(error=(0.1, 0, 0), z=0.15, closed=1.0, width=0.04), 1),  # lifting: keeps it
        (dict(error=(0, 0, 0), z=0.1, pick=0.0), -1),  # retreating: has let go
    ],
)
def test_votes(state, vote):
    assert np.sign(ask(**state)[0, -1]) == vote


def test_fingers_first_then_lift_or_retreat():
    assert ask(z=0.02, closed=1.0, width=0.062)[:, 2].max() == 0.0
    assert ask(z=0.02, closed=1.0, width=0.040)[:, 2].min() > 0.0
    assert ask(z=0.07, closed=0.0, width=0.040, pick=0.0)[:, 2].max() == 0.0
    assert ask(z=0.07, closed=0.0, width=0.060, pick=0.0)[:, 2].min() > 0.0


def test_a_carried_cube_rises_before_it_travels():
    low = ask(error=(0.0, 0.4, 0.0), z=0.07, closed=1.0, width=0.04, pick=0.0)
    assert np.abs(low[0, :2]).max() < 1e-3 and low[0, 2] > 0
    high = ask(error=(0.0, 0.4, -0.09), z=0.16, closed=1.0, width=0.04, pick=0.0)
    assert high[-1, 1] > 0.2
