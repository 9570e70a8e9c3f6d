"""Tracks, trust and refusals of the estimator, image by image."""
import dataclasses

import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError
from steadyhand.estimator import Estimator, EstimatorConfig
from steadyhand.types import Detection, Detections, EstimateMode, Mode, RobotState

PERIOD_S = 0.05
CENTRE = np.array([*cell.TRAY.centre_m, 0.02])


class Camera:
    """Images of given objects with noise, on a clock of their own."""

    def __init__(self, estimator: Estimator, noise_m: float = 0.0015, seed: int = 0):
        self.estimator, self.noise_m, self.rng = estimator, noise_m, np.random.default_rng(seed)
        self.now_s, self.seq = 10.0, 0

    def show(self, *objects, images: int = 1):
        """Objects are (position (3,), yaw); returns the estimate after the last image."""
        for _ in range(images):
            self.now_s += PERIOD_S
            self.seq += 1
            seen = tuple(
                Detection(p + self.rng.normal(0, self.noise_m, 3), yaw + self.rng.normal(0, 0.02), 0.95, 0.002)
                for p, yaw in objects
            )
            self.estimator.on_detections(Detections(100 + self.now_s, self.seq, f"o{self.seq}", seen), self.now_s)
        return self.estimator.estimate(self.now_s)

    def wait(self, seconds: float):
        self.now_s += seconds
        return self.estimator.estimate(self.now_s)


@pytest.fixture
def camera() -> Camera:
    return Camera(Estimator())


def robot(position_m, width_m=0.062, commanded_m=0.062, stamp_s=0.0, yaw=0.0) -> RobotState:
    q = kinematics.ik_near(kinematics.tool_down(*position_m, yaw), cell.HOME_Q_RAD)
    return RobotState(stamp_s, 0, 1, Mode.ARMED_AUTO, q, np.zeros(6), q, np.zeros(6), width_m, commanded_m, True)


def test_a_track_is_born_after_three_images(camera):
    assert len(camera.show((CENTRE, 0.1), images=2).objects) == 0
    [o] = camera.show((CENTRE, 0.1)).objects
    assert np.linalg.norm(o.position_m - CENTRE) < 0.004 and abs(o.yaw_rad - 0.1) < 0.05


def test_the_stated_uncertainty_covers_the_error():
    """Normalised squared error of x and y over many tracks: above 1 the stated standard deviation would be too small."""
    squared = []
    for seed in range(40):
        [o] = Camera(Estimator(), noise_m=0.002, seed=seed).show((CENTRE, 0.0), images=12).objects
        squared += list(((o.position_m - CENTRE)[:2] / o.position_std_m) ** 2)
    assert 0.05 < np.mean(squared) < 1.0


def test_the_track_beats_single_images(camera):
    """Position error of the track against that of one image, over a run of noise."""
    camera.noise_m = 0.004
    camera.show((CENTRE, 0.0), images=20)
    errors = [np.linalg.norm((camera.show((CENTRE, 0.0)).objects[0].position_m - CENTRE)[:2]) for _ in range(100)]
    assert np.mean(errors) < 0.5 * 0.004 * np.sqrt(np.pi / 2)


def test_one_wild_image_changes_little(camera):
    before = camera.show((CENTRE, 0.0), images=10).objects[0]
    camera.noise_m = 0.0
    after = camera.show((CENTRE + [0.006, 0, 0], 0.7)).objects[0]
    assert np.linalg.norm(after.position_m - before.position_m) < 0.001
    assert abs(after.yaw_rad - before.yaw_rad) < 0.03


def test_yaw_is_tracked_across_its_seam(camera):
    seam = np.pi / 4
    estimate = camera.show((CENTRE, seam), images=30)  # measured now just below pi/4, now just above -pi/4
    error = np.remainder(estimate.objects[0].yaw_rad - seam + np.pi / 4, np.pi / 2) - np.pi / 4
    assert abs(error) < 0.03
    assert -np.pi / 4 < estimate.objects[0].yaw_rad <= np.pi / 4


