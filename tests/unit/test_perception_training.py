"""What the training asks of the model (labels, targets, losses), what it refuses; it learns and is exported whole."""
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tomllib", reason="training needs Python 3.11")
from policies.training.perception import store
from policies.training.perception.dataset import (
    ABSENT, IGNORED, NOT_ASKED, PRESENT, labels_of, load_set, outline_pixels, shard_paths,
)
from policies.training.perception.metrics import inspection, match, summary
from policies.training.perception.scenes import STANDING_Z_M, TrainingScene, overlap, sample_scene, yaw_of
from policies.training.perception.targets import TargetMaker
from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError, ContractError
from steadyhand_perception.maps import MAPS, Grid, Peaks
from tests.unit.test_perception_maps import looking_down

CAMERA = looking_down()
SHARES = {"present_share": 0.35, "absent_share": 0.12}
ROWS = {"cubes": (8, 3), "label": (8,), "scratch": (8,), "grasp": (), "sensor": (3,)}  # of labels


def seen(cube_px, scratch_px=None, finger_px: int = 0):
    """What the simulator says is visible."""
    cube_px = np.asarray(cube_px, float)
    return SimpleNamespace(cube_px=cube_px, scratch_px=scratch_px or [0] * len(cube_px), finger_px=finger_px)


def scene_of(heights_m, held: int = -1, tilt_rad: float = 0.0) -> TrainingScene:
    n = len(heights_m)
    positions = np.column_stack([np.linspace(0.45, 0.6, n), np.linspace(-0.2, 0.0, n), heights_m])
    quaternions = np.tile([np.sin(tilt_rad / 2), 0, 0, np.cos(tilt_rad / 2)], (n, 1))
    return TrainingScene(cell.HOME_Q_RAD, 0.04, positions, quaternions, held, "home")


@pytest.mark.parametrize(
    "height_m, held, tilt_rad, visible, asked",
    [
        (STANDING_Z_M, -1, 0.0, 0.9, PRESENT),
        (STANDING_Z_M, -1, 0.0, 0.2, IGNORED),
        (STANDING_Z_M, -1, 0.0, 0.05, ABSENT),
        (STANDING_Z_M, 0, 0.0, 0.9, PRESENT),  # between the fingers, still standing
        (0.04, 0, 0.0, 0.9, IGNORED),  # just lifted
        (0.15, 0, 0.0, 0.9, ABSENT),  # carried
        (0.15, 0, 0.0, 0.2, ABSENT),
        (3 * STANDING_Z_M, -1, 0.0, 0.9, PRESENT),  # on top of another
        (3 * STANDING_Z_M, -1, 0.4, 0.9, IGNORED),  # leaning
    ],
)
def test_labels(height_m, held, tilt_rad, visible, asked):
    scene = scene_of([height_m], held, tilt_rad)
    labels = labels_of(scene, seen(visible * outline_pixels(CAMERA, scene)), set(), CAMERA, SHARES)
    assert labels.label[0] == asked
    assert (labels.label[1:] == ABSENT).all()


def test_a_cube_on_top_is_asked_where_it_appears():
    scene = scene_of([3 * STANDING_Z_M])
    labels = labels_of(scene, seen(outline_pixels(CAMERA, scene)), set(), CAMERA, SHARES)
    apparent = CAMERA.project(np.array([*labels.cubes[0, :2], STANDING_Z_M]))
    np.testing.assert_allclose(apparent, CAMERA.project(scene.position_m[0]), atol=1e-3)


def test_a_scratch_is_asked_for_where_it_shows():
    scene = scene_of([STANDING_Z_M] * 3)
    labels = labels_of(scene, seen(outline_pixels(CAMERA, scene), [9, 2, 0]), {0, 1}, CAMERA, SHARES)
    assert labels.scratch[:4].tolist() == [1, NOT_ASKED, 0, NOT_ASKED]


