"""Render the images and their labels, shard by shard: `python -m policies.training.perception.dataset`.

Deterministic from the seed in `splits.toml`; a shard that exists is kept, so an interrupted command continues. Images
are kept before the sensor: they compress well, and training draws noise afresh each time.

Labels of a set, a row per image: `cubes` (n, MAX_CUBES, 3) x_m, y_m, yaw_rad as they appear on the plane of standing
cubes; `label` (n, MAX_CUBES) int8: PRESENT, ABSENT or IGNORED; `scratch` (n, MAX_CUBES) and `grasp` (n,) int8: 1, 0, or
NOT_ASKED; `sensor` (n, 3) exposure, full well, read noise; `n_tray` (n,) cubes lying in the tray; `touching` (n,) bool.
"""
from __future__ import annotations

import argparse
import sys
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial import ConvexHull

from policies.training.perception import store
from policies.training.perception.looks import perturbed, scene_look, splits
from policies.training.perception.scenes import STANDING_Z_M, TrainingScene, sample_scene, tilt_of, yaw_of
from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_perception.geometry import PinholeCamera

ABSENT, PRESENT, IGNORED = 0, 1, 2
NOT_ASKED = -1
SCRATCH_VISIBLE_PX = 4  # of a scratch, at least, to be asked for
FINGERS_VISIBLE_PX = 15  # of the gripper, at least, to be asked whether it holds a cube
CARRIED_ABOVE_M = 0.06  # a held cube whose centre is higher is carried: not on the tray any more
STANDING_TOLERANCE_M = 0.004
TILT_MAX_RAD = 0.15  # beyond, a cube leans and has no yaw
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Labels:
    """Targets of one image, as in a shard."""

    cubes: np.ndarray
    label: np.ndarray
    scratch: np.ndarray
    grasp: int


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


def labels_of(scene: TrainingScene, seen, scratched: set[int], camera: PinholeCamera, shares: dict) -> Labels:
    """What the model is asked of a scene of which `seen` (the simulator's Labelled) is visible."""
    n = len(scene.position_m)
    cubes, label = np.zeros((cell.MAX_CUBES, 3), np.float32), np.full(cell.MAX_CUBES, ABSENT, np.int8)
    scratch = np.full(cell.MAX_CUBES, NOT_ASKED, np.int8)
    if not n:
        return Labels(cubes, label, scratch, _grasp(scene, seen, np.zeros(0), shares))
    share = seen.cube_px / outline_pixels(camera, scene)
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
    for k in range(n):
        if asked[k] == PRESENT and (k not in scratched or seen.scratch_px[k] >= SCRATCH_VISIBLE_PX):
            scratch[k] = k in scratched
    return Labels(cubes, label, scratch, _grasp(scene, seen, share, shares))


def _grasp(scene: TrainingScene, seen, share: np.ndarray, shares: dict) -> int:
    """1: a cube is between the closed fingers; 0: none is; NOT_ASKED where the image does not show it."""
    held = scene.held >= 0
    if seen.finger_px < FINGERS_VISIBLE_PX or (held and share[scene.held] < shares["absent_share"]):
        return NOT_ASKED
    return int(held)


