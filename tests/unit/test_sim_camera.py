"""The simulated camera: reproducible, geometrically right, looks of the splits disjoint."""
import numpy as np
import pytest

pytest.importorskip("pybullet")
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim import look as looks
from steadyhand_sim import scene
from steadyhand_sim.camera import CameraConfig, Renderer
from steadyhand_sim.snapshot import Snapshot

pytestmark = pytest.mark.sim


def _snapshot(seq=1, n=4, seed=0, **kwargs):
    cubes = scene.sample_cubes(np.random.default_rng(seed), n)
    return Snapshot(seq, 0.0, cell.HOME_Q_RAD, 0.08, cubes.position_m, cubes.quaternion_xyzw, **kwargs)


@pytest.fixture(scope="module")
def renderer():
    r = Renderer()
    yield r
    r.close()


def test_same_snapshot_same_bytes_other_seq_other_noise(renderer):
    first, again, other = renderer.draw(_snapshot(1)), renderer.draw(_snapshot(1)), renderer.draw(_snapshot(2))
    assert first.shape == (160, 160, 3) and first.dtype == np.uint8
    np.testing.assert_array_equal(first, again)
    assert (first != other).mean() > 0.2
    assert np.abs(first.astype(int) - other).max() < 60


def test_another_renderer_draws_the_same(renderer):
    other = Renderer()
    other.set_look(looks.sample_look(5, "train"))
    other.draw(_snapshot(3, n=8, seed=9))
    other.set_look(looks.Look())
    np.testing.assert_array_equal(renderer.draw(_snapshot(4)), other.draw(_snapshot(4)))
    other.close()


def test_every_cube_of_the_tray_is_in_view_and_where_project_says(renderer):
    snapshot = _snapshot(n=8, seed=3)
    renderer.set_look(looks.Look())
    assert (renderer.draw_labelled(snapshot).cube_px > 200).all()
    # A cube drawn alone, against the same scene without it: the changed pixels surround the projected centre.
    empty = renderer.draw_clean(Snapshot(0, 0.0, cell.HOME_Q_RAD, 0.08, np.zeros((0, 3)), np.zeros((0, 4))))
    for position, quaternion in zip(snapshot.position_m, snapshot.quaternion_xyzw):
        alone = Snapshot(0, 0.0, cell.HOME_Q_RAD, 0.08, position[None], quaternion[None])
        changed = np.abs(renderer.draw_clean(alone).astype(int) - empty).max(axis=2) > 40
        v, u = np.nonzero(changed)
        np.testing.assert_allclose([u.mean(), v.mean()], renderer.camera.project(position)[0], atol=2.5)


def test_unproject_inverts_project():
    camera = CameraConfig()
    points = np.random.default_rng(0).uniform([0.38, -0.26, 0.02], [0.66, 0.08, 0.02 + 1e-9], (20, 3))
    np.testing.assert_allclose(camera.unproject(camera.project(points), 0.02), points, atol=1e-6)


def test_tray_with_margin_is_in_view():
    camera = CameraConfig()
    corners = [(x, y, z) for x in (cell.TRAY.x_min_m, cell.TRAY.x_max_m) for y in (cell.TRAY.y_min_m, cell.TRAY.y_max_m)
               for z in (0.0, 0.04)]
    pixels = camera.project(np.array(corners))
    assert pixels.min() > 3 and pixels[:, 0].max() < camera.width - 4 and pixels[:, 1].max() < camera.height - 4


def test_blanked_camera_shows_noise_only(renderer):
    image = renderer.draw(_snapshot(camera="blank"))
    assert image.max() < 20 and image.std() > 0


@pytest.mark.parametrize("split", looks.SPLITS)
def test_light_and_table_come_from_the_ranges_the_split_owns(split):
    for seed in range(60):
        look = looks.sample_look(seed, split)
        assert look == looks.sample_look(seed, split)
        azimuth = np.arctan2(look.light.direction[1], look.light.direction[0]) / (2 * np.pi) % 1.0
        assert looks.owner_of(azimuth) == split