@pytest.mark.parametrize(
    "held, finger_px, share, asked",
    [(0, 60, 0.5, 1), (-1, 60, 0.5, 0), (0, 3, 0.5, NOT_ASKED), (-1, 3, 0.5, NOT_ASKED), (0, 60, 0.05, NOT_ASKED)],
)
def test_the_grasp_is_asked_for_where_fingers_and_cube_show(held, finger_px, share, asked):
    scene = scene_of([0.15], held)
    shown = seen(share * outline_pixels(CAMERA, scene), finger_px=finger_px)
    assert labels_of(scene, shown, set(), CAMERA, SHARES).grasp == asked


def test_outline_of_a_cube_seen_from_straight_above():
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[:3, 3] = [0.5, -0.1, 10.0 + cell.CUBE_SIZE_M]  # so far away that the top face hides the sides
    camera = type(CAMERA)(160, 160, 4000.0, 4000.0, 79.5, 79.5, tuple(map(tuple, pose.tolist())))
    position, upright = np.array([[0.5, -0.1, STANDING_Z_M]]), np.array([[0, 0, 0, 1.0]])
    scene = TrainingScene(cell.HOME_Q_RAD, 0.04, position, upright, -1, "")
    assert outline_pixels(camera, scene)[0] == pytest.approx((4000 * cell.CUBE_SIZE_M / 10) ** 2, rel=0.02)


def test_scenes_are_reproducible_and_hold_the_wanted_number():
    for n in range(cell.MAX_CUBES + 1):
        first, second = (sample_scene(np.random.default_rng([3, n]), n_tray=n) for _ in range(2))
        np.testing.assert_array_equal(first.position_m, second.position_m)
        np.testing.assert_array_equal(first.q_rad, second.q_rad)
        assert n - 1 <= len(first.position_m) <= cell.MAX_CUBES  # one may be left at an arm that cannot reach it


def test_a_carried_cube_is_in_the_gripper():
    scenes = [sample_scene(np.random.default_rng([5, k])) for k in range(150)]
    carried = [s for s in scenes if s.arm_mode == "carry" and s.held == 0]
    assert len(carried) > 10
    for scene in carried:
        tool = kinematics.pose_base_link_tool(scene.q_rad)[:3, 3]
        assert np.linalg.norm(tool - scene.position_m[0]) < 0.012


def cubes_of(scene: TrainingScene) -> np.ndarray:
    """Standing cubes in the tray, (N, 3) x, y, yaw."""
    standing = np.abs(scene.position_m[:, 2] - STANDING_Z_M) < 1e-6
    inside = np.array([cell.TRAY.contains(p) for p in scene.position_m[:, :2]], bool)
    return np.column_stack([scene.position_m[:, :2], yaw_of(scene.quaternion_xyzw)])[standing & inside]


def gap(a: np.ndarray, b: np.ndarray) -> float:
    """How far a cube can be moved towards another before they intersect, m."""
    towards = (b[:2] - a[:2]) / np.linalg.norm(b[:2] - a[:2])
    steps = np.linspace(0, 0.05, 101)
    return next((s for s in steps if overlap(np.array([*(a[:2] + s * towards), a[2]]), b)), 0.05)


def test_cubes_touch_and_never_intersect():
    touching = 0
    for k in range(12):
        cubes = cubes_of(sample_scene(np.random.default_rng([9, k]), 8, "touching", "home"))
        assert len(cubes) == 8
        pairs = [(a, b) for i, a in enumerate(cubes) for b in cubes[:i]]
        assert not any(overlap(a, b) for a, b in pairs)
        touching += sum(gap(a, b) < 0.004 for a, b in pairs if np.hypot(*(a - b)[:2]) < 0.06)
    assert touching > 24


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([0, 0, 0], [0.0399, 0, 0], True),
        ([0, 0, 0], [0.0401, 0, 0], False),
        ([0, 0, 0], [0.0480, 0, np.pi / 4], True),  # a corner reaches 28.3 mm
        ([0, 0, 0], [0.0484, 0, np.pi / 4], False),
        ([0, 0, 0], [0.0395, 0.0395, 0], True),
        ([0, 0, np.pi / 4], [0.05, 0.05, np.pi / 4], False),
    ],
)
def test_overlap_of_standing_cubes(a, b, expected):
    assert overlap(np.array(a, float), np.array(b, float)) is expected


