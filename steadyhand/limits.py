"""Motion limits of the gate. Every number's source and reasoning: `docs/limits.md`, written before any replay."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError

_JOINT_FIELDS = (
    "q_min_rad",
    "q_max_rad",
    "qd_max_rad_s",
    "qdd_max_rad_s2",
    "qddd_max_rad_s3",
    "stop_qdd_rad_s2",
    "stop_qddd_rad_s3",
)
_SIGNED = ("q_min_rad", "q_max_rad", "tool_min_m", "tool_max_m")


def _array(*values: float) -> np.ndarray:
    return np.array(values, dtype=float)


@dataclass(frozen=True)
class Limits:
    """What a set-point may be. Joint arrays are (6,), the tool's box (3,) in `base_link`.

    Raises ConfigError naming the field when a value is not finite, of the wrong shape, or contradicts another.
    """

    q_min_rad: np.ndarray = field(default_factory=lambda: ur5.Q_MIN_RAD.copy())
    q_max_rad: np.ndarray = field(default_factory=lambda: ur5.Q_MAX_RAD.copy())
    qd_max_rad_s: np.ndarray = field(default_factory=lambda: ur5.QD_MAX_RAD_S.copy())
    qdd_max_rad_s2: np.ndarray = field(default_factory=lambda: _array(8, 8, 10, 16, 16, 16))
    qddd_max_rad_s3: np.ndarray = field(default_factory=lambda: _array(1000, 1000, 1250, 2000, 2000, 2000))
    # The stop tail of a plan and nothing else is *generated* with these; braking and every check use the ones above.
    stop_qdd_rad_s2: np.ndarray = field(default_factory=lambda: _array(6, 6, 7.5, 12, 12, 12))
    stop_qddd_rad_s3: np.ndarray = field(default_factory=lambda: _array(300, 300, 375, 600, 600, 600))
    max_stop_s: float = 0.5  # a set-point is admitted only if a checked stop from it ends within this time
    tracking_rad: float = 0.03  # |commanded(t - lag) - measured| at standstill
    tracking_slack_s: float = 0.016  # and this much more for each rad/s: lag is known to two control periods
    tool_min_m: np.ndarray = field(default_factory=lambda: _array(0.15, -0.55, 0.015))
    tool_max_m: np.ndarray = field(default_factory=lambda: _array(0.85, 0.60, 0.80))
    min_clearance_m: float = 0.005  # between capsules, and between the arm and the table

    def __post_init__(self) -> None:
        for spec in fields(self):
            value = np.asarray(getattr(self, spec.name), dtype=float)
            shape = (ur5.DOF,) if spec.name in _JOINT_FIELDS else (3,) if spec.name.startswith("tool_") else ()
            if value.shape != shape:
                raise ConfigError(f"limits.{spec.name}: shape {value.shape}, wanted {shape}")
            if not np.isfinite(value).all():
                raise ConfigError(f"limits.{spec.name}={value.tolist()}: must be finite")
            if spec.name not in _SIGNED and (value <= 0).any():
                raise ConfigError(f"limits.{spec.name}={value.tolist()}: must be greater than 0")
            if shape:
                value = value.copy()
                value.setflags(write=False)
                object.__setattr__(self, spec.name, value)
        for low, high in (
            ("q_min_rad", "q_max_rad"),
            ("tool_min_m", "tool_max_m"),
            ("stop_qdd_rad_s2", "qdd_max_rad_s2"),
            ("stop_qddd_rad_s3", "qddd_max_rad_s3"),
        ):
            if (getattr(self, low) >= getattr(self, high)).any():
                raise ConfigError(f"limits.{low}={getattr(self, low).tolist()}: must be below limits.{high}")


UR5_LIMITS = Limits()
