"""A trained actor as a served policy: file and actor agree, and its contract refuses what it was not trained for."""
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("pybullet")

from policies.training.actor_contract import element, export_actor, facts_of, formulation_of  # noqa: E402
from policies.training.network import initial_actor  # noqa: E402
from policies.training.rollout.hosts import Described, EnvHost, HostSpec  # noqa: E402
from steadyhand.errors import ConfigError, ContractError  # noqa: E402
from steadyhand_policies import contract as contracts  # noqa: E402
from steadyhand_policies.engine import open_session  # noqa: E402

pytestmark = [pytest.mark.train, pytest.mark.sim]
TRAINING = contracts.Training("0123456789abcdef", 1, "ab" * 32, 50, 1000)
SCORE = contracts.Score("held-out scenes", 10, 10, *contracts.wilson(10, 10))


def described(formulation, name="UR5Grasp"):
    host = EnvHost(HostSpec(f"Steadyhand/{name}-v0", {"formulation": formulation}, 1), ())
    try:
        return host.describe()
    finally:
        host.close()


@pytest.fixture(scope="module", params=["joint_delta", "cartesian_delta"])
def exported(request, tmp_path_factory):
    about, folder = described(request.param), tmp_path_factory.mktemp(request.param)
    d = about.observation_dim
    mean, std = np.full(d, 0.05), np.full(d, 0.1)
    actor = initial_actor(mean, std, 10.0, (16, 16), 0.2, about.low, about.high, 1)
    actor = replace(actor, weights=(*actor.weights[:-1], 500 * actor.weights[-1]))
    contract = export_actor(actor, about, request.param, TRAINING, SCORE, folder, "grasp_test")
    return actor, about, contract, folder


def test_file_and_actor_are_one_policy(exported):
    actor, about, contract, folder = exported
    observation = np.random.default_rng(0).normal(0.05, 0.2, (20, about.observation_dim)).astype(np.float32)
    answer = open_session(folder / "model.onnx").run(None, {"observation": observation})[0]
    assert answer.shape == (20, 1, len(about.action_names))
    np.testing.assert_allclose(answer[:, 0], [actor.act(o) for o in observation], atol=1e-5)
    assert (np.abs(answer) == 1.0).any()  # the bounds are inside the graph
    assert contracts.load(folder / "contract.json") == contract


def test_the_contract_names_what_disagrees(exported):
    _, about, contract, folder = exported
    facts = facts_of(contract.formulation, about)
    contracts.check_runtime(contract, facts=facts)
    order = (contract.joint_names[1], contract.joint_names[0], *contract.joint_names[2:])
    stale = replace(contract.normalisation, mean=tuple(m + 0.01 for m in contract.normalisation.mean))
    stale = replace(stale, sha256=contracts.statistics_hash(stale.mean, stale.std))
    degrees = tuple(m * 57.3 for m in contract.normalisation.mean)
    degrees = contracts.Normalisation(degrees, tuple(s * 57.3 for s in contract.normalisation.std), "")
    degrees = replace(degrees, sha256=contracts.statistics_hash(degrees.mean, degrees.std))
    for wrong, said in (
        (replace(contract, joint_names=order), r"joint_names\[0\]"), (replace(contract, period_s=0.1), "period_s"),
        (replace(contract, horizon=8), "horizon"), (replace(contract, normalisation=degrees), "normalisation"),
        (replace(contract, calibration=(contracts.Calibration("kinematics", "00" * 32),)), r"calibration\[0\]"),
    ):
        with pytest.raises(ContractError, match=said):
            contracts.check_runtime(wrong, facts=facts)
    with pytest.raises(ContractError, match="normalisation.mean"):
        contracts.check_model_file(replace(contract, normalisation=stale), folder / "model.onnx")


def test_the_runtime_refuses_a_formulation_that_it_does_not_serve(exported):
    _, _, contract, _ = exported
    with pytest.raises(ContractError, match="formulation|horizon"):
        contracts.check_runtime(contract)


@pytest.mark.parametrize("formulation", ["joint_delta", "cartesian_delta"])
def test_every_element_of_an_insertion_has_a_unit(formulation):
    about = described(formulation, "UR5Insert")
    assert {element(n)[0] for n in about.observation_names} >= {"m", "1", "0.05 m"}


def test_an_element_without_a_unit_is_refused():
    with pytest.raises(ConfigError, match="observation element 'colour'"):
        element("colour")


def test_a_vehicles_policy_has_its_contract(tmp_path):
    host = EnvHost(HostSpec("Steadyhand/AGVDock-v0", {}, 1), ())
    about = host.describe()
    host.close()
    d, formulation = about.observation_dim, formulation_of(None, about)
    actor = initial_actor(np.full(d, 0.05), np.full(d, 0.1), 10.0, (16, 16), 0.2, about.low, about.high, 1)
    contract = export_actor(actor, about, formulation, TRAINING, SCORE, tmp_path, "dock_test")
    assert (contract.robot, contract.formulation, contract.joint_names) == ("agv", contracts.BASE_VELOCITY, ())
    assert (contract.step_m, contract.step_yaw_rad) == (pytest.approx(0.24), pytest.approx(0.24))  # 1.2 a second
    facts = facts_of(formulation, about)
    faster = replace(facts, steps={**facts.steps, "step_m": 0.5})
    worn = replace(facts, calibration={"kinematics": "00" * 32})
    for there, said in ((faster, "step_m"), (worn, r"calibration\[0\]"), (replace(facts, frame="hall"), "frame")):
        with pytest.raises(ContractError, match=said):
            contracts.check_runtime(contract, facts=there)
    with pytest.raises(ContractError, match="robot"):  # an arm's runtime does not take it
        contracts.check_runtime(contract)


def test_what_nobody_has_described_has_no_formulation():
    about = Described(2, (1,), np.zeros(1), np.ones(1), ("a", "b"), ("c",), 20.0)
    assert formulation_of(None, about) is None and formulation_of("joint_delta", about) == "joint_delta"
