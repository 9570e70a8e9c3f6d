"""The shipped model in the environment, and what must make it fail."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
pytest.importorskip("gymnasium")

from steadyhand_policies import repository  # noqa: E402
from steadyhand_policies.local_onnx import LocalOnnxPolicy  # noqa: E402
from steadyhand_sim.envs.pick_place import PickPlaceEnv  # noqa: E402

pytestmark = pytest.mark.sim
SEEDS = (71, 72, 73)


@pytest.fixture(scope="module")
def policy():
    return LocalOnnxPolicy(repository.policy_files()).open()


def placed(policy, change=lambda actions, rng: actions):
    env, count, refused = PickPlaceEnv(), 0, 0
    rng = np.random.default_rng(0)
    for seed in SEEDS:
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            actions = change(policy.infer(observation, "o", 5.0).actions, rng)
            observation, _, terminated, truncated, info = env.step(actions)
            over = terminated or truncated
        count += info["is_success"]
        refused += sum(info["refused"].values())
    env.close()
    return count, refused


def test_it_places_cubes_and_the_gate_refuses_nothing(policy):
    assert placed(policy) == (len(SEEDS), 0)


def test_shuffled_outputs_place_nothing(policy):
    def shuffle(actions, rng):
        return actions[:, rng.permutation(actions.shape[1])]

    assert placed(policy, shuffle)[0] == 0
