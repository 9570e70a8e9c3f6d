"""Render the images and their labels, shard by shard: `python -m policies.training.perception.dataset`.

Deterministic from the configured seed; a shard that exists is kept, so an interrupted command continues. Every image
has a look of its own (light, colours, camera jitter, sensor), sampled from the split's ranges.

A shard `<split>_<seed>_<k>.npz`: `images` (n, H, W, 3) uint8; `cubes` (n, MAX_CUBES, 3) x_m, y_m, yaw_rad as they
appear on the plane of standing cubes; `label` (n, MAX_CUBES) int8: PRESENT, ABSENT or IGNORED; `n_tray` (n,) cubes in
the tray.
"""
from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

from policies.training.perception.scenes import STANDING_Z_M, TrainingScene, sample_scene, tilt_of, yaw_of
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_perception.geometry import PinholeCamera

ABSENT, PRESENT, IGNORED = 0, 1, 2
CARRIED_ABOVE_M = 0.06  # a held cube whose centre is higher is carried: not on the tray any more
STANDING_TOLERANCE_M = 0.004
TILT_MAX_RAD = 0.15  # beyond, a cube leans and has no yaw
SPLITS = ("train", "validation", "test")
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Labels:
    """Targets of one image, as in a shard."""

    cubes: np.ndarray
    label: np.ndarray


def camera_of(config) -> PinholeCamera:
    """The nominal camera of the simulator's CameraConfig."""
    k = config.camera_matrix
    pose = tuple(tuple(float(v) for v in row) for row in config.pose_base_link_camera)
    intrinsics = (float(v) for v in (k[0, 0], k[1, 1], k[0, 2], k[1, 2]))
    return PinholeCamera(config.width, config.height, *intrinsics, pose_base_link_camera=pose)


def outline_pixels(camera: PinholeCamera, scene: TrainingScene) -> np.ndarray:
    """Area (N,) of the cubes' outlines in the nominal image, px, nothing hiding them."""
    corners = np.stack(np.meshgrid(*[[-1, 1]] * 3), axis=-1).reshape(-1, 3) * cell.CUBE_SIZE_M / 2
    yaw = yaw_of(scene.quaternion_xyzw)
    turned = np.stack(
        [
            corners[:, 0] * np.cos(yaw)[:, None] - corners[:, 1] * np.sin(yaw)[:, None],
            corners[:, 0] * np.sin(yaw)[:, None] + corners[:, 1] * np.cos(yaw)[:, None],
            np.broadcast_to(corners[:, 2], (len(yaw), 8)),
        ],
        axis=-1,
    )
    return np.array([ConvexHull(camera.project(c + p)).volume for c, p in zip(turned, scene.position_m)])


def labels_of(scene: TrainingScene, visible_px: np.ndarray, camera: PinholeCamera, shares: dict) -> Labels:
    """What the model is asked of a scene whose cubes show `visible_px` pixels (N,)."""
    n = len(scene.position_m)
    cubes, label = np.zeros((cell.MAX_CUBES, 3), np.float32), np.full(cell.MAX_CUBES, ABSENT, np.int8)
    if not n:
        return Labels(cubes, label)
    share = visible_px / outline_pixels(camera, scene)
    height = scene.position_m[:, 2]
    standing = np.abs(height - STANDING_Z_M) < STANDING_TOLERANCE_M
    held = np.arange(n) == scene.held
    asked = np.where(share >= shares["present_share"], PRESENT, IGNORED)
    asked = np.where(tilt_of(scene.quaternion_xyzw) > TILT_MAX_RAD, IGNORED, asked)
    asked = np.where(held & ~standing, IGNORED, asked)  # leaving the tray: neither answer is wrong
    asked = np.where((share <= shares["absent_share"]) | held & (height > CARRIED_ABOVE_M), ABSENT, asked)
    # A cube on top of another is reported where its centre appears on the plane of standing cubes.
    apparent = camera.unproject(camera.project(scene.position_m), STANDING_Z_M)
    cubes[:n, :2] = np.where(standing[:, None], scene.position_m[:, :2], apparent)
    cubes[:n, 2] = yaw_of(scene.quaternion_xyzw)
    label[:n] = asked
    return Labels(cubes, label)