def test_nothing_floats():
    for k in range(300):
        scene = sample_scene(np.random.default_rng([7, k]), mode="home")
        for position in scene.position_m[scene.position_m[:, 2] > STANDING_Z_M + 1e-6]:
            below = np.hypot(*(scene.position_m[:, :2] - position[:2]).T) < 0.02
            assert (below & (scene.position_m[:, 2] < position[2])).any()


def write_shards(config: dict, name: str, *sizes: int) -> None:
    for path, n in zip(shard_paths(config, name), sizes):
        images = [np.full((16, 16, 3), 90 + k, np.uint8) for k in range(n)]
        store.write_shard(path, images, {key: np.zeros((n, *shape)) for key, shape in ROWS.items()})


def settings(tmp_path, images: int, shard: int = 3) -> dict:
    return {"out": str(tmp_path), "shard_images": shard, "labels": {}, "sets": {"train": {"images": images}}}


def test_images_come_back_by_number_and_a_missing_shard_is_named(tmp_path):
    config = settings(tmp_path, 6)
    write_shards(config, "train", 3)
    with pytest.raises(ConfigError, match="train_.*_001: not there"):
        load_set(config, "train")
    assert len(load_set(config, "train", 2)) == 3
    write_shards(config, "train", 3, 3)
    images = load_set(config, "train")
    assert len(images) == 6 and images.images([4, 0])[:, 0, 0, 0].tolist() == [91, 90]
    with pytest.raises(ConfigError, match="image set 'dev'"):
        load_set(config, "dev")


def test_images_of_another_recipe_are_not_found(tmp_path):
    config = settings(tmp_path, 3)
    write_shards(config, "train", 3)
    for other in (config | {"labels": {"present_share": 0.5}}, config | {"shard_images": 2}):
        with pytest.raises(ConfigError, match="not there"):
            load_set(other, "train")


def test_a_truncated_shard_is_refused(tmp_path):
    config = settings(tmp_path, 3)
    write_shards(config, "train", 3)
    path = shard_paths(config, "train")[0].with_suffix(".bin")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ConfigError, match="its index says"):
        load_set(config, "train")


def peaks_at(*xy) -> Peaks:
    n = len(xy)
    return Peaks(np.array(xy).reshape(-1, 2), np.zeros(n), np.ones(n), np.full(n, 1e-3), np.ones(n), np.full(n, 2.0))


def test_matching_counts_misses_false_reports_and_leaves_ignored_ones_out():
    cubes = np.array([[0.45, -0.2, 0.1], [0.55, -0.1, 0.0], [0.60, 0.0, 0.0], [0.9, 0.5, 0.0]])
    label = np.array([PRESENT, PRESENT, IGNORED, PRESENT])  # the last lies outside the tray
    result = match(peaks_at([0.453, -0.2], [0.50, 0.02], [0.605, 0.0]), cubes, label)
    assert result.error_m == pytest.approx([0.003])
    assert result.yaw_error_rad == pytest.approx([0.1])
    assert (result.misses, result.false) == (1, 1)
    empty = match(peaks_at(), cubes, label)
    assert (empty.misses, empty.false, len(empty.error_m)) == (2, 0, 0)
    assert summary([result, empty])["miss_rate"] == pytest.approx(3 / 4)


