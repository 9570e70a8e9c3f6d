"""What the arm hides from the camera, on the plane on which objects stand. Pure."""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steadyhand import cell, kinematics

PLANE_Z_M = cell.CUBE_SIZE_M / 2


def on_tray(point_m: np.ndarray, camera_m: np.ndarray) -> np.ndarray:
    """(2,) where a camera at (3,) sees a point (3,) against the plane of the objects."""
    drop = max(camera_m[2] - point_m[2], 0.05)
    return camera_m[:2] + (point_m[:2] - camera_m[:2]) * (camera_m[2] - PLANE_Z_M) / drop


def shadow(q_rad: np.ndarray, camera_m: np.ndarray) -> list[np.ndarray]:
    """The arm from the elbow to the tool as a polyline on the plane of the objects."""
    links = kinematics.link_transforms(q_rad)[1:, :3, 3]
    return [on_tray(p, camera_m) for p in (*links, kinematics.pose_base_link_tool(q_rad)[:3, 3])]


def hides(line: Sequence[np.ndarray], point_m: np.ndarray, radius_m: float) -> bool:
    """Whether a shadow of this half width covers a point (2,) of the plane of the objects."""
    for a, b in zip(line, line[1:]):
        along = b - a
        t = np.clip((point_m - a) @ along / max(float(along @ along), 1e-12), 0.0, 1.0)
        if np.linalg.norm(point_m - a - t * along) < radius_m:
            return True
    return False
