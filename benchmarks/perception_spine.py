"""`perception_spine`: errors of the exported perception model on test looks, through the runtime (`TrayPoses`).

Errors, misses and false reports of cubes in the tray, per number of cubes, with Wilson intervals; latency of one image
on one thread; images that show nothing. Renders the test images when they are not there yet. The images with the worst
errors go to `out/perception/worst.png`.
"""
from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

from benchmarks import common
from policies.training.perception.dataset import HERE, PRESENT, load_config, load_split, render_split
from policies.training.perception.metrics import Matched, match, summary
from steadyhand import cell
from steadyhand_perception.maps import Peaks
from steadyhand_perception.tray_poses import TrayPoses

REPOSITORY = HERE.parents[1] / "model_repository" / "tray_poses"
GREEN, RED, BLUE = (0, 220, 0), (255, 0, 0), (60, 60, 255)
SWAPPED_IMAGES, BLANK_IMAGES, SHEET_IMAGES = 300, 100, 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="folder of the model")


def peaks_of(poses: TrayPoses, image: np.ndarray) -> tuple[Peaks, float]:
    """What the runtime sees in one image, and its milliseconds."""
    seen = poses.infer(image)
    rows = [(*o.position_m[:2], o.yaw_rad, o.presence, o.position_std_m) for o in seen.objects]
    array = np.array(rows).reshape(-1, 5)
    return Peaks(array[:, :2], array[:, 2], array[:, 3], array[:, 4], np.zeros(len(array))), seen.inference_ms


def calibration_of(results: list[Matched]) -> dict:
    """Share of errors within one, two and three predicted standard deviations (2-D Gaussian: 39, 86 and 99 %)."""
    error, std = (np.concatenate([getattr(r, name) for r in results]) for name in ("error_m", "std_m"))
    return {f"within_{k}_std": round(float((error < k * std).mean()), 4) for k in (1, 2, 3)}


def worst_sheet(poses: TrayPoses, data: dict, results: list[Matched], seen: list[Peaks]) -> np.ndarray:
    """RGB sheet of the worst images at twice their size: truth blue, detections green, wrong images' frame red."""
    badness = [1e3 * r.false + 1e3 * r.misses + (r.error_m.max() * 1e3 if len(r.error_m) else 0) for r in results]
    tiles, scale = [], 2
    for k in np.argsort(badness)[::-1][:SHEET_IMAGES]:
        tile = data["images"][k].repeat(scale, axis=0).repeat(scale, axis=1)
        truth = data["cubes"][k][data["label"][k] == PRESENT][:, :2]
        for points, colour, size in ((truth, BLUE, 3), (seen[k].xy_m, GREEN, 1)):
            pixels = poses.camera.project(np.column_stack([points, np.full(len(points), poses.contract.plane_z_m)]))
            for u, v in np.rint(scale * pixels).astype(int):
                tile[max(v - size, 0) : v + size + 1, max(u - size, 0) : u + size + 1] = colour
        if results[k].false or results[k].misses:
            tile[:3], tile[-3:], tile[:, :3], tile[:, -3:] = RED, RED, RED, RED
        tiles.append(tile)
    return np.concatenate([np.concatenate(tiles[r : r + 6], axis=1) for r in range(0, len(tiles), 6)], axis=0)


def blank_images(shape: tuple[int, int, int], n: int) -> dict[str, np.ndarray]:
    """Images that show nothing."""
    rng = np.random.default_rng(0)
    return {
        "black_with_sensor_noise": np.clip(rng.normal(0, 2.5, (n, *shape)), 0, 255).astype(np.uint8),
        "grey": np.repeat(np.arange(0, 256, 256 // n, dtype=np.uint8)[:n], np.prod(shape)).reshape(n, *shape),
        "white_noise": rng.integers(0, 256, (n, *shape), dtype=np.uint8),
    }


def without_objects(poses: TrayPoses) -> dict:
    """Of images that show nothing: how many give detections, and how many have no named fault."""
    found, unnamed = {}, {}
    for name, images in blank_images(poses.contract.image_shape, BLANK_IMAGES).items():
        found[name] = sum(len(poses.infer(image).objects) > 0 for image in images)
        unnamed[name] = sum(not poses.check(image) for image in images)
    return {"blank_images_with_detections": found, "blank_images_without_a_named_fault": unnamed}


def run(args: argparse.Namespace) -> Path:
    config = load_config(args.config)
    render_split(config, "test")
    data, poses = load_split(config, "test"), TrayPoses(args.repository)
    truth = list(zip(data["cubes"], data["label"]))
    with common.alone():
        load = os.getloadavg()[0]
        seen, elapsed_ms = zip(*(peaks_of(poses, image) for image in data["images"]))
    results = [match(peaks, *asked) for peaks, asked in zip(seen, truth)]
    swapped = [
        match(peaks_of(poses, image[..., ::-1])[0], *asked)
        for image, asked in zip(data["images"][:SWAPPED_IMAGES], truth)
    ]
    by_count = {n: [r for r, m in zip(results, data["n_tray"]) if m == n] for n in range(cell.MAX_CUBES + 1)}
    metrics = {
        **summary(results), **calibration_of(results),
        "by_cubes_in_tray": {str(n): summary(some) for n, some in by_count.items()},
        "inference_ms_p50": round(float(np.median(elapsed_ms)), 2),
        "inference_ms_p99": round(float(np.percentile(elapsed_ms, 99)), 2),
        "provider": poses.provider,
        "model_sha256": poses.contract.model_sha256,
        "channels_swapped": summary(swapped),
        **without_objects(poses),
        "test_images_with_a_fault": sum(bool(poses.check(image)) for image in data["images"]),
    }
    from PIL import Image

    Image.fromarray(worst_sheet(poses, data, results, list(seen))).save(Path(config["out"]) / "worst.png")
    print(json.dumps({k: v for k, v in metrics.items() if not isinstance(v, dict)}, indent=1))
    return common.write("perception_spine", len(results), f"1-minute load {load:.1f}", "SCHED_OTHER", metrics)