def test_what_is_reported_outside_the_tray_is_left_out():
    nothing = np.zeros((0, 3)), np.zeros(0, int)
    assert match(peaks_at([0.9, -0.5]), *nothing).false == 0
    assert match(peaks_at([0.9, -0.5]), *nothing, everywhere=True).false == 1


def test_two_detections_of_one_cube_are_one_false_report():
    result = match(peaks_at([0.45, -0.2], [0.46, -0.2]), np.array([[0.45, -0.2, 0.0]]), np.array([PRESENT]))
    assert (result.misses, result.false) == (0, 1)


def test_a_missed_item_is_decided_wrongly():
    cubes = np.array([[0.45, -0.2, 0.0], [0.55, -0.1, 0.0], [0.60, 0.0, 0.0], [0.46, 0.0, 0.0]])
    result = match(peaks_at([0.45, -0.2], [0.55, -0.1]), cubes, np.full(4, PRESENT), np.array([1, 0, 1, 0]))
    found = inspection([result])  # all detections say "scratched"
    assert (found["items"], found["false_accept"], found["false_reject"], found["not_seen"]) == (4, 1, 2, 2)
    assert found["wrong_rate"] == pytest.approx(3 / 4, abs=1e-5)


def test_targets_of_a_batch():
    grid = Grid(CAMERA, 4, STANDING_Z_M)
    labels = {
        "cubes": np.array([[[0.5, -0.1, 0.0], [0.6, 0.0, 0.0], [0.45, 0.0, 0.0]]]),
        "label": np.array([[PRESENT, IGNORED, PRESENT]]),
        "scratch": np.array([[1, NOT_ASKED, 0]]), "grasp": np.array([1]),
    }
    made = TargetMaker(grid).batch(labels, np.array([0, 0]), np.array([False, True]))
    first, second, third = (tuple(np.rint(grid.cells(c[:2])[0]).astype(int)) for c in labels["cubes"][0])
    assert made.maps[0, 0][first] == 1.0 and made.keep[0][second] == 0.0 and made.keep[0][first] == 1.0
    assert (made.scratch[0][first], made.scratch[0][third]) == (1.0, 0.0)
    assert made.scratch_weight[0][first] > 0.5 and made.scratch_weight[0][third] > 0.5
    assert made.held[0][first] == 1.0 and made.held[0].sum() < 10 and made.held_keep.all()
    not_asked = TargetMaker(grid).batch(labels | {"grasp": np.array([NOT_ASKED])}, np.array([0]), np.array([False]))
    assert not not_asked.held_keep.any() and not not_asked.held.any()
    assert not made.maps[1].any() and not made.scratch_weight[1].any() and not made.held[1].any()


def outputs_like(torch, asked, logit: float = 6.0):
    """Outputs that say what is asked."""
    from policies.training.perception.network import Outputs

    maps = torch.from_numpy(asked.maps.copy())
    maps[:, 0] = torch.logit(maps[:, 0].clamp(1e-4, 1 - 1e-4))
    maps[:, 5] = -2.0
    scratch = torch.from_numpy(logit * (2 * asked.scratch[:, None] - 1))
    held = torch.logit(torch.from_numpy(asked.held).clamp(1e-4, 1 - 1e-4))
    return Outputs(maps, scratch, held.amax(dim=(1, 2))[:, None], torch.zeros(len(maps), 4), held)


def asked_of(cubes, label, scratch, grasp: int = 1):
    labels = {"cubes": np.array([cubes]), "label": [np.array(label)], "scratch": [np.array(scratch)], "grasp": [grasp]}
    return TargetMaker(Grid(CAMERA, 4, STANDING_Z_M)).batch(labels, np.array([0]), np.array([False]))


