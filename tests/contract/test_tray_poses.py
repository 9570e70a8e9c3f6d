"""The committed model keeps its contract, refuses any other, and sees what the committed test images show."""
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.errors import ContractError
from steadyhand_perception.contract import FORMAT, load_contract
from steadyhand_perception.maps import Peaks, wrap_yaw
from steadyhand_perception.tray_poses import TrayPoses, by_region

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "policies" / "model_repository" / "tray_poses"
IMAGES = ROOT / "tests" / "data" / "perception"
TRUTH = json.loads((IMAGES / "truth.json").read_text())["images"]

RIGHT = {"scale": 1.0, "bias": 0.0}  # calibration of a head
pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def poses() -> TrayPoses:
    return TrayPoses(MODEL)


def image_of(name: str) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    return np.asarray(image.open(IMAGES / name).convert("RGB"))


def edited(tmp_path: Path, **changes) -> Path:
    """A copy of the model whose contract has other values."""
    shutil.copytree(MODEL, tmp_path / "model")
    path = tmp_path / "model" / "1" / "contract.json"
    content = json.loads(path.read_text())
    for key, value in changes.items():
        *parents, last = key.split("__")
        inner = content
        for parent in parents:
            inner = inner[parent]
        if value is None:
            del inner[last]
        else:
            inner[last] = value
    path.write_text(json.dumps(content))
    return tmp_path / "model"


@pytest.mark.parametrize("name", TRUTH)
def test_sees_what_the_image_shows(poses, name):
    seen = poses.infer(image_of(name)).objects
    present, ignored = (np.array(TRUTH[name][key]).reshape(-1, 3) for key in ("present", "ignored"))
    for x, y, yaw in present:
        near = [o for o in seen if np.hypot(*(o.position_m[:2] - [x, y])) < 0.008]
        assert len(near) == 1, f"cube at ({x}, {y}) m"
        assert abs(wrap_yaw(near[0].yaw_rad - yaw)) < np.radians(12)
        assert near[0].presence > 0.5 and 0 < near[0].position_std_m < 0.02
    known = np.concatenate([present, ignored])[:, :2]
    extra = [o for o in seen if not any(np.hypot(*(o.position_m[:2] - xy)) < 0.02 for xy in known)]
    assert extra == []


def test_median_error_is_below_two_millimetres(poses):
    errors = []
    for name, truth in TRUTH.items():
        seen = np.array([o.position_m[:2] for o in poses.infer(image_of(name)).objects]).reshape(-1, 2)
        errors += [np.hypot(*(seen - t[:2]).T).min() for t in np.array(truth["present"]).reshape(-1, 3) if len(seen)]
    assert len(errors) >= 20
    assert np.median(errors) < 0.002


@pytest.mark.parametrize(
    "image",
    [
        np.zeros((160, 160, 3), np.uint8),
        np.full((160, 160, 3), 255, np.uint8),
        np.clip(np.random.default_rng(0).normal(2, 2, (160, 160, 3)), 0, 255).astype(np.uint8),
        np.random.default_rng(1).integers(0, 256, (160, 160, 3), dtype=np.uint8),
    ],
    ids=["black", "white", "dark noise", "white noise"],
)
def test_a_picture_of_nothing_shows_nothing(poses, image):
    assert poses.infer(image).objects == ()
    assert poses.check(image) != ()


def test_good_images_have_no_fault(poses):
    assert {name: poses.check(image_of(name)) for name in TRUTH} == {name: () for name in TRUTH}


def test_reading_is_repeatable_and_says_who_computed_it(poses):
    first, second = (poses.infer(image_of("tray_5.png")) for _ in range(2))
    assert [tuple(o.position_m) for o in first.objects] == [tuple(o.position_m) for o in second.objects]
    assert first.provider == "CPUExecutionProvider"
    assert first.features.shape == (poses.contract.features,) and np.isfinite(first.features).all()
    assert first.inference_ms > 0


def test_an_image_that_is_not_contiguous_is_read_the_same(poses):
    image = image_of("tray_5.png")
    strided = np.ascontiguousarray(image.transpose(1, 0, 2)).transpose(1, 0, 2)
    straight = [tuple(o.position_m) for o in poses.infer(image).objects]
    assert straight and [tuple(o.position_m) for o in poses.infer(strided).objects] == straight


