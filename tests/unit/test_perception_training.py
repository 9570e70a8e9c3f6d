"""What the training asks of the model (labels, targets, losses), what it refuses; it learns and is exported whole."""
import numpy as np
import pytest

from policies.training.perception.dataset import (
    ABSENT, IGNORED, PRESENT, labels_of, load_split, outline_pixels, shard_paths,
)
from policies.training.perception.metrics import match, summary
from policies.training.perception.scenes import STANDING_Z_M, TrainingScene, sample_scene
from steadyhand import cell, kinematics
from steadyhand.errors import ConfigError, ContractError
from steadyhand_perception.maps import MAPS, Grid, Peaks, encode
from tests.unit.test_perception_maps import looking_down

CAMERA = looking_down()
SHARES = {"present_share": 0.35, "absent_share": 0.12}


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
    labels = labels_of(scene, visible * outline_pixels(CAMERA, scene), CAMERA, SHARES)
    assert labels.label[0] == asked
    assert (labels.label[1:] == ABSENT).all()


def test_a_cube_on_top_is_asked_where_it_appears():
    scene = scene_of([3 * STANDING_Z_M])
    labels = labels_of(scene, outline_pixels(CAMERA, scene), CAMERA, SHARES)
    apparent = CAMERA.project(np.array([*labels.cubes[0, :2], STANDING_Z_M]))
    np.testing.assert_allclose(apparent, CAMERA.project(scene.position_m[0]), atol=1e-3)


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
        assert n - 1 <= len(first.position_m) <= cell.MAX_CUBES


def test_a_carried_cube_is_in_the_gripper():
    scenes = [sample_scene(np.random.default_rng([5, k])) for k in range(150)]
    carried = [s for s in scenes if s.arm_mode == "carry" and s.held == 0]
    assert len(carried) > 10
    for scene in carried:
        tool = kinematics.pose_base_link_tool(scene.q_rad)[:3, 3]
        assert np.linalg.norm(tool - scene.position_m[0]) < 0.012


def write_shards(config: dict, split: str, *sizes: int) -> None:
    for path, n in zip(shard_paths(config, split), sizes):
        np.savez(path, images=np.full((n, 16, 16, 3), 90, np.uint8), label=np.zeros((n, cell.MAX_CUBES)))


def test_only_the_images_that_the_configuration_asks_for_are_loaded(tmp_path):
    config = {"seed": 1, "out": str(tmp_path), "images": {"train": 5, "shard": 3}}
    with pytest.raises(ConfigError, match="train_1_000.npz: not there"):
        load_split(config, "train")
    write_shards(config, "train", 3, 2)
    write_shards(config | {"seed": 2}, "train", 3, 2)
    assert len(load_split(config, "train")["images"]) == 5
    with pytest.raises(ConfigError, match="images.train=4: .* holds 5"):
        load_split(config | {"images": {"train": 4, "shard": 3}}, "train")


def peaks_at(*xy) -> Peaks:
    n = len(xy)
    return Peaks(np.array(xy).reshape(-1, 2), np.zeros(n), np.ones(n), np.full(n, 1e-3), np.ones(n))


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


def test_two_detections_of_one_cube_are_one_false_report():
    result = match(peaks_at([0.45, -0.2], [0.46, -0.2]), np.array([[0.45, -0.2, 0.0]]), np.array([PRESENT]))
    assert (result.misses, result.false) == (0, 1)


@pytest.mark.train
def test_losses_are_least_at_the_targets():
    torch = pytest.importorskip("torch")
    from policies.training.perception.losses import total_loss

    grid = Grid(CAMERA, 4, STANDING_Z_M)
    target, weight = (torch.from_numpy(a)[None] for a in encode(grid, np.array([[0.5, -0.1, 0.3]])))
    perfect = target.clone()
    perfect[:, 0] = torch.logit(target[:, 0].clamp(1e-4, 1 - 1e-4))
    perfect[:, 5] = -2.0
    keep = torch.ones_like(weight)
    best, _ = total_loss(perfect, target, weight, keep)
    for channel in range(MAPS - 1):
        worse = perfect.clone()
        worse[:, channel] += 0.7
        assert total_loss(worse, target, weight, keep)[0] > best


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
    changed = augment(image).numpy()
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
    from policies.training.perception.train import targets

    grid = Grid(CAMERA, 4, STANDING_Z_M)
    cubes = np.array([[0.5, -0.1, 0.0], [0.6, 0.0, 0.0]])
    target, weight, keep = (torch.from_numpy(a)[None] for a in targets(grid, cubes, np.array([PRESENT, IGNORED])))
    maps = torch.full_like(target, -3.0)
    row, column = np.rint(grid.cells(cubes[1:, :2])[0]).astype(int)
    changed = maps.clone()
    changed[:, :, row, column] = 5.0
    assert total_loss(changed, target, weight, keep)[0] == total_loss(maps, target, weight, keep)[0]


