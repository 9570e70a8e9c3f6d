"""Models and contracts that must not serve: each is refused before it is asked anything for a robot, and named."""
from dataclasses import replace

import numpy as np
import pytest

from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import contract as contracts
from steadyhand_policies import onnx_file, repository
from steadyhand_policies.local_onnx import LocalOnnxPolicy
from steadyhand_policies.probe import probe
from steadyhand_policies.triton_versions import check_version
from tests.support import onnx_models as onnx


def version(tmp_path, **graph):
    """Files of version 1 of a repository of its own."""
    onnx.repository_with(tmp_path)
    weights, bias = onnx.weights_of(1)
    weights, bias = graph.pop("weights", weights), graph.pop("bias", bias)
    onnx.write_version(tmp_path / "pick_place" / "1", weights, bias, **graph)
    return repository.policy_files(tmp_path)


def refused(files, match):
    """By whoever opens it here, and by whoever would load it into a server."""
    with pytest.raises(ContractError, match=match):
        LocalOnnxPolicy(files).open()
    with pytest.raises(ContractError, match=match):
        check_version(files.config.parents[1], 1)


def test_a_sound_model_is_taken(tmp_path):
    local = LocalOnnxPolicy(version(tmp_path)).open()
    assert local.provider == "CPUExecutionProvider" and local.trouble == ""
    assert check_version(tmp_path, 1) == local.contract


@pytest.mark.parametrize("opset", [5, 99])
def test_a_wrong_operator_set_is_named(tmp_path, opset):
    refused(version(tmp_path, opset=opset, golden=False), f"opset: found {opset}, accepted 11 to 21")


def test_an_operator_domain_that_a_stock_server_has_not_is_named(tmp_path):
    files = version(tmp_path)
    data = files.model.read_bytes() + onnx.message(8, onnx.message(1, "com.example") + onnx.number(2, 1))
    files.model.write_bytes(data)
    onnx.edit(files.contract, lambda raw: raw.update(model_sha256=contracts.file_hash(files.model)))
    refused(files, "opset: domain 'com.example'")


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"not a model at all", None])
def test_a_corrupt_file_is_named_even_with_its_hash(tmp_path, content):
    files = version(tmp_path)
    files.model.write_bytes(files.model.read_bytes()[:-40] if content is None else content)
    onnx.edit(files.contract, lambda raw: raw.update(model_sha256=contracts.file_hash(files.model)))
    refused(files, "not a loadable ONNX file|opset")


def test_an_unknown_operator_is_named(tmp_path):
    refused(version(tmp_path, function="Tanhh", golden=False), "not a loadable ONNX file")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_that_answers_what_is_no_number_is_refused(tmp_path, value):
    weights, bias = (0.02 * array for array in onnx.weights_of(1))
    bias[12] = value
    files = version(tmp_path, weights=weights, bias=bias, function="Identity", golden=False)
    refused(files, r"actions\[\d\]\.\w+: -?(nan|inf)")


def test_a_model_that_leaves_its_range_is_refused(tmp_path):
    weights, bias = onnx.weights_of(1)
    refused(version(tmp_path, weights=20 * weights, bias=bias, function="Identity", golden=False), r"actions\[\d\]")


def test_a_constant_model_is_refused(tmp_path):
    weights, bias = onnx.weights_of(1)
    refused(version(tmp_path, weights=0 * weights, bias=bias), "constant")


def test_a_model_that_ignores_one_action_is_told_of(tmp_path):
    weights, bias = onnx.weights_of(1)
    weights[:, 3::5] = 0.0  # dyaw of every step
    contract = contracts.load(version(tmp_path, weights=weights, bias=bias).contract)
    session = onnx.open_session(tmp_path / "pick_place" / "1" / "model.onnx")
    assert probe(contract, lambda batch: session.run(None, {"observation": batch})[0]).still == ("dyaw",)