@pytest.mark.train
def test_losses_are_least_at_the_targets():
    torch = pytest.importorskip("torch")
    from policies.training.perception.losses import total_loss

    asked = asked_of([[0.5, -0.1, 0.3]], [PRESENT], [1])
    perfect = outputs_like(torch, asked)
    best, _ = total_loss(perfect, asked)
    for channel in range(MAPS - 1):
        worse = perfect.maps.clone()
        worse[:, channel] += 0.7
        assert total_loss(perfect._replace(maps=worse), asked)[0] > best
    for head in ("scratch", "held"):
        assert total_loss(perfect._replace(**{head: -getattr(perfect, head)}), asked)[0] > best + 0.5


@pytest.mark.train
def test_the_predicted_deviation_is_drawn_to_the_error_made():
    torch = pytest.importorskip("torch")
    from policies.training.perception.losses import position_loss

    error = 0.5  # length of a two-dimensional error: its likeliest deviation is error / sqrt(2)
    offset, weight = torch.zeros(1, 2, 1, 1), torch.ones(1, 1, 1)
    target = torch.tensor([error, 0.0]).reshape(1, 2, 1, 1)
    for log_ratio, sign in ((-0.2, -1), (0.0, 0), (0.2, 1)):
        log_std = torch.full((1, 1, 1), float(np.log(error / np.sqrt(2)) + log_ratio), requires_grad=True)
        position_loss(offset, target, log_std, weight).backward()
        assert np.sign(round(float(log_std.grad), 5)) == sign


@pytest.mark.train
def test_augmented_images_differ_and_show_the_object_at_its_place():
    torch = pytest.importorskip("torch")
    from policies.training.perception.augment import augment

    torch.manual_seed(0)
    image = torch.full((64, 40, 40, 3), 90, dtype=torch.uint8)
    image[:, 20:27, 8:15] = torch.tensor([220, 40, 40], dtype=torch.uint8)
    changed = augment(image, torch.tensor([[1.0, 8000.0, 1.5]]).expand(64, 3)).numpy()
    assert changed.shape == (64, 3, 40, 40) and changed.min() >= 0.0 and changed.max() <= 255.0
    assert changed.mean(axis=(1, 2, 3)).std() > 5.0
    redness = changed[:, 0] - changed[:, 1:].mean(axis=1)
    contrast = np.clip(redness - np.median(redness, axis=(1, 2), keepdims=True), 30.0, None) - 30.0
    total = contrast.sum(axis=(1, 2))
    row, column = (contrast.sum(axis=2) @ np.arange(40) / total, contrast.sum(axis=1) @ np.arange(40) / total)
    np.testing.assert_allclose(row, 23.0, atol=0.1)
    np.testing.assert_allclose(column, 11.0, atol=0.1)


@pytest.mark.train
def test_nothing_is_asked_where_a_cube_is_ignored():
    torch = pytest.importorskip("torch")
    from policies.training.perception.losses import total_loss

    cubes = [[0.5, -0.1, 0.0], [0.6, 0.0, 0.0]]
    asked = asked_of(cubes, [PRESENT, IGNORED], [NOT_ASKED, NOT_ASKED], NOT_ASKED)
    outputs = outputs_like(torch, asked)
    row, column = np.rint(Grid(CAMERA, 4, STANDING_Z_M).cells(np.array(cubes[1][:2]))[0]).astype(int)
    changed = outputs.maps.clone()
    changed[:, :, row, column] = 5.0
    other = outputs._replace(maps=changed, scratch=-outputs.scratch, held=-outputs.held)
    assert total_loss(other, asked)[0] == total_loss(outputs, asked)[0]


@pytest.mark.train
@pytest.mark.parametrize("kind", ["resnet34", "plain", "raw_pixels"])
def test_every_kind_of_network_has_the_outputs(kind):
    torch = pytest.importorskip("torch")
    from policies.training.perception.network import TrayPosesNetwork

    network = TrayPosesNetwork(kind).eval()
    with torch.no_grad():
        found = network(torch.zeros(2, 160, 160, 3, dtype=torch.uint8))
    assert [tuple(part.shape) for part in found] == [
        (2, MAPS, 40, 40), (2, 1, 40, 40), (2, 1), (2, network.feature_count), (2, 40, 40)
    ]
    with pytest.raises(ConfigError, match="network.kind='unknown'"):
        TrayPosesNetwork("unknown")


