"""`steadyhand ssi`: reports of recordings and rendered scenes, and what it refuses by name."""
import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("onnxruntime")

from rosbags.rosbag2 import StoragePlugin, Writer  # noqa: E402
from rosbags.typesys import Stores, get_typestore  # noqa: E402

from steadyhand_cli import bag, main  # noqa: E402
from steadyhand_perception.ssi_report import accuracy, markdown  # noqa: E402
from steadyhand_perception.ssi import Seen  # noqa: E402
from steadyhand.types import Detection  # noqa: E402

PICTURE = np.asarray(Image.open(Path(__file__).parents[1] / "data/perception/tray_1.png").convert("RGB"))


def noisy(n, std=2.0):
    rng = np.random.default_rng(0)
    return [np.clip(PICTURE + rng.normal(0, std, PICTURE.shape), 0, 255).astype(np.uint8) for _ in range(n)]


def pictures(folder, images):
    folder.mkdir(parents=True)
    for k, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{k:03}.png")
    return folder


def ssi(tmp_path, *words):
    code = main.main(["ssi", *map(str, words), "--out", str(tmp_path / "out")])
    found = list((tmp_path / "out").glob("*.json")) if (tmp_path / "out").is_dir() else []
    return code, json.loads(found[0].read_text()) if found else None


def test_a_folder_of_pictures_is_a_scene(tmp_path, capsys):
    folder = pictures(tmp_path / "rec", noisy(31))
    (folder / "031.png").write_bytes(b"no picture")
    Image.fromarray(np.zeros_like(PICTURE)).save(folder / "032.png")
    giant = b"BM" + struct.pack("<IIIIiiHHIIiiII", 54, 0, 54, 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    (folder / "033.png").write_bytes(giant)
    code, data = ssi(tmp_path, folder)
    assert code == 0 and data["verdict"] == "good" and data["images"] == 31
    assert data["source"]["refused"] == {"no_picture": 2, "dark": 1}
    assert data["not_measured"] == ["defect", "features"] and "| pose |" in capsys.readouterr().out


def test_a_scene_that_changes_is_refused_with_the_cause_and_exit_code_1(tmp_path):
    images = noisy(30)
    images[::2] = [np.ascontiguousarray(i[:, ::-1]) for i in images[::2]]
    code, data = ssi(tmp_path, pictures(tmp_path / "rec", images))
    assert code == 1 and data["verdict"] == "refuse" and any("presence" in c for c in data["causes"])


def png(image):
    """(N,) bytes of a file."""
    held = io.BytesIO()
    Image.fromarray(image).save(held, "PNG")
    return np.frombuffer(held.getvalue(), np.uint8)


@pytest.mark.parametrize("kind", ["Image", "CompressedImage"])
def test_a_bag_is_a_scene(tmp_path, kind):
    store = get_typestore(Stores.ROS2_KILTED)
    kind, kinds = f"sensor_msgs/msg/{kind}", store.types
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/camera/image_raw", kind, typestore=store)
        for k, image in enumerate([*noisy(30), None]):
            good, image = image is not None, PICTURE if image is None else image
            header = kinds["std_msgs/msg/Header"](kinds["builtin_interfaces/msg/Time"](k, 0), "camera")
            if kind.endswith("CompressedImage"):
                message = kinds[kind](header, "png" if good else "webp", png(image))
            else:
                height, width, encoding = *image.shape[:2], "rgb8" if good else "yuv422"
                message = kinds[kind](header, height, width, encoding, 0, 3 * width, image.reshape(-1))
            writer.write(connection, k * 10**8, store.serialize_cdr(message, kind))
    code, data = ssi(tmp_path, tmp_path / "bag")
    assert code == 0 and data["images"] == 30 and data["source"]["refused"] == {"encoding": 1}
    assert ssi(tmp_path, tmp_path / "bag", "--topic", "/other")[0] == 2


def test_a_bag_is_read_message_by_message(tmp_path, monkeypatch):
    store, read = get_typestore(Stores.ROS2_KILTED), []
    kind = "std_msgs/msg/String"
    with Writer(tmp_path / "bag", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        connection = writer.add_connection("/words", kind, typestore=store)
        for k in range(5):
            writer.write(connection, k * 10**9, store.serialize_cdr(store.types[kind](str(k)), kind))
    deserialize = store.deserialize_cdr
    monkeypatch.setattr(store, "deserialize_cdr", lambda *a: (read.append(1), deserialize(*a))[1])
    monkeypatch.setattr(bag, "get_typestore", lambda _: store)
    topic, message, at_s, _ = next(bag.messages(tmp_path / "bag", {"/words"}))
    assert (topic, message.data, at_s, len(read)) == ("/words", "0", 0.0, 1)


@pytest.mark.sim
def test_rendered_scenes_with_accuracy_and_the_published_family(tmp_path):
    pytest.importorskip("pybullet")
    code, data = ssi(tmp_path, "--scenes", 2, "--images", 30, "--cubes", 2)
    assert data["scenes"] == 2 and data["signals"]["pose"]["n"] == 4 and data["signals"]["pose"]["p95"] < 0.05
    assert data["source"]["perturbation"] == {"split": "test", "light": True, "camera_std_m": 0.001}
    assert data["accuracy"]["objects"] == 120 and data["accuracy"]["p95_mm"] < 5 and data["feature_range"] > 0
    assert code == (data["verdict"] == "refuse")


@pytest.mark.parametrize(("words", "says"), [
    (["--scenes", "0"], "--scenes 0"), (["--images", "29"], "--images 29"), (["--seed", "-1"], "--seed -1"),
    (["--cubes", "9", "--scenes", "1"], "n_cubes=9"), (["nowhere"], "recording nowhere"),
    (["--model", "nowhere"], "nowhere"),
])
def test_wrong_use_is_refused_by_name(words, says, capsys, tmp_path):
    if "--cubes" in words:
        pytest.importorskip("pybullet")
    assert ssi(tmp_path, *words)[0] == 2
    assert says in capsys.readouterr().err


def test_an_empty_folder_and_too_few_pictures_are_refused(tmp_path, capsys):
    (tmp_path / "none").mkdir()
    assert ssi(tmp_path, tmp_path / "none")[0] == 2 and "holds no picture" in capsys.readouterr().err
    assert ssi(tmp_path, pictures(tmp_path / "few", noisy(3)))[0] == 2
    assert "scene 0 has 3 images" in capsys.readouterr().err


def test_accuracy_counts_what_is_missed_and_what_is_not_there():
    at = lambda x, y, p=0.9: Detection(np.array([x, y, 0.02]), 0.0, p, 0.002)  # noqa: E731
    images = [Seen((at(0.502, 0.0), at(0.7, 0.0), at(0.6, 0.1, 0.3))), Seen(())]
    found = accuracy([(images, np.array([[0.5, 0.0], [0.6, 0.1]]))])
    assert (found.objects, found.missed, found.false) == (4, 3, 1) and found.median_mm == pytest.approx(2.0)
    assert accuracy([([Seen(())], np.zeros((0, 2)))]).median_mm is None


def test_a_report_without_anything_measured_says_so():
    page = markdown({
        "verdict": "", "causes": [], "scenes": 1, "images": 30, "signals": {}, "not_measured": ["pose"],
        "feature_range": None, "accuracy": None, "gate": {"good_below": 0.05, "refuses_above": 0.15}, "source": {},
    })
    assert "nothing measured" in page and "| pose | | | | 0 | not measured |" in page