def test_identities_are_kept_between_neighbours(camera):
    a, b = CENTRE, CENTRE + [0.085, 0.0, 0.0]
    first = {o.object_id: o.position_m for o in camera.show((a, 0.0), (b, 0.3), images=5).objects}
    later = {o.object_id: o.position_m for o in camera.show((b, 0.3), (a, 0.0), images=20).objects}
    assert first.keys() == later.keys() and len(first) == 2
    assert all(np.linalg.norm(first[i] - later[i]) < 0.005 for i in first)


def test_a_visible_object_that_is_gone_dies(camera):
    camera.show((CENTRE, 0.0), images=5)
    assert len(camera.show(images=4).objects) == 1  # a few misses are noise
    assert len(camera.show(images=6).objects) == 0


def test_an_object_behind_the_arm_is_kept_and_its_age_grows(camera):
    camera.show((CENTRE, 0.0), images=5)
    camera.estimator.on_robot(robot(CENTRE + [0, 0, 0.08]))
    estimate = camera.show(images=40)
    [o] = estimate.objects
    assert o.age_s == pytest.approx(40 * PERIOD_S)
    assert estimate.mode is EstimateMode.NOMINAL and "hidden by the arm" in estimate.reason
    camera.estimator.on_robot(robot([0.34, 0.20, 0.34]))  # the arm goes home: now it should be seen
    assert len(camera.show(images=10).objects) == 0


def test_the_object_in_the_fingers_is_no_track(camera):
    other = CENTRE + [0.1, 0.1, 0.0]
    camera.show((CENTRE, 0.0), (other, 0.0), images=5)
    for i in range(30):  # fingers close on it: the width comes to rest at the cube's size
        camera.estimator.on_robot(robot(CENTRE, width_m=0.040, commanded_m=0.0, stamp_s=0.016 * i))
    estimate = camera.show((CENTRE, 0.0), (other, 0.0), images=10)  # still seen, in the fingers
    assert [round(float(o.position_m[0]), 2) for o in estimate.objects] == [round(float(other[0]), 2)]


def test_closing_fingers_that_pass_a_cubes_width_hold_nothing(camera):
    camera.show((CENTRE, 0.0), images=5)
    for i, width in enumerate(np.arange(0.062, 0.0, -0.0024)):
        camera.estimator.on_robot(robot(CENTRE, width_m=float(width), commanded_m=0.0, stamp_s=0.016 * i))
    assert len(camera.show((CENTRE, 0.0)).objects) == 1


def test_objects_in_the_box_are_marked(camera):
    inside = np.array([*cell.BOX.centre_m, 0.02])
    assert camera.show((inside, 0.0), images=5).objects[0].in_box


def test_silence_degrades_then_loses(camera):
    assert camera.estimator.estimate(0.0).mode is EstimateMode.LOST  # nothing seen yet
    assert camera.show((CENTRE, 0.0), images=5).mode is EstimateMode.NOMINAL
    assert camera.wait(0.19).mode is EstimateMode.NOMINAL
    degraded = camera.wait(0.05)
    assert degraded.mode is EstimateMode.DEGRADED and "predicting" in degraded.reason
    std = degraded.objects[0].position_std_m
    lost = camera.wait(0.30)
    assert lost.mode is EstimateMode.LOST and lost.objects[0].position_std_m > std


def test_lost_ends_only_after_several_good_images(camera):
    camera.show((CENTRE, 0.0), images=5)
    camera.wait(1.0)
    assert [camera.show((CENTRE, 0.0)).mode for _ in range(3)] == [2, 2, 0]


def test_a_frozen_camera_is_a_lost_camera(camera):
    camera.show((CENTRE, 0.0), images=5)
    camera.noise_m = 0.0
    camera.rng = type("Still", (), {"normal": staticmethod(lambda a, b, n=None: np.zeros(n) if n else 0.0)})()
    modes = [camera.show((CENTRE, 0.0)).mode for _ in range(15)]
    assert modes[0] is EstimateMode.NOMINAL and modes[-1] is EstimateMode.LOST
    assert camera.estimator.counters["camera_frozen"] >= 10
    assert "camera frozen" in camera.estimator.estimate(camera.now_s).reason


def test_an_empty_static_tray_is_not_a_frozen_camera(camera):
    assert camera.show(images=20).mode is EstimateMode.NOMINAL


