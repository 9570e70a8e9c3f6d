"""A camera that shows nothing new is noticed, with fresh noise on it too; a static scene under sensor noise is not."""
import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand_perception.frozen_frames import FrozenConfig, FrozenFrames
from tests.unit.test_perception_image_checks import SHAPE, names, picture

LEARNT = 60  # frames after which the noise of the camera is known
SCENE = picture(3, 0.0).astype(np.float32)


def noisy(rng, scene, sd=2.0) -> np.ndarray:
    return np.clip(np.rint(scene + sd * rng.standard_normal(scene.shape, dtype=np.float32)), 0, 255).astype(np.uint8)


def live(rng, scene=SCENE, sd=2.0) -> np.ndarray:
    """A frame of a sensor whose noise grows with the light, as a real one's does."""
    return noisy(rng, scene, np.sqrt(0.25 * sd**2 + 0.75 * sd**2 * scene / 128))


def learnt(rng, scene=SCENE, sd=2.0, frames=LEARNT) -> tuple[FrozenFrames, np.ndarray]:
    """After a static scene without any alarm: the checks, and the last frame."""
    frozen = FrozenFrames()
    for _ in range(frames):
        image = live(rng, scene, sd)
        assert frozen.check(image) == ()
    return frozen, image


def test_the_same_bytes_are_frozen_until_they_change():
    rng = np.random.default_rng(0)
    frozen, image = FrozenFrames(), live(rng)
    assert [names(frozen.check(image)) for _ in range(4)] == [set(), set(), {"frozen"}, {"frozen"}]
    assert frozen.check(live(rng)) == ()


@pytest.mark.parametrize("period", [2, 7])
def test_a_loop_of_frames_is_replayed(period):
    rng = np.random.default_rng(0)
    frozen, loop = FrozenFrames(), [live(rng) for _ in range(period)]
    assert all(frozen.check(image) == () for image in loop)
    assert [names(frozen.check(image)) for image in loop + loop][:3] == [set(), {"replayed"}, {"replayed"}]


@pytest.mark.parametrize("sensor_sd", [0.8, 3.0])
@pytest.mark.parametrize("added", [0.3, 1.0, 2.5])  # deviation of the fresh noise over the sensor's
def test_fresh_noise_on_a_frozen_picture_is_seen_by_the_third_frame_and_for_good(sensor_sd, added):
    rng = np.random.default_rng(1)
    frozen, image = learnt(rng, sd=sensor_sd)
    found = [names(frozen.check(noisy(rng, image, added * sensor_sd))) for _ in range(40)]
    assert found[2:] == [{"noise_on_frozen"}] * 38
    back = [names(frozen.check(live(rng, sd=sensor_sd))) for _ in range(12)]
    assert back[3:] == [set()] * 9  # as soon as no frozen frame is among the last three


def test_noise_too_strong_to_see_through_is_a_fault_by_itself():
    rng = np.random.default_rng(1)
    frozen, image = learnt(rng)
    assert all(frozen.check(noisy(rng, image, 25.0)) for _ in range(30))


def test_a_picture_that_froze_while_the_arm_covered_a_third_of_it():
    rng = np.random.default_rng(2)
    frozen, _ = learnt(rng)
    for k in range(30):
        scene = SCENE.copy()
        scene[:, 2 * k : 2 * k + 50] = rng.uniform(40, 200, (160, 50, 1))
        image = live(rng, scene)
        assert frozen.check(image) == ()
    found = [names(frozen.check(noisy(rng, image, 2.0))) for _ in range(20)]
    assert found[2:] == [{"noise_on_frozen"}] * 18


def change_of_light(scene, k):
    return scene * (0.7 if k > 30 else 1.0)


def slow_sunrise(scene, k):
    return scene * (1 + 0.002 * k)


def flicker(scene, k):
    return scene * (1 + 0.04 * (-1) ** k)


def moving_thing(scene, k):
    scene = scene.copy()
    scene[20:140, k : k + 60] = 60 + 10 * np.arange(60)[None, :, None] % 120
    return scene


def moved_thing(scene, k):
    return moving_thing(scene, 40 * (k > 30))


@pytest.mark.parametrize("change", [change_of_light, slow_sunrise, flicker, moving_thing, moved_thing])
def test_what_changes_in_a_live_picture_is_no_alarm(change):
    rng = np.random.default_rng(3)
    frozen, _ = learnt(rng)
    assert [names(frozen.check(live(rng, change(SCENE, k)))) for k in range(50)] == [set()] * 50


def touched_camera(scene, k):
    return 0.7 * scene + 0.3 * np.roll(scene, 1, axis=1) if k > 30 else scene


@pytest.mark.parametrize("change", [change_of_light, touched_camera])
@pytest.mark.parametrize("grain", [4.0, 8.0])
def test_a_grained_table_in_another_light_or_from_another_place_is_no_alarm(change, grain):
    """Its shared residuals are as large as noise, in every block."""
    rng = np.random.default_rng(6)
    grains = grain * rng.standard_normal((160, 160, 1))
    scene = (SCENE / 4 + 100 + grains + np.roll(grains, 1, axis=0)).clip(0, 255).astype(np.float32)
    frozen, _ = learnt(rng, scene)
    assert [names(frozen.check(live(rng, change(scene, k)))) for k in range(28, 40)] == [set()] * 12


@pytest.mark.parametrize("rows", [slice(0, 40), slice(100, 160)])
def test_rows_left_over_from_the_frame_before(rows):
    rng = np.random.default_rng(4)
    frozen, before = learnt(rng)
    image = live(rng)
    image[rows] = before[rows]
    assert names(frozen.check(image)) == {"half_written"}


@pytest.mark.parametrize("smoothing, said", [(0.4, "smooths"), (0.7, "still")])
def test_a_camera_that_smooths_its_noise_in_time_is_not_judged_and_says_so(smoothing, said):
    rng = np.random.default_rng(5)
    frozen, noise = FrozenFrames(), np.zeros(SHAPE, np.float32)
    for _ in range(100):
        noise = smoothing * noise + 2.0 * rng.standard_normal(SHAPE, dtype=np.float32)
        assert frozen.check(np.clip(np.rint(SCENE + noise), 0, 255).astype(np.uint8)) == ()
    assert said in frozen.blind


def test_a_camera_without_noise_is_not_judged_and_says_so():
    frozen = FrozenFrames()
    for k in range(100):
        image = SCENE.astype(np.uint8)
        image[0, 0] = k  # something new, no noise
        assert frozen.check(image) == ()
    assert "shows noise" in frozen.blind


def test_another_size_begins_anew():
    rng = np.random.default_rng(7)
    frozen, _ = learnt(rng)
    assert frozen.blind == ""
    assert frozen.check(live(rng, SCENE[:96])) == ()
    assert "learning" in frozen.blind
    assert frozen.check(live(rng, SCENE[:8])) == () and "small" in frozen.blind


def test_large_pictures_are_sampled():
    rng = np.random.default_rng(8)
    frozen, image = learnt(rng, np.tile(SCENE, (2, 3, 1)), frames=55)
    assert names([fault for _ in range(3) for fault in frozen.check(noisy(rng, image))]) == {"noise_on_frozen"}


@pytest.mark.parametrize(
    "field, value", [("frames", 2), ("memory_frames", 0), ("share", 1.5), ("noise_min_dn2", np.nan)]
)
def test_config_refuses(field, value):
    with pytest.raises(ConfigError, match=field):
        FrozenConfig(**{field: value})
