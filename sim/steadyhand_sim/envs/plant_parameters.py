"""What may be unlike the identified arm: for domain randomisation and for pseudo-real plants.

Every field at its default is the arm as identified from a real UR5 (`motor_model`). The ranges of `sample` are those
that training randomises over; a pseudo-real plant may lie outside them.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import ur5
from steadyhand.errors import ConfigError

# field -> (low, high) of training's randomisation, uniform. Dead time, lag and gain reach past the invented
# pseudo-real plant of docs/simulation.md (18 ms, 60 ms, 0.65); bias and backlash are those of a worn, recalibrated arm.
RANGES = {
    "dead_time_s": (0.0, 0.022), "lag_s": (0.0, 0.07), "gain": (0.6, 1.2), "friction": (0.5, 3.0),
    "backlash_rad": (0.0, 0.0015), "payload_kg": (0.0, 1.0),
}
BIAS_RANGE_RAD = 0.002


@dataclass(frozen=True)
class PlantParameters:
    """One arm. Raises ConfigError naming the field that is out of range."""

    dead_time_s: float = 0.0  # from set-point to reference, on top of the joints' own
    lag_s: float = 0.0  # first-order, of the reference
    gain: float = 1.0  # of the joints' control: feed-forward, stiffness and damping
    friction: float = 1.0  # factor on viscous and Coulomb friction
    backlash_rad: float = 0.0  # full width of the play between motor and joint
    bias_rad: tuple[float, ...] = (0.0,) * ur5.DOF  # the joint stands here when told 0: what calibration missed
    payload_kg: float = 0.0  # carried and unknown to the controller: the joints sag

    def __post_init__(self) -> None:
        limits = {
            "dead_time_s": (0.0, 0.06), "lag_s": (0.0, 0.3), "gain": (0.2, 3.0), "friction": (0.0, 20.0),
            "backlash_rad": (0.0, 0.02), "payload_kg": (0.0, 5.0),
        }
        for name, (low, high) in limits.items():
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not low <= value <= high:  # NaN fails both
                raise ConfigError(f"plant {name}={value!r}: give {low} to {high}")
        bias = np.asarray(self.bias_rad, dtype=float)
        if bias.shape != (ur5.DOF,) or not np.isfinite(bias).all() or np.abs(bias).max() > 0.05:
            raise ConfigError(f"plant bias_rad={self.bias_rad}: give 6 values within +-0.05 rad")

    @staticmethod
    def sample(rng: np.random.Generator, share: float = 1.0) -> PlantParameters:
        """A plant of training's distribution; `share` shrinks the ranges towards the identified arm (0: exactly it)."""
        if not 0.0 <= share <= 1.0:
            raise ConfigError(f"share={share}: give 0 to 1")
        nominal = PlantParameters()
        drawn = {}
        for name, (low, high) in RANGES.items():
            centre = getattr(nominal, name)
            drawn[name] = float(centre + share * (rng.uniform(low, high) - centre))
        bias = share * rng.uniform(-BIAS_RANGE_RAD, BIAS_RANGE_RAD, ur5.DOF)
        return PlantParameters(**drawn, bias_rad=tuple(float(b) for b in bias))


PSEUDO_REAL = PlantParameters(
    dead_time_s=0.018, lag_s=0.06, gain=0.65, friction=3.0, backlash_rad=0.001,
    bias_rad=(0.001, -0.001, 0.001, -0.001, 0.001, -0.001), payload_kg=0.5,
)  # the invented plant of docs/simulation.md, as one example; evaluation draws its own
