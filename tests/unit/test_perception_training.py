"""What the training asks of the model: labels, targets, losses; and that the network can learn and is exported whole."""
import numpy as np
import pytest

from policies.training.perception.dataset import ABSENT, IGNORED, PRESENT, labels_of, outline_pixels
from policies.training.perception.metrics import match, summary
from policies.training.perception.scenes import STANDING_Z_M, TrainingScene, sample_scene
from steadyhand import cell, kinematics
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
    scene = TrainingScene(cell.HOME_Q_RAD, 0.04, np.array([[0.5, -0.1, STANDING_Z_M]]), np.array([[0, 0, 0, 1.0]]), -1, "")
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
    from policies.training.perception.export import write_onnx
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
