"""The policy's contract refuses by field; the model file is the one it was written for."""
import json
import shutil
from contextlib import nullcontext

import numpy as np
import pytest

from steadyhand import policy_io, ur5
from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository
from steadyhand_policies.triton_server import check_repository


@pytest.fixture
def raw() -> dict:
    return json.loads(repository.policy_files().contract.read_text())


@pytest.fixture
def copy(tmp_path):
    """A repository that a test may damage."""
    shutil.copytree(repository.DEFAULT_REPOSITORY / "pick_place", tmp_path / "models" / "pick_place")
    return tmp_path / "models"


def test_the_shipped_repository_keeps_its_contract():
    contract = check_repository(repository.DEFAULT_REPOSITORY)
    assert contract.joint_names == ur5.JOINT_NAMES
    assert contracts.parse(json.loads(contracts.dump(contract))) == contract


def swap(values, i, j):
    values[i], values[j] = values[j], values[i]


@pytest.mark.parametrize(
    "edit, field",
    [
        (lambda r: swap(r["joint_names"], 1, 2), "joint_names[1]"),
        (lambda r: r["joint_names"].pop(), "joint_names length"),
        (lambda r: swap(r["observation"]["names"], 0, 1), "observation.names[0]"),
        (lambda r: swap(r["action"]["names"], 3, 4), "action.names[3]"),
        (lambda r: r.update(period_s=0.1), "period_s"),
        (lambda r: r.update(horizon=16), "horizon"),
        (lambda r: r.update(step_m=0.05), "step_m"),
        (lambda r: r.update(tool_length_m=0.1), "tool_length_m"),
        (lambda r: r.update(frame="base"), "frame"),
        (lambda r: r.update(robot="ur3"), "robot"),
        (lambda r: r.update(format=2), "format"),
        (lambda r: r["normalisation"]["mean"].__setitem__(0, 9.0), "normalisation.sha256"),
        (lambda r: r["normalisation"].update(sha256="0" * 64), "normalisation.sha256"),
        (lambda r: r["normalisation"]["std"].__setitem__(0, 0.0), "normalisation.std"),
        (lambda r: r["canary"].update(actions=[[0.0] * 5]), "canary.actions shape"),
        (lambda r: r["canary"].update(tolerance=5.0), "canary.tolerance"),
    ],
)
def test_a_contract_of_another_robot_or_rate_is_refused_by_field(raw, edit, field):
    edit(raw)
    with pytest.raises(ContractError) as refusal:
        contracts.check_runtime(contracts.parse(raw))
    assert str(refusal.value).startswith(field)


@pytest.mark.parametrize(
    "edit, field",
    [
        (lambda r: r.pop("horizon"), "contract.horizon: missing"),
        (lambda r: r.update(extra=1), "contract.extra: unknown"),
        (lambda r: r.update(period_s="fast"), "contract.period_s"),
        (lambda r: r.update(period_s=float("nan")), "contract.period_s"),
        (lambda r: r.update(horizon=8.5), "contract.horizon"),
        (lambda r: r.update(horizon=True), "contract.horizon"),
        (lambda r: r.update(model_sha256="abc"), "contract.model_sha256"),
        (lambda r: r.update(canary=[]), "contract.canary"),
        (lambda r: r["observation"]["units"].pop(), "units"),
        (lambda r: r["action"]["minimum"].__setitem__(0, 2.0), "minimum/maximum of dx"),
    ],
)
def test_a_malformed_contract_is_refused_by_field(raw, edit, field):
    edit(raw)
    with pytest.raises(ContractError) as refusal:
        contracts.parse(raw)
    assert field in str(refusal.value)


def test_another_robots_joint_order_is_refused(raw):
    order = (*ur5.JOINT_NAMES[:4], ur5.JOINT_NAMES[5], ur5.JOINT_NAMES[4])
    with pytest.raises(ContractError, match=r"joint_names\[4\]"):
        contracts.check_runtime(contracts.parse(raw), order)


@pytest.mark.parametrize("name", ["config.pbtxt", "1/model.onnx", "1/contract.json"])
def test_a_missing_file_is_named(copy, name):
    (copy / "pick_place" / name).unlink()
    with pytest.raises(ConfigError, match=name):
        check_repository(copy)


def test_a_missing_repository_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere"):
        check_repository(tmp_path / "nowhere")


def test_an_exchanged_model_is_refused(copy):
    model = copy / "pick_place" / "1" / "model.onnx"
    damaged = bytearray(model.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    model.write_bytes(damaged)
    with pytest.raises(ContractError, match="model_sha256"):
        check_repository(copy)


def with_hash_of_model(folder):
    raw = json.loads((folder / "contract.json").read_text())
    raw["model_sha256"] = contracts.file_hash(folder / "model.onnx")
    (folder / "contract.json").write_text(json.dumps(raw))


@pytest.mark.parametrize("content", [b"", b"not a model", None])
def test_a_corrupt_model_is_refused_even_with_its_hash(copy, content):
    folder = copy / "pick_place" / "1"
    (folder / "model.onnx").write_bytes(
        (folder / "model.onnx").read_bytes()[:1000] if content is None else content
    )
    with_hash_of_model(folder)
    with pytest.raises(ContractError, match="not a loadable ONNX file"):
        check_repository(copy)


@pytest.mark.parametrize(
    "old, new, field",
    [
        ("dims: [ 14 ]", "dims: [ 13 ]", "dimensions"),
        ("dims: [ 8, 5 ]", "dims: [ 8, 6 ]", "dimensions"),
        ('name: "observation"', 'name: "obs"', "inputs"),
        ("TYPE_FP32, dims: [ 14 ]", "TYPE_INT64, dims: [ 14 ]", "type"),
        ('name: "pick_place"', 'name: "other"', "name"),
        ("max_batch_size: 8", "max_batch_size: 0", "max_batch_size"),
        ("max_batch_size: 8", "max_batch_size: lots", "config.pbtxt"),
    ],
)
def test_a_config_with_other_tensors_is_refused(copy, old, new, field):
    path = copy / "pick_place" / "config.pbtxt"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ContractError, match=field):
        check_repository(copy)


def test_observations_and_actions_are_refused_not_clipped(raw):
    contract = contracts.parse(raw)
    good = np.float32(contract.canary.observation)
    assert contracts.check_observation(contract, good).shape == (1, policy_io.OBSERVATION_DIM)
    for value in (np.nan, np.inf, -99.0):
        bad = good.copy()
        bad[2] = value
        with pytest.raises(ContractError, match="target_minus_tool_z"):
            contracts.check_observation(contract, bad)
    actions = np.array(contract.canary.actions)
    for value in (np.nan, 1.0001, -np.inf):
        bad = actions.copy()
        bad[3, 1] = value
        with pytest.raises(ContractError, match=r"actions\[3\].dy"):
            contracts.check_actions(contract, bad)
    for bad in (actions[:-1], actions[:, :-1], np.empty((0, 8, 5)), np.zeros((2, 8, 5))):
        with pytest.raises(ContractError, match="shape"):
            contracts.check_actions(contract, bad)


def test_a_wrong_answer_to_the_canary_is_found(raw):
    contract = contracts.parse(raw)
    contracts.check_canary(contract, np.array(contract.canary.actions))
    for share, found in ((0.9, False), (1.1, True)):
        other = np.array(contract.canary.actions)
        other[3, 1] -= np.sign(other[3, 1]) * share * contract.canary.tolerance
        with pytest.raises(ContractError, match="canary") if found else nullcontext():
            contracts.check_canary(contract, other)
