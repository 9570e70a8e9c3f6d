"""The runtime's `World`, stepped for training: the same bodies, scene and motor equations, fewer exchanges with Python.

What is saved: the motors run in plain floats and read the physics once per control cycle, and the physics runs as fine
as what happens asks for. An arm in free air goes exactly where its motors put it at any rate; contact does not: at
250 Hz a held cube slips by millimetres where the runtime's world, at 500 Hz, keeps it. So `detail` chooses: "free",
"near" things, "contact". How near the two worlds are is tested (tests/scenario/test_training_world.py).
"""
from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from steadyhand import kinematics, ur5
from steadyhand.errors import ConfigError
from steadyhand_sim import bullet
from steadyhand_sim.envs.arm_motors import ArmMotors
from steadyhand_sim.envs.plant_parameters import PlantParameters
from steadyhand_sim.world import CONTACT_DISTANCE_M, JOINT_TORQUE_NM, World, WorldConfig

CYCLE_S = ur5.SERVO_PERIOD_CB3_S
# Motors' inertia on the joint side, which the links' masses lack (gear 101; invented within the usual, for the sag).
ROTOR_INERTIA_KG_M2 = np.array([1.0, 1.0, 1.0, 0.2, 0.2, 0.2])


@dataclass(frozen=True)
class Rates:
    """Physics rates by detail, and how a control cycle of 8 ms is divided between motors and physics."""

    free_hz: int = 125
    near_hz: int = 250
    contact_hz: int = 500
    exchanges: int = 1  # of motors and physics per cycle; a divisor of the physics periods of each rate
    motor_steps: int = 2  # of the motors per cycle, a multiple of `exchanges`

    def __post_init__(self) -> None:
        for name in ("free_hz", "near_hz", "contact_hz"):
            hz = getattr(self, name)
            if hz not in (125, 250, 500, 1000) or (name == "contact_hz" and hz < 250):
                raise ConfigError(f"{name}={hz}: give 125, 250, 500 or 1000; contact_hz 250 at least")
            if self.exchanges < 1 or round(CYCLE_S * hz) % self.exchanges or self.motor_steps % self.exchanges:
                raise ConfigError(
                    f"exchanges={self.exchanges}: give a divisor of {name}={hz} periods per cycle and of "
                    f"motor_steps={self.motor_steps}"
                )

    def periods(self, detail: str) -> int:
        """Physics periods per control cycle."""
        return round(CYCLE_S * getattr(self, f"{detail}_hz"))


RUNTIME_RATES = Rates(500, 500, 500, exchanges=4, motor_steps=4)  # as `World` has them


