"""`steadyhand ssi [RECORDING]`: stability of what perception says, per signal, as JSON and Markdown.

Without a recording: rendered scenes, each under many lights (`steadyhand_sim.perturbation`). A recording is of scenes
that stand still: a ROS 2 bag with an image topic (one scene), a folder of PNG or JPEG files (one scene), or a folder of
such folders (a scene each). Exit code 1 when a signal would refuse arming.
"""
from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand.slot import current_slot
from steadyhand_cli import bag
from steadyhand_perception import ssi, ssi_report
from steadyhand_perception.image_checks import image_from_bytes, image_from_compressed
from steadyhand_perception.ssi import Seen, SsiConfig
from steadyhand_perception.tray_poses import TrayPoses

MODEL = Path(__file__).resolve().parents[2] / "policies" / "model_repository" / "tray_poses"
IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
PICTURES = {".png", ".jpg", ".jpeg"}


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument("recording", nargs="?", type=Path, help="bag, folder of pictures, or folder of such folders")
    parser.add_argument("--topic", default="", help="image topic of the bag, when it has several")
    parser.add_argument("--model", type=Path, default=MODEL, help="folder of the model")
    parser.add_argument("--scenes", type=int, default=30, help="rendered scenes")
    parser.add_argument("--images", type=int, default=32, help="images of each, 30 or more")
    parser.add_argument("--cubes", type=int, default=0, help="in each rendered scene; 0: 1 to 8 in turn")
    parser.add_argument("--seed", type=int, default=0, help="of the first rendered scene")
    parser.add_argument("--no-light", action="store_true", help="change noise and camera only")
    parser.add_argument("--out", type=Path, help="folder of the report (out/ssi)")


def run(args: argparse.Namespace) -> int:
    poses, config, refused = TrayPoses(args.model), SsiConfig(), Counter()
    if args.recording is None:
        scenes, truth, source = rendered(args, poses, refused)
        name = "rendered"
    else:
        pictures = recorded(args.recording, args.topic, refused)
        scenes = [seen for images in pictures if (seen := look_at(poses, images, refused))]
        truth, source, name = None, {"recording": args.recording.name}, args.recording.resolve().stem
    if not scenes:
        raise ConfigError(f"no usable image; refused: {dict(refused) or 'none'}")
    found = ssi.report(scenes, config)
    errors = None if truth is None else ssi_report.accuracy(list(zip(scenes, truth)))
    source |= {"model": poses.contract.model, "model_sha256": poses.contract.model_sha256, "refused": dict(refused)}
    data = ssi_report.as_dict(found, config, scenes, source, errors)
    folder = args.out or current_slot().out_dir / "ssi"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(data, indent=2) + "\n")
    page = ssi_report.markdown(data)
    (folder / f"{name}.md").write_text(page)
    print(page)
    print(f"report: {os.path.relpath(folder / name)}.md and .json")
    return 1 if found.causes else 0


def look_at(poses: TrayPoses, images: Iterable[np.ndarray], refused: Counter) -> list[Seen]:
    """What the model says of each image; one with a fault is refused and counted, as in the running graph."""
    seen = []
    for image in images:
        faults = poses.check(image)
        if faults:
            refused[faults[0].name] += 1
            continue
        sight = poses.infer(image)
        seen.append(Seen(sight.in_tray, sight.features))
    return seen


def rendered(args: argparse.Namespace, poses: TrayPoses, refused: Counter) -> tuple[list, list, dict]:
    """Scenes, the places of their cubes, and the published family."""
    from steadyhand_sim.camera import Renderer
    from steadyhand_sim.perturbation import Family, paired_scene

    for name, low in (("scenes", 1), ("images", SsiConfig.images_min), ("seed", 0)):
        if (value := getattr(args, name)) < low:
            raise ConfigError(f"--{name} {value}: give {low} or more")
    family, renderer = Family(light=not args.no_light), Renderer()
    scenes, truth = [], []
    try:
        for k in range(args.scenes):
            paired = paired_scene(renderer, args.seed + k, args.cubes or 1 + k % 8, args.images, family)
            scenes.append(look_at(poses, paired.images, refused))
            truth.append(paired.position_m[:, :2])
    finally:
        renderer.close()
    return scenes, truth, {"rendered from seed": args.seed, "perturbation": family.as_dict()}


def recorded(path: Path, topic: str, refused: Counter) -> list[Iterable[np.ndarray]]:
    """Images (H, W, 3) uint8 by scene. ConfigError when there is none."""
    if not path.is_dir():
        raise ConfigError(f"recording {path}: give a ROS 2 bag's folder, or a folder of pictures")
    if (path / "metadata.yaml").is_file():
        return [of_bag(path, topic, refused)]
    folders = [folder for folder in sorted(path.iterdir()) if folder.is_dir()] or [path]
    found = [sorted(f for f in folder.iterdir() if f.suffix.lower() in PICTURES) for folder in folders]
    scenes = [files for files in found if files]
    if not scenes:
        raise ConfigError(f"recording {path}: holds no picture ({', '.join(sorted(PICTURES))}) and no metadata.yaml")
    return [of_files(files, refused) for files in scenes]


def of_files(files: list[Path], refused: Counter) -> Iterable[np.ndarray]:
    """Pictures as RGB; what is none is refused and counted."""
    from PIL import Image

    for file in files:
        try:
            with Image.open(file) as picture:
                yield np.asarray(picture.convert("RGB"))
        except Exception:  # the parsers of Pillow raise whatever they meet
            refused["no_picture"] += 1


def of_bag(path: Path, topic: str, refused: Counter) -> Iterable[np.ndarray]:
    """Images of a bag's topic as RGB."""
    kinds = {t: kind for t, kind in bag.topics(path).items() if kind in (IMAGE, COMPRESSED)}
    if topic not in kinds and (topic or len(kinds) != 1):
        raise ConfigError(f"--topic {topic!r}: image topics of the bag: {', '.join(sorted(kinds)) or 'none'}; give one")
    topic = topic or next(iter(kinds))
    for _, m, _, _ in bag.messages(path, [topic]):
        if kinds[topic] == COMPRESSED:
            image, faults = image_from_compressed(bytes(m.data), m.format)
        else:
            image, faults = image_from_bytes(bytes(m.data), m.height, m.width, m.encoding, m.step)
        if faults:
            refused[faults[0].name] += 1
        else:
            yield image
