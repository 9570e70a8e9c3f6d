"""`perception_ablation`: what light set-ups, median, network and distillation are worth, on the same scenes.

Every exported arm of `policies.training.perception.ablation` looks at the same perturbed renders of the same test
scenes, image by image and through the median of five; errors, stability index, wrong decisions on scratches.
"""
from __future__ import annotations

import argparse
import dataclasses
import json
import os
from pathlib import Path

import numpy as np

from benchmarks import _perception as shared
from benchmarks import common
from policies.training.perception.dataset import load_config
from policies.training.perception.metrics import inspection, summary
from steadyhand.errors import ConfigError
from steadyhand.median_filter import PoseMedian
from steadyhand.types import Detection
from steadyhand_perception.tray_poses import CONTRACT_FILE, Sight, TrayPoses

WINDOW = 5
SAME_OBJECT_M = 0.025

add_arguments = shared.add_arguments


def filtered(sights: list[Sight]) -> list[Sight]:
    """One scene's sights, each object's pose through the sliding median; the other signals by the median too."""
    tracks: list[tuple[PoseMedian, list[Detection]]] = []
    out = []
    for k, sight in enumerate(sights):
        objects = []
        for seen in sight.objects:
            near = [t for t in tracks if np.hypot(*(t[1][-1].position_m - seen.position_m)[:2]) < SAME_OBJECT_M]
            track = near[0] if near else (PoseMedian(WINDOW), [])
            if not near:
                tracks.append(track)
            middle = track[0].add(float(k), [*seen.position_m, seen.yaw_rad])
            track[1].append(seen)
            last = track[1][-WINDOW:]
            if middle is None:  # two objects of one image at one place
                objects.append(seen)
                continue
            defect = None if seen.defect is None else float(np.median([s.defect for s in last]))
            objects.append(Detection(
                middle.values[:3], float(middle.values[3]), float(np.median([s.presence for s in last])),
                seen.position_std_m, defect,
            ))
        out.append(dataclasses.replace(sight, in_tray=tuple(objects), in_box=(), elsewhere=()))
    return out


def figures_of(images, sights: list[Sight], renders: int) -> dict:
    """Errors, stability and wrong decisions."""
    results = [shared.matched(images, k, s.objects) for k, s in enumerate(sights)]
    signals = shared.stability(sights, renders).signals
    decided = inspection(results)
    return {
        **{k: v for k, v in summary(results).items() if k in shared.SHOWN},
        "ssi_output": round(max((signals[n].p95 for n in signals if n in ("pose", "presence")), default=1.0), 4),
        "ssi_feature": round(signals["features"].p95, 4),
        "items": decided["items"], "wrong_rate": decided["wrong_rate"],
    }


def run(args: argparse.Namespace) -> Path:
    config = load_config(args.config, args.out)
    arms = sorted((Path(config["out"]) / "ablation").glob(f"*/{CONTRACT_FILE}"))
    if not arms:
        raise ConfigError(f"{config['out']}/ablation: no arm; run policies.training.perception.ablation first")
    images, count = shared.test_set(args, "stability")
    renders = config["sets"]["stability"]["renders"]
    load, metrics = os.getloadavg()[0], {}
    for contract in arms:
        poses = TrayPoses(contract.parents[1])
        raw = shared.look(poses, images, count)
        middle = [s for k in range(0, count, renders) for s in filtered(raw[k : k + renders])]
        metrics[poses_name := contract.parents[1].name] = {
            "raw": figures_of(images, raw, renders), "median": figures_of(images, middle, renders),
            "inference_ms_p50": round(float(np.median([s.inference_ms for s in raw])), 2),
        }
        print(poses_name, json.dumps(metrics[poses_name]), flush=True)
    return common.write("perception_ablation", count, f"1-minute load {load:.1f}", "SCHED_OTHER", metrics)
