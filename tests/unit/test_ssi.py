"""Stability index: known spreads come out as defined, objects are followed, the gate speaks, bad input is refused."""
import numpy as np
import pytest

from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError
from steadyhand.types import Detection, Mode, RobotState
from steadyhand_perception import ssi
from steadyhand_perception.ssi import Seen, SsiConfig, report
from steadyhand_perception.ssi_live import EVERY, ROBOT_AGE_MAX_S, SETTLING, LiveSsi, may_be_measured, unhidden

SPOTS = ((0.45, -0.10), (0.55, 0.0), (0.60, -0.2))


def scene(rng, n=40, spots=SPOTS, xy_std=0.0, yaw_std=0.0, presence=0.99, features=None, defect=None, yaw=0.3):
    """N images of the same objects."""
    images = []
    for _ in range(n):
        objects = tuple(
            Detection(np.array([*(np.array(s) + rng.normal(0, xy_std, 2)), 0.02]), yaw + rng.normal(0, yaw_std),
                      presence, 0.002, defect and defect(rng))
            for s in spots
        )
        images.append(Seen(objects, features(rng) if features else None))
    return images


def test_the_index_is_the_spread_over_the_working_range():
    rng = np.random.default_rng(1)
    scenes = [scene(rng, 400, xy_std=0.007, yaw_std=0.0785, defect=lambda r: 0.5 + r.normal(0, 0.02)) for _ in range(5)]
    found = report(scenes).signals
    assert found["pose"].p50 == pytest.approx(0.007 / 0.14, rel=0.1)  # the tray's half width
    assert found["yaw"].p50 == pytest.approx(0.0785 / (np.pi / 4), rel=0.1)
    assert found["defect"].p50 == pytest.approx(0.02, rel=0.1)
    assert found["presence"].worst == 0.0 and "features" not in found
    assert (found["pose"].n, found["pose"].verdict) == (15, "fair")


def test_a_yaw_on_the_seam_is_as_steady_as_any():
    steady = report([scene(np.random.default_rng(2), yaw_std=0.01, yaw=0.3)])
    seam = report([scene(np.random.default_rng(2), yaw_std=0.01, yaw=np.pi / 4)])
    assert seam.signals["yaw"].p95 == pytest.approx(steady.signals["yaw"].p95)


def test_an_object_that_comes_and_goes_is_refused_by_name():
    rng = np.random.default_rng(3)
    images = scene(rng)
    images = [Seen(i.objects[: 3 if k % 2 else 2]) for k, i in enumerate(images)]
    found = report([images])
    assert found.signals["presence"].worst == pytest.approx(0.99 / 2) and found.verdict == "refuse"
    p95 = found.signals["presence"].p95
    assert found.causes == (f"perception unstable: SSI of presence is {p95:.3f}, at most 0.15",)


def test_an_object_that_moves_away_is_another_one():
    images = scene(np.random.default_rng(4), 20, SPOTS[:1]) + scene(np.random.default_rng(4), 20, SPOTS[1:2])
    found = ssi.follow(images, 0.04)
    assert len(found) == 2 and all((o.presence > 0).sum() == 20 for o in found)


def test_two_detections_of_one_image_are_two_objects():
    near = ((0.50, 0.0), (0.51, 0.0))
    found = ssi.follow(scene(np.random.default_rng(5), spots=near, xy_std=0.001), 0.04)
    assert [int((o.presence > 0).sum()) for o in found] == [40, 40]


def test_features_by_their_range_and_between_scenes():
    rng = np.random.default_rng(6)
    scenes = [
        scene(rng, 100, features=lambda r, m=m: m + r.normal(0, 0.1, 16)) for m in rng.uniform(0, 1, (20, 16)) * 5.0
    ]
    found = report(scenes).signals["features"]
    assert found.p50 == pytest.approx(0.1 / 5.2, rel=0.15) and found.n == 20
    assert found.within_between == pytest.approx(0.1 / (5.0 / np.sqrt(12)), rel=0.15)
    assert "features" not in report(scenes[:1]).signals  # one scene has no range of its own
    assert report(scenes[:1], feature_range=5.0).signals["features"].p50 == pytest.approx(0.02, rel=0.1)


def test_nothing_seen_is_no_verdict():
    assert report([[Seen(())] * 30]).verdict == ""


