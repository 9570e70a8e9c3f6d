"""The perturbation family of the stability index: what changes between the images of one scene, and what does not.

Per image: the light (direction, colour, distance, ambient, diffuse, specular, shadow) and the exposure, drawn from a
split's ranges of `look`; sensor noise of its own; the camera's place, 1 mm. Per scene: cubes, colours, distractors, the
sensor, and the camera's mounting error.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np

from steadyhand import cell
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand_sim import scene
from steadyhand_sim.camera import Renderer
from steadyhand_sim.look import SPLITS, sample_look
from steadyhand_sim.snapshot import Snapshot


@dataclass(frozen=True)
class Family:
    """Where light is drawn from, and how much the camera moves. `light` False: only noise and camera change."""

    split: str = "test"
    light: bool = True
    camera_std_m: float = described(0.001, "shift of the camera per axis, standard deviation", "m", 0.0, 0.01)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.split not in SPLITS:
            raise ConfigError(f"Family.split = {self.split!r}: give one of {', '.join(SPLITS)}")

    def as_dict(self) -> dict:
        """To be published with every figure."""
        return asdict(self)


@dataclass(frozen=True)
class PairedScene:
    """Images (N) of one scene, and the truth of it."""

    images: Iterator[np.ndarray]
    position_m: np.ndarray  # (K, 3)


def paired_scene(renderer: Renderer, seed: int, n_cubes: int, n_images: int, family: Family = Family()) -> PairedScene:
    """`n_images` of the scene of a seed, drawn when they are asked for. Same seed and family: the same bytes."""
    cubes = scene.sample_cubes(np.random.default_rng([seed, 1]), n_cubes)
    return PairedScene(_images(renderer, seed, cubes, n_images, family), cubes.position_m)


def _images(renderer: Renderer, seed: int, cubes: scene.Cubes, n_images: int, family: Family) -> Iterator[np.ndarray]:
    look, rng = sample_look(seed, family.split), np.random.default_rng([seed, 17])
    for k in range(n_images):
        other = sample_look(int(rng.integers(2**31)), family.split)
        changed = {"light": other.light, "exposure": other.exposure} if family.light else {}
        shift = np.array(look.camera_shift_m) + rng.normal(0, family.camera_std_m, 3)
        renderer.set_look(replace(look, camera_shift_m=tuple(shift.tolist()), **changed))
        yield renderer.draw(Snapshot(
            seed * n_images + k, 0.0, cell.HOME_Q_RAD, cell.GRIPPER_PREGRASP_M, cubes.position_m, cubes.quaternion_xyzw,
            seed, family.split,
        ))
