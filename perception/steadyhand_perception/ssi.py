"""Signal stability index (SSI): how much a signal moves while the scene does not. Pure.

SSI of a signal = its standard deviation over N >= 30 images of one scene, divided by the signal's full working range:

| signal     | one value per      | working range                                                           |
|------------|--------------------|-------------------------------------------------------------------------|
| `pose`     | object, worse axis | half the tray's narrower side                                           |
| `yaw`      | object             | pi / 4: a cube's yaw is known modulo a quarter turn                      |
| `presence` | object             | 1; an image without the object counts as 0                              |
| `defect`   | object             | 1                                                                       |
| `features` | scene              | root mean square over dimensions of their range over all scenes' images |

The figure of a report is the 95th percentile over all objects of all scenes. Features have also the ratio of the
deviation within scenes to that between them. Dividing by the mean instead would explode where the mean is near zero.
Gate: below 0.05 good, above 0.15 nothing is armed on it.
"""
from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from steadyhand import cell
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.median_filter import QUARTER_TURN_RAD
from steadyhand.types import Detection

SIGNALS = ("pose", "yaw", "presence", "defect", "features")
POSE_RANGE_M = min(cell.TRAY.x_max_m - cell.TRAY.x_min_m, cell.TRAY.y_max_m - cell.TRAY.y_min_m) / 2
RANGES = {"pose": POSE_RANGE_M, "yaw": QUARTER_TURN_RAD / 2, "presence": 1.0, "defect": 1.0}


@dataclass(frozen=True)
class SsiConfig:
    """The gate, and what counts as the same object."""

    good: float = described(0.05, "SSI below which a signal is good", "", 0.0, 1.0)
    refuse: float = described(0.15, "SSI above which nothing is armed", "", 0.0, 1.0)
    images_min: int = described(30, "images of a scene, at least", "", 2, 10_000)
    gate_m: float = described(0.04, "detections so near one another in two images may be one object", "m", 0.001, 0.1)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.good > self.refuse:
            raise ConfigError(f"SsiConfig.good = {self.good}: give at most refuse = {self.refuse}")


@dataclass(frozen=True)
class Seen:
    """What perception says of one image of a scene. `features` (F,); None when the model has none."""

    objects: tuple[Detection, ...]
    features: np.ndarray | None = None

    def __post_init__(self) -> None:
        numbers = [[*o.position_m, o.yaw_rad, o.presence, o.defect or 0.0] for o in self.objects]
        for name, values in (("objects", numbers), ("features", self.features)):
            if values is not None and not np.isfinite(np.asarray(values, dtype=float)).all():
                raise ConfigError(f"{name} of an image hold what is not finite: refuse that image")


@dataclass(frozen=True)
class Followed:
    """One object over the N images of a scene; rows of images that do not show it are NaN, its presence there is 0."""

    xy_m: np.ndarray  # (N, 2)
    yaw_rad: np.ndarray  # (N,)
    presence: np.ndarray  # (N,)
    defect: np.ndarray  # (N,); all NaN when the model does not say


def follow(images: Sequence[Seen], gate_m: float) -> list[Followed]:
    """The objects of a scene that stands still: each image's detections are given to the objects with the least total
    squared distance from their mean places, within the gate; what is left over is a new object."""
    n, found, means, hits = len(images), [], np.zeros((0, 2)), np.zeros(0)
    for k, image in enumerate(images):
        if not image.objects:
            continue
        places = np.array([o.position_m[:2] for o in image.objects], dtype=float)
        cost = np.minimum(((places[:, None] - means) ** 2).sum(axis=2), gate_m**2)
        index = np.full(len(places), -1)
        for i, j in zip(*linear_sum_assignment(cost)):
            if cost[i, j] < gate_m**2:
                index[i] = j
        for i in np.flatnonzero(index < 0):
            index[i] = len(found)
            nan = np.full(n, np.nan)
            found.append(Followed(np.full((n, 2), np.nan), nan.copy(), np.zeros(n), nan.copy()))
            means, hits = np.vstack([means, np.zeros(2)]), np.append(hits, 0)
        for i, o in enumerate(image.objects):
            one = found[index[i]]
            one.xy_m[k], one.yaw_rad[k], one.presence[k] = places[i], o.yaw_rad, o.presence
            if o.defect is not None:
                one.defect[k] = o.defect
        hits[index] += 1
        means[index] += (places - means[index]) / hits[index][:, None]
    return found


