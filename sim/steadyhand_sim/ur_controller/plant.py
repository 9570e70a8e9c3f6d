"""What the controller drives: the seam between the emulated controller and the physics behind it.

The controller calls `Plant.step` once per control cycle with the set-point of that cycle; the plant integrates its own
finer steps over `dt_s` and answers with what the joint encoders, current sensors and I/O terminals show at the end.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from steadyhand import ur5

# the cell's gripper at the controller's terminals
CLOSE_BIT, PREGRASP_BIT = 1 << 0, 1 << 1  # standard digital outputs 0 and 1; 0 has precedence
WIDTH_FULL_SCALE_M, VOLTAGE_FULL_SCALE_V = 0.1, 10.0  # analog input 0


@dataclass(frozen=True)
class PlantCommand:
    """One control cycle's output to the joints and I/O terminals."""

    q_target_rad: np.ndarray  # (6,)
    qd_target_rad_s: np.ndarray  # (6,)
    qdd_target_rad_s2: np.ndarray  # (6,) feed-forward
    brakes_engaged: bool = False  # without power: the brakes stop the joints and hold them, targets are ignored
    digital_outputs: int = 0  # bit n = standard digital output n; bits 8-15 configurable, 16-17 tool


@dataclass(frozen=True)
class PlantState:
    """What the controller measures after a cycle."""

    q_rad: np.ndarray  # (6,) encoders
    qd_rad_s: np.ndarray  # (6,)
    current_a: np.ndarray  # (6,) motor currents
    analog_inputs_v: tuple[float, float] = (0.0, 0.0)  # [0] = gripper width
    digital_inputs: int = 0  # bit n = standard digital input n
    tcp_force_n: np.ndarray = field(default_factory=lambda: np.zeros(ur5.DOF))  # (6,) estimate at the TCP, `base`


class Plant(Protocol):
    """Arm, gripper and world. Deterministic: same seed and same commands give the same states."""

    def state(self) -> PlantState:
        """The present state, without advancing time (asked once, at start)."""
        ...

    def step(self, command: PlantCommand, dt_s: float) -> PlantState:
        """Advance by one control cycle (8 ms or 2 ms)."""
        ...
