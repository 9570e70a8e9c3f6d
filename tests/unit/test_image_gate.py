"""Messages, stamps and camera_info: what is wrong with them is named and counted, and nothing of it is looked at."""
import dataclasses
import io
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steadyhand import kinematics
from steadyhand_perception.camera_check import CameraInfo, camera_info_faults, distort, pose_disagreement
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_age import AgeConfig, ImageAge
from steadyhand_perception.image_checks import KINDS, ImageFault, image_from_compressed
from steadyhand_perception.image_gate import Frame, ImageGate
from tests.unit.test_perception_image_checks import SHAPE, names, picture

EYE = tuple(map(tuple, np.eye(4)))
CAMERA = PinholeCamera(160, 160, 376.0, 376.0, 79.5, 79.5, EYE)
SAID = CameraInfo(160, 160, (376.0, 0, 79.5, 0, 376.0, 79.5, 0, 0, 1), (0.0,) * 5, "plumb_bob")


def frame(image, stamp_s=10.0, **changes) -> Frame:
    raw = Frame(image.tobytes(), "rgb8", stamp_s, *image.shape[:2], 3 * image.shape[1])
    return dataclasses.replace(raw, **changes)


def packed(image, kind="JPEG", **options) -> bytes:
    pillow = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    pillow.fromarray(image).save(out, kind, **options)
    return out.getvalue()


def test_a_good_frame_is_admitted_and_nothing_is_counted():
    gate = ImageGate(CAMERA)
    image, faults = gate.admit(frame(picture()), 10.05)
    assert faults == () and (image == picture()).all() and not gate.faults_by_name


@pytest.mark.parametrize(
    "wrong, clock_s, name",
    [
        (frame(picture(), data=b""), 10.0, "empty"),
        (frame(picture(), height_px=0), 10.0, "empty"),
        (frame(picture(), data=picture().tobytes()[:-400]), 10.0, "size"),
        (frame(picture(), encoding="mono8"), 10.0, "encoding"),
        (frame(picture(), encoding="16UC1"), 10.0, "depth"),
        (frame(picture()[:80]), 10.0, "shape"),
        (frame(picture() // 20), 10.0, "dark"),
        (frame(picture()), 10.3, "late"),
        (frame(picture()), 9.9, "early"),
        (frame(picture(), stamp_s=0.0), 10.0, "stamp_order"),
        (frame(picture(), stamp_s=math.nan), 10.0, "stamp_order"),
    ],
)
def test_each_fault_is_named_and_counted(wrong, clock_s, name):
    gate = ImageGate(CAMERA)
    image, faults = gate.admit(wrong, clock_s)
    assert image is None and name in names(faults)
    assert gate.faults_by_name == {fault.name: 1 for fault in faults}


def test_frames_in_turn_and_the_arm_are_judged_too():
    above = np.diag([1.0, -1.0, -1.0, 1.0])
    above[:3, 3] = 0.5, -0.1, 1.2
    gate = ImageGate(dataclasses.replace(CAMERA, pose_base_link_camera=tuple(map(tuple, above))))
    rng, scene = np.random.default_rng(0), picture(0, 0.0)
    q_rad = [
        kinematics.ik_near(kinematics.tool_down(x, -0.1, 0.15, 0.0), np.array([0, -1.6, 1.8, -1.8, -1.57, 0]))
        for x in (0.5, 0.57)
    ]
    images = [(scene + rng.integers(0, 4, SHAPE)).astype(np.uint8) for _ in q_rad]
    said = [names(gate.admit(frame(image, s), s, q)[1]) for s, image, q in zip((10.0, 10.1), images, q_rad)]
    assert said == [set(), {"unmoved"}]
    said = [names(gate.admit(frame(images[1], s), s)[1]) for s in (10.2, 10.3)]
    assert said == [set(), {"frozen"}]


def test_stamps_must_advance_and_a_clock_set_back_costs_one_image():
    age = ImageAge()
    stamps = [10.0, 10.1, 10.1, 10.05, 10.2, 5.0, 5.1, 5.2]
    assert [names(age.judge_stamp(s, s + 0.01)) for s in stamps] == [
        set(), set(), {"stamp_order"}, {"stamp_order"}, set(), {"stamp_order"}, set(), set(),
    ]


def test_silence_is_stale_whatever_the_stamps_say():
    gate = ImageGate(CAMERA, AgeConfig(arrival_s=0.2))
    assert gate.silence(5.19, 5.0) == ()
    assert names(gate.silence(5.21, 5.0)) == {"stale"} and gate.faults_by_name == {"stale": 1}


@pytest.mark.parametrize("said", ["jpeg", "rgb8; jpeg compressed bgr8", "bgr8;png compressed bgr8"])
def test_compressed_images(said):
    kind = "PNG" if "png" in said else "JPEG"
    image, faults = image_from_compressed(packed(picture(), kind), said)
    assert faults == () and image.shape == SHAPE and np.abs(image.astype(int) - picture()).mean() < 6


@pytest.mark.parametrize(
    "data, said, name",
    [
        (lambda: b"", "jpeg", "empty"),
        (lambda: b"\xff\xd8 nonsense", "jpeg", "undecodable"),
        (lambda: packed(picture())[:2000], "jpeg", "half_written"),
        (lambda: packed(picture(), "PNG")[:20_000], "png", "half_written"),
        (lambda: packed(picture(), "PNG"), "jpeg", "undecodable"),
        (lambda: packed(picture()), "h264", "encoding"),
        (lambda: packed(picture()[..., 0]), "mono8; jpeg compressed", "encoding"),
        (lambda: packed(np.zeros((9, 9), np.uint16), "PNG"), "png", "depth"),
        (lambda: packed(np.zeros((9, 9), np.uint16), "PNG"), "16UC1; compressedDepth png", "depth"),
    ],
)
def test_compressed_images_that_are_none(data, said, name):
    image, faults = image_from_compressed(data(), said)
    assert image is None and names(faults) == {name}


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=300), st.text(max_size=20), st.integers(-3, 200), st.integers(-3, 200), st.integers(0, 999),
       st.booleans(), st.floats())