def test_old_and_repeated_images_are_refused(camera):
    camera.show((CENTRE, 0.0), images=5)
    image = Detections(100 + camera.now_s, camera.seq, "again", ())
    for stamp in (image.stamp_s, image.stamp_s - 1.0):
        camera.estimator.on_detections(dataclasses.replace(image, stamp_s=stamp), camera.now_s)
    assert camera.estimator.counters["detection_out_of_order"] == 2
    assert camera.estimator.estimate(camera.now_s).observation_id == f"o{camera.seq}"


@pytest.mark.parametrize("spoilt", [
    Detection(np.array([np.nan, 0, 0]), 0.0, 0.9, 0.002), Detection(CENTRE, np.inf, 0.9, 0.002),
    Detection(CENTRE, 0.0, np.nan, 0.002), Detection(CENTRE, 0.0, 0.9, -1.0), Detection(np.zeros(2), 0.0, 0.9, 0.002),
])
def test_what_is_not_finite_is_refused(camera, spoilt):
    camera.show((CENTRE, 0.0), images=5)
    camera.now_s += PERIOD_S
    camera.estimator.on_detections(Detections(100 + camera.now_s, 99, "bad", (spoilt,)), camera.now_s)
    assert camera.estimator.counters["detection_invalid"] == 1
    assert [f.name for f in camera.estimator.take_faults()] == ["detection_invalid"]
    assert np.isfinite(camera.estimator.estimate(camera.now_s).objects[0].position_m).all()


def test_images_that_are_old_on_arrival_count_as_old(camera):
    camera.show((CENTRE, 0.0), images=5)
    for k in range(5):
        camera.now_s += PERIOD_S
        late = Detections(100 + camera.now_s - 0.25, 99 + k, "late", ())
        camera.estimator.on_detections(late, camera.now_s, capture_age_s=0.25)
    assert camera.estimator.estimate(camera.now_s).mode is EstimateMode.DEGRADED
    assert camera.estimator.estimate(camera.now_s).image_age_s == pytest.approx(0.25)


@pytest.mark.parametrize("step_s", [-5.0, 5.0, 3600.0])
def test_a_clock_set_while_an_image_is_under_way(camera, step_s):
    camera.show((CENTRE, 0.0), images=5)
    for k in range(10):
        camera.now_s += PERIOD_S
        image = Detections(100 + camera.now_s + step_s, 99 + k, "o", (Detection(CENTRE, 0.001 * k, 0.9, 0.002),))
        camera.estimator.on_detections(image, camera.now_s, capture_age_s=max(step_s, 0.0) if k == 0 else 0.02)
        assert camera.estimator.estimate(camera.now_s).mode is EstimateMode.NOMINAL
    assert camera.estimator.estimate(camera.now_s).objects[0].age_s < 0.1


def test_the_delay_of_the_median_is_published(camera):
    assert camera.estimator.median_delay_s == 0.0
    camera.show((CENTRE, 0.1), images=8)
    assert camera.estimator.median_delay_s == pytest.approx(2 * PERIOD_S)


def test_the_medians_window_is_odd():
    with pytest.raises(ConfigError, match="median_window = 4"):
        EstimatorConfig(median_window=4)


def test_config_out_of_range_names_the_field():
    with pytest.raises(ConfigError, match="image_age_max_s"):
        EstimatorConfig(image_age_max_s=0.0)


@pytest.mark.parametrize("field", ["position_m", "yaw_rad", "presence", "position_std_m"])
@pytest.mark.parametrize("value", [1e308, -1e308, 1e4])
def test_numbers_beyond_any_cell_are_refused_by_name(camera, field, value):
    camera.show((CENTRE, 0.1), images=4)
    wrong = CENTRE + [0.0, 0.0, value] if field == "position_m" else value
    seen = dataclasses.replace(Detection(CENTRE, 0.1, 0.95, 0.002), **{field: wrong})
    camera.estimator.on_detections(Detections(200.0, 99, "o99", (seen,)), camera.now_s)
    assert camera.estimator.counters["detection_invalid"] == 1
    assert np.isfinite(camera.estimator.estimate(camera.now_s).objects[0].position_m).all()
