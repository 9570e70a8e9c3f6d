"""The cell behind the emulated controller's terminals: joints, gripper by digital outputs, width by analog input."""
from __future__ import annotations

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_sim.currents import motor_currents
from steadyhand_sim.ur_controller.plant import PlantCommand, PlantState
from steadyhand_sim.world import World

CLOSE_BIT, PREGRASP_BIT = 1 << 0, 1 << 1  # standard digital outputs 0 and 1
WIDTH_FULL_SCALE_M, VOLTAGE_FULL_SCALE_V = 0.1, 10.0


def gripper_command(digital_outputs: int) -> str:
    """Named gripper command of the output bits: output 0 closes; while it is off, output 1 asks for the narrow opening."""
    if digital_outputs & CLOSE_BIT:
        return "close"
    return "pregrasp" if digital_outputs & PREGRASP_BIT else "open"


class CellPlant:
    """`Plant` of `ur_controller` over a World."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._gripper = ""

    def state(self) -> PlantState:
        """The present state, without advancing time."""
        world = self.world
        volts = np.clip(world.gripper_width / WIDTH_FULL_SCALE_M, 0.0, 1.0) * VOLTAGE_FULL_SCALE_V
        return PlantState(
            q_rad=world.q_rad.copy(), qd_rad_s=world.qd_rad_s.copy(),
            current_a=motor_currents(world.torque_nm, world.qd_rad_s), analog_inputs_v=(float(volts), 0.0),
        )

    def step(self, command: PlantCommand, dt_s: float) -> PlantState:
        """Advance by one control cycle; raises ConfigError when it is no whole number of physics periods."""
        n_substeps = round(dt_s / self.world.physics_period_s)
        if n_substeps < 1 or abs(n_substeps * self.world.physics_period_s - dt_s) > 1e-9:
            raise ConfigError(f"dt_s={dt_s}: give a multiple of the physics period {self.world.physics_period_s} s")
        wanted = gripper_command(command.digital_outputs)
        if wanted != self._gripper:
            self.world.set_gripper(wanted)
            self._gripper = wanted
        if command.brakes_engaged:
            self.world.step_braked(n_substeps)
        else:
            self.world.step(command.q_target_rad, command.qd_target_rad_s, n_substeps)
        return self.state()