@pytest.mark.parametrize(("make", "says"), [
    (lambda: report([[Seen(())] * 29]), "scene 0 has 29 images: give at least 30"),
    (lambda: report([]), "no scene"),
    (lambda: Seen((), np.array([1.0, np.nan])), "features of an image"),
    (lambda: Seen((Detection(np.array([0.5, np.inf, 0]), 0.0, 0.9, 0.001),)), "objects of an image"),
    (lambda: Seen((Detection(np.zeros(3), 0.0, 0.9, 0.001, np.nan),)), "objects of an image"),
    (lambda: SsiConfig(good=0.2), "SsiConfig.good = 0.2"),
    (lambda: SsiConfig(images_min=1), "images_min = 1"),
    (lambda: report([[Seen((), np.zeros(n))] * 30 for n in (3, 4)]), "dimensions"),
])
def test_bad_input_is_refused_by_name(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def settled():
    """At rest for as long as it takes."""
    live = LiveSsi()
    for _ in range(SETTLING):
        live.add(Seen(()), True)
    return live


def test_live_what_was_taken_before_the_motion_ended_does_not_count():
    live = settled()
    live.add(scene(np.random.default_rng(7), 1)[0], False)
    for image in [Seen(())] * SETTLING + scene(np.random.default_rng(7), 30):
        live.add(image, True)
    assert live.latest.verdict == "good"


def test_live_nothing_is_said_before_enough_images_at_rest():
    live = settled()
    images = scene(np.random.default_rng(7), 29, xy_std=0.2)
    for image in images:
        live.add(image, True)
    assert live.latest is None and live.causes == ()


def test_live_an_unsteady_signal_refuses_until_it_is_steady_again():
    live, rng = settled(), np.random.default_rng(8)
    for image in scene(rng, 30, spots=SPOTS[:1], presence=0.99):
        live.add(image, True)
    assert live.latest.verdict == "good"
    for k in range(20):  # a lamp that flickers
        live.add(Seen(() if k % 2 else scene(rng, 1, SPOTS[:1])[0].objects), True)
    assert live.causes and "presence" in live.causes[0]
    for image in scene(rng, 60 + EVERY, SPOTS[:1]):
        live.add(image, True)
    assert live.causes == ()


def test_live_motion_begins_it_anew():
    live, rng = settled(), np.random.default_rng(9)
    for k in range(60):
        live.add(Seen(() if k % 2 else scene(rng, 1)[0].objects), True)
    assert live.causes
    live.add(scene(rng, 1)[0], False)
    assert live.causes == () and live.latest is None


def robot(mode, at_rest=True):
    q = np.array(cell.HOME_Q_RAD)
    return RobotState(0.0, 0, 0, mode, q, 0 * q, q, 0 * q, 0.06, 0.06, at_rest)


@pytest.mark.parametrize("mode", Mode)
def test_live_only_while_the_arm_is_known_to_rest_and_is_not_armed(mode):
    free = mode in (Mode.STOPPED, Mode.REST_UNKNOWN)
    assert may_be_measured(robot(mode), 0.1) is free
    assert not may_be_measured(robot(mode, at_rest=False), 0.1)
    assert not may_be_measured(robot(mode), ROBOT_AGE_MAX_S + 0.01) and not may_be_measured(None, 0.0)


def test_live_what_the_arm_hides_in_part_is_left_out():
    camera_m, cube = np.array([1.05, -0.10, 0.85]), lambda x, y: Detection(np.array([x, y, 0.02]), 0.0, 0.9, 0.002)
    q = kinematics.ik_near(kinematics.tool_down(0.5, -0.1, 0.05, 0.0), cell.HOME_Q_RAD)
    objects = (cube(0.5, -0.1), cube(0.5, 0.03), cube(0.63, -0.1))
    assert unhidden(objects, q, camera_m) == objects[1:]
    assert unhidden(objects, cell.HOME_Q_RAD, camera_m) == objects


def test_live_figures_are_for_diagnostics():
    live = settled()
    assert live.figures == {}
    for image in scene(np.random.default_rng(10), 30, xy_std=0.0014):
        live.add(image, True)
    assert live.figures["ssi_pose"] == pytest.approx(0.01, rel=0.4) and set(live.figures) == {
        "ssi_pose", "ssi_yaw", "ssi_presence",
    }
