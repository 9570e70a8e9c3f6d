"""Quantities derived from one cycle."""
from __future__ import annotations

from functools import cached_property

import numpy as np

from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.motion import Setpoint
from steadyhand_sim.ur_controller.plant import PlantState


class Tool:
    """TCP poses (6,) and twists (6,) in `base` of one cycle's target and measurement, computed when first asked for."""

    def __init__(self, target: Setpoint, measured: PlantState, tcp: np.ndarray):
        self._target, self._measured, self._tcp = target, measured, tcp

    @cached_property
    def actual_pose(self) -> np.ndarray:
        """Measured."""
        return frames.forward(self._measured.q_rad, self._tcp)

    @cached_property
    def target_pose(self) -> np.ndarray:
        """Commanded."""
        return frames.forward(self._target.q_rad, self._tcp)

    @cached_property
    def actual_speed(self) -> np.ndarray:
        """Measured."""
        return frames.jacobian(self._measured.q_rad, self._tcp) @ self._measured.qd_rad_s

    @cached_property
    def target_speed(self) -> np.ndarray:
        """Commanded."""
        return frames.jacobian(self._target.q_rad, self._tcp) @ self._target.qd_rad_s