def scene_of(name: str, settings: dict, number: int):
    """Scene and look of an image of a set: `number` // `settings["renders"]` is the scene's."""
    split, renders = settings["split"], settings.get("renders", 1)
    key = [splits()["seed"], zlib.crc32(name.encode()), number // renders]
    rng = np.random.default_rng(key)
    counts = settings.get("counts")
    n_tray = None if counts is None else counts[(number // renders) % len(counts)]
    scene = sample_scene(rng, n_tray, mode=settings.get("arm"))
    setups = settings.get("setups", 0)
    # A set's own range of set-ups: two sets of a split share none, unless they are limited to a few.
    setup = number % setups if setups else key[1] % 1000 * 1_000_000 + number // renders
    look = scene_look(rng, split, scene, setup, settings.get("scratched"))
    return scene, perturbed(np.random.default_rng([*key, number]), look) if renders > 1 else look


def render_shard(name: str, settings: dict, numbers: range, shares: dict) -> tuple[list, dict[str, np.ndarray]]:
    """Images and labels of a shard."""
    from steadyhand_sim.camera import CameraConfig, Renderer
    from steadyhand_sim.snapshot import Snapshot

    config = CameraConfig()
    camera, renderer = camera_of(config), Renderer(camera=config)
    images, rows = [], []
    for number in numbers:
        scene, look = scene_of(name, settings, number)
        renderer.set_look(look)
        seen = renderer.draw_labelled(
            Snapshot(number, 0.0, scene.q_rad, scene.gripper_width_m, scene.position_m, scene.quaternion_xyzw)
        )
        labels = labels_of(scene, seen, {s.cube for s in look.scratches}, camera, shares)
        images.append(seen.image)
        in_tray = [cell.TRAY.contains(p[:2]) and i != scene.held for i, p in enumerate(scene.position_m)]
        rows.append((
            labels.cubes, labels.label, labels.scratch, np.int8(labels.grasp),
            np.float32([look.exposure, look.full_well_electrons, look.read_noise_dn]), np.int8(sum(in_tray)),
            scene.layout == "touching",
        ))
    renderer.close()
    names = ("cubes", "label", "scratch", "grasp", "sensor", "n_tray", "touching")
    return images, {name: np.stack(column) for name, column in zip(names, zip(*rows))}


def shard_paths(config: dict, name: str) -> list[Path]:
    """The shards that make up a set, without suffix, whether they exist or not."""
    if name not in config["sets"]:
        raise ConfigError(f"image set {name!r}: the configuration has {sorted(config['sets'])}")
    settings, size = config["sets"][name], config["shard_images"]
    recipe = {k: v for k, v in settings.items() if k != "images"}  # a larger set begins with the smaller one's shards
    mark = store.fingerprint(name, recipe, config["labels"], size, splits())
    return [Path(config["out"]) / f"{name}_{mark}_{k:03d}" for k in range(-(-settings["images"] // size))]


def load_set(config: dict, name: str, count: int | None = None) -> store.ImageSet:
    """A set, or the shards with its first `count` images. Raises ConfigError when a shard is missing."""
    paths = shard_paths(config, name)
    if count is not None:
        paths = paths[: -(-count // config["shard_images"])]
    return store.read_set(paths, "run policies.training.perception.dataset first")


def load_config(path: Path, out: Path | None = None) -> dict:
    """The configuration file as nested dicts (Python 3.11); `out` replaces the folder it names."""
    import tomllib

    config = tomllib.loads(path.read_text())
    return config | ({"out": str(out)} if out else {})


def render_set(config: dict, name: str) -> None:
    """Render the shards of a set that do not exist yet. Raises ConfigError when the folder grows over its budget."""
    size, folder = config["shard_images"], Path(config["out"])
    folder.mkdir(parents=True, exist_ok=True)
    for index, path in enumerate(shard_paths(config, name)):
        if path.with_suffix(".npz").exists():
            continue
        used = sum(f.stat().st_size for f in folder.glob("*.bin"))
        if used > config["budget_gib"] * 2**30:
            raise ConfigError(f"budget_gib={config['budget_gib']}: {folder} holds {used / 2**30:.2f} GiB of images")
        start, spent = time.perf_counter(), time.process_time()
        numbers = range(index * size, (index + 1) * size)
        images, labels = render_shard(name, config["sets"][name], numbers, config["labels"])
        written = store.write_shard(path, images, labels)
        rate, cost = len(images) / (time.perf_counter() - start), (time.process_time() - spent) / len(images)
        size_kb = written / len(images) / 1e3
        print(f"{path.name}: {rate:.0f} images/s, {1e3 * cost:.1f} ms CPU, {size_kb:.1f} kB an image", flush=True)


def arguments_of(description: str) -> argparse.ArgumentParser:
    """Options that every step of the training has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, help="folder instead of the configured one")
    return parser


def main() -> int:
    parser = arguments_of(__doc__.splitlines()[0])
    parser.add_argument("sets", nargs="*", help="names; all of the configuration by default")
    arguments = parser.parse_args()
    config = load_config(arguments.config, arguments.out)
    for name in arguments.sets or config["sets"]:
        render_set(config, name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
