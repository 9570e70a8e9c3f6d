"""The vehicle as a body in PyBullet: driven wheels, casters, contact with floor, table and whatever stands in its way.

Slip comes from friction here, not from the fitted figure. It stands on the hall's floor beside the arm's table, in the
arm's own world or in a cell of its own without an arm.
"""
from __future__ import annotations

import math
import tempfile
from pathlib import Path

from steadyhand_sim import bullet, scene
from steadyhand_sim.agv import deck
from steadyhand_sim.agv.deck import FLOOR_Z_M
from steadyhand_sim.agv.vehicle_config import VehicleConfig

PHYSICS_HZ = 500
WHEEL_TORQUE_NM = 30.0
WHEEL_MASS_KG, CASTER_RADIUS_M = 1.5, 0.05
GRAVITY_M_S2 = 9.81
DECK_GRIP = 0.8  # a mat in the tray: what lies there rides along
GRIP = 0.9  # rubber on a hall's floor; Bullet multiplies both bodies' coefficients


def urdf(config: VehicleConfig) -> str:
    """URDF text: base with deck and tray, two driven wheels, a caster under each end; `load` weighs what is aboard."""
    c, r = config, config.wheel_radius_m
    mass = c.mass_kg - 2 * WHEEL_MASS_KG
    body_height = c.height_m - r
    ixx = mass * (c.width_m**2 + body_height**2) / 12
    iyy = mass * (c.length_m**2 + body_height**2) / 12
    izz = mass * (c.width_m**2 + c.length_m**2) / 12
    box = f'<geometry><box size="{c.length_m} {c.width_m} {body_height}"/></geometry>'
    middle = f'<origin xyz="0 0 {body_height / 2}"/>'  # the base's frame is at the height of the axle
    links = [
        f'<link name="base"><inertial><origin xyz="0 0 0.05"/><mass value="{mass}"/><inertia ixx="{ixx}" iyy="{iyy}" '
        f'izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial><collision>{middle}{box}</collision>'
        f"<visual>{middle}{box}</visual>{_tray(body_height)}</link>"
    ]
    spin, across = WHEEL_MASS_KG * r * r / 2, WHEEL_MASS_KG * (3 * r * r + 0.04**2) / 12
    for name, side in (("left", 1), ("right", -1)):
        links.append(
            f'<link name="{name}"><inertial><mass value="{WHEEL_MASS_KG}"/><inertia ixx="{across}" iyy="{spin}" '
            f'izz="{across}" ixy="0" ixz="0" iyz="0"/></inertial><collision><geometry><sphere radius="{r}"/></geometry>'
            f'</collision></link><joint name="{name}_joint" type="continuous"><parent link="base"/><child link="{name}"/>'
            f'<origin xyz="0 {side * c.track_m / 2} 0"/><axis xyz="0 1 0"/></joint>'
        )
    for name, side in (("front", 1), ("rear", -1)):
        x = side * (c.length_m / 2 - CASTER_RADIUS_M)
        links.append(
            f'<link name="{name}"><inertial><mass value="0.2"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3" ixy="0" ixz="0" '
            f'iyz="0"/></inertial><collision><geometry><sphere radius="{CASTER_RADIUS_M}"/></geometry></collision></link>'
            f'<joint name="{name}_joint" type="fixed"><parent link="base"/><child link="{name}"/>'
            f'<origin xyz="{x} 0 {CASTER_RADIUS_M - r + 0.002}"/></joint>'
        )
    links.append(
        '<link name="load"><inertial><mass value="0.001"/><inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" '
        f'iyz="0"/></inertial></link><joint name="load_joint" type="fixed"><parent link="base"/><child link="load"/>'
        f'<origin xyz="0 0 {body_height + 0.05}"/></joint>'
    )
    return f'<?xml version="1.0"?>\n<robot name="agv">{"".join(links)}</robot>\n'


def _tray(deck_z: float) -> str:
    """The rim of the load tray: collision only, its weight is the base's."""
    height = deck.RIM_HEIGHT_M
    return "".join(
        f'<collision><origin xyz="{rim.x_m} {rim.y_m} {deck_z + height / 2}"/>'
        f'<geometry><box size="{2 * rim.half_x_m} {2 * rim.half_y_m} {height}"/></geometry></collision>'
        for rim in deck.rims()
    )


