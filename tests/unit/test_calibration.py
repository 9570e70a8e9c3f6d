"""Cameras and hand-eye from pictures: real ones of a desk, and drawn ones with a known truth, by the command too."""
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from steadyhand.errors import ConfigError, DependencyMissing
from steadyhand_calibration import board as boards
from steadyhand_calibration import files
from steadyhand_calibration.board import BoardConfig, View, find_board, read_view
from steadyhand_calibration.intrinsics import board_pose, calibrate_camera
from steadyhand_cli.main import main

cv2 = pytest.importorskip("cv2", reason="needs OpenCV: the extra 'calibration'")
Image = pytest.importorskip("PIL.Image")
DESK = Path(__file__).parents[1] / "data" / "desk_board"
BOARD = BoardConfig()
SIZE = (640, 480)
K = np.array([[520.0, 0, 322.0], [0, 520.0, 236.0], [0, 0, 1]])


def pose(turn, shift) -> np.ndarray:
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = Rotation.from_rotvec(turn).as_matrix(), shift
    return made


X = pose([0.2, -2.2, 0.3], [1.0, -0.1, 0.8])  # camera in base
Y = pose([0.1, -0.1, 0.4], [0.01, 0.02, 0.05])  # board in tool


def drawn(pose_camera_board: np.ndarray, rng) -> np.ndarray:
    """What a pinhole camera sees of the board, grey uint8: the print, warped, blurred by the lens, with noise."""
    px_per_m = 4000
    sheet = BOARD.opencv_board().generateImage((int(5 * 0.035 * px_per_m), int(7 * 0.035 * px_per_m)), marginSize=0)
    to_board = np.diag([1 / px_per_m, 1 / px_per_m, 1.0])
    to_board[:2, 2] = 0.5 / px_per_m  # a pixel's centre is half a pixel in
    finer = np.diag([3.0, 3.0, 1.0])  # drawn three times as large: no aliasing
    finer[:2, 2] = 1.0
    homography = finer @ K @ pose_camera_board[:3, [0, 1, 3]] @ to_board
    seen = cv2.warpPerspective(sheet, homography, (3 * SIZE[0], 3 * SIZE[1]), borderValue=140)
    seen = cv2.resize(cv2.GaussianBlur(seen, (0, 0), 2.0), SIZE, interpolation=cv2.INTER_AREA)
    seen = seen + rng.normal(0, 2, seen.shape)
    return np.clip(seen, 0, 255).astype(np.uint8)


@pytest.fixture(scope="module")
def shots() -> list[tuple[np.ndarray, np.ndarray]]:
    """(image, true pose of the board in the camera), the board tilted in every direction."""
    rng = np.random.default_rng(0)
    made = []
    for n in range(14):
        around = 2 * np.pi * n / 14
        turn = 0.6 * np.array([np.cos(around), np.sin(around), 0]) + [0, 0, rng.uniform(-0.5, 0.5)]
        centre = np.array([rng.uniform(-0.06, 0.06), rng.uniform(-0.04, 0.04), rng.uniform(0.38, 0.5)])
        at = pose(turn, [0, 0, 0])
        at[:3, 3] = centre - at[:3, :3] @ [0.0875, 0.1225, 0]
        made.append((drawn(at, rng), at))
    return made


@pytest.fixture(scope="module")
def desk() -> list[View]:
    return [read_view(path, BOARD) for path in sorted(DESK.glob("*.jpg"))]


def test_every_corner_of_the_real_board_is_found(desk):
    assert [len(view.ids) for view in desk] == [24] * 7
    assert {view.size_px for view in desk} == {(1280, 720)}


def test_a_real_camera_is_calibrated_and_the_views_left_out_bear_it_out(desk):
    camera = calibrate_camera(desk, BOARD)
    assert camera.held_out_rms_px < 0.7 and max(camera.held_out_px) < 1.0
    assert camera.fx_px == pytest.approx(613.9, rel=0.02) and camera.fy_px == pytest.approx(614.3, rel=0.02)
    assert abs(camera.fx_px - 613.9) < 3 * camera.focal_std_px  # the source's own figure
    assert camera.cx_px == pytest.approx(640, abs=20) and camera.cy_px == pytest.approx(360, abs=25)


def test_two_moments_give_the_same_rig_of_real_cameras(desk):
    """Three cameras stood still while the board moved: their poses to one another must not depend on the moment."""
    camera = calibrate_camera(desk, BOARD)
    at = {view.name[:-4]: board_pose(view, BOARD, camera.matrix, camera.d) for view in desk}
    for one, other in (("Master", "Sub1"), ("Master", "Sub2"), ("Sub1", "Sub2")):
        first, second = (at[f"{one}_{n}"] @ np.linalg.inv(at[f"{other}_{n}"]) for n in (0, 3))
        miss = np.linalg.inv(first) @ second
        assert np.linalg.norm(miss[:3, 3]) < 0.008  # at 0.45 m; three devices share one set of intrinsics here
        assert Rotation.from_matrix(miss[:3, :3]).magnitude() < 0.025


def test_drawn_pictures_give_the_true_camera(shots):
    camera = calibrate_camera([find_board(image, BOARD) for image, _ in shots], BOARD)
    assert camera.fx_px == pytest.approx(520, rel=0.0015) and camera.fy_px == pytest.approx(520, rel=0.0015)
    assert camera.cx_px == pytest.approx(322, abs=1.5) and camera.cy_px == pytest.approx(236, abs=1.5)
    assert camera.held_out_rms_px < 0.1