class TrainingWorld(World):
    """`cycle` passes one control cycle. Everything that `World` offers for reading works as it does there."""

    def __init__(
        self, config: WorldConfig | None = None, plant: PlantParameters = PlantParameters(), rates: Rates = Rates()
    ) -> None:
        self.rates, self.plant = rates, plant
        super().__init__(replace(config or WorldConfig(), physics_hz=rates.contact_hz))

    def reset(self, seed: int, n_cubes: int | None = None) -> None:
        """A fresh scene, with the arm where a plant with its bias stands when told the start configuration."""
        super().reset(seed, n_cubes)
        p, rates = self._p, self.rates
        self._cycles, self._detail = 0, ""
        self.detail("contact")
        # bound once: PyBullet's client object looks its functions up anew at every access
        self._set, self._pass, self._joints = p.setJointMotorControlArray, p.stepSimulation, p.getJointStates
        self._base, self._contacts = p.getBasePositionAndOrientation, p.getContactPoints
        self.motors = ArmMotors(
            self.config.motors, self.plant, CYCLE_S, rates.exchanges, rates.motor_steps // rates.exchanges
        )
        if any(self.plant.bias_rad):
            for joint, q, bias in zip(self._arm, self.config.q_start_rad, self.plant.bias_rad):
                p.resetJointState(self._robot, joint, q + bias)
            self._read()
        self.motors.reset(list(self.config.q_start_rad))
        if self.plant.payload_kg > 0.0:
            self._load_payload()

    def cycle(self, q_rad: list[float], qd_rad_s: list[float]) -> None:
        """Pass one control cycle; the reference reaches this set-point (6,) at its end. Floats, checked by the gate."""
        motors, robot, arm, p = self.motors, self._robot, self._arm, self._p
        if self.plant.payload_kg > 0.0:
            self._sag()
        motors.begin(q_rad, qd_rad_s)
        for _ in range(self.rates.exchanges):
            self._set(
                robot, arm, p.VELOCITY_CONTROL, targetVelocities=motors.drive(self._q, self._qd), forces=JOINT_TORQUE_NM
            )
            for _ in range(self._periods):
                self._pass()
            self._read()
        self._cycles += 1
        self._target_rad, self._target_rad_s = q_rad, qd_rad_s

    def detail(self, detail: str) -> None:
        """How fine physics runs from now on: "free", "near" or "contact"."""
        if detail != self._detail:
            periods = self.rates.periods(detail)
            self._detail, self._periods = detail, periods // self.rates.exchanges
            self._p.setPhysicsEngineParameter(fixedTimeStep=CYCLE_S / periods)

    @property
    def time_s(self) -> float:
        """Simulated time since reset."""
        return self._cycles * CYCLE_S

    def _read(self) -> None:
        states = self._p.getJointStates(self._robot, self._arm)
        self._q, self._qd, self._torque = ([s[k] for s in states] for k in (0, 1, 3))

    @property
    def q_rad(self) -> np.ndarray:
        """Measured joint positions (6,)."""
        return np.array(self._q)

    @property
    def qd_rad_s(self) -> np.ndarray:
        """Measured joint velocities (6,)."""
        return np.array(self._qd)

    @property
    def torque_nm(self) -> np.ndarray:
        """Torques of the joint motors (6,)."""
        return np.array(self._torque)

    def measured(self) -> tuple[list[float], list[float]]:
        """Joint positions and velocities as the encoders say, which know nothing of a bias."""
        if any(self.plant.bias_rad):
            return [q - bias for q, bias in zip(self._q, self.plant.bias_rad)], self._qd
        return self._q, self._qd

    def cube_position(self, index: int) -> tuple[float, float, float]:
        """Ground truth: centre of one cube."""
        return self._base(self._cubes[index])[0]

    def pads_touching(self, body: int) -> int:
        """Ground truth: how many of the two fingers are in contact with a body."""
        return sum(
            any(contact[8] < CONTACT_DISTANCE_M for contact in self._contacts(self._robot, body, joint))
            for joint in self.gripper.joints
        )

    def cube_body(self, index: int) -> int:
        """A cube's body in `client`."""
        return self._cubes[index]

    def preset_gripper(self, width_m: float) -> None:
        """Put the fingers at an opening at once, and command them closed: something is between them already."""
        for joint in self.gripper.joints:
            self._p.resetJointState(self._robot, joint, width_m / 2)
        self.set_gripper("close")

    # -- a payload that the controller does not know -----------------------------------------------------------------
    def _load_payload(self) -> None:
        """Weigh the gripper down. The sag is the motors': a controlled joint gives way by load over stiffness."""
        p = self._p
        link = bullet.joint_indices(p, self._robot)["gripper_fixed"]
        mass = p.getDynamicsInfo(self._robot, link)[0]
        p.changeDynamics(self._robot, link, mass=mass + self.plant.payload_kg)
        fingers = [state[0] for state in p.getJointStates(self._robot, self.gripper.joints)]
        matrix = np.array(p.calculateMassMatrix(self._robot, [*self._q, *fingers]))
        self._inertia = np.diag(matrix)[: ur5.DOF] + ROTOR_INERTIA_KG_M2

    def _sag(self) -> None:
        lever = kinematics.jacobian(self._q)[2]  # of the tool's height
        torque = -self.plant.payload_kg * self.config.gravity_m_s2 * lever
        self.motors.sag_rad_s2 = (torque / self._inertia).tolist()