@pytest.mark.train
def test_network_learns_two_images_and_is_exported_whole(tmp_path):
    torch = pytest.importorskip("torch")
    onnxruntime = pytest.importorskip("onnxruntime")
    from policies.training.perception.export import check_served, write_onnx
    from policies.training.perception.losses import total_loss
    from policies.training.perception.network import FEATURES, TrayPosesNetwork
    from policies.training.perception.train import targets

    torch.manual_seed(0)
    torch.set_num_threads(1)
    rng, grid = np.random.default_rng(0), Grid(CAMERA, 4, STANDING_Z_M)
    images, made = np.full((2, 160, 160, 3), 170, np.uint8), []
    for image, xy in zip(images, ([0.45, -0.15], [0.58, 0.0])):
        u, v = np.rint(CAMERA.project(np.array([*xy, STANDING_Z_M]))).astype(int)
        image[v - 7 : v + 8, u - 7 : u + 8] = [200, 40, 40]
        image[:] = np.clip(image + rng.normal(0, 2, image.shape), 0, 255)
        made.append(targets(grid, np.array([[*xy, 0.0]]), np.array([PRESENT])))
    target, weight, keep = (torch.from_numpy(np.stack([m[i] for m in made])) for i in range(3))
    network = TrayPosesNetwork()
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-3)
    losses = []
    for _ in range(25):
        maps, _ = network(torch.from_numpy(images))
        loss, _ = total_loss(maps, target, weight, keep)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    write_onnx(network, tmp_path / "model.onnx", (160, 160, 3))
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"), providers=["CPUExecutionProvider"])
    maps, features = session.run(None, {"image": images})
    with torch.no_grad():
        wanted = network.eval()(torch.from_numpy(images))
    np.testing.assert_allclose(maps, wanted[0].numpy(), atol=2e-3)
    assert features.shape == (2, FEATURES)
    assert check_served(tmp_path / "model.onnx", images, wanted[0].numpy()) < 2e-3
    with pytest.raises(ContractError, match="differs from the network by nan"):
        check_served(tmp_path / "model.onnx", images, np.full_like(maps, np.nan))


def configuration(tmp_path, **training) -> dict:
    settings = {"epochs": 1, "batch": 2, "learning_rate": 1e-3, "weight_decay": 0.0, "warm_up_share": 0.1, "ema": 0.9}
    return {"seed": 1, "out": str(tmp_path), "images": {}, "labels": {}, "training": settings | training}


def blank_maps(n: int) -> tuple[np.ndarray, ...]:
    grid = Grid(CAMERA, 4, STANDING_Z_M)
    return np.zeros((n, MAPS, *grid.shape)), np.zeros((n, *grid.shape)), np.ones((n, *grid.shape))


@pytest.mark.train
def test_a_run_goes_on_from_its_own_checkpoint_only(tmp_path):
    pytest.importorskip("torch")
    from policies.training.perception.train import Training

    config, path = configuration(tmp_path), tmp_path / "checkpoint.pt"
    Training(config, path).save(0)
    assert Training(config, path).first == 1
    with pytest.raises(ConfigError, match="made with seed=1, configured is 2; remove it"):
        Training(config | {"seed": 2}, path)
    with pytest.raises(ConfigError, match="made with training="):
        Training(configuration(tmp_path, learning_rate=2e-3), path)


@pytest.mark.train
def test_training_that_diverges_or_has_no_batch_is_refused(tmp_path):
    torch = pytest.importorskip("torch")
    from policies.training.perception.train import Training

    torch.set_num_threads(1)
    training = Training(configuration(tmp_path), tmp_path / "checkpoint.pt")
    images = np.zeros((2, 160, 160, 3), np.uint8)
    with pytest.raises(ConfigError, match="batch=2: there are 1 images"):
        training.epoch(0, images[:1], blank_maps(1))
    training.epoch(0, images, blank_maps(2))
    with torch.no_grad():
        training.network.out.bias.fill_(float("nan"))
    with pytest.raises(ConfigError, match="learning_rate=0.001 gives losses .*nan"):
        training.epoch(0, images, blank_maps(2))
