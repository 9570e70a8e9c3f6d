"""Image observations: what the cell's camera, or the vehicle's, sees. Ground truth goes into pictures only.

The arm's pictures are those of `steadyhand_sim.camera`: same camera, looks, splits and sensor noise as the perception
model is trained on. Beside the picture the observation holds what the robot knows of itself; what a policy is to find
in the picture is left out.
"""
from __future__ import annotations

import math

import gymnasium
import numpy as np

from steadyhand_sim import bullet, scene
from steadyhand_sim.agv.deck import FLOOR_Z_M
from steadyhand_sim.camera import Renderer, sensor_noise
from steadyhand_sim.look import Look, sample_look

PEG_COLOUR, SOCKET_COLOUR = (0.75, 0.45, 0.15, 1.0), (0.30, 0.32, 0.36, 1.0)


def space(height: int, width: int, n_state: int) -> gymnasium.spaces.Dict:
    """A picture, uint8 (height, width, 3), and `n_state` elements of the robot's own state."""
    return gymnasium.spaces.Dict({
        "image": gymnasium.spaces.Box(0, 255, (height, width, 3), np.uint8),
        "state": gymnasium.spaces.Box(-10.0, 10.0, (n_state,), np.float32),
    })


def proprioception(names: tuple[str, ...]) -> np.ndarray:
    """Indices of the elements that say nothing of what a camera is for."""
    seen = ("target_", "sin_4_yaw_error", "cos_4_yaw_error", "dock_", "person_")
    return np.array([i for i, name in enumerate(names) if not name.startswith(seen)])


class TaskRenderer(Renderer):
    """Also draws the peg and its socket, where there are."""

    def __init__(self) -> None:
        self._things: list[int] = []
        super().__init__()

    def show(self, boxes: list[tuple[tuple, tuple, tuple, tuple]]) -> None:
        """Boxes by centre, half extents, quaternion and colour, in place of those shown before."""
        for body in self._things:
            self._p.removeBody(body)
        self._things = []
        for centre, half, quaternion, colour in boxes:
            body = self._body(centre, half)
            self._p.resetBasePositionAndOrientation(body, centre, quaternion)
            self._p.changeVisualShape(body, -1, rgbaColor=colour)
            self._things.append(body)


class ArmView:
    """The cell's camera. Made on the first picture, kept over episodes."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._renderer: TaskRenderer | None = None

    def space(self, n_state: int) -> gymnasium.spaces.Dict:
        """Of the observation."""
        from steadyhand_sim.camera import CameraConfig

        camera = CameraConfig()
        return space(camera.height, camera.width, n_state)

    def new_look(self, look_seed: int, split: str) -> None:
        """Another light, other colours."""
        if self._renderer is None:
            self._renderer = TaskRenderer()
        self._renderer.noise_seed = look_seed
        self._renderer.set_look(sample_look(look_seed, split))

    def draw(self, world, things: list, cycle: int, look_seed: int, split: str) -> np.ndarray:
        """One frame, uint8 (H, W, 3), of the world as it is, and of `things` as `TaskRenderer.show` takes them."""
        self._renderer.show(things)
        return self._renderer.draw(world.snapshot(cycle, look_seed, split))

    def close(self) -> None:
        """Free the renderer; harmless twice."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


