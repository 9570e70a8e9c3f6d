"""The hall for docking: the simulated vehicle with its sensors and its protective field, a post, people who cross.

The body, drive limits, sensors, noise, localisation and protective field are those of `steadyhand_sim.agv`. A person
walks straight across the vehicle's way, may linger in it, keeps away from the vehicle and gives up a way that stays
blocked: people are no obstacles that can be waited out by force, nor do they run into a standing vehicle.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from steadyhand_sim import bullet, scene
from steadyhand_sim.agv.bullet_plant import GRAVITY_M_S2, PHYSICS_HZ, BulletPlant
from steadyhand_sim.agv.deck import FLOOR_Z_M
from steadyhand_sim.agv.fleet import RANGE_EVERY
from steadyhand_sim.agv.localisation import Localisation
from steadyhand_sim.agv.noise import NoiseParameters
from steadyhand_sim.agv.plant import Sensors
from steadyhand_sim.agv.safety import Obstacle, Safety
from steadyhand_sim.agv.site import ARM_DOCK, Site
from steadyhand_sim.agv.vehicle import DOCK_VIEW_M
from steadyhand_sim.agv.vehicle_config import VehicleConfig

POST = (-1.75, -0.9, 0.15)  # x, y, radius
_AWAY_M = 0.45  # a person comes no nearer to the vehicle by himself
_PATIENCE_S = 4.0


@dataclass
class Person:
    """Walks along x at a fixed y; `at` None before he comes and after he has gone."""

    start_x_m: float
    end_x_m: float
    y_m: float
    speed_m_s: float
    comes_s: float
    pause_x_m: float
    pause_s: float
    radius_m: float = 0.25
    x_m: float | None = None
    velocity_m_s: float = 0.0
    _held_s: float = 0.0

    @staticmethod
    def draw(rng: np.random.Generator, lane_x_m: float) -> Person | None:
        """A person of the training distribution, or nobody."""
        if rng.random() < 0.25:
            return None
        left, right = lane_x_m - 2.2, lane_x_m + 1.9
        start, end = (left, right) if rng.random() < 0.5 else (right, left)
        pause = float(rng.uniform(1.0, 8.0)) if rng.random() < 0.4 else 0.0
        y, speed, comes, at = rng.uniform((-1.9, 0.5, 0.0, -0.3), (-1.2, 1.2, 8.0, 0.3)).tolist()
        return Person(start, end, y, speed, comes, lane_x_m + at, pause)

    def step(self, now_s: float, dt_s: float, gap_m) -> None:
        """Pass time; `gap_m(x, y)` is the distance from the vehicle's outline."""
        self.velocity_m_s = 0.0
        if self.x_m is None:
            if self.comes_s <= now_s:
                self.x_m, self.comes_s = self.start_x_m, math.inf
            return
        way = math.copysign(self.speed_m_s * dt_s, self.end_x_m - self.x_m)
        following = self.x_m + way
        near = gap_m(following, self.y_m) - self.radius_m
        if near < _AWAY_M and near < gap_m(self.x_m, self.y_m) - self.radius_m:
            self._held_s += dt_s
            if self._held_s > _PATIENCE_S:
                self.start_x_m, self.end_x_m, self._held_s = self.end_x_m, self.start_x_m, 0.0
            return
        self._held_s = 0.0
        if self.pause_s > 0.0 and (self.x_m - self.pause_x_m) * (following - self.pause_x_m) <= 0.0:
            self.pause_s -= dt_s
            return
        self.x_m, self.velocity_m_s = following, way / dt_s
        if way and (following - self.end_x_m) * way >= 0.0:
            self.x_m = None


