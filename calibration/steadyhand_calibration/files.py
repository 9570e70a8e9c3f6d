"""Files of calibrations: JSON, each with a format, whose it is, and the hash of its own content.

A hand-eye file names the camera and the hash of the intrinsics it was made with: neither is of use without the other.
Reading refuses by field: another format, something missing, numbers that are none, content edited afterwards.
"""
from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_calibration.board import BoardConfig
from steadyhand_calibration.hand_eye import MOUNTS, HandEye
from steadyhand_calibration.intrinsics import Intrinsics

CAMERA_FORMAT, HAND_EYE_FORMAT = "steadyhand-camera/1", "steadyhand-hand-eye/1"
MAX_BYTES = 1_000_000


def check_identity(field: str, name: str) -> str:
    """A name of a camera or a robot, such as its serial number."""
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name):
        raise ConfigError(f"{field} {name!r}: give 1 to 64 letters, digits, '_', '.' or '-', such as a serial number")
    return name


def camera_content(camera: Intrinsics, identity: str, board: BoardConfig) -> dict:
    """The content of a camera's file. `k`, `d` and `distortion_model` as `sensor_msgs/CameraInfo` wants them."""
    return _sealed({
        "format": CAMERA_FORMAT, "camera": check_identity("camera", identity),
        "width_px": camera.size_px[0], "height_px": camera.size_px[1],
        "k": camera.matrix.ravel().tolist(), "d": list(camera.d), "distortion_model": "plumb_bob",
        "rms_px": camera.rms_px, "held_out_rms_px": camera.held_out_rms_px, "focal_std_px": camera.focal_std_px,
        "held_out_px": dict(zip(camera.views, camera.held_out_px)), "board": asdict(board),
    })


def hand_eye_content(result: HandEye, camera_file: dict, robot: str, names: list[str]) -> dict:
    """The content of a hand-eye file; `camera_file` is what `load_camera` returned."""
    return _sealed({
        "format": HAND_EYE_FORMAT, "robot": check_identity("robot", robot), "camera": camera_file["camera"],
        "camera_sha256": camera_file["sha256"], "mount": result.mount,
        "parent_frame": "base_link" if result.mount == "eye_to_hand" else "tool",
        "pose_parent_camera": result.pose_parent_camera.tolist(), "pose_other_board": result.pose_other_board.tolist(),
        "rms_m": _rms(result.error_m), "rms_rad": _rms(result.error_rad),
        "held_out_rms_m": _rms(result.held_out_m), "held_out_rms_rad": _rms(result.held_out_rad), "std_m": result.std_m,
        "held_out_m": dict(zip(names, map(float, result.held_out_m))),
    })


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))


def save(path: Path, content: dict) -> None:
    """Write at once or not at all."""
    text = json.dumps(content, indent=1) + "\n"
    part = path.with_name(path.name + ".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(text)
        part.replace(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be written: {error}") from error


def load_camera(path: Path) -> dict:
    """Checked content of a camera's file."""
    content = _load(path, CAMERA_FORMAT)
    for field in ("width_px", "height_px"):
        if not isinstance(content.get(field), int) or not 1 <= content[field] <= 20_000:
            raise ConfigError(f"{path}: {field} is {content.get(field)!r}, must be a whole number of pixels")
    k = _numbers(path, content, "k", (9,))
    if k[0] <= 0 or k[4] <= 0 or k[8] != 1:
        raise ConfigError(f"{path}: k is {k.tolist()}, no camera matrix")
    _numbers(path, content, "d", (5,))
    return content


def load_hand_eye(path: Path) -> dict:
    """Checked content of a hand-eye file; `pose_parent_camera` is a rigid (4, 4) pose, as nested lists."""
    content = _load(path, HAND_EYE_FORMAT)
    if content.get("mount") not in MOUNTS:
        raise ConfigError(f"{path}: mount is {content.get('mount')!r}, must be one of {', '.join(MOUNTS)}")
    for field in ("robot", "camera", "camera_sha256"):
        check_identity(f"{path}: {field}", content.get(field))
    pose = _numbers(path, content, "pose_parent_camera", (4, 4))
    rotation = pose[:3, :3]
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-6 or np.linalg.det(rotation) < 0:
        raise ConfigError(f"{path}: pose_parent_camera is no rigid pose")
    return content


def _digest(content: dict) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _sealed(content: dict) -> dict:
    return {**content, "sha256": _digest(content)}


def _load(path: Path, expected: str) -> dict:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise ConfigError(f"{path}: {path.stat().st_size} bytes, no calibration")
        content = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: no readable calibration: {error}") from error
    if not isinstance(content, dict) or content.get("format") != expected:
        found = content.get("format") if isinstance(content, dict) else type(content).__name__
        raise ConfigError(f"{path}: format is {found!r}, must be {expected!r}")
    if content.get("sha256") != _digest({k: v for k, v in content.items() if k != "sha256"}):
        raise ConfigError(f"{path}: sha256 does not fit the content: it was edited or cut off; calibrate again")
    return content


def _numbers(path: Path, content: dict, field: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        values = np.array(content[field], dtype=float)
        good = values.shape == shape and all(map(math.isfinite, values.ravel()))
    except (KeyError, TypeError, ValueError, OverflowError):  # a whole number of hundreds of digits is no float
        good = False
    if not good:
        raise ConfigError(f"{path}: {field} must be {' x '.join(map(str, shape))} finite numbers")
    return values