def picture_set(tmp_path, n: int = 4) -> dict:
    """A configuration whose sets `train` and `validation` hold pictures of one red square each."""
    rng, images, cubes = np.random.default_rng(0), [], np.zeros((n, 8, 3), np.float32)
    for k in range(n):
        cubes[k, 0, :2] = xy = rng.uniform([0.45, -0.15], [0.58, 0.0])
        u, v = np.rint(CAMERA.project(np.array([*xy, STANDING_Z_M]))).astype(int)
        image = np.full((160, 160, 3), 170, np.uint8)
        image[v - 7 : v + 8, u - 7 : u + 8] = [200, 40, 40]
        images.append(image)
    labels = {
        "cubes": cubes, "label": np.tile(np.int8([PRESENT] + [ABSENT] * 7), (n, 1)),
        "scratch": np.tile(np.int8([1] + [NOT_ASKED] * 7), (n, 1)), "grasp": np.zeros(n, np.int8),
        "sensor": np.tile(np.float32([1.0, 8000.0, 1.5]), (n, 1)),
    }
    labels["scratch"][::2, 0] = 0
    labels["grasp"][::2] = 1
    config = {
        "seed": 1, "out": str(tmp_path), "shard_images": n, "labels": {},
        "sets": {"train": {"images": n}, "validation": {"images": n}}, "network": {"kind": "resnet34", "width": 0.25},
        "training": {
            "set": "train", "images": n, "epochs": 3, "batch": 2, "learning_rate": 3e-3, "weight_decay": 0.0,
            "warm_up_share": 0.1, "ema": 0.5, "photometric": True, "validate_steps": 100, "validate_images": n,
        },
    }
    for name in config["sets"]:
        store.write_shard(shard_paths(config, name)[0], images, labels)
    return config