@pytest.mark.parametrize(
    "image",
    [np.zeros((160, 160, 3), np.float32), np.zeros((120, 160, 3), np.uint8), np.zeros((160, 160), np.uint8), None],
)
def test_other_images_are_refused(poses, image):
    with pytest.raises(ContractError, match="image is"):
        poses.infer(image)


def test_regions_are_told_apart():
    xy = np.array([cell.TRAY.centre_m, cell.BOX.centre_m, [0.9, -0.5]])
    regions = by_region(Peaks(xy, np.zeros(3), np.ones(3), np.full(3, 0.001), np.ones(3), np.full(3, np.nan)), 0.02)
    assert [[o.position_m[0] for o in region] for region in regions] == [[x] for x in xy[:, 0]]


def test_written_contract_reads_back_the_same():
    contract = load_contract(MODEL / "1" / "contract.json")
    assert json.loads(contract.to_json()) == json.loads((MODEL / "1" / "contract.json").read_text())


@pytest.mark.parametrize(
    "changes, field",
    [
        ({"format": "something/9"}, "format"),
        ({"frame": "base"}, "frame"),
        ({"encoding": "bgr8"}, "encoding"),
        ({"cube_size_m": 0.05}, "cube_size_m"),
        ({"offset_unit_m": 0.02}, "offset_unit_m"),
        ({"map_names": ["centre_logit"]}, "map_names"),
        ({"model_sha256": "0" * 64}, "model_sha256"),
        ({"model_sha256": None}, "model_sha256"),
        ({"stride_px": 8}, "outputs.maps"),
        ({"stride_px": "4"}, "stride_px"),
        ({"stride_px": 7}, "stride_px"),
        ({"plane_z_m": float("nan")}, "plane_z_m"),
        ({"plane_z_m": 10**400}, "too large"),
        ({"inputs__image__shape": [-1, 224, 224, 3]}, "inputs.image"),
        ({"inputs__image__type": "float32"}, "inputs.image"),
        ({"inputs__image": None}, "inputs.image"),
        ({"outputs__features": None}, "outputs.features"),
        ({"outputs__features__shape": [-1, 64]}, "features"),
        ({"camera__fx_px": None}, "camera"),
        ({"camera__fx_px": -1.0}, "fx_px"),
        ({"camera__fx_px": "wide"}, "fx_px"),
        ({"camera__pose_base_link_camera": [[1, 2], [3, 4]]}, "pose_base_link_camera"),
        ({"camera__pose_base_link_camera": 5}, "pose_base_link_camera"),
        ({"decode__presence_min": 1.5}, "presence_min"),
        ({"decode__presence_min": None}, "decode"),
        ({"decode__max_detections": "many"}, "max_detections"),
        ({"decode": []}, "decode"),
        ({"format": FORMAT}, "scratch must have"),
        ({"format": FORMAT, "scratch": RIGHT}, "grasp must have"),
        ({"format": FORMAT, "scratch": RIGHT, "grasp": {"scale": -1.0, "bias": 0.0}}, "scale=-1.0"),
        ({"format": FORMAT, "scratch": RIGHT, "grasp": {"scale": 1.0, "bias": float("nan")}}, "bias=nan"),
        ({"format": FORMAT, "scratch": RIGHT, "grasp": RIGHT}, "outputs.scratch is missing"),
    ],
)
def test_contract_that_disagrees_is_refused_and_names_the_field(tmp_path, changes, field):
    with pytest.raises(ContractError, match=field):
        TrayPoses(edited(tmp_path, **changes))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b"\x00\xff", b"[" * 10**5, b"1" * 5000])
def test_unreadable_contract_is_refused(tmp_path, content):
    folder = edited(tmp_path)
    (folder / "1" / "contract.json").write_bytes(content)
    with pytest.raises(ContractError, match="contract.json"):
        TrayPoses(folder)


def test_missing_and_truncated_models_are_refused(tmp_path):
    folder = edited(tmp_path)
    model = folder / "1" / "model.onnx"
    model.write_bytes(model.read_bytes()[:1000])
    with pytest.raises(ContractError, match="model_sha256"):
        TrayPoses(folder)
    model.unlink()
    with pytest.raises(ContractError, match="no model"):
        TrayPoses(folder)
    with pytest.raises(ContractError, match="contract.json"):
        TrayPoses(tmp_path / "nowhere")
