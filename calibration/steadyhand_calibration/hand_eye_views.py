"""The recording that a hand-eye calibration is made from: images, and where the robot's tool was in each.

    {"views": [{"image": "0.png", "q_rad": [...6]}, {"image": "1.png", "pose_base_link_tool": [[...4] x 4]}, ...]}

Images are looked for beside the file. `q_rad` are the measured joint angles; the pose is then by the nominal
kinematics, in `base_link` (half a turn about z away from the frame that a UR's pendant shows).
"""
from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from steadyhand import kinematics
from steadyhand.errors import ConfigError


def load_views(path: Path) -> tuple[list[Path], np.ndarray]:
    """Paths of the images and poses (N, 4, 4) of the tool in base_link. ConfigError names the view and the field."""
    try:
        views = json.loads(path.read_text())["views"]
        if not isinstance(views, list):
            raise TypeError("views is no list")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{path}: no readable list of views: {error}") from error
    images, poses = [], []
    for n, view in enumerate(views):
        where = f"{path}: views[{n}]"
        name = view.get("image") if isinstance(view, dict) else None
        if not isinstance(name, str) or not name:
            raise ConfigError(f"{where}: image is {name!r}, must be a file name")
        if ("q_rad" in view) == ("pose_base_link_tool" in view):
            raise ConfigError(f"{where}: give either q_rad or pose_base_link_tool")
        if "q_rad" in view:
            poses.append(kinematics.pose_base_link_tool(_numbers(where, view, "q_rad", (6,))))
        else:
            poses.append(_numbers(where, view, "pose_base_link_tool", (4, 4)))
        images.append(path.parent / name)
    if len(set(images)) != len(images):
        raise ConfigError(f"{path}: an image is named twice")
    return images, np.array(poses).reshape(-1, 4, 4)


def _numbers(where: str, view: dict, field: str, shape: tuple[int, ...]) -> np.ndarray:
    try:
        values = np.array(view[field], dtype=float)
    except (TypeError, ValueError, OverflowError):  # a whole number of hundreds of digits is no float
        values = np.array(np.nan)
    if values.shape != shape or not np.isfinite(values).all():
        raise ConfigError(f"{where}: {field} must be {' x '.join(map(str, shape))} finite numbers")
    return values
