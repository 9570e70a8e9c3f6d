"""How the scene looks: light, camera pose, colours, noise, distractors, sampled from a seed.

Train, validation and test looks come from disjoint ranges: the light's azimuth is divided into sectors, and the table's
brightness into bands, of which each split owns some. The channels of the table's colour then vary about that brightness
by up to 0.04, which blurs the edges of its bands. Everything else has one range.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from steadyhand.errors import ConfigError

SPLITS = ("train", "validation", "test")
_SECTORS = 12  # of the light's azimuth; sector k belongs to SPLITS[_OWNER[k % 6]]
_OWNER = (0, 0, 1, 0, 0, 2)
_BANDS = 12  # of the table's brightness


@dataclass(frozen=True)
class Light:
    """TinyRenderer's light."""

    direction: tuple[float, float, float] = (0.6, -0.5, 1.5)
    colour: tuple[float, float, float] = (1.0, 1.0, 1.0)
    distance_m: float = 2.5
    ambient: float = 0.55
    diffuse: float = 0.5
    specular: float = 0.1
    shadow: bool = True


DISTRACTOR_SHAPES = ("box", "cylinder", "sphere", "capsule")


@dataclass(frozen=True)
class Distractor:
    """A thing that is no cube, lying on the table or on the tray's floor.

    Half extents by shape: box (x, y, z); cylinder, upright (radius, radius, z); sphere (radius, any, any); capsule,
    lying (half of its straight length, radius, any).
    """

    xy_m: tuple[float, float]
    half_extents_m: tuple[float, float, float]
    yaw_rad: float
    colour: tuple[float, float, float]
    shape: str = "box"


@dataclass(frozen=True)
class Scratch:
    """A straight scratch on the top face of cube number `cube`, in that cube's frame."""

    cube: int
    xy_m: tuple[float, float]  # its middle
    length_m: float
    width_m: float
    turn_rad: float
    colour: tuple[float, float, float]


@dataclass(frozen=True)
class Look:
    """One appearance of the cell. Colours are RGB in 0..1."""

    light: Light = field(default_factory=Light)
    table_colour: tuple[float, float, float] = (0.62, 0.60, 0.57)
    tray_colour: tuple[float, float, float] = (0.35, 0.36, 0.38)
    tray_floor_colour: tuple[float, float, float] = (0.80, 0.80, 0.78)
    box_colour: tuple[float, float, float] = (0.25, 0.35, 0.55)
    box_floor_colour: tuple[float, float, float] = (0.45, 0.55, 0.70)
    cube_colours: tuple[tuple[float, float, float], ...] = ((0.80, 0.25, 0.20),) * 8
    camera_shift_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    camera_turn_rad: tuple[float, float, float] = (0.0, 0.0, 0.0)
    exposure: float = 1.0
    full_well_electrons: float = 8000.0  # shot noise: variance proportional to the signal
    read_noise_dn: float = 1.5
    distractors: tuple[Distractor, ...] = ()
    scratches: tuple[Scratch, ...] = ()
    table_texture: tuple[str, int] | None = None  # family and seed, `textures.texture`
    tray_floor_texture: tuple[str, int] | None = None


def _owned(rng: np.random.Generator, split: str, pieces: int) -> float:
    """A number in 0..1 from the pieces of the unit interval that a split owns."""
    mine = [k for k in range(pieces) if SPLITS[_OWNER[k % len(_OWNER)]] == split]
    return (rng.choice(mine) + rng.uniform(0.02, 0.98)) / pieces


def owner_of(fraction: float, pieces: int = _SECTORS) -> str:
    """The split that owns a fraction of the unit interval (light azimuth / 2 pi, table brightness band)."""
    return SPLITS[_OWNER[int(fraction * pieces) % len(_OWNER)]]


def _colour(rng: np.random.Generator, base: float, spread: float) -> tuple[float, float, float]:
    return tuple(float(v) for v in np.clip(base + rng.uniform(-spread, spread, 3), 0.02, 0.98))


def _distractors(rng: np.random.Generator, n: int) -> tuple[Distractor, ...]:
    """Flat or low things on the table outside tray and box."""
    found = []
    while len(found) < n:
        x, y = rng.uniform(0.25, 0.95), rng.uniform(-0.55, 0.15)
        if not (0.32 < x < 0.72 and -0.32 < y < 0.14):
            half = (*rng.uniform(0.01, 0.04, 2), rng.uniform(0.003, 0.03))
            yaw, colour = rng.uniform(-3, 3), rng.uniform(0.05, 0.9, 3)
            found.append(Distractor((float(x), float(y)), tuple(map(float, half)), float(yaw), tuple(colour.tolist())))
    return tuple(found)


def sample_look(seed: int, split: str) -> Look:
    """The look of a seed in a split; raises ConfigError for an unknown split."""
    if split not in SPLITS:
        raise ConfigError(f"look split {split!r}: give one of {', '.join(SPLITS)}")
    rng = np.random.default_rng([seed, SPLITS.index(split), 7])
    azimuth = 2 * np.pi * _owned(rng, split, _SECTORS)
    elevation = rng.uniform(0.6, 1.35)
    direction = (np.cos(azimuth) * np.cos(elevation), np.sin(azimuth) * np.cos(elevation), np.sin(elevation))
    warmth = rng.uniform(-0.12, 0.12)
    light = Light(
        direction=tuple(float(v) for v in direction),
        colour=(1.0 + min(warmth, 0), 1.0 - abs(warmth) / 2, 1.0 - max(warmth, 0)),
        distance_m=float(rng.uniform(2.0, 4.5)),
        ambient=float(rng.uniform(0.4, 0.65)),
        diffuse=float(rng.uniform(0.25, 0.5)),
        specular=float(rng.uniform(0.0, 0.25)),
        shadow=bool(rng.random() < 0.8),
    )
    cube_hue = rng.uniform(0, 1)
    same = rng.random() < 0.5
    hues = np.full(8, cube_hue) if same else rng.uniform(0, 1, 8)
    table_brightness = 0.2 + 0.65 * _owned(rng, split, _BANDS)
    return Look(
        light=light,
        table_colour=_colour(rng, table_brightness, 0.04),
        tray_colour=_colour(rng, rng.uniform(0.15, 0.6), 0.08),
        tray_floor_colour=_colour(rng, rng.uniform(0.6, 0.92), 0.05),
        box_colour=_colour(rng, rng.uniform(0.2, 0.6), 0.15),
        box_floor_colour=_colour(rng, rng.uniform(0.3, 0.8), 0.1),
        cube_colours=tuple(_hue(h, rng.uniform(0.55, 0.95), rng.uniform(0.35, 0.8)) for h in hues),
        camera_shift_m=tuple(float(v) for v in rng.normal(0, 0.0015, 3)),
        camera_turn_rad=tuple(float(v) for v in rng.normal(0, 0.0015, 3)),
        exposure=float(rng.uniform(0.8, 1.2)),
        full_well_electrons=float(rng.uniform(4000, 15000)),
        read_noise_dn=float(rng.uniform(0.8, 2.5)),
        distractors=_distractors(rng, int(rng.integers(0, 4))),
    )


def _hue(hue: float, saturation: float, value: float) -> tuple[float, float, float]:
    """RGB of a colour given as hue, saturation, value (each 0..1)."""
    channels = [(value * (1 - saturation * max(0, min(k, 4 - k, 1)))) for k in ((n + hue * 6) % 6 for n in (5, 3, 1))]
    return tuple(float(c) for c in channels)