@pytest.mark.parametrize("split", looks.SPLITS)
def test_the_table_is_as_bright_as_the_split_owns_but_for_its_hue(split):
    brightness = [np.mean(looks.sample_look(seed, split).table_colour) for seed in range(100)]
    mine = [looks.owner_of((b - 0.2) / 0.65, 12) == split for b in brightness]
    assert np.mean(mine) > 0.7  # any brightness: 4/6 for train, 1/6 for the others


def test_looks_shift_and_turn_the_camera_by_millimetres_and_milliradians():
    drawn = [looks.sample_look(seed, "train") for seed in range(200)]
    for values in ([look.camera_shift_m for look in drawn], [look.camera_turn_rad for look in drawn]):
        assert np.std(values, axis=0) == pytest.approx(np.full(3, 0.0015), rel=0.2)


def test_the_true_pose_of_the_camera_is_the_look_s(renderer):
    look = looks.Look(camera_shift_m=(0.001, -0.002, 0.003), camera_turn_rad=(0.0, 0.0, 0.01))
    renderer.set_look(look)
    nominal, true = renderer.camera.pose_base_link_camera, renderer.pose_base_link_camera
    renderer.set_look(looks.Look())
    np.testing.assert_allclose(true[:3, 3] - nominal[:3, 3], look.camera_shift_m, atol=1e-12)
    turn = nominal[:3, :3].T @ true[:3, :3]
    c, s = np.cos(0.01), np.sin(0.01)
    np.testing.assert_allclose(turn, [[c, -s, 0], [s, c, 0], [0, 0, 1]], atol=1e-12)


def test_unknown_split_and_bad_size_are_refused():
    with pytest.raises(ConfigError, match="holdout"):
        looks.sample_look(0, "holdout")
    with pytest.raises(ConfigError, match="camera size"):
        CameraConfig(width=0)
    for change in ({"eye_m": (0.5, 0.0, float("nan"))}, {"eye_m": (0.5, 0.0, 1.0), "look_at_m": (0.5, 0.0, 0.0)}):
        with pytest.raises(ConfigError, match="eye_m"):
            CameraConfig(**change)


def test_scratches_patterns_and_distractors_are_drawn_and_taken_away(renderer):
    snapshot = _snapshot(n=4, seed=3)
    renderer.set_look(looks.Look())
    plain = renderer.draw_labelled(snapshot)
    scratch = looks.Scratch(2, (0.0, 0.0), 0.03, 0.004, 0.5, (1.0, 1.0, 1.0))
    things = tuple(
        looks.Distractor((0.40 + 0.07 * k, 0.0), (0.012, 0.008, 0.006), 0.3, (0.1, 0.9, 0.1), shape)
        for k, shape in enumerate(looks.DISTRACTOR_SHAPES)
    )
    renderer.set_look(looks.Look(distractors=things, scratches=(scratch,), tray_floor_texture=("checks", 1)))
    marked = renderer.draw_labelled(snapshot)
    green = (marked.image[..., 1] > marked.image[..., [0, 2]].max(axis=2) + 50).sum()
    assert green > 80
    assert marked.scratch_px[2] >= 5 and marked.scratch_px.sum() == marked.scratch_px[2]
    np.testing.assert_array_equal(marked.cube_px, plain.cube_px)
    renderer.set_look(looks.Look(tray_floor_texture=("checks", 2)))
    assert (renderer.draw_labelled(snapshot).image != marked.image).any(axis=2).mean() > 0.1
    renderer.set_look(looks.Look())
    np.testing.assert_array_equal(renderer.draw_labelled(snapshot).image, plain.image)
    with pytest.raises(ConfigError, match="distractor shape 'cone'"):
        renderer.set_look(looks.Look(distractors=(looks.Distractor((0.5, 0.0), (0.01,) * 3, 0.0, (0, 0, 0), "cone"),)))
    renderer.set_look(looks.Look())
