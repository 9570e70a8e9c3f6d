"""Is this the robot that the runtime is made for: firmware, model and the arm's own measures. Pure.

An e-Series UR5e calls itself a UR5 too, so the name proves little; the DH parameters that the controller has configured do
(Universal Robots, "DH parameters for calculations of kinematics and dynamics").
"""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from steadyhand import ur5

OLDEST = {3: (3, 14), 5: (5, 6)}  # what our program and the checks of local control need
MODEL = "UR5"
FLANGE_TOLERANCE_M = 0.020  # a calibrated arm differs from its model by some millimetres, a UR5e by 73 and more
POSTURES = ((0.0, -1.2, 1.4, -1.5, -1.5, 0.3), (1.0, -2.0, -1.1, 0.4, 1.2, -2.0), (-2.0, -0.5, 0.7, -2.5, 0.9, 1.0))


@dataclass(frozen=True)
class DhParameters:
    """Of six joints; `theta_rad` are offsets."""

    a_m: Sequence[float]
    d_m: Sequence[float]
    alpha_rad: Sequence[float]
    theta_rad: Sequence[float] = (0.0,) * ur5.DOF

    def flange_m(self, q_rad: np.ndarray) -> np.ndarray:
        """(3,) in the DH base frame."""
        total = np.eye(4)
        for a, d, alpha, theta in zip(self.a_m, self.d_m, self.alpha_rad, q_rad + self.theta_rad):
            c, s, ca, sa = np.cos(theta), np.sin(theta), np.cos(alpha), np.sin(alpha)
            total = total @ [[c, -s * ca, s * sa, a * c], [s, c * ca, -c * sa, a * s], [0, sa, ca, d], [0, 0, 0, 1]]
        return total[:3, 3]


UR5_DH = DhParameters(ur5.DH_A_M, ur5.DH_D_M, ur5.DH_ALPHA_RAD)


def unfit_firmware(major: int, minor: int) -> str:
    """What to do about this PolyScope; empty when it is one that this driver speaks to."""
    oldest = OLDEST.get(major)
    if oldest is None:
        return "this driver speaks to PolyScope 3 (CB3) and 5 (e-Series)"
    return f"update PolyScope to {oldest[0]}.{oldest[1]} or later" if (major, minor) < oldest else ""


def flange_apart_m(dh: DhParameters) -> float:
    """How far this arm's flange is from a UR5's, at most, in a few postures.

    Not parameter by parameter: a calibrated arm has d of metres on its parallel axes, which cancel.
    """
    return _apart_m([dh.flange_m(np.array(q)) for q in POSTURES])


def unfit_arm(dh: DhParameters) -> str:
    """What is wrong with the arm behind the controller; empty when it is a UR5."""
    return unfit_flange([dh.flange_m(np.array(q)) for q in POSTURES])


def unfit_flange(flange_m: Sequence[np.ndarray]) -> str:
    """What is wrong with an arm whose flange is there (3,) in `POSTURES`, in the DH base frame; empty for a UR5."""
    apart_m = _apart_m(flange_m)
    if apart_m <= FLANGE_TOLERANCE_M:
        return ""
    return f"its flange is up to {apart_m * 1e3:.0f} mm off a UR5's: the arm behind this controller is no UR5, do not use it here"


def _apart_m(flange_m: Sequence[np.ndarray]) -> float:
    return max(float(np.linalg.norm(p - UR5_DH.flange_m(np.array(q)))) for p, q in zip(flange_m, POSTURES))