def test_no_message_crashes_the_gate(data, encoding, height, width, step, compressed, stamp):
    for said in (encoding, "rgb8", "jpeg", "png"):
        head = packed(picture(), "PNG")[:120] if said == "png" else b""
        image, faults = ImageGate(CAMERA).admit(Frame(head + data, said, stamp, height, width, step, compressed), 10.0)
        assert image is None and faults


def test_a_fault_that_is_no_kind_cannot_be_made():
    with pytest.raises(KeyError, match="made_up"):
        ImageFault("made_up", "")
    assert all(KINDS.values())


def test_camera_info_of_the_models_camera_is_no_fault():
    assert camera_info_faults(SAID, CAMERA) == ()
    assert camera_info_faults(dataclasses.replace(SAID, d=(), distortion_model=""), CAMERA) == ()


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"width_px": 640}, "640 x 160"),
        ({"k": (0.0,) * 9}, "no camera matrix"),
        ({"k": (math.nan,) * 9}, "no camera matrix"),
        ({"k": (380.0, 0, 79.5, 0, 376.0, 79.5, 0, 0, 1)}, r"fx by \+4.0"),
        ({"k": (376.0, 0, 78.5, 0, 376.0, 79.5, 0, 0, 1)}, "cx by -1.0"),
        ({"k": (376.0, 5.0, 79.5, 0, 376.0, 79.5, 0, 0, 1)}, "up to 1.1 px elsewhere"),
        ({"d": (-0.3, 0.1, 0, 0, 0)}, r"\): d$"),
        ({"d": (math.inf,) * 5}, "finite"),
        ({"d": (0.0,) * 3}, "3 coefficients"),
        ({"distortion_model": "equidistant"}, "equidistant"),
    ],
)
def test_camera_info_of_another_camera_is_refused_by_field(changes, said):
    (fault,) = camera_info_faults(dataclasses.replace(SAID, **changes), CAMERA)
    assert fault.name == "camera_info"
    assert re.search(said, fault.detail), fault.detail


def test_distortion_is_that_of_opencv():
    ray = np.array([0.2, 0.1])
    assert distort(ray, (0, 0, 0.1, 0.2, 0)) == pytest.approx([0.23, 0.115])
    assert distort(ray, (1.0, 0, 0, 0, 0)) == pytest.approx([0.21, 0.105])
    assert distort(ray, (1.0, 0, 0, 0, 0, 1.0, 0, 0)) == pytest.approx(ray)


@pytest.mark.parametrize("shift_m, turn_rad, off", [(0.003, 0.003, ""), (0.02, 0, "20.0 mm"), (0, 0.1, "100.0 mrad")])
def test_a_camera_that_stands_elsewhere_is_refused(shift_m, turn_rad, off):
    pose = np.eye(4)
    pose[:2, :2] = [[np.cos(turn_rad), -np.sin(turn_rad)], [np.sin(turn_rad), np.cos(turn_rad)]]
    pose[2, 3] = shift_m
    stands = np.diag([1.0, -1.0, -1.0, 1.0])
    stands[:3, 3] = 1.05, -0.1, 0.85
    camera = dataclasses.replace(CAMERA, pose_base_link_camera=tuple(map(tuple, stands)))
    said = pose_disagreement(stands @ pose, camera)
    assert (off in said) if off else said == ""
