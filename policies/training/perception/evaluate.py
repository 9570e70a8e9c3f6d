"""Measure the exported model on the test images: `python -m policies.training.perception.evaluate`.

Goes through the runtime (`TrayPoses`, onnxruntime, no torch). Writes `out/bench/perception_spine.json` and, of the
images with the worst errors, `out/perception/worst.png`. Test looks and scenes are seen here and nowhere else.
"""
from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

from policies.training.perception.dataset import HERE, PRESENT, load_config, load_split
from policies.training.perception.metrics import Matched, match, summary
from steadyhand import cell
from steadyhand_perception.maps import Peaks
from steadyhand_perception.tray_poses import TrayPoses

REPOSITORY = HERE.parents[1] / "model_repository" / "tray_poses"
GREEN, RED, BLUE = (0, 220, 0), (255, 0, 0), (60, 60, 255)


def peaks_of(poses: TrayPoses, image: np.ndarray) -> tuple[Peaks, float]:
    """What the runtime sees in one image, and its milliseconds."""
    seen = poses.infer(image)
    rows = [(*o.position_m[:2], o.yaw_rad, o.presence, o.position_std_m) for o in seen.objects]
    array = np.array(rows).reshape(-1, 5)
    return Peaks(array[:, :2], array[:, 2], array[:, 3], array[:, 4], np.zeros(len(array))), seen.inference_ms


def calibration_of(results: list[Matched]) -> dict:
    """Share of errors within one and two predicted standard deviations (2-D Gaussian: 39 % and 86 %)."""
    error, std = (np.concatenate([getattr(r, name) for r in results]) for name in ("error_m", "std_m"))
    return {f"within_{k}_std": round(float((error < k * std).mean()), 4) for k in (1, 2, 3)}


def worst_sheet(poses: TrayPoses, data: dict, results: list[Matched], seen: list[Peaks]) -> np.ndarray:
    """RGB sheet of the 24 worst images at twice their size: truth blue, detections green, wrong images' frame red."""
    badness = [1e3 * r.false + 1e3 * r.misses + (r.error_m.max() * 1e3 if len(r.error_m) else 0) for r in results]
    tiles, scale = [], 2
    for k in np.argsort(badness)[::-1][:24]:
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


def commit() -> str:
    """Short hash of the checked-out commit."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--repository", type=Path, default=REPOSITORY)
    parser.add_argument("--out", type=Path, default=Path("out/bench/perception_spine.json"))
    arguments = parser.parse_args()
    config = load_config(arguments.config)
    data = load_split(Path(config["out"]), "test")
    poses = TrayPoses(arguments.repository)
    seen, elapsed = zip(*(peaks_of(poses, image) for image in data["images"]))
    results = [match(p, c, lab) for p, c, lab in zip(seen, data["cubes"], data["label"])]
    swapped = [
        match(peaks_of(poses, image[..., ::-1])[0], c, lab)
        for image, c, lab in zip(data["images"][:300], data["cubes"], data["label"])
    ]
    by_count = {n: [r for r, m in zip(results, data["n_tray"]) if m == n] for n in range(cell.MAX_CUBES + 1)}
    blanks = blank_images(poses.contract.image_shape, 100)
    report = {
        "name": "perception_spine",
        "n": len(results),
        "load": round(os.getloadavg()[0], 2),
        "scheduler": "SCHED_OTHER",
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        "commit": commit(),
        "metrics": summary(results) | calibration_of(results) | {
            "by_cubes_in_tray": {str(n): summary(some) for n, some in by_count.items()},
            "model_sha256": poses.contract.model_sha256,
            "inference_ms_p50": round(float(np.median(elapsed)), 2),
            "inference_ms_p99": round(float(np.percentile(elapsed, 99)), 2),
            "provider": poses.provider,
            "channels_swapped": summary(swapped),
            "blank_images_with_detections": {
                name: sum(len(poses.infer(image).objects) > 0 for image in images) for name, images in blanks.items()
            },
            "blank_images_without_a_named_fault": {
                name: sum(not poses.check(image) for image in images) for name, images in blanks.items()
            },
            "test_images_with_a_fault": sum(bool(poses.check(image)) for image in data["images"]),
        },
    }
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    from PIL import Image

    Image.fromarray(worst_sheet(poses, data, results, list(seen))).save(Path(config["out"]) / "worst.png")
    print(json.dumps(report["metrics"], indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
