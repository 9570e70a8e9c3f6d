"""What the camera process needs to know to draw one frame."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CAMERA_STATES = ("ok", "blank", "frozen", "off")
MAX_OBJECTS = 64


@dataclass(frozen=True)
class Snapshot:
    """Scene at `time_s` (simulated). `look_seed` and `look_split` name the look; `camera` is the camera's state."""

    seq: int
    time_s: float
    q_rad: np.ndarray  # (6,)
    gripper_width_m: float
    position_m: np.ndarray  # (N, 3) cube centres, base_link
    quaternion_xyzw: np.ndarray  # (N, 4)
    look_seed: int = 0
    look_split: str = "test"
    camera: str = "ok"  # one of CAMERA_STATES; frozen: the simulator repeats a snapshot, seq too
    vehicle_m_rad: tuple[float, float, float] | None = None  # x, y, heading of the AGV in base_link, where there is one
