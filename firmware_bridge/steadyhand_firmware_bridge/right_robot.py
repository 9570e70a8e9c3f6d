"""Is this the robot that the runtime is made for: firmware, model and the arm's own measures. Pure.

An e-Series UR5e calls itself a UR5 too, so the name proves little; the DH lengths that the controller has configured do
(Universal Robots, "DH parameters for calculations of kinematics and dynamics").
"""
from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from steadyhand import ur5

OLDEST = {3: (3, 14), 5: (5, 6)}  # what our program and the checks of local control need
MODEL = "UR5"
DH_TOLERANCE_M = 0.005  # a calibrated arm differs from its model by less


def unfit_firmware(major: int, minor: int) -> str:
    """What to do about this PolyScope; empty when it is one that this driver speaks to."""
    oldest = OLDEST.get(major)
    if oldest is None:
        return "this driver speaks to PolyScope 3 (CB3) and 5 (e-Series)"
    return f"update PolyScope to {oldest[0]}.{oldest[1]} or later" if (major, minor) < oldest else ""


def dh_apart_m(dh_a_m: Sequence[float], dh_d_m: Sequence[float]) -> float:
    """Largest difference of these DH lengths (6 each) from a UR5's."""
    return float(np.abs(np.array([*dh_a_m, *dh_d_m]) - np.concatenate([ur5.DH_A_M, ur5.DH_D_M])).max())


def unfit_arm(dh_a_m: Sequence[float], dh_d_m: Sequence[float]) -> str:
    """What is wrong with the arm behind the controller; empty when it is a UR5."""
    apart_m = dh_apart_m(dh_a_m, dh_d_m)
    if apart_m <= DH_TOLERANCE_M:
        return ""
    return f"DH lengths up to {apart_m * 1e3:.0f} mm off a UR5's: the arm behind this controller is no UR5, do not use it here"
