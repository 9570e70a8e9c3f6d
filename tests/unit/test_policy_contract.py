"""The policy's contract refuses by field; the model file is the one it was written for."""
import json
import shutil
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

from steadyhand import cell, policy_io, ur5
from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import contract as contracts
from steadyhand_policies import repository
from steadyhand_policies.runtime_facts import CAMERA, this_runtime, with_camera
from steadyhand_policies.triton_server import check_repository
from tests.support import onnx_models


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
        (lambda r: r.update(format=1), "format"),
        (lambda r: r.update(formulation="joint_delta"), "formulation"),
        (lambda r: r["observation"]["units"].__setitem__(8, "deg/s"), "observation.units[8]"),
        (lambda r: r["observation"]["units"].__setitem__(0, "mm"), "observation.units[0]"),
        (lambda r: r["action"]["units"].__setitem__(3, "5.7 deg a period"), "action.units[3]"),
        (lambda r: r.update(step_yaw_rad=5.729577951), "step_yaw_rad"),
        (lambda r: r["sensors"][0].update(encoding="deg"), "sensors[0].encoding of commanded_joints"),
        (lambda r: r["sensors"][0].update(shape=[7]), "sensors[0].shape"),
        (lambda r: r["sensors"][2].update(rate_hz=60.0), "sensors[2].rate_hz of objects"),
        (lambda r: r["sensors"][2].update(rate_hz=0.0), "sensors[2].rate_hz of objects"),
        (lambda r: r["sensors"][2].update(frame="camera"), "sensors[2].frame"),
        (lambda r: r["sensors"][1].update(name="force"), "sensors[1].name"),
        (lambda r: r.update(sensors=[]), "sensors: empty"),
        (lambda r: r["calibration"][0].update(sha256="0" * 64), "calibration[0].sha256 of kinematics"),
        (lambda r: r["calibration"][0].update(of="camera"), "calibration[0].of"),
        (lambda r: r.update(calibration=[]), "calibration"),
        (lambda r: r["training"].update(commit="yesterday"), "training.commit"),
        (lambda r: r["score"].update(wilson_low=0.999), "score.wilson_low"),
        (lambda r: r["score"].update(successes=201), "score.successes"),
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
    onnx_models.edit(
        folder / "contract.json", lambda raw: raw.update(model_sha256=contracts.file_hash(folder / "model.onnx"))
    )


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
        ("version_policy { all { } }", "version_policy { latest { num_versions: 1 } }", "version_policy"),
        ("version_policy { all { } }", "", "version_policy"),
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


def rescaled(raw, index, factor):
    """The statistics of one element in another unit, with their hash."""
    statistics = raw["normalisation"]
    for name in ("mean", "std"):
        statistics[name][index] *= factor
    statistics["sha256"] = contracts.statistics_hash(statistics["mean"], statistics["std"])


@pytest.mark.parametrize("index, factor", [(8, 180 / np.pi), (0, 1000.0), (9, 1000.0), (5, 1000.0)])
def test_statistics_in_degrees_or_millimetres_are_refused_whatever_the_units_say(raw, index, factor):
    rescaled(raw, index, factor)
    with pytest.raises(ContractError, match=rf"normalisation.(mean|std)\[{index}\].*another unit"):
        contracts.check_runtime(contracts.parse(raw))


def test_joint_angles_in_degrees_are_out_of_range(raw):
    """The joint formulation: whatever the pose, in degrees it lies outside the range in radians."""
    low, high = tuple(map(float, ur5.Q_MIN_RAD)), tuple(map(float, ur5.Q_MAX_RAD))
    signals = contracts.Signals(tuple(f"q_{name}" for name in ur5.JOINT_NAMES), ("rad",) * 6, low, high)
    contract = replace(contracts.parse(raw), formulation=contracts.JOINT_DELTA, observation=signals)
    for q_rad in (cell.HOME_Q_RAD, *np.random.default_rng(0).uniform(low, high, (200, 6))):
        assert contracts.check_observation(contract, q_rad).shape == (1, 6)
        with pytest.raises(ContractError, match="observation q_"):
            contracts.check_observation(contract, np.degrees(q_rad))


def camera_contract(tmp_path, **changes):
    """The facts of a runtime whose perception model says this of its camera, and a contract that wants them."""
    source = json.loads((repository.DEFAULT_REPOSITORY / "tray_poses" / "1" / "contract.json").read_text())
    path = tmp_path / "perception.json"
    path.write_text(json.dumps(source | changes))
    return with_camera(this_runtime(), path)


def with_sensor(raw, facts):
    camera = next(s for s in facts.sensors if s.name == CAMERA)
    raw["sensors"].append({"name": CAMERA, "encoding": camera.encoding, "frame": camera.frame,
                           "shape": list(camera.shape), "rate_hz": camera.rate_hz})
    raw["calibration"].append({"of": CAMERA, "sha256": facts.calibration[CAMERA]})
    return contracts.parse(raw)


def test_a_policy_that_sees_is_refused_swapped_channels_and_another_camera(raw, tmp_path):
    facts = camera_contract(tmp_path)
    contract = with_sensor(raw, facts)
    contracts.check_runtime(contract, facts=facts)
    with pytest.raises(ContractError, match=r"sensors\[3\].encoding of camera: found 'rgb8', expected 'bgr8'"):
        contracts.check_runtime(contract, facts=camera_contract(tmp_path, encoding="bgr8"))
    source = json.loads((tmp_path / "perception.json").read_text())
    moved = source["camera"] | {"fx_px": source["camera"]["fx_px"] * 1.01}
    with pytest.raises(ContractError, match=r"calibration\[1\].sha256 of camera"):
        contracts.check_runtime(contract, facts=camera_contract(tmp_path, camera=moved))
    with pytest.raises(ContractError, match=r"sensors\[3\].name: 'camera'"):
        contracts.check_runtime(contract)  # no camera here


@pytest.mark.parametrize("seed", range(10))
def test_every_permutation_of_joints_is_refused_by_the_first_that_is_wrong(raw, seed):
    order = list(ur5.JOINT_NAMES)
    np.random.default_rng(seed).shuffle(order)
    raw["joint_names"] = order
    first = next((i for i, (a, b) in enumerate(zip(order, ur5.JOINT_NAMES)) if a != b), None)
    with pytest.raises(ContractError, match=rf"joint_names\[{first}\]") if first is not None else nullcontext():
        contracts.check_runtime(contracts.parse(raw))


def test_the_seal_is_of_every_field(raw):
    contract = contracts.parse(raw)
    contracts.check_seal(contract)
    assert contracts.content_hash(contract) == contract.sha256
    for field in contract.__dataclass_fields__:
        other = {"int": 7, "float": 0.123, "str": "x" * 64}.get(contract.__dataclass_fields__[field].type, ())
        changed = replace(contract, **{field: other})
        with pytest.raises(ContractError, match="edited"):
            contracts.check_seal(changed)
