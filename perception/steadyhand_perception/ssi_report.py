"""The report of the stability index for people and programs: plain data, and Markdown of it. Pure."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from steadyhand_perception.ssi import SIGNALS, Seen, SsiConfig, SsiReport, range_of

MATCH_M = 0.03  # a detection farther from every cube is a false one


@dataclass(frozen=True)
class Accuracy:
    """Errors of detections against the truth: without it, a signal that never moves because it sees nothing is good."""

    objects: int
    median_mm: float | None
    p95_mm: float | None
    missed: int
    false: int


def accuracy(scenes: Sequence[tuple[Sequence[Seen], np.ndarray]], presence_min: float = 0.5) -> Accuracy:
    """Of scenes with the places (K, 2) of their objects."""
    errors, objects, detections = [], 0, 0
    for images, truth_m in scenes:
        for image in images:
            found = np.array([o.position_m[:2] for o in image.objects if o.presence >= presence_min]).reshape(-1, 2)
            objects, detections = objects + len(truth_m), detections + len(found)
            distance = np.linalg.norm(found[:, None] - np.asarray(truth_m)[None, :, :2], axis=2)
            pairs = zip(*linear_sum_assignment(np.minimum(distance, MATCH_M)))
            errors += [distance[i, j] for i, j in pairs if distance[i, j] < MATCH_M]
    median, p95 = (float(v) * 1e3 for v in np.percentile(errors, [50, 95])) if errors else (None, None)
    return Accuracy(objects, median, p95, objects - len(errors), detections - len(errors))


def as_dict(
    report: SsiReport, config: SsiConfig, scenes: Sequence[Sequence[Seen]], source: dict, errors: Accuracy | None = None
) -> dict:
    """Everything, as plain data. `source`: where the images are from, with the perturbation family."""
    stacks = [np.stack([i.features for i in s]) for s in scenes if all(i.features is not None for i in s)]
    return {
        "verdict": report.verdict, "causes": list(report.causes), "scenes": report.scenes, "images": report.images,
        "signals": {name: asdict(signal) for name, signal in report.signals.items()},
        "not_measured": [name for name in SIGNALS if name not in report.signals],
        "feature_range": range_of(stacks) if len(stacks) > 1 else None,
        "accuracy": None if errors is None else asdict(errors),
        "gate": {"good_below": config.good, "refuses_above": config.refuse}, "source": source,
    }


def markdown(data: dict) -> str:
    """The page of `as_dict`."""
    lines = [
        f"# Signal stability: {data['verdict'] or 'nothing measured'}", "",
        f"{data['images']} images of {data['scenes']} scenes. "
        f"Gate: below {data['gate']['good_below']} good, above {data['gate']['refuses_above']} nothing is armed on it. "
        "SSI: standard deviation over the images of a scene, over the signal's working range.", "",
        "| signal | SSI p95 | p50 | worst | n | verdict |", "|---|---|---|---|---|---|",
    ]
    for name, s in data["signals"].items():
        lines.append(f"| {name} | {s['p95']:.4f} | {s['p50']:.4f} | {s['worst']:.4f} | {s['n']} | {s['verdict']} |")
    lines += [f"| {name} | | | | 0 | not measured |" for name in data["not_measured"]]
    features = data["signals"].get("features")
    if features and features["within_between"] is not None:
        lines += ["", f"Features: deviation within scenes over that between them {features['within_between']:.4f}; "
                  f"working range {data['feature_range']:.4g}."]
    if data["accuracy"] is not None:
        a = data["accuracy"]
        error = "none found" if a["median_mm"] is None else f"median {a['median_mm']:.2f} mm, p95 {a['p95_mm']:.2f} mm"
        lines += ["", f"Accuracy of the same images: {error}; {a['missed']} of {a['objects']} objects missed, "
                  f"{a['false']} false detections."]
    lines += ["", *(f"- {key}: {value}" for key, value in data["source"].items())]
    lines += ["", *(f"**Refuses to arm: {cause}.**" for cause in data["causes"])]
    return "\n".join(lines).rstrip() + "\n"
