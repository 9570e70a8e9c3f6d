"""The simulated camera: draws a snapshot of the cell with TinyRenderer, adds sensor noise. Lives in any process.

Optical frame as in ROS (REP-103): z forward, x right, y down; pixels (u, v) from the top left corner's centre.
"""
from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass

import numpy as np

from steadyhand import cell, ur5
from steadyhand.errors import ConfigError
from steadyhand_sim import bullet, robots, scene, textures
from steadyhand_sim.agv import deck
from steadyhand_sim.agv.vehicle_config import VehicleConfig
from steadyhand_sim.look import DISTRACTOR_SHAPES, Distractor, Look
from steadyhand_sim.snapshot import Snapshot

NEAR_M, FAR_M = 0.1, 3.0
FOOTPRINT_MARGIN_M = 0.03
VEHICLE_COLOUR = (0.25, 0.35, 0.55, 1.0)
SCRATCH_HALF_HEIGHT_M = 2e-4
TEXTURED = ("table", "tray_floor")


@dataclass(frozen=True)
class CameraConfig:
    """Pinhole camera in front of the robot, looking back at the tray."""

    width: int = 160
    height: int = 160
    eye_m: tuple[float, float, float] = (1.05, -0.10, 0.85)
    look_at_m: tuple[float, float, float] = (0.515, -0.09, 0.0)
    vertical_fov_deg: float = 24.0

    def __post_init__(self) -> None:
        if not (16 <= self.width <= 2048 and 16 <= self.height <= 2048):
            raise ConfigError(f"camera size {self.width}x{self.height}: give 16 to 2048 pixels")
        if not 5.0 <= self.vertical_fov_deg <= 120.0:
            raise ConfigError(f"vertical_fov_deg={self.vertical_fov_deg}: give 5 to 120")
        x, y, z = np.array(self.look_at_m, dtype=float) - np.array(self.eye_m, dtype=float)
        if not (np.isfinite(z) and 1e-3 < np.hypot(x, y) < np.inf):  # straight down, "up" in the image is undefined
            raise ConfigError(
                f"eye_m={self.eye_m}, look_at_m={self.look_at_m}: give finite points, not one above the other"
            )

    @property
    def camera_matrix(self) -> np.ndarray:
        """(3, 3) intrinsics, square pixels, principal point in the middle."""
        focal = self.height / 2 / np.tan(np.radians(self.vertical_fov_deg) / 2)
        return np.array([[focal, 0, (self.width - 1) / 2], [0, focal, (self.height - 1) / 2], [0, 0, 1.0]])

    @property
    def pose_base_link_camera(self) -> np.ndarray:
        """(4, 4) nominal pose of the optical frame."""
        eye = np.array(self.eye_m)
        forward = np.array(self.look_at_m) - eye
        forward /= np.linalg.norm(forward)
        right = np.cross(forward, [0, 0, 1.0])
        right /= np.linalg.norm(right)
        pose = np.eye(4)
        pose[:3, :3] = np.stack([right, np.cross(forward, right), forward], axis=1)
        pose[:3, 3] = eye
        return pose

    def project(self, points_m: np.ndarray) -> np.ndarray:
        """Pixels (N, 2) of points (N, 3) in `base_link`, by the nominal pose."""
        pose = self.pose_base_link_camera
        local = (np.atleast_2d(points_m) - pose[:3, 3]) @ pose[:3, :3]
        pixels = local @ self.camera_matrix.T
        return pixels[:, :2] / pixels[:, 2:]

    def unproject(self, pixels: np.ndarray, plane_z_m: float) -> np.ndarray:
        """Points (N, 3) in `base_link` where the rays of pixels (N, 2) meet the plane z = `plane_z_m`."""
        pose = self.pose_base_link_camera
        homogeneous = np.column_stack([np.atleast_2d(pixels), np.ones(len(np.atleast_2d(pixels)))])
        rays = homogeneous @ np.linalg.inv(self.camera_matrix).T @ pose[:3, :3].T
        return pose[:3, 3] + rays * ((plane_z_m - pose[2, 3]) / rays[:, 2])[:, None]

    def footprint(self, plane_z_m: float) -> tuple[np.ndarray, np.ndarray] | None:
        """Smallest and largest x, y (each (2,)) seen of a horizontal plane; None when the horizon is in view."""
        corners = np.array([[0, 0], [self.width, 0], [0, self.height], [self.width, self.height]]) - 0.5
        if (np.column_stack([corners, np.ones(4)]) @ np.linalg.inv(self.camera_matrix).T
                @ self.pose_base_link_camera[:3, :3].T)[:, 2].max() > -0.05:
            return None
        points = self.unproject(corners, plane_z_m)[:, :2]
        return points.min(axis=0), points.max(axis=0)


