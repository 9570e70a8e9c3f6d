"""A camera's intrinsics from views of a board (Zhang's method, by OpenCV), judged by views that took no part.

Each view in turn is left out, the camera is fitted to the others, the board's pose in the view left out is found with
that camera, and what remains there is the error that is reported. A fit may look perfect and still say nothing of the
focal length: views that are all parallel, or too few, are refused by the deviations that the fit itself gives.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_calibration.board import BoardConfig, View, opencv

MIN_VIEWS = 5
K3_MIN_VIEWS = 15  # with fewer, k3 follows noise: on the real desk images the error on views left out grows by 4 %
FOCAL_STD_MAX = 0.02  # of the focal length
TILT_SPREAD_MIN_RAD = np.radians(8.0)  # between the normals of some two views of the board


@dataclass(frozen=True)
class Intrinsics:
    """Pinhole camera with OpenCV's distortion `d` = k1 k2 p1 p2 k3. Errors are rms over corners, in px."""

    size_px: tuple[int, int]
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    d: tuple[float, float, float, float, float]
    rms_px: float
    held_out_px: tuple[float, ...]  # of each view, by a camera fitted to the others
    focal_std_px: float
    views: tuple[str, ...]

    @property
    def matrix(self) -> np.ndarray:
        """(3, 3)."""
        return np.array([[self.fx_px, 0, self.cx_px], [0, self.fy_px, self.cy_px], [0, 0, 1.0]])

    @property
    def held_out_rms_px(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.held_out_px))))


def calibrate_camera(views: Sequence[View], board: BoardConfig, held_out_max_px: float = 1.0) -> Intrinsics:
    """Fit and judge. ConfigError: too few views, mixed sizes, views too much alike, or an error above the limit."""
    if len(views) < MIN_VIEWS:
        raise ConfigError(f"too few views: {len(views)}, at least {MIN_VIEWS}, tilted in different directions")
    sizes = sorted({view.size_px for view in views})
    if len(sizes) > 1:
        raise ConfigError(f"mixed sizes of images: {sizes}: give images of one camera at one resolution")
    rms, k, d, focal_std = _fit(views, board)
    poses = [board_pose(view, board, k, d) for view in views]
    normals = np.array([pose[:3, 2] for pose in poses])
    spread = float(np.arccos(np.clip(normals @ normals.T, -1, 1)).max())
    if spread < TILT_SPREAD_MIN_RAD:
        raise ConfigError(f"views too much alike: the board turns by {np.degrees(spread):.1f} deg at most, at least "
                          f"{np.degrees(TILT_SPREAD_MIN_RAD):.0f}: tilt it in different directions")
    if not focal_std < FOCAL_STD_MAX * k[0, 0]:
        raise ConfigError(f"focal length {k[0, 0]:.0f} px has a deviation of {focal_std:.0f} px: tilt the board more, "
                          "and show it near the picture's corners")
    held_out = tuple(_held_out_px(views, n, board) for n in range(len(views)))
    camera = Intrinsics(
        sizes[0], *(float(v) for v in (k[0, 0], k[1, 1], k[0, 2], k[1, 2])), tuple(float(v) for v in d), float(rms),
        held_out, float(focal_std), tuple(view.name for view in views),
    )
    if not camera.held_out_rms_px <= held_out_max_px:
        worst = views[int(np.argmax(held_out))].name
        raise ConfigError(f"error on views left out: {camera.held_out_rms_px:.2f} px, limit {held_out_max_px} px, "
                          f"worst {worst} with {max(held_out):.2f}: a wrong board, a moving board, or blur")
    return camera


def _fit(views: Sequence[View], board: BoardConfig):
    cv2 = opencv()
    points = [board.corners_m[view.ids].astype(np.float32) for view in views]
    pixels = [view.pixels.astype(np.float32).reshape(-1, 1, 2) for view in views]
    flags = 0 if len(views) >= K3_MIN_VIEWS else cv2.CALIB_FIX_K3
    try:
        rms, k, d, _, _, std, *_ = cv2.calibrateCameraExtended(
            points, pixels, views[0].size_px, None, None, flags=flags
        )
    except cv2.error as error:
        raise ConfigError(f"no camera fits these views: {str(error).splitlines()[0]}") from error
    if not (np.isfinite(k).all() and np.isfinite(d).all()):
        raise ConfigError("no camera fits these views: the fit did not converge")
    return rms, k, d.ravel()[:5], float(std.ravel()[:2].max())


def board_pose(view: View, board: BoardConfig, k: np.ndarray, d: np.ndarray) -> np.ndarray:
    """(4, 4) pose of the board in the camera's optical frame."""
    cv2 = opencv()
    points, pixels = board.corners_m[view.ids], view.pixels.reshape(-1, 1, 2).astype(float)
    # IPPE: for a plane; of its two solutions the first fits better
    found, turns, shifts, _ = cv2.solvePnPGeneric(points, pixels, k, np.asarray(d), flags=cv2.SOLVEPNP_IPPE)
    if not found:
        raise ConfigError(f"{view.name}: no pose of the board fits its corners")
    turn, shift = cv2.solvePnPRefineLM(points, pixels, k, np.asarray(d), turns[0], shifts[0])
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = cv2.Rodrigues(turn)[0], shift.ravel()
    return pose


def reprojection_px(view: View, board: BoardConfig, pose: np.ndarray, k: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Distances (N,) between the corners of a view and where a board in `pose` puts them."""
    cv2 = opencv()
    turn = cv2.Rodrigues(pose[:3, :3])[0]
    expected = cv2.projectPoints(board.corners_m[view.ids], turn, pose[:3, 3], k, np.asarray(d))[0]
    return np.linalg.norm(expected.reshape(-1, 2) - view.pixels, axis=1)


def _held_out_px(views: Sequence[View], n: int, board: BoardConfig) -> float:
    _, k, d, _ = _fit([*views[:n], *views[n + 1 :]], board)
    distances = reprojection_px(views[n], board, board_pose(views[n], board, k, d), k, d)
    return float(np.sqrt(np.mean(distances**2)))
