"""Is the camera the one that the model was made for? `camera_info` against the nominal camera of the contract (I10).

One figure decides: the largest distance in the picture between where the nominal camera and the real one, distortion
and all, put the same ray. It catches another lens, another resolution, a cropped or an unrectified image alike.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_checks import ImageFault

POSE_TOLERANCE_M, POSE_TOLERANCE_RAD = 0.005, 0.005  # of the mounting; trained with 1.5 mm and 1.5 mrad rms
TOLERANCE_PX = 0.5  # at the distance of the tray (1 m, 376 px focal length) 1.3 mm
DISTORTION_MODELS = {"": 0, "plumb_bob": 5, "rational_polynomial": 8}  # of ROS; number of coefficients


@dataclass(frozen=True)
class CameraInfo:
    """What `sensor_msgs/CameraInfo` says of the image: `k` (9) row by row in pixels, `d` distortion coefficients."""

    width_px: int
    height_px: int
    k: tuple[float, ...]
    d: tuple[float, ...] = ()
    distortion_model: str = ""


def distort(rays: np.ndarray, d: np.ndarray) -> np.ndarray:
    """Normalised image points (..., 2) after OpenCV's radial and tangential model, d = k1 k2 p1 p2 k3 [k4 k5 k6]."""
    k1, k2, p1, p2, k3, k4, k5, k6 = (*d, *np.zeros(8 - len(d)))
    x, y = rays[..., 0], rays[..., 1]
    r2 = x * x + y * y
    radial = (1 + r2 * (k1 + r2 * (k2 + r2 * k3))) / (1 + r2 * (k4 + r2 * (k5 + r2 * k6)))
    return np.stack(
        [x * radial + 2 * p1 * x * y + p2 * (r2 + 2 * x * x), y * radial + p1 * (r2 + 2 * y * y) + 2 * p2 * x * y],
        axis=-1,
    )


def camera_info_faults(
    info: CameraInfo, camera: PinholeCamera, tolerance_px: float = TOLERANCE_PX
) -> tuple[ImageFault, ...]:
    """`camera_info` with the field that disagrees, or nothing."""
    return tuple(ImageFault("camera_info", text) for text in [_disagreement(info, camera, tolerance_px)] if text)


def _disagreement(info: CameraInfo, camera: PinholeCamera, tolerance_px: float) -> str:
    if (info.width_px, info.height_px) != (camera.width_px, camera.height_px):
        return f"width x height {info.width_px} x {info.height_px}, the model's {camera.width_px} x {camera.height_px}"
    k, d = np.asarray(info.k, dtype=float), np.asarray(info.d, dtype=float)
    if k.shape != (9,) or not np.isfinite(k).all() or k[0] <= 0 or k[4] <= 0 or abs(k[8] - 1) > 1e-9:
        return f"k = {np.round(k, 3).tolist()}: no camera matrix; calibrate the camera"
    expected = DISTORTION_MODELS.get(info.distortion_model)
    if expected is None:
        return f"distortion_model {info.distortion_model[:40]!r}: rectify, or use {list(DISTORTION_MODELS)[1:]}"
    if not np.isfinite(d).all() or (len(d) not in (0, expected)):
        return f"d has {len(d)} coefficients, {info.distortion_model or 'no model'} has {expected}, all finite"
    u, v = np.meshgrid(np.linspace(0, camera.width_px - 1, 9), np.linspace(0, camera.height_px - 1, 9))
    nominal = np.stack([u, v], axis=-1)
    rays = (nominal - [camera.cx_px, camera.cy_px]) / [camera.fx_px, camera.fy_px]
    bent = distort(rays, d)
    found = np.stack([k[0] * bent[..., 0] + k[1] * bent[..., 1] + k[2], k[4] * bent[..., 1] + k[5]], axis=-1)
    apart_px = float(np.abs(found - nominal).max())
    if apart_px <= tolerance_px:
        return ""
    fields = zip(("fx", "fy", "cx", "cy"), k[[0, 4, 2, 5]] - [camera.fx_px, camera.fy_px, camera.cx_px, camera.cy_px])
    off = [f"{name} by {value:+.1f}" for name, value in fields if abs(value) > 0.1] or ["d"]
    return f"the model's camera sees up to {apart_px:.1f} px elsewhere (limit {tolerance_px}): {', '.join(off)}"


def pose_disagreement(pose_base_link_camera: np.ndarray, camera: PinholeCamera) -> str:
    """How a camera's measured pose (4, 4), by a hand-eye calibration, is off the model's; empty when it is not."""
    miss = np.linalg.inv(camera.pose) @ np.asarray(pose_base_link_camera, dtype=float)
    shift_m = float(np.linalg.norm(miss[:3, 3]))
    turn_rad = float(np.arccos(np.clip((np.trace(miss[:3, :3]) - 1) / 2, -1, 1)))
    if shift_m <= POSE_TOLERANCE_M and turn_rad <= POSE_TOLERANCE_RAD:
        return ""
    return (
        f"the camera stands {shift_m * 1e3:.1f} mm and {turn_rad * 1e3:.1f} mrad from where the model has it (limits "
        f"{POSE_TOLERANCE_M * 1e3:.0f} mm, {POSE_TOLERANCE_RAD * 1e3:.0f} mrad): move it, or train for this pose"
    )