class BulletPlant:
    """`step` commands the wheels and passes a period; in a world that steps itself use `command` and `settle`."""

    def __init__(self, client, config: VehicleConfig, owns_client: bool = False) -> None:
        self._p, self._c, self._owns = client, config, owns_client
        p = client
        plane = p.createCollisionShape(p.GEOM_PLANE)
        self.floor = p.createMultiBody(0, plane, -1, (0, 0, FLOOR_Z_M))
        p.changeDynamics(self.floor, -1, lateralFriction=1.0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agv.urdf"
            path.write_text(urdf(config))
            self.body = p.loadURDF(str(path), flags=p.URDF_USE_INERTIA_FROM_FILE)
        index = bullet.joint_indices(p, self.body)
        self._wheels = [index["left_joint"], index["right_joint"]]
        self._load_link = index["load_joint"]
        for joint in range(-1, p.getNumJoints(self.body)):
            p.changeDynamics(self.body, joint, linearDamping=0, angularDamping=0, lateralFriction=0.0)
        p.changeDynamics(self.body, -1, lateralFriction=DECK_GRIP)
        for joint in self._wheels:
            p.changeDynamics(self.body, joint, lateralFriction=GRIP, jointDamping=0)
        self._load_kg = 0.0
        self._rolled = [0.0, 0.0]
        self._last = [0.0, 0.0]
        self.put(0.0, 0.0, 0.0)

    @staticmethod
    def in_own_cell(config: VehicleConfig) -> BulletPlant:
        """A world of its own: floor, table, tray and box, no arm."""
        p = bullet.connect()
        p.setGravity(0, 0, -GRAVITY_M_S2)
        p.setPhysicsEngineParameter(fixedTimeStep=1.0 / PHYSICS_HZ, deterministicOverlappingPairs=1)
        for box in scene.fixed_boxes():
            if box.collides:
                shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=box.half_extents_m)
                p.createMultiBody(0, shape, -1, box.centre_m)
        return BulletPlant(p, config, owns_client=True)

    def command(self, speed_m_s: float, rotation_rad_s: float, load_kg: float) -> None:
        """Set the wheels' speeds and the load; time passes elsewhere."""
        if load_kg != self._load_kg:
            self._load_kg = load_kg
            self._p.changeDynamics(self.body, self._load_link, mass=max(0.001, load_kg))
        half = rotation_rad_s * self._c.track_m / 2
        speeds = [(speed_m_s - half) / self._c.wheel_radius_m, (speed_m_s + half) / self._c.wheel_radius_m]
        self._p.setJointMotorControlArray(
            self.body, self._wheels, self._p.VELOCITY_CONTROL, targetVelocities=speeds, forces=[WHEEL_TORQUE_NM] * 2
        )

    def settle(self) -> None:
        """Read how far the wheels have rolled since."""
        for k, (angle, *_) in enumerate(self._p.getJointStates(self.body, self._wheels)):
            self._rolled[k] += (angle - self._last[k]) * self._c.wheel_radius_m
            self._last[k] = angle

    def step(self, speed_m_s: float, rotation_rad_s: float, load_kg: float) -> None:
        """Pass one control period."""
        self.command(speed_m_s, rotation_rad_s, load_kg)
        for _ in range(round(self._c.period_s * PHYSICS_HZ)):
            self._p.stepSimulation()
        self.settle()

    def pose(self) -> tuple[float, float, float]:
        """True pose of the middle of the axle, seen from above."""
        frame, quaternion = self._frame()
        return frame[0], frame[1], self._p.getEulerFromQuaternion(quaternion)[2]

    def _frame(self):
        """Pose of the base's frame: PyBullet gives that of its centre of mass."""
        position, quaternion = self._p.getBasePositionAndOrientation(self.body)
        local = self._p.getDynamicsInfo(self.body, -1)[3:5]
        inverse = self._p.invertTransform(*local)
        return self._p.multiplyTransforms(position, quaternion, *inverse)

    def twist(self) -> tuple[float, float]:
        """True speed along the heading and rotation."""
        linear, angular = self._p.getBaseVelocity(self.body)
        heading = self.pose()[2]
        return linear[0] * math.cos(heading) + linear[1] * math.sin(heading), angular[2]

    def rolled_m(self) -> tuple[float, float]:
        """Way that the wheels have rolled."""
        return self._rolled[0], self._rolled[1]

    def put(self, x_m: float, y_m: float, heading_rad: float) -> None:
        """Stand here, at rest."""
        turn = self._p.getQuaternionFromEuler((0, 0, heading_rad))
        frame = ((x_m, y_m, FLOOR_Z_M + self._c.wheel_radius_m), turn)
        self._p.resetBasePositionAndOrientation(
            self.body, *self._p.multiplyTransforms(*frame, *self._p.getDynamicsInfo(self.body, -1)[3:5])
        )
        self._p.resetBaseVelocity(self.body, (0, 0, 0), (0, 0, 0))

    def touches(self, body: int) -> bool:
        """Whether it is in contact with another body of this world."""
        return any(contact[8] < 1e-3 for contact in self._p.getContactPoints(bodyA=self.body, bodyB=body))

    def close(self) -> None:
        """Free the world, when it is its own."""
        if self._owns:
            self._p.disconnect()
            self._owns = False
