"""A plant without physics: each joint follows its target as the recorded motors do. For tests of the controller.

Dead time, then qdd = qdd_target + wn^2 (q_target - q) + 2 zeta wn (qd_target - qd), bounded. With the feed-forward a
smooth target is followed within a millisecond or so, an abrupt cut rings, as recorded on a real UR5 (NTNU 2013: base wn
31 rad/s, zeta 0.48, dead time 2 ms, 23 rad/s2; wrist wn 42, zeta 1.4, 34 rad/s2). The gripper is a width that runs at
constant speed between the ends given by its two digital outputs.
"""
from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, ur5
from steadyhand_sim.ur_controller.plant import (
    CLOSE_BIT, PREGRASP_BIT, VOLTAGE_FULL_SCALE_V, WIDTH_FULL_SCALE_M, PlantCommand, PlantState,
)

# "User Manual UR5/CB3" 3.4.5, table of stop category 0: base 183 deg/s to rest in 244 ms. Gravity is not modelled here.
BRAKES_RAD_S2 = 13.0
FINGER_SPEED_M_S = 0.15  # of the opening, both fingers together


@dataclass(frozen=True)
class MotorModel:
    """Second-order response per joint (6,). Base and wrist 3 are fitted to recordings, the rest lies between."""

    wn_rad_s: tuple[float, ...] = (31.0, 31.0, 31.0, 42.0, 42.0, 42.0)
    zeta: tuple[float, ...] = (0.48, 0.48, 0.48, 1.4, 1.4, 1.4)
    acceleration_limit_rad_s2: tuple[float, ...] = (23.0, 23.0, 23.0, 34.0, 34.0, 34.0)
    dead_time_s: float = 0.002
    substep_s: float = 0.002


class KinematicPlant:
    """See the module's docstring. `offset_rad` is added to the encoders, to provoke a deviation."""

    def __init__(self, q_rad: np.ndarray = cell.HOME_Q_RAD, motor: MotorModel = MotorModel()):
        self.motor = motor
        self.q_rad = np.array(q_rad, dtype=float)
        self.qd_rad_s = np.zeros(ur5.DOF)
        self.offset_rad = np.zeros(ur5.DOF)
        self.tcp_force_n = np.zeros(ur5.DOF)  # somebody presses against the tool
        self.digital_inputs = 0
        self.width_m = cell.GRIPPER_OPEN_M
        self.object_m: float | None = None  # closing fingers stop at this width
        self.gripper_by_outputs = True  # false: a gripper with a controller of its own drives the fingers
        self._told = (cell.GRIPPER_OPEN_M, FINGER_SPEED_M_S)
        self._delayed: deque = deque()
        self._wn, self._zeta = np.array(motor.wn_rad_s), np.array(motor.zeta)
        self._limit = np.array(motor.acceleration_limit_rad_s2)
        self._qdd = np.zeros(ur5.DOF)
        self._last: PlantCommand | None = None

    def shove(self, joint: int, rad_s: float) -> None:
        """Somebody knocks against the arm: this joint suddenly moves so much faster."""
        self.qd_rad_s = self.qd_rad_s + rad_s * np.eye(ur5.DOF)[joint]

    def state(self) -> PlantState:
        """What the encoders show."""
        return PlantState(
            self.q_rad + self.offset_rad, self.qd_rad_s.copy(), 0.2 * self._qdd,
            (VOLTAGE_FULL_SCALE_V * self.width_m / WIDTH_FULL_SCALE_M * self.gripper_by_outputs, 0.0),
            self.digital_inputs, self.tcp_force_n.copy(),
        )  # fmt: skip

    def step(self, command: PlantCommand, dt_s: float) -> PlantState:
        """Integrate over one control cycle."""
        self._grip(command.digital_outputs, dt_s)
        if command.brakes_engaged:
            before = self.qd_rad_s
            self.qd_rad_s = before - np.clip(before, -BRAKES_RAD_S2 * dt_s, BRAKES_RAD_S2 * dt_s)
            self.q_rad = self.q_rad + 0.5 * (before + self.qd_rad_s) * dt_s
            self._qdd = np.zeros(ur5.DOF)
            self._delayed.clear()
            self._last = None
            return self.state()
        substeps = max(1, round(dt_s / self.motor.substep_s))
        h = dt_s / substeps
        delay = round(self.motor.dead_time_s / h)
        previous = self._last or command
        for i in range(1, substeps + 1):
            f = i / substeps  # the joints interpolate between set-points, as the drives do
            q_t = previous.q_target_rad + f * (command.q_target_rad - previous.q_target_rad)
            qd_t = previous.qd_target_rad_s + f * (command.qd_target_rad_s - previous.qd_target_rad_s)
            self._delayed.append((q_t, qd_t, command.qdd_target_rad_s2))
            if len(self._delayed) <= delay:
                continue
            q_t, qd_t, qdd_t = self._delayed.popleft()
            qdd = qdd_t + self._wn**2 * (q_t - self.q_rad) + 2 * self._zeta * self._wn * (qd_t - self.qd_rad_s)
            self._qdd = np.clip(qdd, -self._limit, self._limit)
            self.qd_rad_s = self.qd_rad_s + h * self._qdd
            self.q_rad = self.q_rad + h * self.qd_rad_s
        self._last = command
        return self.state()

    def _grip(self, outputs: int, dt_s: float) -> None:
        opening = cell.GRIPPER_PREGRASP_M if outputs & PREGRASP_BIT else cell.GRIPPER_OPEN_M
        goal, speed = (0.0 if outputs & CLOSE_BIT else opening), FINGER_SPEED_M_S
        if not self.gripper_by_outputs:
            goal, speed = self._told
        if self.object_m is not None and self.width_m >= self.object_m:
            goal = max(goal, self.object_m)
        self.width_m += float(np.clip(goal - self.width_m, -speed * dt_s, speed * dt_s))

    def gripper_width_m(self) -> float:
        """Measured opening, for a gripper that is not wired to the terminals."""
        return self.width_m

    def move_gripper(self, width_m: float, speed_m_s: float, force_n: float) -> None:
        """The same fingers, told by that gripper."""
        self._told = (width_m, speed_m_s)
