"""Each image fault is named, and a good picture has none."""
import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand_perception.frozen_frames import FrozenFrames
from steadyhand_perception.image_checks import ImageCheckConfig, check_image, image_from_bytes

SHAPE = (160, 160, 3)


def picture(seed: int = 0, noise_dn: float = 2.0) -> np.ndarray:
    """A table with a bright tray and dark things on it, with sensor noise."""
    rng = np.random.default_rng(seed)
    image = np.full(SHAPE, 90.0)
    image[40:130, 20:140] = 190
    for _ in range(5):
        row, column = rng.integers(45, 110), rng.integers(25, 120)
        image[row : row + 14, column : column + 14] = rng.uniform(20, 150, 3)
    return np.clip(image + rng.normal(0, noise_dn, SHAPE), 0, 255).astype(np.uint8)


def names(faults) -> set[str]:
    return {fault.name for fault in faults}


@pytest.mark.parametrize("seed", range(5))
def test_a_picture_has_no_fault(seed):
    assert check_image(picture(seed), SHAPE) == ()


@pytest.mark.parametrize("gain", [0.3, 1.3])
def test_dim_and_bright_pictures_pass(gain):
    assert check_image(np.clip(picture() * gain, 0, 255).astype(np.uint8), SHAPE) == ()


@pytest.mark.parametrize(
    "image, fault",
    [
        (None, "empty"),
        (np.zeros((0, 160, 3), np.uint8), "empty"),
        (picture().astype(np.float32), "dtype"),
        (picture()[:, :80], "shape"),
        (picture()[..., 0], "shape"),
        (np.random.default_rng(0).normal(3, 2, SHAPE).clip(0, 255).astype(np.uint8), "dark"),
        (np.full(SHAPE, 255, np.uint8), "saturated"),
        (np.full(SHAPE, 120, np.uint8), "covered"),
        (np.random.default_rng(0).normal(120, 3, SHAPE).astype(np.uint8), "covered"),
        (np.random.default_rng(0).integers(0, 256, SHAPE, dtype=np.uint8), "noise"),
    ],
)
def test_fault_is_named(image, fault):
    assert fault in names(check_image(image, SHAPE))


@pytest.mark.parametrize("rows", [slice(0, 40), slice(100, 160)])
@pytest.mark.parametrize("value", [0, 128])
def test_half_written_frame(rows, value):
    image = picture()
    image[rows] = value
    assert "half_written" in names(check_image(image, SHAPE))


def test_a_few_black_rows_at_an_edge_are_no_fault():
    image = picture()
    image[:5] = 0
    assert check_image(image, SHAPE) == ()


def test_an_overexposed_table_is_no_half_written_frame():
    image = picture()
    image[:40] = 255
    assert check_image(image, SHAPE) == ()


def test_frozen_frames_are_noticed_and_a_static_scene_is_not():
    frozen = FrozenFrames()
    assert [names(frozen.check(picture(3))) for _ in range(4)] == [set(), set(), {"frozen"}, {"frozen"}]
    assert frozen.check(picture(4)) == ()
    noise = [np.random.default_rng(k).integers(-1, 2, SHAPE) for k in range(5)]
    static = [np.clip(picture(3).astype(int) + n, 0, 255).astype(np.uint8) for n in noise]
    assert all(frozen.check(image) == () for image in static)


def test_image_from_bytes_reads_what_a_message_holds():
    image = picture()
    same, faults = image_from_bytes(image.tobytes(), 160, 160, "rgb8")
    assert faults == () and (same == image).all()
    swapped, faults = image_from_bytes(image[..., ::-1].tobytes(), 160, 160, "bgr8")
    assert faults == () and (swapped == image).all()
    padded = np.concatenate([image.reshape(160, 480), np.zeros((160, 32), np.uint8)], axis=1)
    same, faults = image_from_bytes(padded.tobytes(), 160, 160, "rgb8", 512)
    assert faults == () and (same == image).all()


@pytest.mark.parametrize(
    "data, height, width, encoding, step, fault",
    [
        (b"", 160, 160, "rgb8", 0, "empty"),
        (b"abc", 0, 160, "rgb8", 0, "empty"),
        (b"abc", 1, -1, "rgb8", 0, "empty"),
        (bytes(160 * 480 - 1), 160, 160, "rgb8", 0, "size"),
        (bytes(160 * 480), 160, 160, "rgb8", 100, "size"),
        (bytes(160 * 160), 160, 160, "mono8", 160, "encoding"),
    ],
)
def test_malformed_messages_are_refused(data, height, width, encoding, step, fault):
    image, faults = image_from_bytes(data, height, width, encoding, step)
    assert image is None and names(faults) == {fault}


@pytest.mark.parametrize(
    "field, value",
    [("dark_mean", np.nan), ("flat_std", 0), ("saturated_share", 1.5), ("half_rows_share", 0)],
)
def test_config_refuses(field, value):
    with pytest.raises(ConfigError, match=field):
        ImageCheckConfig(**{field: value})
