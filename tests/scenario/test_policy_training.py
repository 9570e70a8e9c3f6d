"""Training end to end, tiny: a usable repository with a contract comes out. Needs the training extra."""
import csv
import json

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("pybullet")

import torch  # noqa: E402
import yaml  # noqa: E402

from policies.training.pick_place import command_space, fit, train  # noqa: E402
from policies.training.pick_place.expert import expert_actions, expert_plan  # noqa: E402
from policies.training.pick_place.network import ACCELERATION_LIMITS, PolicyNetwork  # noqa: E402
from steadyhand.errors import ConfigError
from steadyhand.policy_io import OBSERVATION_DIM  # noqa: E402
from steadyhand_policies import repository  # noqa: E402
from steadyhand_policies.checks import check_policy  # noqa: E402
from steadyhand_policies.local_onnx import LocalOnnxPolicy  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.sim]


def test_the_graph_integrates_as_the_demonstrator_does():
    """With the demonstrator's plan in place of the perceptron's, the network answers the demonstrator's actions."""
    observations = command_space.run(expert_actions, 3, 0.05, 1).observations[::7]
    network = PolicyNetwork((8,), np.zeros(OBSERVATION_DIM), np.ones(OBSERVATION_DIM))
    accelerations, votes = expert_plan(observations)
    plan = np.concatenate([accelerations / np.array(ACCELERATION_LIMITS), votes[:, :, None]], axis=2)
    network.plan = lambda _: torch.as_tensor(plan, dtype=torch.float32)
    with torch.no_grad():
        answer = network(torch.as_tensor(observations)).numpy()
    np.testing.assert_allclose(answer, expert_actions(observations), atol=1e-5)


def test_the_demonstrator_finishes_in_command_space():
    assert command_space.run(expert_actions, 50, 0.0, 3).done.all()


@pytest.mark.parametrize("vote", [-1.0, 1.0])
def test_nothing_is_done_in_command_space_without_both_votes(vote):
    def stubborn(observations):
        actions = expert_actions(observations)
        actions[:, :, 4] = vote
        return actions

    assert not command_space.run(stubborn, 20, 0.0, 3).done.any()


def test_jitter_stays_on_the_unit_circle_and_keeps_the_mode():
    observations = command_space.run(expert_actions, 2, 0.0, 1).observations
    settings = yaml.safe_load(open(train.__file__.replace("train.py", "config.yaml")))["optimiser"]
    disturbed = fit.jittered(observations, settings, np.random.default_rng(0))
    np.testing.assert_allclose(np.hypot(disturbed[:, 3], disturbed[:, 4]), 1.0, atol=1e-5)
    np.testing.assert_array_equal(disturbed[:, 11:], observations[:, 11:])


def test_observations_that_are_not_finite_teach_nothing():
    settings = yaml.safe_load(open(train.__file__.replace("train.py", "config.yaml")))["optimiser"] | {"batch": 32}
    observations = command_space.run(expert_actions, 10, 0.0, 1).observations
    network = PolicyNetwork((8,), *fit.statistics(observations))
    observations[0, 0] = np.nan
    with pytest.raises(ConfigError, match="learning_rate=0.003 gives a validation loss of nan in epoch 0"):
        fit.fit(network, observations, observations[1:100], settings, 1, 1, lambda row: None)


def test_one_command_makes_a_repository(tmp_path):
    with open(train.__file__.replace("train.py", "config.yaml")) as file:
        config = yaml.safe_load(file)
    config["workers"] = 1
    config["demonstrations"]["episodes"] = config["validation"]["episodes"] = 1
    config["dagger"] |= {"rounds": 1, "episodes": 1}
    config["command_space"] |= {"episodes": 10, "dagger_episodes": 5}
    config["optimiser"] |= {"epochs": 1, "final_epochs": 2, "batch": 32}
    config["evaluation"] |= {"episodes": 1, "disturbed_episodes": 1}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    arguments = {"--config": path, "--repository": tmp_path / "models", "--out": tmp_path / "out"}
    assert train.main([str(x) for pair in arguments.items() for x in pair]) == 0
    policy = LocalOnnxPolicy(repository.policy_files(tmp_path / "models")).open()
    check_policy(policy, policy.contract, n=3, deadline_s=5.0)
    assert policy.contract.score.n == 1 and policy.contract.training.demonstrations == 1
    rows = list(csv.DictReader(open(tmp_path / "out" / "learning_curve.csv")))
    assert [r["part"] for r in rows] == ["cloning", "dagger 1", "dagger 1"]
    assert (tmp_path / "out" / "learning_curve.png").stat().st_size > 1000
    assert json.loads((tmp_path / "out" / "evaluation.json").read_text())["nominal"]["n"] == 1
    with np.load(tmp_path / "out" / "demonstrations.npz") as file:
        assert file["q_rad"].shape == (len(file["stamp_s"]), 8, 6) and float(file["period_s"]) == 0.05
