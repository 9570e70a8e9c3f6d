"""One episode: what was seen, done and earned at each step, who acted, and the names that tell the columns apart.

Row k holds the observation before the action of row k, and the reward that the action earned. `validate` refuses an
episode by the field's name; nothing is repaired, resampled or reordered.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from steadyhand import ur5
from steadyhand.errors import SteadyhandError

SOURCES = ("expert", "teleoperation", "policy", "intervention")
UNSEEDED = -1  # of an episode that did not come from a seed: a person acted, or a robot
RATE_MAX_HZ = 1000.0
STEPS_MAX = 1_000_000
# A frame stands within this share of a period of its place. Half a period is where it might as well be the next one's;
# recordings are taken from a 125 Hz stream, so their stamps wander by 8 ms.
GRID_TOLERANCE = 0.5
JOINTS = {"UR5": ur5.JOINT_NAMES, "AGV": ()}  # by the beginning of an environment's name


class BadEpisode(SteadyhandError):
    """An episode is not usable. `field` is the one at fault; the message begins with it."""

    def __init__(self, field_name: str, problem: str):
        super().__init__(f"{field_name}: {problem}")
        self.field = field_name


@dataclass(frozen=True)
class Form:
    """What all episodes of one data set share."""

    env_id: str
    rate_hz: float
    observation_names: tuple[str, ...]
    action_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    image_shapes: tuple[tuple[str, tuple[int, int, int]], ...] = ()

    def check(self, other: Form) -> None:
        """Raise BadEpisode for the first field in which `other` differs from this one."""
        for name in self.__dataclass_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise BadEpisode(name, f"{_difference(mine, theirs)}")


@dataclass(frozen=True, eq=False)
class Episode:
    """T steps. Arrays are not copied; treat them as read-only."""

    env_id: str
    source: str  # of SOURCES
    seed: int  # UNSEEDED where a person or a robot acted
    success: bool
    rate_hz: float
    observation_names: tuple[str, ...]  # n
    action_names: tuple[str, ...]  # m
    joint_names: tuple[str, ...]  # in the robot's order
    stamp_s: np.ndarray  # (T,) float64, seconds of one clock
    observation: np.ndarray  # (T, n) float32
    action: np.ndarray  # (T, m) float32
    reward: np.ndarray  # (T,) float32
    images: Mapping[str, np.ndarray] = field(default_factory=dict)  # name -> (T, height, width, 3) uint8
    task: str = ""  # in words; the environment's name where there is no other
    origin: str = ""  # recording, trace, model or expert that it came from

    def __post_init__(self) -> None:
        if not self.task:
            object.__setattr__(self, "task", self.env_id)

    def __len__(self) -> int:
        return len(self.stamp_s)

    @property
    def form(self) -> Form:
        """What it shares with the others of its set."""
        images = tuple(sorted((name, tuple(map(int, a.shape[1:]))) for name, a in self.images.items()))
        return Form(
            self.env_id, self.rate_hz, self.observation_names, self.action_names, self.joint_names, images
        )  # fmt: skip

    def validate(self) -> None:
        """Raise BadEpisode unless every field is as described."""
        _check_words(self)
        _check_arrays(self)
        check_grid(self.stamp_s, self.rate_hz)


def check_grid(stamp_s: np.ndarray, rate_hz: float) -> None:
    """Raise BadEpisode unless frame k of (T,) stands at `k / rate_hz` after the first, within half a period.

    So neither a missing frame nor a stretch at another rate passes, however slowly it drifts away.
    """
    periods = np.diff(stamp_s) * rate_hz
    for k in np.flatnonzero(periods <= 0)[:1]:
        raise BadEpisode("stamp_s", f"frame {k + 1} is not after frame {k} ({stamp_s[k + 1]} s, {stamp_s[k]} s)")
    for k in np.flatnonzero(periods >= 2 - GRID_TOLERANCE)[:1]:
        missing = max(1, round(periods[k]) - 1)
        raise BadEpisode("stamp_s", f"{missing} missing after frame {k}: {periods[k] / rate_hz:.3f} s to the next")
    off = (stamp_s - stamp_s[0]) * rate_hz - np.arange(len(stamp_s))
    for k in np.flatnonzero(np.abs(off) > GRID_TOLERANCE)[:1]:
        rate = k / (stamp_s[k] - stamp_s[0])
        raise BadEpisode("stamp_s", f"frames 0 to {k} come at {rate:.2f} Hz, rate_hz = {rate_hz:g}")


def check_joint_order(names_field: str, names: tuple[str, ...], joint_names: tuple[str, ...]) -> None:
    """Raise BadEpisode when elements named after joints (`q_shoulder_pan`, `elbow_joint`) are in another order."""
    stems = [joint.removesuffix("_joint") for joint in joint_names]
    groups: dict[str, list[str]] = {}
    for name in names:
        for stem in stems:
            if stem in name:
                groups.setdefault(name.replace(stem, "*"), []).append(stem)
    for pattern, found in groups.items():
        wanted = [stem for stem in stems if stem in found]
        if found != wanted:
            raise BadEpisode(names_field, f"{pattern} in the order {', '.join(found)}; {', '.join(wanted)} is wanted")


def _check_words(episode: Episode) -> None:
    e = episode
    if not isinstance(e.env_id, str) or not e.env_id:
        raise BadEpisode("env_id", f"{e.env_id!r}: name the environment")
    if e.source not in SOURCES:
        raise BadEpisode("source", f"{e.source!r}: one of {', '.join(SOURCES)}")
    if not isinstance(e.seed, int) or isinstance(e.seed, bool) or not UNSEEDED <= e.seed < 2**63:
        raise BadEpisode("seed", f"{e.seed!r}: a whole number from 0 on, or {UNSEEDED} for none")
    if not isinstance(e.success, bool):
        raise BadEpisode("success", f"{e.success!r}: True or False")
    if not isinstance(e.rate_hz, (int, float)) or not 0 < e.rate_hz <= RATE_MAX_HZ:
        raise BadEpisode("rate_hz", f"{e.rate_hz!r}: over 0, at most {RATE_MAX_HZ:g}")
    for name in ("task", "origin"):
        if not isinstance(getattr(e, name), str):
            raise BadEpisode(name, f"{getattr(e, name)!r}: a text")
    for name in ("observation_names", "action_names", "joint_names"):
        names = getattr(e, name)
        if not isinstance(names, tuple) or not all(isinstance(n, str) and n for n in names):
            raise BadEpisode(name, f"{names!r}: a tuple of names")
        twice = {n for n in names if names.count(n) > 1}
        if twice:
            raise BadEpisode(name, f"{', '.join(sorted(twice))}: more than once")
    robot = e.env_id.rpartition("/")[2]
    for prefix, joints in JOINTS.items():
        if robot.startswith(prefix) and e.joint_names != joints:
            raise BadEpisode("joint_names", _difference(joints, e.joint_names))
    check_joint_order("observation_names", e.observation_names, e.joint_names)
    check_joint_order("action_names", e.action_names, e.joint_names)


def _check_arrays(episode: Episode) -> None:
    e = episode
    steps = e.stamp_s.shape[0] if isinstance(e.stamp_s, np.ndarray) and e.stamp_s.ndim == 1 else 0
    if not 1 <= steps <= STEPS_MAX:
        raise BadEpisode("stamp_s", f"{getattr(e.stamp_s, 'shape', e.stamp_s)!r}: (T,) with T from 1 to {STEPS_MAX}")
    if not e.action_names or not (e.observation_names or e.images):
        raise BadEpisode("action_names" if not e.action_names else "observation_names", "empty: nothing to learn from")
    expected = {
        "stamp_s": ((steps,), np.float64), "observation": ((steps, len(e.observation_names)), np.float32),
        "action": ((steps, len(e.action_names)), np.float32), "reward": ((steps,), np.float32),
    }  # fmt: skip
    columns = {"observation": e.observation_names, "action": e.action_names}
    for name, (shape, dtype) in expected.items():
        values = getattr(e, name)
        if not isinstance(values, np.ndarray) or values.dtype != dtype:
            raise BadEpisode(name, f"{getattr(values, 'dtype', type(values).__name__)}: {np.dtype(dtype)} is wanted")
        if values.shape != shape:
            raise BadEpisode(name, f"shape {values.shape}, {shape} is wanted")
        bad = np.argwhere(~np.isfinite(values))
        if len(bad):
            k, *column = bad[0]
            where = f"frame {k}" + (f", {columns[name][column[0]]}" if column else "")
            raise BadEpisode(name, f"{values[tuple(bad[0])]} at {where} ({len(bad)} in all)")
    for name, values in e.images.items():
        label = f"images.{name}"
        if not isinstance(name, str) or not name or "/" in name:
            raise BadEpisode("images", f"{name!r}: a name without '/'")
        if not isinstance(values, np.ndarray) or values.dtype != np.uint8:
            raise BadEpisode(label, f"{getattr(values, 'dtype', type(values).__name__)}: uint8 is wanted")
        if values.ndim != 4 or values.shape[0] != steps or values.shape[3] != 3 or 0 in values.shape:
            raise BadEpisode(label, f"shape {values.shape}, ({steps}, height, width, 3) is wanted")


def _difference(wanted: object, found: object) -> str:
    """What is different, briefly."""
    if isinstance(wanted, tuple) and isinstance(found, tuple):
        if len(wanted) != len(found):
            return f"{len(found)} of them, {len(wanted)} are wanted: {', '.join(map(str, wanted)) or 'none'}"
        for k, (a, b) in enumerate(zip(wanted, found)):
            if a != b:
                return f"{b!r} at place {k}, {a!r} is wanted"
    if isinstance(wanted, float) and isinstance(found, float) and not math.isclose(wanted, found):
        return f"{found:g}, {wanted:g} is wanted"
    return f"{found!r}, {wanted!r} is wanted"
