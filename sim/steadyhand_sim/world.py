"""The physical cell in PyBullet (DIRECT): UR5 driven by the motor model, gripper, table, tray, box, cubes.

Same config and seed: bit-identical. All poses are in `base_link`, the table top is z = 0.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from steadyhand import cell, ur5
from steadyhand.errors import ConfigError
from steadyhand_sim import bullet, robots, scene, scoring
from steadyhand_sim.gripper import Gripper
from steadyhand_sim.motor_model import MotorModel, MotorParameters
from steadyhand_sim.snapshot import Snapshot

JOINT_TORQUE_NM = (150.0, 150.0, 150.0, 28.0, 28.0, 28.0)  # UR5 size 3 and size 1 joints, largest torque
CONTACT_DISTANCE_M = 1e-3
# Torque with which the arm, stretched out with 5 kg, comes to rest in the times and distances that the vendor gives for
# stop category 0 (base 244 ms, 0.31 rad; shoulder 530 ms, 0.70 rad; elbow 164 ms, 0.22 rad, each from 183 deg/s: "User
# Manual UR5/CB3" 3.4.5, appendix A.1). The wrists are not in its table: the largest torque of their motors is assumed.
BRAKE_TORQUE_NM = (120.0, 150.0, 72.0, 28.0, 28.0, 28.0)
BRAKE_GIVE_RAD = 1e-3  # a held joint comes back by so much


@dataclass(frozen=True)
class WorldConfig:
    """The plant. Frictions are Bullet's lateral coefficients (the product of both bodies acts)."""

    n_cubes: int = 5
    physics_hz: int = 500
    cube_mass_kg: float = 0.1
    cube_friction: float = 0.8
    finger_friction: float = 1.2
    table_friction: float = 0.6
    grip_force_n: float = 40.0
    gravity_m_s2: float = 9.81
    q_start_rad: tuple[float, ...] = tuple(float(v) for v in cell.HOME_Q_RAD)
    motors: MotorParameters = field(default_factory=MotorParameters.load)

    def __post_init__(self) -> None:
        if not 0 <= self.n_cubes <= cell.MAX_CUBES:
            raise ConfigError(f"n_cubes={self.n_cubes}: give 0 to {cell.MAX_CUBES}")
        if self.physics_hz not in (250, 500, 1000):
            raise ConfigError(f"physics_hz={self.physics_hz}: give 250, 500 or 1000")
        for name in ("cube_friction", "finger_friction", "table_friction"):
            if not 0.0 <= getattr(self, name) <= 5.0:
                raise ConfigError(f"{name}={getattr(self, name)}: give 0 to 5")
        for name in ("cube_mass_kg", "grip_force_n", "gravity_m_s2"):
            if not 0.0 < getattr(self, name) <= 1000.0:
                raise ConfigError(f"{name}={getattr(self, name)}: give a value above 0")
        if len(self.q_start_rad) != ur5.DOF or not np.isfinite(self.q_start_rad).all():
            raise ConfigError(f"q_start_rad={self.q_start_rad}: give 6 finite values")