class VehicleView:
    """A camera over the vehicle's front, 1.1 m above the floor, tilted down."""

    HEIGHT_PX = WIDTH_PX = 96
    _ABOVE_FLOOR_M, _AHEAD_M, _LOOK_AHEAD_M, _FOV_DEG = 1.1, 0.30, 1.6, 70.0

    def __init__(self) -> None:
        self._p = None

    def space(self, n_state: int) -> gymnasium.spaces.Dict:
        """Of the observation."""
        return space(self.HEIGHT_PX, self.WIDTH_PX, n_state)

    def _open(self, dock: tuple[float, float, float], post: tuple[float, float, float], person_radius_m: float) -> None:
        p = self._p = bullet.connect()
        self._box((-3.0, 0.0, FLOOR_Z_M - 0.01), (9.0, 12.0, 0.01), (0.55, 0.56, 0.54, 1.0))
        for box in scene.fixed_boxes():
            if box.role == "table":
                half = (*box.half_extents_m[:2], (box.centre_m[2] + box.half_extents_m[2] - FLOOR_Z_M) / 2)
                self._box((*box.centre_m[:2], FLOOR_Z_M + half[2]), half, (0.62, 0.50, 0.36, 1.0))
        x, y, heading = dock
        c, s = math.cos(heading), math.sin(heading)
        for ahead, across in ((0.55, 0.35), (0.55, -0.35)):  # two posts behind the dock's end: its marker
            self._box(
                (x + c * ahead - s * across, y + s * ahead + c * across, FLOOR_Z_M + 0.4), (0.04, 0.04, 0.4),
                (0.10, 0.35, 0.75, 1.0),
            )
        self._cylinder((post[0], post[1], FLOOR_Z_M + 0.5), post[2], 1.0, (0.80, 0.70, 0.10, 1.0))
        self._person = self._cylinder((0.0, 0.0, -9.0), person_radius_m, 1.7, (0.75, 0.15, 0.12, 1.0))
        self._projection = p.computeProjectionMatrixFOV(self._FOV_DEG, self.WIDTH_PX / self.HEIGHT_PX, 0.1, 12.0)

    def _box(self, centre, half, colour) -> int:
        shape = self._p.createVisualShape(self._p.GEOM_BOX, halfExtents=list(half), rgbaColor=colour)
        return self._p.createMultiBody(0, -1, shape, list(centre))

    def _cylinder(self, centre, radius, height, colour) -> int:
        shape = self._p.createVisualShape(self._p.GEOM_CYLINDER, radius=radius, length=height, rgbaColor=colour)
        return self._p.createMultiBody(0, -1, shape, list(centre))

    def draw(self, hall, look: Look, seed: tuple[int, int]) -> np.ndarray:
        """One frame, uint8 (H, W, 3), of an `agv_hall.Hall`."""
        if self._p is None:
            self._open(hall.dock, hall.post, hall.person_radius_m)
        p, person = self._p, hall.person_xy_m()
        at = (0.0, 0.0, -9.0) if person is None else (*person, FLOOR_Z_M + 0.85)
        p.resetBasePositionAndOrientation(self._person, at, (0, 0, 0, 1))
        x, y, heading = hall.pose()
        c, s = math.cos(heading), math.sin(heading)
        eye = (x + self._AHEAD_M * c, y + self._AHEAD_M * s, FLOOR_Z_M + self._ABOVE_FLOOR_M)
        aim = (x + (self._AHEAD_M + self._LOOK_AHEAD_M) * c, y + (self._AHEAD_M + self._LOOK_AHEAD_M) * s, FLOOR_Z_M)
        view, light = p.computeViewMatrix(eye, aim, (0, 0, 1)), look.light
        rgba = p.getCameraImage(
            self.WIDTH_PX, self.HEIGHT_PX, view, self._projection, lightDirection=light.direction,
            lightColor=light.colour, lightDistance=light.distance_m, shadow=0, lightAmbientCoeff=light.ambient,
            lightDiffuseCoeff=light.diffuse, lightSpecularCoeff=light.specular, renderer=p.ER_TINY_RENDERER,
            flags=p.ER_NO_SEGMENTATION_MASK,
        )[2]
        image = np.asarray(rgba, dtype=np.uint8).reshape(self.HEIGHT_PX, self.WIDTH_PX, 4)[..., :3]
        return sensor_noise(image, look, np.random.default_rng(list(seed)))

    def close(self) -> None:
        """Free the renderer; harmless twice."""
        if self._p is not None:
            self._p.disconnect()
            self._p = None
