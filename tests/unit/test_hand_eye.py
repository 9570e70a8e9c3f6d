"""A X = X B on poses with a known truth: found to what the noise allows, refused by name where it cannot be."""
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steadyhand.errors import ConfigError
from steadyhand_calibration import files
from steadyhand_calibration.hand_eye import HandEye, solve_hand_eye


def pose(turn, shift) -> np.ndarray:
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = Rotation.from_rotvec(turn).as_matrix(), shift
    return made


X = pose([0.3, -2.1, 0.4], [1.05, -0.1, 0.85])
Y = pose([0.1, 0.2, -1.0], [0.02, -0.03, 0.06])


def views(rng, mount, n=12, turn=0.6, axis=None, noise_m=0.0, noise_rad=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Poses of the tool, and of the board in the camera with noise, for a rig of which X and Y are the truth."""
    def small(scale_rad, scale_m):
        return pose(rng.normal(0, 1, 3) * scale_rad, rng.normal(0, 1, 3) * scale_m)

    tool, board = [], []
    for _ in range(n):
        direction = rng.normal(0, 1, 3) if axis is None else np.array(axis) * rng.normal()
        at = pose(turn * direction, rng.uniform(-0.2, 0.2, 3) + [0.5, 0, 0.3])
        p = np.linalg.inv(at) if mount == "eye_to_hand" else at
        tool.append(at)
        board.append(np.linalg.inv(p @ X) @ Y @ small(noise_rad, noise_m))
    return np.array(tool), np.array(board)


def apart(found: HandEye) -> tuple[float, float]:
    miss = np.linalg.inv(X) @ found.pose_parent_camera
    return float(np.linalg.norm(miss[:3, 3])), float(Rotation.from_matrix(miss[:3, :3]).magnitude())


@pytest.mark.parametrize("mount", ["eye_to_hand", "eye_in_hand"])
def test_without_noise_the_truth_is_found(mount):
    found = solve_hand_eye(*views(np.random.default_rng(0), mount), mount)
    assert apart(found) == pytest.approx((0, 0), abs=1e-8)
    np.testing.assert_allclose(found.pose_other_board, Y, atol=1e-8)
    assert found.held_out_m.max() < 1e-8 and found.std_m < 1e-8


@pytest.mark.parametrize("mount", ["eye_to_hand", "eye_in_hand"])
@pytest.mark.parametrize("seed", range(3))
def test_with_noise_the_error_is_what_the_fit_says(mount, seed):
    rng = np.random.default_rng(seed)
    found = solve_hand_eye(*views(rng, mount, 20, noise_m=0.001, noise_rad=0.001), mount)
    error_m, error_rad = apart(found)
    assert error_m < 6 * found.std_m and error_rad < 0.003 and 1e-4 < found.std_m < 3e-3
    rms = np.sqrt(np.mean(found.held_out_m**2))
    assert 0.001 < rms < 0.004 and rms > np.sqrt(np.mean(found.error_m**2))  # left out, a view is worse than in the fit


def test_the_wrong_mount_is_refused_by_its_own_held_out_error():
    with pytest.raises(ConfigError, match="is the mount right"):
        solve_hand_eye(*views(np.random.default_rng(0), "eye_to_hand"), "eye_in_hand")


def test_one_pose_that_belongs_to_another_image_is_named():
    tool, board = views(np.random.default_rng(0), "eye_to_hand")
    tool[[3, 4]] = tool[[4, 3]]
    with pytest.raises(ConfigError, match=r"worst view [34]\.png"):
        solve_hand_eye(tool, board, "eye_to_hand", [f"{n}.png" for n in range(12)])


@pytest.mark.parametrize("case", ["no_turns", "one_axis", "nearly_one_axis"])
def test_degenerate_turns_are_refused(case):
    rng = np.random.default_rng(1)
    options = {"turn": 0.01} if case == "no_turns" else {"axis": (0, 0, 1)}
    tool, board = views(rng, "eye_to_hand", **options)
    if case == "nearly_one_axis":
        tool = tool @ np.array([pose(0.01 * rng.normal(0, 1, 3), [0, 0, 0]) for _ in tool])
        board = np.linalg.inv(np.linalg.inv(tool) @ X) @ Y
    with pytest.raises(ConfigError, match="degenerate rotations"):
        solve_hand_eye(tool, board, "eye_to_hand")


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda t, b: (t[:4], b[:4], "eye_to_hand"), "too few views: 4"),
        (lambda t, b: (t, b[:-1], "eye_to_hand"), "12 poses of the tool and 11"),
        (lambda t, b: (t, b, "on_a_pole"), "on_a_pole"),
        (lambda t, b: (t[0], b, "eye_to_hand"), r"pose_base_tool has shape \(4, 4\)"),
        (lambda t, b: (t * np.nan, b, "eye_to_hand"), r"pose_base_tool\[0\] is no rigid pose"),
        (lambda t, b: (t, np.where(np.arange(12)[:, None, None] == 5, 2 * b, b), "eye_to_hand"), r"camera_board\[5\]"),
    ],
)
def test_bad_input_is_refused_by_name(change, said):
    with pytest.raises(ConfigError, match=said):
        solve_hand_eye(*change(*views(np.random.default_rng(0), "eye_to_hand")))


def test_a_file_with_a_number_beyond_all_floats_is_refused(tmp_path):
    content = {"format": files.CAMERA_FORMAT, "width_px": 9, "height_px": 9, "k": [10**400] * 9, "d": [0] * 5}
    files.save(tmp_path / "camera.json", files._sealed(content))
    with pytest.raises(ConfigError, match="k must be 9 finite numbers"):
        files.load_camera(tmp_path / "camera.json")
