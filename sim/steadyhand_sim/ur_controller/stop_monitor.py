"""What the safety system watches while a stop of category 1 or 2 acts. Pure.

Source: Universal Robots, "User Manual UR5/CB3", version 3.4.5, section 2.5.1 "Monitoring of safety inputs" (pages I-15,
I-16; version 3.1: I-42): deceleration begins within 24 ms; a moving joint is at no time faster than a ramp from the
joint speed limit to 0 in 500 ms; a joint that has come below 0.2 rad/s does not move more than 0.05 rad from where it
was then. Else the safety system issues a stop of category 0: the power goes at once and the brakes take the arm. The
e-Series manual gives no figures ("SS1 or SS2 according to IEC 61800-5-2"): the same are used. The words are those of the
error codes C191A14 and C191A15.
"""
from __future__ import annotations

import numpy as np

from steadyhand import ur5

BRAKING_WITHIN_S, RAMP_S = 0.024, 0.5
AT_REST_RAD_S, MOVED_RAD = 0.2, 0.05


class StopMonitor:
    """One stop, from the moment it was issued. A joint that has been at rest stays judged by its place."""

    def __init__(self, speed_limit_rad_s: float, now_s: float):
        self._limit_rad_s, self._began_s = speed_limit_rad_s, now_s
        self._rest_rad = np.full(ur5.DOF, np.nan)  # where each joint came to rest; NaN before

    def look(self, q_rad: np.ndarray, qd_rad_s: np.ndarray, now_s: float) -> str:
        """What is violated by these measurements (6,), with the joint; empty when nothing is."""
        resting = np.isfinite(self._rest_rad)
        came = ~resting & (np.abs(qd_rad_s) < AT_REST_RAD_S)
        self._rest_rad[came] = q_rad[came]
        moved = np.abs(q_rad - self._rest_rad)
        for i in np.flatnonzero(moved > MOVED_RAD):  # NaN compares false
            return f"C191A15 robot is moving in stop mode: {ur5.JOINT_NAMES[i]} by {moved[i]:.3f} rad"
        braked_s = max(0.0, now_s - self._began_s - BRAKING_WITHIN_S)
        allowed = self._limit_rad_s * max(0.0, 1.0 - braked_s / RAMP_S)
        for i in np.flatnonzero(~(resting | came) & (np.abs(qd_rad_s) > allowed)):
            return f"C191A14 robot is not braking in stop mode: {ur5.JOINT_NAMES[i]} at {qd_rad_s[i]:.2f} rad/s"
        return ""
