"""Where the camera is: A X = X B from the robot's poses and the board's poses in the camera.

Two mounts, one equation P X B = Y for each view, with B the board in the camera:

    eye_to_hand   camera fixed, board on the tool:  P = (tool in base)^-1, X = camera in base, Y = board in tool
    eye_in_hand   camera on the tool, board fixed:  P = tool in base,      X = camera in tool, Y = board in base

Two views give A X = X B with A = P_j^-1 P_i and B = B_j B_i^-1. Rotation: turn vectors of A are those of B turned by X
(Park and Martin 1994), the best rotation by singular values. Translation: (R_A - 1) t_X = R_X t_B - t_A, least squares.
Then X and Y together are refined on every view's own error. Turns about one axis only leave X free along it: refused.
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from steadyhand.errors import ConfigError

MOUNTS = ("eye_to_hand", "eye_in_hand")
MIN_VIEWS = 5
TURN_MIN_RAD = np.radians(5.0)  # a pair of views counts as a turn from here
AXES_SPREAD_MIN = 0.15  # smallest over largest singular value of the second kind of the turn axes: 1 for all directions


@dataclass(frozen=True)
class HandEye:
    """`pose_parent_camera` (4, 4), parent = base or tool by mount; `pose_other_board` the board on the other side.

    Errors are those of the board's pose in each view (N,): m and rad; `held_out_*` with that view left out."""

    mount: str
    pose_parent_camera: np.ndarray
    pose_other_board: np.ndarray
    error_m: np.ndarray
    error_rad: np.ndarray
    held_out_m: np.ndarray
    held_out_rad: np.ndarray
    std_m: float  # deviation of the camera's position by the fit, the worst axis


def solve_hand_eye(
    pose_base_tool: np.ndarray, pose_camera_board: np.ndarray, mount: str, names: Sequence[str] = (),
    held_out_max_m: float = 0.005,
) -> HandEye:
    """Poses (N, 4, 4) each. ConfigError: too few views, degenerate turns, no rigid poses, error above the limit."""
    if mount not in MOUNTS:
        raise ConfigError(f"mount {mount!r}: give one of {', '.join(MOUNTS)}")
    tool, board = (_checked(name, poses) for name, poses in
                   (("pose_base_tool", pose_base_tool), ("pose_camera_board", pose_camera_board)))
    n = len(tool)
    if len(board) != n:
        raise ConfigError(f"{n} poses of the tool and {len(board)} of the board: give one of each for every view")
    if n < MIN_VIEWS:
        raise ConfigError(f"too few views: {n}, at least {MIN_VIEWS}")
    p = np.linalg.inv(tool) if mount == "eye_to_hand" else tool
    x, y, std_m = _fit(p, board)
    error_m, error_rad = _errors(p, board, x, y)
    held = []
    for k in range(n):
        rest = np.arange(n) != k
        held.append(_errors(p[k : k + 1], board[k : k + 1], *_fit(p[rest], board[rest])[:2]))
    held_m, held_rad = np.array(held)[:, :, 0].T
    rms = float(np.sqrt(np.mean(held_m**2)))
    if not rms <= held_out_max_m:
        worst = int(np.argmax(held_m))
        raise ConfigError(
            f"error on views left out: {rms * 1e3:.1f} mm, limit {held_out_max_m * 1e3:.1f} mm, worst view "
            f"{names[worst] if names else worst} with {held_m[worst] * 1e3:.1f} mm: does each robot pose belong to its "
            "image, is the board rigid, is the mount right, are the intrinsics this camera's?"
        )
    return HandEye(mount, x, y, error_m, error_rad, held_m, held_rad, std_m)


def _checked(name: str, poses) -> np.ndarray:
    poses = np.asarray(poses, dtype=float)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4):
        raise ConfigError(f"{name} has shape {poses.shape}: give (N, 4, 4)")
    for k, pose in enumerate(poses):
        rotation = pose[:3, :3]
        if not np.isfinite(pose).all() or np.abs(pose[3] - [0, 0, 0, 1]).max() > 1e-9 \
                or np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-6 or np.linalg.det(rotation) < 0:
            raise ConfigError(f"{name}[{k}] is no rigid pose")
    return poses


def _fit(p: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    x = _closed_form(p, b)
    y = _mean_pose(p @ x @ b)
    lever_m = float(np.mean(np.linalg.norm(b[:, :3, 3], axis=1)))  # turns weigh as what they move at that distance

    def residuals(v):
        miss = np.linalg.inv(_pose(v[6:]))[None] @ p @ _pose(v[:6]) @ b
        turns = Rotation.from_matrix(miss[:, :3, :3]).as_rotvec()
        return np.concatenate([miss[:, :3, 3].ravel(), lever_m * turns.ravel()])

    solved = least_squares(residuals, np.concatenate([_vector(x), _vector(y)]))
    freedom = max(len(solved.fun) - len(solved.x), 1)
    covariance = np.linalg.pinv(solved.jac.T @ solved.jac) * float(solved.fun @ solved.fun) / freedom
    return _pose(solved.x[:6]), _pose(solved.x[6:]), float(np.sqrt(np.diag(covariance)[3:6].max()))


def _closed_form(p: np.ndarray, b: np.ndarray) -> np.ndarray:
    i, j = np.triu_indices(len(p), 1)
    moves_a, moves_b = np.linalg.inv(p[j]) @ p[i], b[j] @ np.linalg.inv(b[i])
    turns_a, turns_b = (Rotation.from_matrix(m[:, :3, :3]).as_rotvec() for m in (moves_a, moves_b))
    angle = np.linalg.norm(turns_a, axis=1)
    turned = (angle > TURN_MIN_RAD) & (angle < np.pi - TURN_MIN_RAD)  # beyond, the axis may flip
    axes = turns_a[turned] / angle[turned, None]
    strength = np.linalg.svd(axes, compute_uv=False) if len(axes) > 1 else np.zeros(3)
    if len(strength) < 2 or strength[1] < AXES_SPREAD_MIN * max(strength[0], 1e-12):
        raise ConfigError(
            f"degenerate rotations: {int(turned.sum())} pairs of views turn by more than "
            f"{np.degrees(TURN_MIN_RAD):.0f} deg, about nearly one axis: turn the tool about at least two axes"
        )
    rotation = Rotation.align_vectors(turns_a[turned], turns_b[turned])[0].as_matrix()
    left = (moves_a[:, :3, :3] - np.eye(3)).reshape(-1, 3)
    right = (moves_b[:, :3, 3] @ rotation.T - moves_a[:, :3, 3]).ravel()
    x = np.eye(4)
    x[:3, :3], x[:3, 3] = rotation, np.linalg.lstsq(left, right, rcond=None)[0]
    return x


def _errors(p: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How far the board is from where it belongs, per view: m and rad."""
    miss = np.linalg.inv(y)[None] @ p @ x @ b
    return np.linalg.norm(miss[:, :3, 3], axis=1), Rotation.from_matrix(miss[:, :3, :3]).magnitude()


def _mean_pose(poses: np.ndarray) -> np.ndarray:
    mean = np.eye(4)
    mean[:3, :3] = Rotation.from_matrix(poses[:, :3, :3]).mean().as_matrix()
    mean[:3, 3] = poses[:, :3, 3].mean(axis=0)
    return mean


def _pose(v: np.ndarray) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = Rotation.from_rotvec(v[:3]).as_matrix(), v[3:]
    return pose


def _vector(pose: np.ndarray) -> np.ndarray:
    return np.concatenate([Rotation.from_matrix(pose[:3, :3]).as_rotvec(), pose[:3, 3]])
