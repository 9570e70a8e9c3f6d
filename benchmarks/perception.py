"""`perception`: errors and stability of the exported model on the fixed test set, through the runtime (`TrayPoses`).

Per number of cubes in the tray, touching ones and clutter included; the worst number's figures are the result. The
stability index over perturbed renders of one scene each. Images that show nothing. Where the training has left them,
the same model in half precision and in 8 bits beside it. The worst images go to `<out>/worst.png`.
"""
from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import numpy as np

from benchmarks import _perception as shared
from benchmarks import common
from policies.training.perception.dataset import PRESENT, load_config
from policies.training.perception.metrics import Matched, inspection, summary
from policies.training.perception.store import ImageSet
from steadyhand import cell
from steadyhand_perception import pictures
from steadyhand_perception.tray_poses import MODEL_FILE, Sight, TrayPoses

BLANK_IMAGES, SHEET_IMAGES, SHEET_COLUMNS, SCALE = 100, 24, 6, 2
SWAPPED_IMAGES, VARIANT_IMAGES = 300, 900

add_arguments = shared.add_arguments


def deviation_figures(results: list[Matched]) -> dict:
    """Share of errors within one, two and three predicted standard deviations (2-D Gaussian: 39, 86 and 99 %)."""
    error, std = (np.concatenate([getattr(r, name) for r in results]) for name in ("error_m", "std_m"))
    return {f"within_{k}_std": round(float((error < k * std).mean()), 4) for k in (1, 2, 3)} if len(error) else {}


def worst_sheet(poses: TrayPoses, images: ImageSet, results: list[Matched], sights: list[Sight]) -> np.ndarray:
    """RGB sheet of the worst images: truth blue, what was seen as `pictures.annotate` draws it, wrong ones framed."""
    badness = [1e3 * (r.false + r.misses) + (r.error_m.max() * 1e3 if len(r.error_m) else 0) for r in results]
    tiles = []
    for k in np.argsort(badness)[::-1][:SHEET_IMAGES]:
        tile = pictures.annotate(images.sensed(k), sights[k].objects, poses.camera, SCALE)
        truth = images.labels["cubes"][k][images.labels["label"][k] == PRESENT][:, :2]
        top = np.column_stack([truth, np.full(len(truth), poses.contract.plane_z_m + cell.CUBE_SIZE_M / 2)])
        pictures.mark(tile, top, poses.camera, SCALE)
        if results[k].false or results[k].misses:
            pictures.frame(tile)
        tiles.append(tile)
    return pictures.sheet(tiles, SHEET_COLUMNS)


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


def variant_figures(folder: Path, images: ImageSet, count: int) -> dict:
    """The first test images through every variant in a folder: error, decisions, size, time."""
    figures = {}
    for path in sorted(folder.glob(f"*/{MODEL_FILE}")):
        sights = shared.look(TrayPoses(path.parents[1]), images, count)
        results = [shared.matched(images, k, s.objects) for k, s in enumerate(sights)]
        figures[path.parents[1].name] = {
            **{k: v for k, v in summary(results).items() if k in shared.SHOWN},
            "wrong_scratch": inspection(results)["wrong_rate"], "model_mb": _megabytes(path),
            "inference_ms_p50": round(float(np.median([s.inference_ms for s in sights])), 2),
        }
    return figures


def _megabytes(path: Path) -> float:
    return round(path.stat().st_size / 1e6, 2)


def headline(by_count: dict[int, dict], report, model: Path) -> dict:
    """The figures of the issue, each of its worst number of cubes."""
    worst = {
        name: max(by_count[n].get(key, 1e3) for n in by_count if n)
        for name, key in (
            ("pose_median_mm", "position_mm_p50"), ("pose_p95_mm", "position_mm_p95"),
            ("presence_error", "presence_error"),
        )
    }
    signals = report.signals
    return {
        "scenes": sum(figures["images"] for figures in by_count.values()),
        "scenes_min_per_count": min(by_count[n]["images"] for n in by_count if n), **worst,
        "ssi_output": round(max(signals[n].p95 for n in signals if n in ("pose", "presence")), 4),
        "ssi_feature": round(signals["features"].p95, 4), "model_mb": _megabytes(model),
    }


def run(args: argparse.Namespace) -> Path:
    config, poses = load_config(args.config, args.out), TrayPoses(args.repository)
    images, count = shared.test_set(args, "test")
    with common.alone():
        load = os.getloadavg()[0]
        sights = shared.look(poses, images, count)
    results = [shared.matched(images, k, s.objects) for k, s in enumerate(sights)]
    labels = {name: values[:count] for name, values in images.labels.items()}
    by_count = {
        n: summary([r for r, m in zip(results, labels["n_tray"]) if m == n]) for n in range(cell.MAX_CUBES + 1)
    }
    swapped = [
        shared.matched(images, k, poses.infer(images.sensed(k)[..., ::-1]).objects)
        for k in range(min(count, SWAPPED_IMAGES))
    ]
    still, still_count = shared.test_set(args, "stability")
    report = shared.stability(shared.look(poses, still, still_count), config["sets"]["stability"]["renders"])
    elapsed_ms = [s.inference_ms for s in sights]
    metrics = {
        **headline({n: f for n, f in by_count.items() if f["images"]}, report, args.repository / MODEL_FILE),
        **summary(results), **deviation_figures(results),
        "touching": summary([r for r, t in zip(results, labels["touching"]) if t]),
        "by_cubes_in_tray": {str(n): figures for n, figures in by_count.items()},
        "ssi": {name: round(s.p95, 4) for name, s in report.signals.items()},
        "ssi_within_between_features": round(report.signals["features"].within_between, 4),
        **shared.grasp_figures(labels["grasp"], sights),
        "inference_ms_p50": round(float(np.median(elapsed_ms)), 2),
        "inference_ms_p99": round(float(np.percentile(elapsed_ms, 99)), 2),
        "provider": poses.provider, "model_sha256": poses.contract.model_sha256,
        "channels_swapped": summary(swapped), **without_objects(poses),
        "test_images_with_a_fault": sum(bool(poses.check(images.sensed(k))) for k in range(count)),
        "variants": variant_figures(Path(config["out"]) / "variants", images, min(count, VARIANT_IMAGES)),
    }
    from PIL import Image

    Image.fromarray(worst_sheet(poses, images, results, sights)).save(Path(config["out"]) / "worst.png")
    print(json.dumps({k: v for k, v in metrics.items() if not isinstance(v, dict)}, indent=1))
    return common.write("perception", len(results), f"1-minute load {load:.1f}", "SCHED_OTHER", metrics)
