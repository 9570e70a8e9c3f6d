"""Faults of a mission, struck at random (Poisson) on a `KinematicCell`: one table, one schedule per seed. Pure.

Rates are those of a stress test, far above a real cell's; durations are exponential, so each kind also has a tail that
no second try outlives. The table was fixed before the first full run and is the same for every arm.
"""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from steadyhand import cell
from steadyhand.policy_io import ACTION_DIM, HORIZON
from steadyhand_sim.kinematic_cell import Cube, KinematicCell

BIAS_M = 0.018  # more than fingers forgive
MOVED_M = (0.04, 0.09)
LATE_REPLY_S = 0.2


@dataclass(frozen=True)
class FaultKind:
    """`rate_per_h` of operation; `mean_s` is the mean duration, 0 for what happens at one moment."""

    name: str
    rate_per_h: float
    mean_s: float
    strike: Callable[[KinematicCell, np.random.Generator], None]
    clear: Callable[[KinematicCell], None] = lambda c: None


def _set(**fields: object) -> Callable:
    def apply(c: KinematicCell, *_: object) -> None:
        for name, value in fields.items():
            setattr(c, name, value)
    return apply


def _free_spot(objects: list[Cube], rng: np.random.Generator, near_m: np.ndarray | None = None) -> np.ndarray | None:
    """(2,) a place in the tray as far from the objects as the cell promises; None when none was found."""
    low = np.array([cell.TRAY.x_min_m, cell.TRAY.y_min_m]) + 0.05
    high = np.array([cell.TRAY.x_max_m, cell.TRAY.y_max_m]) - 0.05
    for _ in range(50):
        xy = rng.uniform(low, high)
        if near_m is not None:
            angle = rng.uniform(-np.pi, np.pi)
            xy = np.clip(near_m + rng.uniform(*MOVED_M) * np.array([np.cos(angle), np.sin(angle)]), low, high)
        if all(np.linalg.norm(xy - o.position_m[:2]) > cell.MIN_CUBE_SPACING_M for o in objects if not o.held):
            return xy
    return None


def _in_tray(c: KinematicCell) -> list[Cube]:
    return [o for o in c.cubes if not o.held and cell.TRAY.contains(o.position_m)]


def _move_object(c: KinematicCell, rng: np.random.Generator) -> None:
    lying = _in_tray(c)
    if lying:
        o = lying[rng.integers(len(lying))]
        xy = _free_spot([x for x in c.cubes if x is not o], rng, o.position_m[:2])
        if xy is not None:
            o.position_m[:2] = xy


def _drop_object(c: KinematicCell, rng: np.random.Generator) -> None:
    xy = _free_spot(c.cubes, rng)
    if xy is not None:
        c.drop(xy)


def _ghost(c: KinematicCell, rng: np.random.Generator) -> None:
    xy = _free_spot(c.cubes, rng)
    c.ghosts = [] if xy is None else [Cube(np.array([*xy, cell.CUBE_SIZE_M / 2]), rng.uniform(-np.pi / 4, np.pi / 4))]


def _bias(c: KinematicCell, rng: np.random.Generator) -> None:
    angle = rng.uniform(-np.pi, np.pi)
    c.bias_m = BIAS_M * np.array([np.cos(angle), np.sin(angle)])


def _stall(observation: np.ndarray) -> np.ndarray:
    """A policy that wants nothing."""
    return np.zeros((HORIZON, ACTION_DIM))


_POLICY, _DELAY_S = KinematicCell.policy, KinematicCell.policy_delay_s

KINDS: tuple[FaultKind, ...] = (
    FaultKind("grasp_slip", 80, 0.0, lambda c, r: setattr(c, "slips", c.slips + 1)),
    FaultKind("slippery_fingers", 30, 5.0, _set(friction=False), _set(friction=True)),
    FaultKind("object_moved", 80, 0.0, _move_object),
    FaultKind("object_dropped", 80, 0.0, _drop_object),
    FaultKind("ghost_object", 30, 3.0, _ghost, lambda c: setattr(c, "ghosts", [])),
    FaultKind("pose_bias", 30, 5.0, _bias, lambda c: setattr(c, "bias_m", np.zeros(2))),
    FaultKind("perception_dropout", 60, 1.2, _set(camera_on=False), _set(camera_on=True)),
    FaultKind("policy_stall", 20, 5.0, _set(policy=_stall), _set(policy=_POLICY)),
    FaultKind("policy_outage", 80, 1.0, _set(policy=None), _set(policy=_POLICY)),
    FaultKind("policy_late", 40, 1.0, _set(policy_delay_s=LATE_REPLY_S), _set(policy_delay_s=_DELAY_S)),
    FaultKind("policy_chunks_refused", 80, 0.5, _set(refuse_policy="workspace"), _set(refuse_policy="")),
    # braking too: while moving, the guard stops
    FaultKind("commands_cut", 8, 0.1, _set(refuse="cut"), _set(refuse="")),
    FaultKind("gripper_jam", 30, 3.0, _set(gripper_moves=False), _set(gripper_moves=True)),
    FaultKind("guard_silent", 8, 0.1, _set(guard_on=False), _set(guard_on=True)),
    FaultKind("protective_stop", 2, 0.0, lambda c, r: c.stop("robot_safety")),
)


@dataclass(frozen=True)
class Strike:
    """One fault of a schedule; times in seconds of operation."""

    at_s: float
    kind: FaultKind
    duration_s: float


def schedule(seed: int, seconds: float) -> list[Strike]:
    """All strikes of a mission, in order of time. The same for every arm with this seed."""
    rng = np.random.default_rng([seed, 0x5eed])
    strikes = []
    for kind in KINDS:
        at_s = rng.exponential(3600.0 / kind.rate_per_h)
        while at_s < seconds:
            strikes.append(Strike(at_s, kind, rng.exponential(kind.mean_s) if kind.mean_s else 0.0))
            at_s += rng.exponential(3600.0 / kind.rate_per_h)
    return sorted(strikes, key=lambda s: s.at_s)


@dataclass
class Injector:
    """Carries out a schedule: call `step` before each step of the cell. Of overlapping strikes of a kind the longest
    counts."""

    strikes: list[Strike]
    seed: int
    struck: list[tuple[float, str]] = field(default_factory=list)
    _until_s: dict[str, float] = field(default_factory=dict)
    _next: int = 0

    def step(self, c: KinematicCell, operating_s: float) -> None:
        """Strike and clear what is due at this time of operation."""
        for kind in KINDS:
            if self._until_s.get(kind.name, np.inf) <= operating_s:
                del self._until_s[kind.name]
                kind.clear(c)
        while self._next < len(self.strikes) and self.strikes[self._next].at_s <= operating_s:
            strike = self.strikes[self._next]
            strike.kind.strike(c, np.random.default_rng([self.seed, self._next]))
            if strike.kind.mean_s:
                end_s = strike.at_s + strike.duration_s
                self._until_s[strike.kind.name] = max(end_s, self._until_s.get(strike.kind.name, 0.0))
            self.struck.append((strike.at_s, strike.kind.name))
            self._next += 1

    def active(self, operating_s: float, within_s: float) -> list[str]:
        """Kinds that hold now or struck within the last `within_s`."""
        recent = {name for at_s, name in self.struck if operating_s - at_s <= within_s}
        return sorted(recent | set(self._until_s))