class World:
    """Physics of the cell. `step` is the only thing that passes time."""

    def __init__(self, config: WorldConfig | None = None, seed: int = 0) -> None:
        self.config = config or WorldConfig()
        self._p = bullet.connect()
        self.physics_period_s = 1.0 / self.config.physics_hz
        self._motor = MotorModel(self.config.motors, self.physics_period_s)
        self.reset(seed)

    def close(self) -> None:
        """Free the physics client; harmless twice."""
        if self._p is not None:
            self._p.disconnect()
            self._p = None

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def reset(self, seed: int, n_cubes: int | None = None) -> None:
        """A fresh scene of `seed` with the arm at the start configuration. Nothing of the former episode remains."""
        p, config = self._p, self.config
        self.seed, self.n_steps, self._push_steps = seed, 0, 0
        p.resetSimulation()  # not a reset of states: contact caches would carry over and break reproducibility
        p.setGravity(0, 0, -config.gravity_m_s2)
        p.setPhysicsEngineParameter(fixedTimeStep=self.physics_period_s, deterministicOverlappingPairs=1)
        self._load_fixed()
        self._load_robot()
        cubes = scene.sample_cubes(np.random.default_rng([seed, 1]), config.n_cubes if n_cubes is None else n_cubes)
        self._load_cubes(cubes)
        self._brake_rad: np.ndarray | None = None
        self._target_rad = np.array(config.q_start_rad)
        self._target_rad_s = np.zeros(ur5.DOF)
        self._motor.reset(self._target_rad)
        self._read()

    def _load_fixed(self) -> None:
        p = self._p
        for box in scene.fixed_boxes():
            if box.collides:
                shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=box.half_extents_m)
                body = p.createMultiBody(0, shape, -1, box.centre_m)
                p.changeDynamics(body, -1, lateralFriction=self.config.table_friction)

    def _load_robot(self) -> None:
        p = self._p
        self._robot = bullet.load_ur5(p, visual=False)  # this client draws nothing
        index = bullet.joint_indices(p, self._robot)
        self._arm = [index[name] for name in ur5.JOINT_NAMES]
        self._tool_link = index["tool_fixed"]
        for joint, q in zip(self._arm, self.config.q_start_rad):
            p.resetJointState(self._robot, joint, q)
        for joint in range(-1, p.getNumJoints(self._robot)):
            p.changeDynamics(self._robot, joint, linearDamping=0, angularDamping=0, jointDamping=0)
        self.gripper = Gripper(p, self._robot, [index[n] for n in robots.FINGER_JOINTS], self.config.grip_force_n)
        self.set_finger_friction(self.config.finger_friction)

    def _load_cubes(self, cubes: scene.Cubes) -> None:
        p = self._p
        self._cubes = []
        for position, quaternion in zip(cubes.position_m, cubes.quaternion_xyzw):
            shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=[cell.CUBE_SIZE_M / 2] * 3)
            body = p.createMultiBody(self.config.cube_mass_kg, shape, -1, position.tolist(), quaternion.tolist())
            p.changeDynamics(body, -1, lateralFriction=self.config.cube_friction, spinningFriction=0.002)
            self._cubes.append(body)

    def set_finger_friction(self, lateral_friction: float) -> None:
        """Change the pads' friction now (fault injection; zero makes every grasp fail)."""
        for joint in self.gripper.joints:
            self._p.changeDynamics(
                self._robot, joint, lateralFriction=lateral_friction, spinningFriction=0.002 * (lateral_friction > 0)
            )

    def set_gripper(self, command: str | float, **how: float) -> None:
        """Command a width in metres, or "open", "pregrasp", "close". Takes effect with the next step; `how`: Gripper."""
        self.gripper.command(command, **how)

    def step(self, q_target_rad: np.ndarray, qd_target_rad_s: np.ndarray | None = None, n_substeps: int = 4) -> None:
        """Pass `n_substeps` physics periods; the set-point is reached by the reference at their end.

        Without a target velocity it is the difference of set-points. Raises ConfigError for anything not finite.
        """
        target = np.asarray(q_target_rad, dtype=float)
        duration_s = n_substeps * self.physics_period_s
        if target.shape != (ur5.DOF,) or not np.isfinite(target).all():
            raise ConfigError(f"q_target_rad={q_target_rad}: give 6 finite values")
        if qd_target_rad_s is None:
            velocity = (target - self._target_rad) / duration_s
        else:
            velocity = np.asarray(qd_target_rad_s, dtype=float)
            if velocity.shape != (ur5.DOF,) or not np.isfinite(velocity).all():
                raise ConfigError(f"qd_target_rad_s={qd_target_rad_s}: give 6 finite values")
        self._brake_rad = None
        start, start_velocity = self._target_rad, self._target_rad_s
        acceleration = (velocity - start_velocity) / duration_s
        for k in range(1, n_substeps + 1):
            share = k / n_substeps
            self._substep(
                start + share * (target - start), start_velocity + share * (velocity - start_velocity), acceleration
            )
        self._target_rad, self._target_rad_s = target, velocity

    def _substep(self, r_rad: np.ndarray, rd_rad_s: np.ndarray, rdd_rad_s2: np.ndarray) -> None:
        # The motors continue from where physics put the arm, so that a contact is felt and nothing winds up.
        self._motor.q_rad, self._motor.qd_rad_s = self.q_rad, self.qd_rad_s
        wanted = self._motor.step(r_rad, rd_rad_s, rdd_rad_s2)
        self._drive((wanted - self.q_rad) / self.physics_period_s, JOINT_TORQUE_NM)

    def _drive(self, velocity_rad_s: np.ndarray, torque_limit_nm: tuple[float, ...]) -> None:
        """One physics period with the joints driven at a velocity, as far as the torques reach."""
        if self._push_steps > 0:
            self._push_steps -= 1
            position, _ = self.tool_pose()
            self._p.applyExternalForce(
                self._robot, self._tool_link, self._push_n.tolist(), position.tolist(), self._p.WORLD_FRAME
            )
        self._p.setJointMotorControlArray(
            self._robot, self._arm, self._p.VELOCITY_CONTROL, targetVelocities=velocity_rad_s.tolist(),
            forces=torque_limit_nm,
        )
        self._p.stepSimulation()
        self.n_steps += 1
        self._read()

    def step_braked(self, n_substeps: int) -> None:
        """Pass time with the joint brakes engaged: they stop the arm and hold it; targets are forgotten.

        Friction brakes: beyond their torque they slip, and nothing brings the arm back but their own give.
        """
        for _ in range(n_substeps):
            held = self.q_rad if self._brake_rad is None else self._brake_rad
            self._brake_rad = np.clip(held, self.q_rad - BRAKE_GIVE_RAD, self.q_rad + BRAKE_GIVE_RAD)
            self._drive((self._brake_rad - self.q_rad) / self.physics_period_s, BRAKE_TORQUE_NM)
        self._motor.reset(self.q_rad)
        self._target_rad, self._target_rad_s = self.q_rad.copy(), np.zeros(ur5.DOF)

    def _read(self) -> None:
        states = self._p.getJointStates(self._robot, self._arm)
        self.q_rad = np.array([s[0] for s in states])
        self.qd_rad_s = np.array([s[1] for s in states])
        self.torque_nm = np.array([s[3] for s in states])  # of the joint motors; feels gravity, inertia and contact

    @property
    def client(self):
        """The physics client, for bodies that others put into this world; they are gone after `reset`."""
        return self._p

    @property
    def robot(self) -> int:
        """The arm's body in `client`."""
        return self._robot

    @property
    def time_s(self) -> float:
        """Simulated time since reset."""
        return self.n_steps * self.physics_period_s

    @property
    def gripper_width(self) -> float:
        """Measured opening between the pads, m."""
        return self.gripper.width_m()

    def object_poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Ground truth: cube centres (N, 3) and quaternions xyzw (N, 4). For scoring and rendering only."""
        poses = [self._p.getBasePositionAndOrientation(body) for body in self._cubes]
        return (
            np.array([pose[0] for pose in poses]).reshape(-1, 3), np.array([pose[1] for pose in poses]).reshape(-1, 4)
        )

    def object_velocities(self) -> tuple[np.ndarray, np.ndarray]:
        """Ground truth: linear (N, 3) m/s and angular (N, 3) rad/s velocities."""
        pairs = [self._p.getBaseVelocity(body) for body in self._cubes]
        return np.array([v[0] for v in pairs]).reshape(-1, 3), np.array([v[1] for v in pairs]).reshape(-1, 3)

    def held_objects(self) -> np.ndarray:
        """Ground truth: (N,) cubes that touch a finger."""
        touched = {
            contact[2] for joint in self.gripper.joints
            for contact in self._p.getContactPoints(bodyA=self._robot, linkIndexA=joint)
            if contact[8] < CONTACT_DISTANCE_M  # Bullet also lists pairs that are merely near
        }
        return np.array([body in touched for body in self._cubes], dtype=bool)

    def score(self) -> scoring.Score:
        """Ground truth: cubes in box, tray, dropped, in motion."""
        return scoring.score(self.object_poses()[0], self.object_velocities()[0], self.held_objects())

    def snapshot(self, seq: int = 0, look_seed: int = 0, look_split: str = "test", camera: str = "ok") -> Snapshot:
        """What a camera would need to draw the present scene."""
        positions, quaternions = self.object_poses()
        return Snapshot(
            seq, self.time_s, self.q_rad.copy(), self.gripper_width, positions, quaternions, look_seed, look_split,
            camera,
        )

    def model_torque_nm(self) -> np.ndarray:
        """(6,) joint torques that gravity and the present velocities explain, without load and contact."""
        fingers = [state[0] for state in self._p.getJointStates(self._robot, self.gripper.joints)]
        still = [0.0] * len(fingers)
        return np.array(self._p.calculateInverseDynamics(
            self._robot, [*self.q_rad.tolist(), *fingers], [*self.qd_rad_s.tolist(), *still],
            [*self._motor.qdd_rad_s2.tolist(), *still],
        )[: ur5.DOF])

    @property
    def n_objects(self) -> int:
        """Number of cubes."""
        return len(self._cubes)

    def push_tool(self, force_n: np.ndarray, duration_s: float) -> None:
        """A hand pushes the gripper with a force (3,) in `base_link` for a while from now on."""
        self._push_n, self._push_steps = np.asarray(force_n, dtype=float), round(duration_s / self.physics_period_s)

    def move_object(self, index: int, position_m: np.ndarray, yaw_rad: float) -> None:
        """Put a cube somewhere else, at rest (fault injection)."""
        quaternion = scene.yaw_quaternion(np.array([yaw_rad]))[0]
        self._p.resetBasePositionAndOrientation(self._cubes[index], list(position_m), quaternion.tolist())
        self._p.resetBaseVelocity(self._cubes[index], [0, 0, 0], [0, 0, 0])

    def tool_pose(self) -> tuple[np.ndarray, np.ndarray]:
        """Position (3,) and quaternion xyzw (4,) of the tool in `base_link`, from physics."""
        state = self._p.getLinkState(self._robot, self._tool_link, computeForwardKinematics=1)
        return np.array(state[4]), np.array(state[5])
