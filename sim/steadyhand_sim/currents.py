"""Motor currents from joint torque, as the recordings of a real UR5 relate them.

    i = k tau + c_c tanh(q' / v_c) + c_v q'

Least squares of i_actual on m_target, sign and velocity over runs No1, No5, No6 and TEST of the NTNU recordings (UR5,
2013): the big joints agree within 10 % between runs, residual 0.3-0.45 A; the wrists, with little load, within 30 %,
residual 0.1-0.25 A. J6 carries no load there: its k is that of J5.
"""
from __future__ import annotations

import numpy as np

from steadyhand_sim.motor_model import FRICTION_VELOCITY_RAD_S

AMPERE_PER_NM = np.array([0.095, 0.093, 0.097, 0.10, 0.10, 0.10])
COULOMB_A = np.array([0.75, 0.76, 0.65, 0.22, 0.20, 0.17])
VISCOUS_A_S = np.array([0.86, 0.90, 0.75, 0.16, 0.15, 0.15])


def motor_currents(torque_nm: np.ndarray, qd_rad_s: np.ndarray) -> np.ndarray:
    """Currents (6,) in A of joint torques (6,) at velocities (6,)."""
    return AMPERE_PER_NM * torque_nm + COULOMB_A * np.tanh(qd_rad_s / FRICTION_VELOCITY_RAD_S) + VISCOUS_A_S * qd_rad_s
