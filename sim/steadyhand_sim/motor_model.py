"""Joint response of the arm to set-points, as recorded on a real UR5 (`motors.json` holds parameters and source).

Feed-forward acceleration plus second-order error dynamics, with acceleration limit and dead time, per joint:

    a_wanted = k_a r'' + wn^2 (r - q) + 2 zeta wn (r' - q') - c_v q' - c_c tanh(q' / v_c)
    q''(t)   = clip(a_wanted(t - theta), -a_max, a_max)

On smooth motion the error is the friction that the feed-forward misses, over wn^2: 1-2 mrad. When the target is cut
abruptly the limit acts, the joint overshoots and rings with wn and zeta.
"""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError

PARAMETERS_FILE = Path(__file__).with_name("motors.json")
FRICTION_VELOCITY_RAD_S = 0.02  # v_c: width of the friction's sign change


@dataclass(frozen=True)
class MotorParameters:
    """Per-joint parameters, each (6,)."""

    wn_rad_s: tuple[float, ...]
    zeta: tuple[float, ...]
    acceleration_limit_rad_s2: tuple[float, ...]
    dead_time_s: tuple[float, ...]
    acceleration_gain: tuple[float, ...]  # k_a
    viscous_per_s: tuple[float, ...]  # c_v
    coulomb_rad_s2: tuple[float, ...]  # c_c

    def __post_init__(self) -> None:
        for f in fields(self):
            values = np.asarray(getattr(self, f.name), dtype=float)
            if values.shape != (ur5.DOF,) or not np.isfinite(values).all() or (values < 0).any():
                raise ConfigError(f"motor parameter {f.name}={getattr(self, f.name)}: give 6 finite values >= 0")
            if f.name in ("wn_rad_s", "acceleration_limit_rad_s2") and (values <= 0).any():
                raise ConfigError(f"motor parameter {f.name}={getattr(self, f.name)}: give 6 values > 0")
        if max(self.dead_time_s) > 0.1:
            raise ConfigError(f"motor parameter dead_time_s={self.dead_time_s}: at most 0.1 s")

    @staticmethod
    def load(path: Path = PARAMETERS_FILE, variant: str = "ur5") -> MotorParameters:
        """Parameters of one variant in a JSON file; raises ConfigError when it is absent or malformed."""
        try:
            entry = json.loads(Path(path).read_text())[variant]["parameters"]
            return MotorParameters(**{name: tuple(values) for name, values in entry.items()})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"motor parameters {path} variant {variant!r}: {error!r}") from error

    def scaled(self, **factors: float) -> MotorParameters:
        """A pseudo-real variant: named parameters times a factor."""
        return replace(self, **{n: tuple(factor * v for v in getattr(self, n)) for n, factor in factors.items()})


class MotorModel:
    """State of six joints. `step` moves the reference linearly from the last set-point to the next over a cycle."""

    def __init__(self, parameters: MotorParameters, physics_period_s: float) -> None:
        self._dt = physics_period_s
        as_array = {f.name: np.array(getattr(parameters, f.name), dtype=float) for f in fields(parameters)}
        self._stiffness = as_array["wn_rad_s"] ** 2
        self._damping = 2.0 * as_array["zeta"] * as_array["wn_rad_s"]
        self._limit = as_array["acceleration_limit_rad_s2"]
        self._gain = as_array["acceleration_gain"]
        self._viscous, self._coulomb = as_array["viscous_per_s"], as_array["coulomb_rad_s2"]
        delay = as_array["dead_time_s"] / physics_period_s
        self._whole, self._part = np.floor(delay).astype(int), delay - np.floor(delay)
        self._history = np.zeros((int(math.ceil(delay.max())) + 2, ur5.DOF))
        self._head, self._columns = 0, np.arange(ur5.DOF)
        self.q_rad, self.qd_rad_s = np.zeros(ur5.DOF), np.zeros(ur5.DOF)
        self.qdd_rad_s2 = np.zeros(ur5.DOF)

    def reset(self, q_rad: np.ndarray) -> None:
        """Stand still at (6,)."""
        self.q_rad, self.qd_rad_s = np.array(q_rad, dtype=float), np.zeros(ur5.DOF)
        self.qdd_rad_s2 = np.zeros(ur5.DOF)
        self._history[:] = 0.0

    def step(self, r_rad: np.ndarray, rd_rad_s: np.ndarray, rdd_rad_s2: np.ndarray) -> np.ndarray:
        """One physics period towards the reference (position, velocity, acceleration, each (6,)); returns q (6,)."""
        q, qd = self.q_rad, self.qd_rad_s
        wanted = (
            self._gain * rdd_rad_s2
            + self._stiffness * (r_rad - q)
            + self._damping * (rd_rad_s - qd)
            - self._viscous * qd
            - self._coulomb * np.tanh(qd / FRICTION_VELOCITY_RAD_S)
        )
        n = len(self._history)
        self._head = (self._head + 1) % n
        self._history[self._head] = wanted
        newer = self._history[(self._head - self._whole) % n, self._columns]
        older = self._history[(self._head - self._whole - 1) % n, self._columns]
        self.qdd_rad_s2 = np.clip(newer + self._part * (older - newer), -self._limit, self._limit)
        # semi-implicit Euler
        self.qd_rad_s = qd + self._dt * self.qdd_rad_s2
        self.q_rad = q + self._dt * self.qd_rad_s
        return self.q_rad