def test_a_model_of_another_shape_is_refused(tmp_path):
    weights, bias = onnx.weights_of(1, outputs=32)
    graph = dict(declared=(8, 4), shaped=(8, 4), golden=False)
    refused(version(tmp_path, weights=weights, bias=bias, **graph), "dimensions after the batch")


def test_answers_of_another_shape_or_that_wander_are_refused(tmp_path):
    contract = contracts.load(version(tmp_path).contract)
    answer, calls = np.array(contract.canary.actions), []

    def wandering(batch):
        calls.append(1)
        return 0.9 * np.tanh(answer + 0.01 * len(calls))

    with pytest.raises(ContractError, match="shape"):
        probe(contract, lambda batch: answer[:5])
    with pytest.raises(ContractError, match="two answers to one observation differ"):
        probe(contract, wandering)
    with pytest.raises(ContractError, match="cannot be run"):
        probe(contract, lambda batch: 1 / 0)


def test_a_contract_edited_after_its_export_is_refused(tmp_path):
    files = version(tmp_path)
    onnx.edit(files.contract, lambda raw: raw.update(step_m=0.05), reseal=False)
    refused(files, "sha256: .* edited")


def test_a_missing_contract_is_named(tmp_path):
    files = version(tmp_path)
    files.contract.unlink()
    with pytest.raises(ConfigError, match="contract.json"):
        LocalOnnxPolicy(files).open()
    with pytest.raises(ConfigError, match="contract.json is missing"):
        check_version(tmp_path, 1)


def test_an_endless_contract_is_refused(tmp_path):
    files = version(tmp_path)
    files.contract.write_bytes(b"[" * 5_000_000)
    refused(files, "more than 4000000 bytes")
    files.contract.write_bytes(b"[" * 100_000)
    refused(files, "not JSON")


@pytest.mark.parametrize("name", ["mean", "std"])
def test_statistics_of_another_training_are_refused(tmp_path, name):
    """The contract's own hash fits: only the model knows better."""
    files = version(tmp_path)
    shipped = contracts.load(files.contract)
    stale = replace(shipped.normalisation, **{name: tuple(1.01 * v for v in getattr(shipped.normalisation, name))})
    stale = replace(stale, sha256=contracts.statistics_hash(stale.mean, stale.std))
    files.contract.write_text(contracts.dump(replace(shipped, normalisation=stale)))
    refused(files, f"normalisation.{name}: the model holds no such numbers")


def test_a_reciprocal_of_the_deviation_will_do(tmp_path):
    contract = contracts.load(version(tmp_path).contract)
    facts = onnx_file.read(tmp_path / "pick_place" / "1" / "model.onnx")
    contracts.check_statistics(contract, replace(facts, floats={
        "mean": np.float32(contract.normalisation.mean), "scale": 1 / np.float32(contract.normalisation.std),
    }))


def test_what_the_file_says_of_itself():
    facts = onnx_file.read(repository.policy_files().model)
    assert facts.opsets == {"": 17} and facts.producer == "pytorch"
    contract = contracts.load(repository.policy_files().contract)
    np.testing.assert_allclose(facts.floats["mean"], contract.normalisation.mean, rtol=1e-6)


def test_install_takes_a_folder_whole_as_the_next_version(tmp_path):
    models = onnx.repository_with(tmp_path / "models", 1, 2)
    onnx.write_version(tmp_path / "trained", *onnx.weights_of(3))
    (models / "pick_place" / "09").mkdir()  # no version to Triton: it begins with a zero
    (models / "pick_place" / "draft").mkdir()
    assert repository.install(tmp_path / "trained", models) == 3
    assert repository.versions(models) == (1, 2, 3)
    assert LocalOnnxPolicy(repository.policy_files(models, version=0)).open().contract.sha256
    assert not [p for p in (models / "pick_place").iterdir() if p.name.startswith(".")]
    (tmp_path / "trained" / "model.onnx").unlink()
    with pytest.raises(ConfigError, match="model.onnx is missing"):
        repository.install(tmp_path / "trained", models)