class Hall:
    """One episode's world. `pass_period` is the only thing that passes time."""

    def __init__(self, rng: np.random.Generator, noise: bool, protective_field: bool, config: VehicleConfig) -> None:
        self.config, self.noise, self._field, self._rng = config, noise, protective_field, rng
        self.dock: tuple[float, float, float] = Site().nodes[ARM_DOCK]
        self.post = POST
        self.plant = self._plant()
        x, y, heading = self.dock
        offset = rng.uniform((-0.4, -3.4, -0.5), (0.4, -2.6, 0.5)).tolist()
        self.plant.put(x + offset[0], y + offset[1], heading + offset[2])
        self.person = Person.draw(rng, x)
        self.person_radius_m = 0.25
        parameters = NoiseParameters.load() if noise else NoiseParameters.none()
        self._sensors = Sensors(self.plant, config, parameters, rng)
        self._sensors.moved()
        self.localisation = Localisation(config, parameters)
        error = rng.normal(size=3) * (0.05, 0.05, 0.03) * noise
        self.localisation.start(*(p + e for p, e in zip(self.plant.pose(), error)))
        self._anchors = Site().anchors_m
        self.safety = Safety(config)
        self.speed_m_s = self.rotation_rad_s = 0.0  # told to the drive
        self.now_s, self._periods, self.field_stops = 0.0, 0, 0

    def _plant(self) -> BulletPlant:
        p = bullet.connect()
        p.setGravity(0, 0, -GRAVITY_M_S2)
        p.setPhysicsEngineParameter(fixedTimeStep=1.0 / PHYSICS_HZ, deterministicOverlappingPairs=1)
        for box in scene.fixed_boxes():
            if box.role == "table":
                shape = p.createCollisionShape(p.GEOM_BOX, halfExtents=box.half_extents_m)
                p.createMultiBody(0, shape, -1, box.centre_m)
        shape = p.createCollisionShape(p.GEOM_CYLINDER, radius=self.post[2], height=1.0)
        p.createMultiBody(0, shape, -1, (self.post[0], self.post[1], FLOOR_Z_M + 0.5))
        self._client = p
        return BulletPlant(p, self.config, owns_client=True)

    def pass_period(self, speed_m_s: float, rotation_rad_s: float) -> None:
        """One control period towards wanted speeds, as drive, ramps and protective field let it."""
        c, dt = self.config, self.config.period_s
        self.now_s += dt
        self._periods += 1
        if self.person is not None:
            self.person.step(self.now_s, dt, self.gap_m)
        self._watch_field(speed_m_s)
        if self._field and self.safety.stop_hard:
            self.speed_m_s = _towards(self.speed_m_s, 0.0, c.emergency_m_s2 * dt)
            self.rotation_rad_s = _towards(self.rotation_rad_s, 0.0, 2 * c.emergency_m_s2 / c.track_m * dt)
        else:
            slowing = abs(speed_m_s) < abs(self.speed_m_s) or speed_m_s * self.speed_m_s < 0.0
            rate = c.braking_m_s2 if slowing else c.acceleration_m_s2
            self.speed_m_s = _towards(self.speed_m_s, speed_m_s, rate * dt)
            turning = c.rotation_acceleration_rad_s2 * dt
            self.rotation_rad_s = _towards(self.rotation_rad_s, rotation_rad_s, turning)
        self.plant.step(self.speed_m_s, self.rotation_rad_s, 0.0)
        self._localise()

    def _watch_field(self, wanted_m_s: float) -> None:
        person = self.person_xy_m()
        obstacles = [] if person is None else [Obstacle(*person, self.person_radius_m)]
        before = self.safety.field_violation
        turning = self.speed_m_s == 0.0 and self.rotation_rad_s != 0.0
        direction = self.speed_m_s or (-1e-6 if wanted_m_s < 0.0 else 0.0)
        self.safety.watch_field(self.now_s, self.plant.pose(), direction, turning, obstacles)
        self.field_stops += self._field and self.safety.field_violation and not before

    def _localise(self) -> None:
        if not self.noise:
            self.localisation.state[:3] = self.plant.pose()
            self.localisation.speed_m_s, self.localisation.rotation_rad_s = self.plant.twist()
            return
        self.localisation.move(self._sensors.read())
        if self._periods % RANGE_EVERY == 0:
            anchor = self._anchors[self._periods // RANGE_EVERY % len(self._anchors)]
            self.localisation.range_fix(anchor, self._sensors.range_m(anchor))
        x, y, _ = self.localisation.pose()
        if math.hypot(self.dock[0] - x, self.dock[1] - y) < DOCK_VIEW_M:
            self.localisation.pose_fix(self._sensors.dock_pose(), Sensors.DOCK_SIGMA_M, Sensors.DOCK_SIGMA_RAD)

    # -- what is there -----------------------------------------------------------------------------------------------
    def pose(self) -> tuple[float, float, float]:
        """True x, y, heading."""
        return self.plant.pose()

    def person_xy_m(self) -> tuple[float, float] | None:
        """Where a person is; None when nobody is there."""
        return None if self.person is None or self.person.x_m is None else (self.person.x_m, self.person.y_m)

    def gap_m(self, x_m: float, y_m: float) -> float:
        """Distance of a point from the vehicle's outline; 0 inside it."""
        ahead, across = self.in_vehicle(self.pose(), x_m, y_m)
        beyond = max(0.0, abs(ahead) - self.config.length_m / 2), max(0.0, abs(across) - self.config.width_m / 2)
        return math.hypot(*beyond)

    def person_gap_m(self) -> float:
        """Distance between a person and the vehicle's outline; 0 in contact, 10 when nobody is there."""
        person = self.person_xy_m()
        return 10.0 if person is None else max(0.0, self.gap_m(*person) - self.person_radius_m)

    def struck(self) -> str:
        """What the vehicle has run into: "person", "thing" or nothing. A vehicle at rest strikes nobody."""
        if self.person_gap_m() <= 0.0 and abs(self.plant.twist()[0]) > 0.02:
            return "person"
        contacts = self._client.getContactPoints(bodyA=self.plant.body)
        touched = any(c[8] < 1e-3 and c[2] not in (self.plant.floor, self.plant.body) for c in contacts)
        return "thing" if touched else ""

    @staticmethod
    def in_vehicle(pose: tuple[float, float, float], x_m: float, y_m: float) -> tuple[float, float]:
        """A point of the map ahead of and to the left of a pose."""
        c, s, dx, dy = math.cos(pose[2]), math.sin(pose[2]), x_m - pose[0], y_m - pose[1]
        return c * dx + s * dy, c * dy - s * dx

    def dock_from(self, pose: tuple[float, float, float]) -> tuple[float, float, float]:
        """The dock from a pose: along its heading, to its left, and turn (rad)."""
        x, y, heading = self.dock
        c, s, dx, dy = math.cos(heading), math.sin(heading), x - pose[0], y - pose[1]
        return c * dx + s * dy, c * dy - s * dx, math.remainder(heading - pose[2], math.tau)

    def close(self) -> None:
        """Free the physics."""
        self.plant.close()


def _towards(value: float, target: float, step: float) -> float:
    return target if abs(target - value) <= step else value + math.copysign(step, target - value)
