"""Episodes from an environment, whoever acts; and the recorded arm in the environments' own formulations."""
from types import SimpleNamespace

import numpy as np
import pytest

from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.encodings import ENCODINGS, STEP_Q_RAD, ArmRows
from policies.training.store.episode import BadEpisode
from policies.training.store.rollouts import rollout, rollouts, state_names
from steadyhand import ur5
from steadyhand.errors import ConfigError
from steadyhand.policy_io import Target
from steadyhand.types import Skill
from tests.unit.test_store_episode import same


class Counting:
    """An environment that counts its steps: enough of Gymnasium's interface for whoever records."""

    observation_names, action_names = ("step", "seed"), ("push",)

    def __init__(self, name="Elsewhere/Counting-v0", rate_hz=10.0, spoil_at=-1):
        self.spec, self.rate_hz, self._spoil_at = SimpleNamespace(id=name), rate_hz, spoil_at

    @property
    def unwrapped(self):
        return self

    def _seen(self):
        return np.array([np.nan if self._k == self._spoil_at else self._k, self._seed], np.float32)

    def reset(self, seed):
        self._k, self._seed = 0, seed
        return self._seen(), {"success": False}

    def step(self, action):
        self._k += 1
        done = self._k == 5
        return self._seen(), float(action[0]), done, False, {"success": done and self._seed % 2 == 0}


def push(observation, info):
    return np.array([observation[0] / 10.0])


def test_a_row_is_what_was_seen_then_done_then_earned():
    found = rollout(Counting(), push, 4, "policy", "a model", "count")
    assert found.observation.tolist() == [[k, 4.0] for k in range(5)]
    assert np.allclose(found.action[:, 0], np.arange(5) / 10) and np.allclose(found.reward, np.arange(5) / 10)
    assert np.allclose(found.stamp_s, np.arange(5) / 10.0)
    assert (found.success, found.seed, found.source, found.origin) == (True, 4, "policy", "a model")
    assert (found.task, found.env_id, found.joint_names) == ("count", "Elsewhere/Counting-v0", ())


def test_one_episode_for_each_seed_good_or_bad(tmp_path):
    with DemonstrationStore(tmp_path) as store:
        store.extend(rollouts(Counting(), push, range(6), "expert"))
        assert [(e.seed, e.success) for e in store.episodes()] == [(k, k % 2 == 0) for k in range(6)]


def test_what_is_not_finite_is_refused():
    with pytest.raises(BadEpisode, match="observation: nan at frame 3, step"):
        rollout(Counting(spoil_at=3), push, 0, "policy")


def test_an_environment_says_its_name_and_rate():
    nameless = Counting()
    nameless.spec = None
    with pytest.raises(ConfigError, match="make it by name"):
        rollout(nameless, push, 0, "policy")
    with pytest.raises(ConfigError, match="has no `rate_hz`"):
        rollout(Counting(rate_hz=None), push, 0, "policy")


# --- the simulator's environments, where they are there ---


def made(name, **kwargs):
    gymnasium = pytest.importorskip("gymnasium")
    pytest.importorskip("steadyhand_sim.envs.arm_env")
    return gymnasium.make(name, **kwargs)


@pytest.mark.sim
@pytest.mark.parametrize("name, formulation", [
    ("Steadyhand/UR5Grasp-v0", "joint_delta"), ("Steadyhand/AGVDock-v0", ""),
])  # fmt: skip
def test_the_experts_episodes_are_kept_and_the_same_again(tmp_path, name, formulation):
    env = made(name, **({"formulation": formulation} if formulation else {"time_limit_s": 6.0}))
    from steadyhand_sim.envs.experts import expert

    actor = expert(name, formulation) if formulation else expert(name)
    try:
        one, again = (rollout(env, actor.act, 11, "expert") for _ in range(2))
    finally:
        env.close()
    assert same(one, again) and one.rate_hz == (20.0 if formulation else 5.0)
    with DemonstrationStore(tmp_path) as store:
        assert store.append(one) == store.append(again) and len(store) == 1


@pytest.mark.sim
def test_a_picture_is_kept_beside_what_the_robot_knows_of_itself():
    env = made("Steadyhand/UR5Grasp-v0", observations="image")
    try:
        found = rollout(env, lambda seen, info: np.full(5, 2.0), 3, "policy")  # three invalid actions end it
        assert state_names(env) == found.observation_names and not any("target" in n for n in found.observation_names)
    finally:
        env.close()
    assert found.images["image"].shape[0] == len(found) <= 5 and found.images["image"].std() > 0


@pytest.mark.sim
@pytest.mark.parametrize("formulation", ["cartesian_delta", "joint_delta"])
def test_recordings_are_encoded_as_the_environment_does(formulation):
    formulations = pytest.importorskip("steadyhand_sim.envs.formulations")
    env = made("Steadyhand/UR5Grasp-v0", formulation=formulation, noise=False)
    try:
        assert ENCODINGS[formulation].observation_names == env.unwrapped.observation_names
        assert ENCODINGS[formulation].action_names == env.unwrapped.action_names
        env.reset(seed=3)
        for _ in range(5):
            observation, *_ = env.step(np.full(env.action_space.shape, 0.1, np.float32))
        own, stamp_s = env.unwrapped, np.zeros(1)
        (position_m, yaw_rad), measured = own._target(), [np.array([x]) for x in own._world.measured()]
        rows = ArmRows(stamp_s, *measured, own._arm.q_rad[None], own._arm.qd_rad_s[None],
                       np.array([own._world.gripper_width]), np.array([0.08]))
        encoded = ENCODINGS[formulation].observe(rows, Target(Skill.PICK, np.array(position_m), yaw_rad))
        np.testing.assert_allclose(encoded[0], observation, atol=1e-5)
    finally:
        env.close()
    assert STEP_Q_RAD == formulations.STEP_Q_RAD and len(ur5.JOINT_NAMES) == 6
