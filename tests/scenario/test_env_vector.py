"""Environments in processes and in one process give the same bits; each from its own seed."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
pytest.importorskip("gymnasium")

from steadyhand.errors import ConfigError  # noqa: E402
from steadyhand_sim.envs import GRASP_ID  # noqa: E402
from steadyhand_sim.envs.vector import make_one, make_vector  # noqa: E402

pytestmark = pytest.mark.sim
STEPS = 30


def run(env, actions):
    observation, _ = env.reset(seed=40)
    seen, paid = [observation.copy()], []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append(observation.copy())
        paid.append(reward.copy())
    env.close()
    assert len(info["success"]) == 2
    return np.array(seen), np.array(paid)


def test_processes_change_nothing():
    actions = np.random.default_rng(0).uniform(-0.4, 0.4, (STEPS, 2, 5)).astype(np.float32)
    apart = run(make_vector(GRASP_ID, 2, processes=True), actions)
    together = run(make_vector(GRASP_ID, 2, processes=False), actions)
    assert apart[0].tobytes() == together[0].tobytes() and apart[1].tobytes() == together[1].tobytes()
    alone = make_one(GRASP_ID)
    observation, _ = alone.reset(seed=41)
    assert observation.tobytes() == apart[0][0, 1].tobytes()
    alone.close()


def test_a_number_that_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match="n=0"):
        make_vector(GRASP_ID, 0)