@pytest.mark.train
def test_an_interrupted_run_gives_the_same_weights(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("pybullet")
    from policies.training.perception.train import start

    config = picture_set(tmp_path)
    whole, _ = start(config, tmp_path / "whole.pt")
    for _ in range(3):
        whole.one_step()
    part, _ = start(config, tmp_path / "part.pt")
    part.one_step()
    part.save()
    part, _ = start(config, tmp_path / "part.pt")
    assert part.step == 1
    for _ in range(2):
        part.one_step()
    for one, other in zip(whole.mean.state_dict().values(), part.mean.state_dict().values()):
        assert torch.equal(one, other)
    with pytest.raises(ConfigError, match="made with seed=1, configured is 2; remove it"):
        start(config | {"seed": 2}, tmp_path / "part.pt")
    with pytest.raises(ConfigError, match="training.images=9"):
        start(config | {"training": config["training"] | {"images": 9}}, tmp_path / "none.pt")
    with torch.no_grad():
        part.network.head.out.bias.fill_(float("nan"))
    with pytest.raises(ConfigError, match="learning_rate=0.003 gives losses .*nan"):
        part.one_step()


@pytest.mark.train
def test_a_student_is_drawn_to_the_teacher_s_features(tmp_path):
    torch = pytest.importorskip("torch")
    from policies.training.perception.network import TrayPosesNetwork
    from policies.training.perception.teacher import Distillation, write_features

    images = load_set(picture_set(tmp_path), "train")
    teacher = TrayPosesNetwork(width=0.5)
    path = tmp_path / "teacher_features.npy"
    with pytest.raises(ConfigError, match="train the teacher first"):
        Distillation(path, 8)
    assert write_features(teacher, images, 4, path, stop=False) and np.load(path).shape == (4, 256)
    distillation, student = Distillation(path, 8), torch.zeros(2, 8, requires_grad=True)
    nothing = distillation.loss(student, np.array([0, 1]), torch.tensor([False, False]))
    assert float(nothing.detach()) == 0.0
    distillation.loss(student, np.array([0, 1]), torch.tensor([True, False])).backward()
    assert student.grad[0].abs().sum() > 0 and student.grad[1].abs().sum() == 0


@pytest.mark.train
def test_a_student_begins_the_same_whatever_ran_before(tmp_path):
    torch = pytest.importorskip("torch")
    pytest.importorskip("pybullet")
    from policies.training.perception.train import start

    config = picture_set(tmp_path)
    config["training"] |= {"teacher": "teacher"}
    np.save(tmp_path / "teacher_features.npy", np.random.default_rng(0).normal(size=(4, 16)).astype(np.float16))
    states = []
    for before in (0, 1):  # the arms that the same command trained first
        torch.manual_seed(before)
        states.append(start(config, tmp_path / "student.pt")[0].distillation.state_dict())
    assert states[0].keys() == {"map.weight", "map.bias"}
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


@pytest.mark.train
def test_network_learns_and_is_exported_whole(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("pybullet")
    from policies.training.perception.export import check_served, export
    from policies.training.perception.network import Outputs
    from policies.training.perception.train import run, start
    from steadyhand_perception.explain import Explainer
    from steadyhand_perception.tray_poses import TrayPoses

    config = picture_set(tmp_path)
    config["training"] |= {"epochs": 30, "photometric": False}
    training, check = start(config, tmp_path / "tray_poses.pt")
    assert run(training, check)
    assert training.curve[-1]["step"] == 60
    contract = export(config, tmp_path / "tray_poses.pt", tmp_path / "model")
    poses, image = TrayPoses(tmp_path / "model"), check.sensed(0)
    assert poses.contract.to_json() == contract.to_json() and contract.has_heads
    sight = poses.infer(image)
    truth = check.labels["cubes"][0, 0]
    nearest = min(sight.objects, key=lambda o: np.hypot(*(o.position_m[:2] - truth[:2])))
    assert np.hypot(*(nearest.position_m[:2] - truth[:2])) < 0.02
    assert 0 <= nearest.defect <= 1 and 0 <= sight.grasp_success <= 1
    heat = Explainer(tmp_path / "model").heat(image, truth[:2])
    assert heat.shape == (160, 160) and heat.max() == pytest.approx(1.0)
    with pytest.raises(ConfigError, match="kind 'depth'"):
        Explainer(tmp_path / "model").heat(image, truth[:2], "depth")
    with pytest.raises(ContractError, match="differs from the network by nan"):
        rows = Outputs(**{n: np.full((1, *shape), np.nan) for n, shape in contract.outputs.items()}, held=None)
        check_served(tmp_path / "model" / "1" / "model.onnx", image[None], rows)


@pytest.mark.train
def test_the_written_out_gradient_is_torch_s_own():
    torch = pytest.importorskip("torch")
    from policies.training.perception.explain import GradCam
    from policies.training.perception.network import CONTEXT, LAYERS, PYRAMID, TrayPosesNetwork

    torch.manual_seed(0)
    network = TrayPosesNetwork()
    for module in network.head.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for name, low, high in (("weight", 0.5, 1.5), ("bias", -0.2, 0.2), ("running_var", 0.5, 2.0)):
                torch.nn.init.uniform_(getattr(module, name), low, high)
    for layer in (network.head.context_to_cells, network.head.out):
        torch.nn.init.normal_(layer.weight, std=0.1)
    cam = GradCam(network)
    top = torch.randn(2, PYRAMID, 10, 10, requires_grad=True)
    context, score = torch.rand(2, CONTEXT), torch.randn(2, LAYERS, 10, 10)
    (network.head(top, context) * score).sum().backward()
    with torch.no_grad():
        torch.testing.assert_close(cam.gradient(top, context, score), top.grad, atol=1e-5, rtol=1e-4)
