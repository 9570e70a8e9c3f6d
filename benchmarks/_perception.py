"""What the benchmarks of perception share: test sets, the runtime's word on an image as the metrics want it."""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from policies.training.perception.dataset import HERE, load_config, load_set, render_set
from policies.training.perception.metrics import Matched, match
from policies.training.perception.store import ImageSet
from steadyhand.types import Detection
from steadyhand_perception.maps import Peaks
from steadyhand_perception.ssi import Seen, SsiReport, report
from steadyhand_perception.tray_poses import Sight, TrayPoses

SHOWN = ("position_mm_p50", "position_mm_p95", "presence_error")  # of a summary, in a comparison
REPOSITORY = HERE.parents[1] / "model_repository" / "tray_poses"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of every benchmark of perception."""
    parser.add_argument("--config", type=Path, default=HERE / "config.toml")
    parser.add_argument("--out", type=Path, help="folder of images and checkpoints instead of the configured one")
    parser.add_argument("--repository", type=Path, default=REPOSITORY, help="folder of the model")
    parser.add_argument("--images", type=int, help="the first images of a set only: a rough look")


def test_set(args: argparse.Namespace, name: str) -> tuple[ImageSet, int]:
    """A set, rendered where it is not there yet, and how many of its images to look at."""
    config = load_config(args.config, args.out)
    settings = config["sets"][name]
    if args.images:
        renders = settings.get("renders", 1)  # whole scenes, two at least
        settings["images"] = args.images if renders == 1 else max(2, args.images // renders) * renders
    render_set(config, name)
    images = load_set(config, name)
    return images, min(len(images), settings["images"])


def peaks_of(objects: tuple[Detection, ...], limit_p: float = 0.5) -> Peaks:
    """Detections as peaks; the scratch's logit is that of its probability over `limit_p`, NaN without one."""
    rows = np.array([(*o.position_m[:2], o.yaw_rad, o.presence, o.position_std_m) for o in objects]).reshape(-1, 5)
    p = np.array([np.nan if o.defect is None else o.defect for o in objects]).clip(1e-9, 1 - 1e-9)
    scratch = np.log(p / (1 - p)) - np.log(limit_p / (1 - limit_p))
    return Peaks(rows[:, :2], rows[:, 2], rows[:, 3], rows[:, 4], np.zeros(len(rows)), scratch)


def matched(images: ImageSet, number: int, objects: tuple[Detection, ...]) -> Matched:
    """Detections in one image of a set against its labels."""
    return match(peaks_of(objects), *(images.labels[name][number] for name in ("cubes", "label", "scratch")))


def grasp_figures(asked: np.ndarray, sights: list[Sight]) -> dict:
    """Wrong words on whether the gripper holds a cube; nothing of a model that does not say. `asked` as in a set."""
    if any(s.grasp_success is None for s in sights):
        return {}
    known = asked != -1
    wrong = (np.array([s.grasp_success for s in sights]) > 0.5) != (asked == 1)
    return {"grasp_asked": int(known.sum()), "grasp_wrong": int(wrong[known].sum())}


def stability(sights: list[Sight], renders: int) -> SsiReport:
    """SSI over consecutive groups of images, each of one scene."""
    seen = [Seen(s.objects, s.features) for s in sights]
    return report([seen[k : k + renders] for k in range(0, len(seen), renders)])


def look(poses: TrayPoses, images: ImageSet, count: int) -> list[Sight]:
    """What the runtime says of the first images."""
    return [poses.infer(images.sensed(k)) for k in range(count)]
