"""The Gymnasium environment: its contract, determinism, what the demonstrator achieves, what breaks it."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
gymnasium = pytest.importorskip("gymnasium")

import steadyhand_sim.envs  # noqa: E402, F401  registers the environments
from policies.training.pick_place.expert import expert_actions  # noqa: E402
from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand.policy_io import ACTION_DIM, HORIZON, OBSERVATION_DIM  # noqa: E402
from steadyhand_sim.envs.pick_place import EnvConfig, PickPlaceEnv  # noqa: E402
from steadyhand_sim.world import WorldConfig  # noqa: E402

pytestmark = pytest.mark.sim


@pytest.fixture(scope="module")
def env():
    env = PickPlaceEnv()
    yield env
    env.close()


def drive(env, seed, act=lambda o: expert_actions(o[None])[0], steps=10_000):
    """Observations, last info."""
    observation, info = env.reset(seed=seed)
    seen = [observation]
    for _ in range(steps):
        observation, _, terminated, truncated, info = env.step(act(observation).astype(np.float32))
        seen.append(observation)
        if terminated or truncated:
            break
    return np.array(seen), info


def test_gymnasium_accepts_it():
    from gymnasium.utils.env_checker import check_env

    env = gymnasium.make("Steadyhand/UR5PickPlace-v0")
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_same_seed_same_bits_also_after_another_episode(env):
    first, _ = drive(env, 5, steps=55)
    other, _ = drive(env, 6, steps=10)
    again, _ = drive(env, 5, steps=55)
    assert first.dtype == np.float32 and first.shape == (56, OBSERVATION_DIM)
    assert first.tobytes() == again.tobytes()
    assert first[:11].tobytes() != other.tobytes()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_demonstrator_places_the_cube_and_the_gate_refuses_nothing(env, seed):
    _, info = drive(env, seed)
    assert info["is_success"] and info["failure"] == ""
    assert info["refused"] == {} and info["accepted"] > 50
    assert info["times_s"]["close"] < info["times_s"]["pick"] < info["times_s"]["open"] < info["times_s"]["place"]


def test_nothing_happens_without_asking(env):
    _, info = drive(env, 3, lambda o: np.zeros((HORIZON, ACTION_DIM)), steps=20)
    assert info["times_s"] == {} and not info["is_success"]


def test_tampered_observations_fail(env):
    """Mirrored target: a policy that ignored its observation would not notice."""
    _, info = drive(env, 1, lambda o: expert_actions((o * np.where(np.arange(len(o)) < 2, -1, 1))[None])[0], steps=160)
    assert not info["is_success"] and "close" not in info["times_s"]


def test_without_finger_friction_nothing_is_placed():
    env = PickPlaceEnv(EnvConfig(world=WorldConfig(finger_friction=0.0)))
    _, info = drive(env, 1)
    env.close()
    assert not info["is_success"] and info["failure"] in ("grasp_empty", "dropped", "time", "not_in_box")


IDLE = np.zeros((HORIZON, ACTION_DIM), dtype=np.float32)


def test_a_chunk_acts_after_the_latency_of_the_graph():
    env = PickPlaceEnv(EnvConfig(latency_min_s=0.035, latency_max_s=0.035))
    env.reset(seed=4)
    for _ in range(3):
        env.step(IDLE)
    offered = env.offered_chunks()
    env.close()
    assert len(offered) >= 2
    for answered, arrived_cycle, _ in offered:
        assert arrived_cycle * 0.008 - answered.stamp_s == pytest.approx(0.040)  # whole cycles, rounded up


def test_a_cube_knocked_away_ends_the_episode(env):
    env.reset(seed=4)
    position = env._world.object_poses()[0][env._index]
    env._world.move_object(env._index, position + [0.04, 0.0, 0.0], 0.0)
    _, reward, terminated, _, info = env.step(IDLE)
    assert (reward, terminated, info["failure"]) == (0.0, True, "knocked")


def test_fingers_that_close_on_nothing_end_the_episode(env):
    env.reset(seed=4)
    env._closed, env._times_s["close"], env._grasp_z_m = True, 0.0, float(env._tool()[0][2])
    env._world.set_gripper("close")
    for _ in range(30):
        _, _, terminated, _, info = env.step(IDLE)
        if terminated:
            break
    assert info["failure"] == "grasp_empty" and info["time_s"] == pytest.approx(0.8, abs=0.06)


def test_a_release_beside_the_box_is_no_success(env):
    """All that the runtime can measure says placed; the cube lies in the tray."""
    env.reset(seed=4)
    env._times_s["place"] = 0.0
    _, reward, terminated, _, info = env.step(IDLE)
    assert (reward, terminated, info["is_success"], info["failure"]) == (0.0, True, False, "not_in_box")


def test_a_chunk_with_a_jump_is_refused_not_executed(env):
    observation, info = env.reset(seed=4)
    jump = np.zeros((HORIZON, ACTION_DIM), dtype=np.float32)
    jump[1::2, :3], jump[::2, :3] = 1.0, -1.0  # shakes at 0.4 m/s
    for _ in range(4):
        observation, _, _, _, info = env.step(jump)
    assert sum(info["refused"].values()) == info["accepted"] + sum(info["refused"].values()) > 0
    assert np.abs(observation[5:9]).max() == 0.0


@pytest.mark.parametrize("bad", [np.zeros((4, 5)), np.full((HORIZON, ACTION_DIM), np.nan)])
def test_a_bad_action_is_refused_by_name(env, bad):
    env.reset(seed=4)
    with pytest.raises(ConfigError, match="action"):
        env.step(bad)


@pytest.mark.parametrize("change", [{"cubes_min": 0}, {"cubes_max": 99}, {"latency_min_s": 0.2}, {"target_bias_m": -1},
                                    {"target_noise_m": float("nan")}, {"time_limit_s": 0.0}])
def test_the_configuration_names_its_field(change):
    with pytest.raises(ConfigError, match=next(iter(change))):
        EnvConfig(**change)
