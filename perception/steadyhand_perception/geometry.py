"""Pinhole camera and the plane the objects stand on.

Optical frame as in ROS: x right, y down, z forward. A pixel's centre has whole-number coordinates: (0, 0) is the centre
of the upper left pixel.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError


@dataclass(frozen=True)
class PinholeCamera:
    """Intrinsics (pixels) and the pose of the optical frame in `base_link`, (4, 4), as nested tuples of floats."""

    width_px: int
    height_px: int
    fx_px: float
    fy_px: float
    cx_px: float
    cy_px: float
    pose_base_link_camera: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        for name in ("width_px", "height_px", "fx_px", "fy_px"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ConfigError(f"camera {name}={value}: must be finite and above 0")
        pose = np.asarray(self.pose_base_link_camera, dtype=float)
        if pose.shape != (4, 4) or not np.isfinite(pose).all():
            raise ConfigError(f"camera pose_base_link_camera has shape {pose.shape}: give a finite (4, 4) transform")
        if np.abs(pose[:3, :3] @ pose[:3, :3].T - np.eye(3)).max() > 1e-6:
            raise ConfigError("camera pose_base_link_camera: its rotation is not orthonormal")

    @property
    def pose(self) -> np.ndarray:
        """(4, 4) pose of the optical frame in `base_link`."""
        return np.asarray(self.pose_base_link_camera, dtype=float)

    def project(self, points_m: np.ndarray) -> np.ndarray:
        """Pixels (..., 2) of points (..., 3) in `base_link`: u = fx X / Z + cx, v = fy Y / Z + cy. NaN behind it."""
        pose = self.pose
        in_camera = (np.asarray(points_m, dtype=float) - pose[:3, 3]) @ pose[:3, :3]
        depth = np.where(in_camera[..., 2] > 1e-6, in_camera[..., 2], np.nan)
        return np.stack(
            [self.fx_px * in_camera[..., 0] / depth + self.cx_px, self.fy_px * in_camera[..., 1] / depth + self.cy_px],
            axis=-1,
        )

    def unproject(self, pixels: np.ndarray, plane_z_m: float) -> np.ndarray:
        """Points (..., 2), x and y in `base_link`, where the rays of pixels (..., 2) meet the plane z = `plane_z_m`.

        NaN for a ray that does not go down to the plane.
        """
        pixels = np.asarray(pixels, dtype=float)
        rays = np.stack(
            [
                (pixels[..., 0] - self.cx_px) / self.fx_px,
                (pixels[..., 1] - self.cy_px) / self.fy_px,
                np.ones(pixels.shape[:-1]),
            ],
            axis=-1,
        )
        pose = self.pose
        rays = rays @ pose[:3, :3].T
        drop = pose[2, 3] - plane_z_m
        down = np.where(rays[..., 2] < -1e-9, rays[..., 2], np.nan)
        return pose[:2, 3] - rays[..., :2] * (drop / down)[..., None]