def save_rig(folder: Path, shots) -> Path:
    views = []
    for n, (image, at) in enumerate(shots):
        Image.fromarray(image).save(folder / f"{n}.png")
        views.append({"image": f"{n}.png", "pose_base_link_tool": (X @ at @ np.linalg.inv(Y)).tolist()})
    path = folder / "views.json"
    path.write_text(json.dumps({"views": views}))
    return path


def test_the_command_goes_from_pictures_to_a_hand_eye_file(shots, tmp_path, capsys):
    views = save_rig(tmp_path, shots)
    images = [str(tmp_path / f"{n}.png") for n in range(len(shots))]
    camera, out = tmp_path / "camera.json", tmp_path / "sub" / "hand_eye.json"
    assert main(["calibrate", "camera", *images, "--camera", "cam-1", "--out", str(camera)]) == 0
    order = ["calibrate", "hand-eye", str(views), "--intrinsics", str(camera), "--robot", "ur5-7", "--out", str(out)]
    assert main(order) == 0
    found = files.load_hand_eye(out)
    miss = np.linalg.inv(X) @ np.array(found["pose_parent_camera"])
    assert np.linalg.norm(miss[:3, 3]) < 0.0005 and Rotation.from_matrix(miss[:3, :3]).magnitude() < 0.001
    assert found["held_out_rms_m"] < 0.0005 and found["parent_frame"] == "base_link"
    assert (found["robot"], found["camera"]) == ("ur5-7", "cam-1")
    assert found["camera_sha256"] == files.load_camera(camera)["sha256"]
    assert "views left out" in capsys.readouterr().out
    text = out.read_text().replace('"robot": "ur5-7"', '"robot": "ur5-8"')
    out.write_text(text)
    with pytest.raises(ConfigError, match="sha256"):
        files.load_hand_eye(out)


@pytest.fixture(scope="module")
def camera_file(shots, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("camera") / "camera.json"
    fitted = calibrate_camera([find_board(image, BOARD) for image, _ in shots[:6]], BOARD)
    files.save(path, files.camera_content(fitted, "cam-1", BOARD))
    return path


def edit(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content["views"])
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda v: v.__delitem__(slice(4, None)), "too few views: 4"),
        (lambda v: v[2].update(image="99.png"), "99.png: no readable image"),
        (lambda v: v[2].update(image="blank.png"), "blank.png: board not found: 0 corners of 24"),
        (lambda v: v[2].update(image="large.png"), r"large.png: mixed sizes: \(1280, 960\)"),
        (lambda v: v[2].update(image="1.png"), "named twice"),
        (lambda v: v[2].update(q_rad=[0] * 6), r"views\[2\]: give either q_rad or"),
        (lambda v: v[2].update(pose_base_link_tool=[1, 2]), "pose_base_link_tool must be 4 x 4"),
        (lambda v: v[2].update(pose_base_link_tool=[[10**400] * 4] * 4), "pose_base_link_tool must be 4 x 4"),
        (lambda v: [w.update(pose_base_link_tool=v[0]["pose_base_link_tool"]) for w in v], "degenerate rotations"),
    ],
)
def test_hand_eye_refuses_bad_input_by_name(shots, camera_file, tmp_path, capsys, change, said):
    path, out = save_rig(tmp_path, shots[:6]), tmp_path / "out.json"
    Image.fromarray(np.full((480, 640), 90, np.uint8)).save(tmp_path / "blank.png")
    Image.fromarray(np.kron(shots[2][0], np.ones((2, 2), np.uint8))).save(tmp_path / "large.png")
    edit(path, change)
    order = ["calibrate", "hand-eye", str(path), "--intrinsics", str(camera_file), "--robot", "r", "--out", str(out)]
    assert main(order) == 2 and not out.exists()
    assert re.search(said, capsys.readouterr().err)


def test_a_camera_is_refused_by_name(shots, desk):
    views = [find_board(image, BOARD, f"{n}.png") for n, (image, _) in enumerate(shots)]
    with pytest.raises(ConfigError, match="too few views: 4"):
        calibrate_camera(views[:4], BOARD)
    with pytest.raises(ConfigError, match=r"mixed sizes of images: \[\(640, 480\), \(1280, 720\)\]"):
        calibrate_camera([*views, desk[0]], BOARD)
    with pytest.raises(ConfigError, match="too much alike"):
        calibrate_camera([views[0]] * 6, BOARD)
    blur = np.random.default_rng(0).normal(0, 3, views[3].pixels.shape)
    moved = View("bad.png", views[3].size_px, views[3].ids, views[3].pixels + blur)
    with pytest.raises(ConfigError, match=r"error on views left out: .* worst bad\.png"):
        calibrate_camera([*views[:3], moved, *views[4:]], BOARD, held_out_max_px=0.5)


@pytest.mark.parametrize(
    "text", ["5x7", "5x7:0.035:0.04:DICT_4X4_50", "5x70:0.03:0.02:DICT_4X4_50", "5x7:1.2.3:0.02:DICT_4X4_50",
             "2x7:0.03:0.02:DICT_4X4_50", "5x7:0.03:0.02:4X4"],
)
def test_a_board_that_is_none_is_refused(text):
    with pytest.raises(ConfigError, match="board"):
        BoardConfig.parse(text)


def test_a_dictionary_that_is_none_or_too_small_is_refused():
    for board, said in ((BoardConfig(dictionary="DICT_9X9"), "no such"), (BoardConfig(20, 20), "50 of 200")):
        with pytest.raises(ConfigError, match=said):
            board.opencv_board()


def test_without_opencv_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(DependencyMissing, match="calibration"):
        boards.opencv()
