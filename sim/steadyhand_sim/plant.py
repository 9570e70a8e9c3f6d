"""The cell behind the emulated controller's terminals: joints, gripper by digital outputs, width by analog input."""
from __future__ import annotations

from dataclasses import replace

import numpy as np

from steadyhand import kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand_sim.currents import motor_currents
from steadyhand_sim.impulse_noise import ImpulseNoise
from steadyhand_sim.ur_controller.plant import (
    CLOSE_BIT, PREGRASP_BIT, VOLTAGE_FULL_SCALE_V, WIDTH_FULL_SCALE_M, PlantCommand, PlantState,
)
from steadyhand_sim.world import World

FORCE_TIME_CONSTANT_S = 0.02  # low-pass of the force estimate
DAMPING = 0.02


def gripper_command(digital_outputs: int) -> str:
    """Named gripper command of the output bits: output 0 closes; while off, output 1 asks for the narrow opening."""
    if digital_outputs & CLOSE_BIT:
        return "close"
    return "pregrasp" if digital_outputs & PREGRASP_BIT else "open"


class CellPlant:
    """`Plant` of `ur_controller` over a World."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gripper_by_outputs = True  # false: a gripper with a controller of its own drives the fingers
        self._gripper = ""
        self._wrench = np.zeros(ur5.DOF)
        self.impulses: ImpulseNoise | None = None  # on the encoders, while it is switched on

    def state(self) -> PlantState:
        """The present state, without advancing time."""
        world = self.world
        volts = 0.0
        if self.gripper_by_outputs:
            volts = np.clip(world.gripper_width / WIDTH_FULL_SCALE_M, 0.0, 1.0) * VOLTAGE_FULL_SCALE_V
        return PlantState(
            q_rad=world.q_rad.copy(), qd_rad_s=world.qd_rad_s.copy(),
            current_a=motor_currents(world.torque_nm, world.qd_rad_s), analog_inputs_v=(float(volts), 0.0),
            tcp_force_n=self._wrench.copy(),
        )

    def step(self, command: PlantCommand, dt_s: float) -> PlantState:
        """Advance by one control cycle; raises ConfigError when it is no whole number of physics periods."""
        n_substeps = round(dt_s / self.world.physics_period_s)
        if n_substeps < 1 or abs(n_substeps * self.world.physics_period_s - dt_s) > 1e-9:
            raise ConfigError(f"dt_s={dt_s}: give a multiple of the physics period {self.world.physics_period_s} s")
        wanted = gripper_command(command.digital_outputs)
        if self.gripper_by_outputs and wanted != self._gripper:
            self.world.set_gripper(wanted)
            self._gripper = wanted
        if command.brakes_engaged:
            self.world.step_braked(n_substeps)
        else:
            self.world.step(command.q_target_rad, command.qd_target_rad_s, n_substeps)
        keep = np.exp(-dt_s / FORCE_TIME_CONSTANT_S)
        self._wrench = keep * self._wrench + (1.0 - keep) * self._tcp_wrench()
        return self._read(self.state())

    def _read(self, state: PlantState) -> PlantState:
        """What the sensors make of it."""
        if self.impulses is None:
            return state
        on_q, on_qd = np.split(self.impulses.draw(state.current_a), 2)
        return replace(state, q_rad=state.q_rad + on_q, qd_rad_s=state.qd_rad_s + on_qd)

    def gripper_width_m(self) -> float:
        """Measured opening, for a gripper that is not wired to the terminals."""
        return self.world.gripper_width

    def move_gripper(self, width_m: float, speed_m_s: float, force_n: float) -> None:
        """The same fingers, told by that gripper."""
        self.world.set_gripper(width_m, speed_m_s=speed_m_s, force_n=force_n)

    def _tcp_wrench(self) -> np.ndarray:
        """(6,) force and torque on the tool in `base`, as a controller has it: by what the motors do beyond the model.

        J^T F = tau_model - tau_motor, damped near singularities. An unknown payload shows, as on the robot.
        """
        jacobian = kinematics.jacobian(self.world.q_rad)
        external = self.world.model_torque_nm() - self.world.torque_nm
        wrench = np.linalg.solve(jacobian @ jacobian.T + DAMPING**2 * np.eye(ur5.DOF), jacobian @ external)
        rotation = kinematics.T_BASE_LINK_BASE[:3, :3].T
        return np.concatenate([rotation @ wrench[:3], rotation @ wrench[3:]])