def render_shard(split: str, index: int, count: int, seed: int, shares: dict) -> dict[str, np.ndarray]:
    """The arrays of one shard."""
    from steadyhand_sim.camera import CameraConfig, Renderer
    from steadyhand_sim.look import sample_look
    from steadyhand_sim.snapshot import Snapshot

    config = CameraConfig()
    camera = camera_of(config)
    renderer = Renderer(camera=config, noise_seed=seed + 1000 * SPLITS.index(split) + index)
    images = np.empty((count, config.height, config.width, 3), np.uint8)
    cubes, label = np.empty((count, cell.MAX_CUBES, 3), np.float32), np.empty((count, cell.MAX_CUBES), np.int8)
    n_tray = np.empty(count, np.int8)
    for k in range(count):
        number = index * 100_000 + k
        rng = np.random.default_rng([seed, SPLITS.index(split), number])
        # Test: as many images of each number of cubes, so that each has an error of its own.
        scene = sample_scene(rng, n_tray=k % (cell.MAX_CUBES + 1) if split == "test" else None)
        renderer.set_look(sample_look(int(rng.integers(2**31)), split))
        snapshot = Snapshot(
            k, 0.0, scene.q_rad, scene.gripper_width_m, scene.position_m, scene.quaternion_xyzw, look_split=split
        )
        images[k], visible_px = renderer.draw_labelled(snapshot)
        labels = labels_of(scene, visible_px, camera, shares)
        cubes[k], label[k] = labels.cubes, labels.label
        in_tray = [cell.TRAY.contains(p[:2]) and not (i == scene.held) for i, p in enumerate(scene.position_m)]
        n_tray[k] = sum(in_tray)
    renderer.close()
    return {"images": images, "cubes": cubes, "label": label, "n_tray": n_tray}


def shard_paths(config: dict, split: str) -> list[Path]:
    """The shards that make up a split, whether they exist or not."""
    shards = -(-config["images"][split] // config["images"]["shard"])
    return [Path(config["out"]) / f"{split}_{config['seed']}_{index:03d}.npz" for index in range(shards)]


def load_split(config: dict, split: str) -> dict[str, np.ndarray]:
    """All shards of a split, joined. Raises ConfigError when one is missing, or they hold not as many as configured."""
    parts, wanted = [], config["images"][split]
    for path in shard_paths(config, split):
        if not path.exists():
            raise ConfigError(f"{path}: not there; run policies.training.perception.dataset first")
        with np.load(path) as file:
            parts.append(dict(file))
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if len(joined["images"]) != wanted:
        raise ConfigError(
            f"images.{split}={wanted}: {config['out']} holds {len(joined['images'])}, rendered with another "
            "configuration; remove it and run policies.training.perception.dataset"
        )
    return joined


def load_config(path: Path) -> dict:
    """The configuration file as nested dicts. Training needs Python 3.11."""
    import tomllib

    return tomllib.loads(path.read_text())


def render_split(config: dict, split: str) -> None:
    """Render the shards of a split that do not exist yet."""
    size, total = config["images"]["shard"], config["images"][split]
    Path(config["out"]).mkdir(parents=True, exist_ok=True)
    for index, path in enumerate(shard_paths(config, split)):
        if path.exists():
            continue
        start = time.perf_counter()
        arrays = render_shard(split, index, min(size, total - index * size), config["seed"], config["labels"])
        partial = path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, **arrays)
        partial.rename(path)  # whole or not at all
        print(f"{path.name}: {len(arrays['images']) / (time.perf_counter() - start):.0f} images/s", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    config = load_config(parser.parse_args().config)
    for split in ("validation", "train", "test"):
        render_split(config, split)
    return 0


if __name__ == "__main__":
    sys.exit(main())