def yaw_std(yaw_rad: np.ndarray) -> float:
    """Standard deviation of cubes' yaws (N,) about their mean direction, modulo a quarter turn."""
    turns = 2 * np.pi / QUARTER_TURN_RAD
    middle = np.angle(np.exp(1j * turns * yaw_rad).mean()) / turns
    away = np.remainder(yaw_rad - middle + QUARTER_TURN_RAD / 2, QUARTER_TURN_RAD) - QUARTER_TURN_RAD / 2
    return float(np.sqrt((away**2).mean()))


def object_ssi(o: Followed) -> dict[str, float]:
    """SSI of the signals of one object. What was seen once only has no spread of pose; its presence tells of it."""
    spread = {"presence": float(o.presence.std())}
    seen = np.isfinite(o.yaw_rad)
    if seen.sum() > 1:
        spread |= {"pose": float(o.xy_m[seen].std(axis=0).max()), "yaw": yaw_std(o.yaw_rad[seen])}
    judged = np.isfinite(o.defect)
    if judged.sum() > 1:
        spread["defect"] = float(o.defect[judged].std())
    return {name: value / RANGES[name] for name, value in spread.items()}


@dataclass(frozen=True)
class SignalSsi:
    """One signal: the spread of its SSI over objects (features: scenes), and the gate's word: good, fair or refuse."""

    n: int
    p50: float
    p95: float
    worst: float
    verdict: str
    within_between: float | None = None  # features only


@dataclass(frozen=True)
class SsiReport:
    """SSI of every signal that was there. `verdict` is the worst one's, empty when nothing was there to be judged."""

    scenes: int
    images: int
    signals: dict[str, SignalSsi]
    refuse: float

    @property
    def verdict(self) -> str:
        order = ("good", "fair", "refuse")
        return max((s.verdict for s in self.signals.values()), key=order.index, default="")

    @property
    def causes(self) -> tuple[str, ...]:
        """What forbids arming, by name."""
        return tuple(
            f"perception unstable: SSI of {name} is {s.p95:.3f}, at most {self.refuse}"
            for name, s in self.signals.items() if s.verdict == "refuse"
        )


def report(scenes: Sequence[Sequence[Seen]], config: SsiConfig = SsiConfig(), feature_range: float = 0.0) -> SsiReport:
    """SSI over scenes, each a sequence of images of it.

    `feature_range` is the features' working range where it is known; 0: taken from these scenes, of which there must
    then be two. ConfigError for too few images or scenes.
    """
    for k, scene in enumerate(scenes):
        if len(scene) < config.images_min:
            raise ConfigError(f"scene {k} has {len(scene)} images: give at least {config.images_min}")
    if not scenes:
        raise ConfigError("no scene: give at least one")
    values: dict[str, list[float]] = {name: [] for name in SIGNALS}
    for scene in scenes:
        for o in follow(scene, config.gate_m):
            for name, value in object_ssi(o).items():
                values[name].append(value)
    values["features"], ratio = feature_ssi(scenes, feature_range)
    signals = {}
    for name, found in values.items():
        if found:
            p50, p95 = np.percentile(found, [50, 95])
            verdict = "good" if p95 < config.good else "fair" if p95 <= config.refuse else "refuse"
            within_between = ratio if name == "features" else None
            signals[name] = SignalSsi(len(found), float(p50), float(p95), float(max(found)), verdict, within_between)
    return SsiReport(len(scenes), sum(len(s) for s in scenes), signals, config.refuse)


def feature_ssi(scenes: Sequence[Sequence[Seen]], feature_range: float = 0.0) -> tuple[list[float], float | None]:
    """(SSI of the features of each scene, deviation within scenes over that between them); empty and None without
    features or without a range."""
    stacks = [np.stack([i.features for i in scene]) for scene in scenes if all(i.features is not None for i in scene)]
    if not stacks:
        return [], None
    if len({s.shape[1] for s in stacks}) > 1:
        raise ConfigError(f"features have {sorted({s.shape[1] for s in stacks})} dimensions: give one model's")
    within = [_rms(s.std(axis=0)) for s in stacks]
    ratio = None
    if len(stacks) > 1:
        between = _rms(np.stack([s.mean(axis=0) for s in stacks]).std(axis=0))
        ratio = _rms(np.array(within)) / between if between > 0 else math.inf
    scale = feature_range or (range_of(stacks) if len(stacks) > 1 else 0.0)
    return ([w / scale for w in within] if scale > 0 else []), ratio


def range_of(stacks: Sequence[np.ndarray]) -> float:
    """Working range of features: root mean square over dimensions of largest minus smallest value, all images."""
    return _rms(np.ptp(np.concatenate(stacks), axis=0))


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values, dtype=float))))