def _turn(rotation_rad: tuple[float, float, float]) -> np.ndarray:
    """Rotation matrix of a small turn (x, y, z Euler angles)."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(rotation_rad), np.sin(rotation_rad)
    return (
        np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
        @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
        @ np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    )


def sensor_noise(image: np.ndarray, look: Look, rng: np.random.Generator) -> np.ndarray:
    """Shot and read noise on uint8 (H, W, 3): variance = signal / gain + read^2, in digital numbers."""
    signal = image.astype(np.float32) * look.exposure
    sigma = np.sqrt(np.maximum(signal, 0) * (255.0 / look.full_well_electrons) + look.read_noise_dn**2)
    noisy = signal + sigma * rng.standard_normal(image.shape, dtype=np.float32)
    return np.clip(np.rint(noisy), 0, 255).astype(np.uint8)


def _seen_part(camera: CameraConfig, box: scene.FixedBox) -> tuple[np.ndarray, np.ndarray] | None:
    """Centre and half extents of the part of a fixed box that the camera can see; None when there is none.

    Only for speed: TinyRenderer's time grows with the area drawn, twice with shadows (17 -> 10 ms for this cell).
    """
    centre, half = np.array(box.centre_m), np.array(box.half_extents_m)
    footprint = camera.footprint(plane_z_m=centre[2] + half[2])
    if footprint is None:
        return centre, half
    low = np.maximum(centre[:2] - half[:2], footprint[0] - FOOTPRINT_MARGIN_M)
    high = np.minimum(centre[:2] + half[:2], footprint[1] + FOOTPRINT_MARGIN_M)
    if (low >= high).any():
        return None
    return np.array([*(low + high) / 2, centre[2]]), np.array([*(high - low) / 2, half[2]])


def _load_texture(client, pixels: np.ndarray) -> int:
    """A texture of PyBullet, which reads files only: an uncompressed TGA."""
    height, width = pixels.shape[:2]
    header = struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, width, height, 24, 0x20)
    with tempfile.NamedTemporaryFile(suffix=".tga", prefix="steadyhand_texture_") as file:
        file.write(header + pixels[..., ::-1].tobytes())
        file.flush()
        return client.loadTexture(file.name)


@dataclass(frozen=True)
class Labelled:
    """A frame before the sensor, and what is visible in it, pixels: for training labels only."""

    image: np.ndarray  # (H, W, 3) uint8
    cube_px: np.ndarray  # (N,) with its scratch
    scratch_px: np.ndarray  # (N,)
    finger_px: int  # of both fingers


class Renderer:
    """Draws snapshots under one look. A frame depends on (look, noise_seed, snapshot) only: same input, same bytes."""

    def __init__(self, look: Look | None = None, camera: CameraConfig | None = None, noise_seed: int = 0) -> None:
        self.camera = camera or CameraConfig()
        self._p = bullet.connect()
        self.noise_seed = noise_seed
        self._robot = bullet.load_ur5(self._p)
        index = bullet.joint_indices(self._p, self._robot)
        self._arm = [index[name] for name in ur5.JOINT_NAMES]
        self._fingers = [index[name] for name in robots.FINGER_JOINTS]
        self._fixed = {}
        for box in scene.fixed_boxes():
            seen = _seen_part(self.camera, box)
            if seen is not None:
                self._fixed.setdefault(box.role, []).append(self._body(*seen))
        self._cubes = [self._body((0, 0, -1.0), [cell.CUBE_SIZE_M / 2] * 3) for _ in range(cell.MAX_CUBES)]
        self._distractors: list[int] = []
        self._scratches: list[int] = []
        self._textures: dict[tuple[str, int], int] = {}  # loaded ones, by family and seed
        self._shown: dict[str, tuple[str, int] | None] = {}  # by role
        self._vehicle: tuple[tuple[int, tuple[float, float, float]], ...] = ()  # drawn once one has been seen
        self._projection = self._p.computeProjectionMatrixFOV(
            self.camera.vertical_fov_deg, self.camera.width / self.camera.height, NEAR_M, FAR_M
        )
        self.set_look(look or Look())

    def close(self) -> None:
        """Free the renderer; harmless twice."""
        if self._p is not None:
            self._p.disconnect()
            self._p = None

    def _body(self, centre_m, half_extents_m) -> int:
        shape = self._p.createVisualShape(self._p.GEOM_BOX, halfExtents=list(half_extents_m))
        return self._p.createMultiBody(0, -1, shape, list(centre_m))

    def set_look(self, look: Look) -> None:
        """Change light, colours, camera jitter and distractors."""
        p, self.look = self._p, look
        colours = {
            "table": look.table_colour, "tray": look.tray_colour, "tray_floor": look.tray_floor_colour,
            "box": look.box_colour, "box_floor": look.box_floor_colour,
        }
        for role, bodies in self._fixed.items():
            for body in bodies:
                p.changeVisualShape(body, -1, rgbaColor=(*colours[role], 1))
        for body, colour in zip(self._cubes, look.cube_colours):
            p.changeVisualShape(body, -1, rgbaColor=(*colour, 1))
        for body in (*self._distractors, *self._scratches):
            p.removeBody(body)
        self._distractors = [self._distractor(thing) for thing in look.distractors]
        self._scratches = []
        for scratch in look.scratches:
            half = (scratch.length_m / 2, scratch.width_m / 2, SCRATCH_HALF_HEIGHT_M)
            self._scratches.append(self._body((0, 0, -1.0), half))
            p.changeVisualShape(self._scratches[-1], -1, rgbaColor=(*scratch.colour, 1))
        for role, wanted in zip(TEXTURED, (look.table_texture, look.tray_floor_texture)):
            self._set_texture(role, wanted)
        pose = self.camera.pose_base_link_camera
        pose[:3, 3] += look.camera_shift_m
        pose[:3, :3] = pose[:3, :3] @ _turn(look.camera_turn_rad)
        self.pose_base_link_camera = pose  # true pose of this look; CameraConfig holds the nominal one
        eye, forward, up = pose[:3, 3], pose[:3, 2], -pose[:3, 1]
        self._view = p.computeViewMatrix(eye.tolist(), (eye + forward).tolist(), up.tolist())

    def _distractor(self, thing: Distractor) -> int:
        """The body of one distractor, standing on the table."""
        p, (hx, hy, hz) = self._p, thing.half_extents_m
        turn = scene.yaw_quaternion(np.array([thing.yaw_rad]))[0].tolist()
        if thing.shape == "box":
            shape, z = p.createVisualShape(p.GEOM_BOX, halfExtents=[hx, hy, hz]), hz
        elif thing.shape == "cylinder":
            shape, z = p.createVisualShape(p.GEOM_CYLINDER, radius=hx, length=2 * hz), hz
        elif thing.shape == "sphere":
            shape, z = p.createVisualShape(p.GEOM_SPHERE, radius=hx), hx
        elif thing.shape == "capsule":
            shape, z = p.createVisualShape(p.GEOM_CAPSULE, radius=hy, length=2 * hx), hy
            turn = p.multiplyTransforms((0, 0, 0), turn, (0, 0, 0), (0, np.sqrt(0.5), 0, np.sqrt(0.5)))[1]
        else:
            raise ConfigError(f"distractor shape {thing.shape!r}: give one of {', '.join(DISTRACTOR_SHAPES)}")
        body = p.createMultiBody(0, -1, shape, [*thing.xy_m, z], turn)
        p.changeVisualShape(body, -1, rgbaColor=(*thing.colour, 1))
        return body

    def _set_texture(self, role: str, wanted: tuple[str, int] | None) -> None:
        """Give a role's surface a pattern, or take it away."""
        if wanted is not None and wanted not in self._textures:  # TinyRenderer shows a texture as it was when loaded
            grey = np.rint(255 * textures.texture(*wanted)).astype(np.uint8)
            self._textures[wanted] = _load_texture(self._p, np.repeat(grey[..., None], 3, axis=2))
        if wanted != self._shown.get(role):
            self._shown[role] = wanted
            for body in self._fixed.get(role, ()):
                self._p.changeVisualShape(body, -1, textureUniqueId=self._textures.get(wanted, -1))

    def _place(self, snapshot: Snapshot) -> None:
        p = self._p
        for joint, q in zip(self._arm, snapshot.q_rad):
            p.resetJointState(self._robot, joint, q)
        for joint in self._fingers:
            p.resetJointState(self._robot, joint, snapshot.gripper_width_m / 2)
        n = len(snapshot.position_m)
        for i, body in enumerate(self._cubes):
            position, quaternion = ((0, 0, -1.0), (0, 0, 0, 1.0)) if i >= n else (
                snapshot.position_m[i].tolist(), snapshot.quaternion_xyzw[i].tolist()
            )
            p.resetBasePositionAndOrientation(body, position, quaternion)
        for body, scratch in zip(self._scratches, self.look.scratches):
            if scratch.cube < n:
                cube = snapshot.position_m[scratch.cube].tolist(), snapshot.quaternion_xyzw[scratch.cube].tolist()
                on_top = (*scratch.xy_m, cell.CUBE_SIZE_M / 2 + SCRATCH_HALF_HEIGHT_M)
                turn = scene.yaw_quaternion(np.array([scratch.turn_rad]))[0].tolist()
                p.resetBasePositionAndOrientation(body, *p.multiplyTransforms(*cube, on_top, turn))
        if snapshot.vehicle_m_rad is not None:
            self._place_vehicle(*snapshot.vehicle_m_rad)

    def _place_vehicle(self, x_m: float, y_m: float, heading_rad: float) -> None:
        if not self._vehicle:
            parts = []
            for centre, half in deck.boxes(VehicleConfig()):
                body = self._body((0, 0, -9.0), half)
                self._p.changeVisualShape(body, -1, rgbaColor=VEHICLE_COLOUR)
                parts.append((body, centre))
            self._vehicle = tuple(parts)
        quaternion = scene.yaw_quaternion(np.array([heading_rad]))[0].tolist()
        for body, (ahead, aside, z) in self._vehicle:
            x = x_m + ahead * np.cos(heading_rad) - aside * np.sin(heading_rad)
            y = y_m + ahead * np.sin(heading_rad) + aside * np.cos(heading_rad)
            self._p.resetBasePositionAndOrientation(body, (x, y, z), quaternion)

    def _render(self, snapshot: Snapshot, segmentation: bool):
        self._place(snapshot)
        p, light = self._p, self.look.light
        return p.getCameraImage(
            self.camera.width, self.camera.height, self._view, self._projection,
            lightDirection=light.direction, lightColor=light.colour, lightDistance=light.distance_m,
            shadow=int(light.shadow), lightAmbientCoeff=light.ambient, lightDiffuseCoeff=light.diffuse,
            lightSpecularCoeff=light.specular, renderer=p.ER_TINY_RENDERER,
            flags=p.ER_SEGMENTATION_MASK_OBJECT_AND_LINKINDEX if segmentation else p.ER_NO_SEGMENTATION_MASK,
        )

    def draw(self, snapshot: Snapshot) -> np.ndarray:
        """One frame, uint8 (H, W, 3), with sensor noise. A blanked camera sees noise on black."""
        if snapshot.camera == "blank":
            image = np.zeros((self.camera.height, self.camera.width, 3), dtype=np.uint8)
        else:
            image = self.draw_clean(snapshot)
        return sensor_noise(image, self.look, np.random.default_rng([self.noise_seed, snapshot.seq]))

    def draw_clean(self, snapshot: Snapshot) -> np.ndarray:
        """One frame, uint8 (H, W, 3), before the sensor."""
        rgba = self._render(snapshot, segmentation=False)[2]
        return np.asarray(rgba, dtype=np.uint8).reshape(self.camera.height, self.camera.width, 4)[..., :3]

    def draw_labelled(self, snapshot: Snapshot) -> Labelled:
        """Frame before the sensor, and what is visible in it."""
        _, _, rgba, _, mask = self._render(snapshot, segmentation=True)
        image = np.asarray(rgba, dtype=np.uint8).reshape(self.camera.height, self.camera.width, 4)[..., :3]
        bodies, pixels = np.unique(np.asarray(mask), return_counts=True)
        seen = dict(zip(bodies.tolist(), pixels.tolist()))  # PyBullet: body + ((link + 1) << 24)
        n = len(snapshot.position_m)
        scratch_px = np.zeros(n, int)
        for body, scratch in zip(self._scratches, self.look.scratches):
            if scratch.cube < n:
                scratch_px[scratch.cube] += seen.get(body, 0)
        cube_px = np.array([seen.get(body, 0) for body in self._cubes[:n]], int) + scratch_px
        fingers = sum(seen.get(self._robot + ((link + 1) << 24), 0) for link in self._fingers)
        return Labelled(image, cube_px, scratch_px, fingers)
