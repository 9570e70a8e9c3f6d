"""What the splits may show: disjoint, reproducible; clutter and scratches where they belong."""
import numpy as np
import pytest

pytest.importorskip("tomllib", reason="training needs Python 3.11")
from policies.training.perception.dataset import scene_of
from policies.training.perception.looks import SECTORS, TABLE_BRIGHTNESS, light_setup, perturbed, scene_look, splits
from policies.training.perception.scenes import sample_scene
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim.look import DISTRACTOR_SHAPES, SPLITS
from steadyhand_sim.textures import FAMILIES, SIZE_PX, texture


def looks_of(split: str, n: int = 60):
    for k in range(n):
        rng = np.random.default_rng([4, k])
        scene = sample_scene(rng, mode="home")
        yield scene, scene_look(rng, split, scene, k)


def sector(direction) -> int:
    return int(np.arctan2(direction[1], direction[0]) / (2 * np.pi) % 1.0 * SECTORS)


def test_the_splits_share_no_light_no_table_no_pattern_and_test_has_distractors_of_its_own():
    own = splits()
    for name in ("azimuth_sectors", "table_bands", "textures"):
        parts = [set(own[split][name]) for split in SPLITS]
        assert sum(map(len, parts)) == len(set.union(*parts)) and all(parts)
    assert not set(own["test"]["distractors"]) & set(own["train"]["distractors"])
    assert {f for split in SPLITS for f in own[split]["textures"]} <= set(FAMILIES)
    assert {s for split in SPLITS for s in own[split]["distractors"]} == set(DISTRACTOR_SHAPES)


@pytest.mark.parametrize("split", SPLITS)
def test_looks_keep_to_what_the_split_owns(split):
    own, (low, high), textured = splits()[split], TABLE_BRIGHTNESS, 0
    for _, look in looks_of(split):
        assert sector(look.light.direction) in own["azimuth_sectors"]
        assert int((np.mean(look.table_colour) - low) / (high - low) * SECTORS) in own["table_bands"]
        patterns = [p for p in (look.table_texture, look.tray_floor_texture) if p]
        textured += len(patterns)
        assert {family for family, _ in patterns} <= set(own["textures"])
        assert {thing.shape for thing in look.distractors} <= set(own["distractors"])
    assert textured > 40


def test_clutter_is_clear_of_cubes_and_scratches_lie_on_their_cube():
    things = scratches = 0
    for scene, look in looks_of("train"):
        for thing in look.distractors:
            if cell.TRAY.contains(thing.xy_m):
                things += 1
                assert (np.linalg.norm(scene.position_m[:, :2] - thing.xy_m, axis=1) > cell.CUBE_SIZE_M / 2).all()
        for scratch in look.scratches:
            scratches += 1
            assert scratch.cube < len(scene.position_m)
            along = np.array([np.cos(scratch.turn_rad), np.sin(scratch.turn_rad)]) * scratch.length_m / 2
            for end in (along, -along):
                assert (np.abs(scratch.xy_m + end) < cell.CUBE_SIZE_M / 2).all()
    assert things > 20 and scratches > 50


def test_a_light_set_up_is_its_number():
    assert light_setup("train", 3) == light_setup("train", 3) != light_setup("train", 4)
    assert light_setup("train", 3) != light_setup("test", 3)


def test_scenes_of_a_set_are_reproducible_and_few_set_ups_repeat():
    few = {"split": "train", "setups": 2, "counts": [3]}
    (scene, look), (again, same) = (scene_of("few", few, 5) for _ in range(2))
    np.testing.assert_array_equal(scene.position_m, again.position_m)
    assert look == same
    other_scene, other = scene_of("few", few, 7)
    assert other.light == look.light and not np.array_equal(other_scene.position_m, scene.position_m)
    assert scene_of("few", few, 6)[1].light != look.light


def test_two_sets_of_a_split_share_no_light_set_up():
    lights = [scene_of(name, {"split": "test"}, 5)[1].light for name in ("test", "inspection", "stability")]
    assert len(set(lights)) == 3


def test_renders_of_a_scene_differ_by_light_and_camera_only():
    settings = {"split": "test", "renders": 3}
    scenes, looks = zip(*(scene_of("still", settings, k) for k in range(3)))
    assert all(np.array_equal(s.position_m, scenes[0].position_m) for s in scenes)
    assert len({look.light for look in looks}) == 3 and len({look.camera_shift_m for look in looks}) == 3
    assert looks[0].scratches == looks[2].scratches and looks[0].table_texture == looks[2].table_texture


def test_a_perturbation_stays_within_its_family():
    _, look = next(looks_of("test", 1))
    family = splits()["perturbation"]
    for k in range(50):
        light = perturbed(np.random.default_rng(k), look).light
        assert abs(light.ambient / look.light.ambient - 1) <= family["intensity"] + 1e-9
        turn = np.dot(light.direction, look.light.direction)
        assert turn > np.cos(family["azimuth_rad"] + family["elevation_rad"])


@pytest.mark.parametrize("family", FAMILIES)
def test_patterns_have_contrast_and_depend_on_their_seed(family):
    first, other = texture(family, 1), texture(family, 2)
    assert first.shape == (SIZE_PX, SIZE_PX) and 0.0 <= first.min() < first.max() <= 1.0
    assert np.ptp(first) > 0.05 and not np.array_equal(first, other)
    np.testing.assert_array_equal(first, texture(family, 1))


def test_unknown_patterns_are_refused():
    with pytest.raises(ConfigError, match="texture family 'marble'"):
        texture("marble", 0)
