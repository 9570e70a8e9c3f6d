"""The look of a training or test scene: light set-up, patterns, clutter and scratches, within its split's ranges.

A *light set-up* is a number: direction, colour, distance, shadow, ambient, diffuse and specular share, exposure. How
many of them a training set has is a setting, so that their effect can be measured.
"""
from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from policies.training.perception.scenes import TrainingScene
from steadyhand import cell
from steadyhand_sim.look import SPLITS, Distractor, Light, Look, Scratch, sample_look

SECTORS = 12
TABLE_BRIGHTNESS = (0.2, 0.85)
TABLE_HUE = 0.03
CLUTTER_MAX = 4
CLEAR_OF_CUBES_M = cell.CUBE_SIZE_M / 2**0.5 + 0.002  # half a cube's diagonal


@cache
def splits() -> dict:
    """The content of `splits.toml`; needs Python 3.11."""
    import tomllib

    return tomllib.loads((Path(__file__).parent / "splits.toml").read_text())


def _owned(rng: np.random.Generator, pieces: list[int]) -> float:
    """A number in 0..1 from those of the unit interval's `SECTORS` pieces, not at their edges."""
    return float((rng.choice(pieces) + rng.uniform(0.02, 0.98)) / SECTORS)


def _direction(azimuth_rad: float, elevation_rad: float) -> tuple[float, float, float]:
    c = np.cos(elevation_rad)
    return tuple(map(float, (np.cos(azimuth_rad) * c, np.sin(azimuth_rad) * c, np.sin(elevation_rad))))


def _warm(warmth: float) -> tuple[float, float, float]:
    return 1.0 + min(warmth, 0.0), 1.0 - abs(warmth) / 2, 1.0 - max(warmth, 0.0)


def light_setup(split: str, number: int) -> tuple[Light, dict[str, float]]:
    """Light and sensor (exposure, full well, read noise) of a set-up."""
    rng = np.random.default_rng([splits()["seed"], SPLITS.index(split), number, 17])
    draw = {name: float(rng.uniform(*limits)) for name, limits in splits()["ranges"].items()}
    light = Light(
        _direction(2 * np.pi * _owned(rng, splits()[split]["azimuth_sectors"]), draw["elevation_rad"]),
        _warm(draw["warmth"]), draw["light_distance_m"], draw["ambient"], draw["diffuse"], draw["specular"],
        bool(rng.random() < splits()["shares"]["shadow"]),
    )
    return light, {name: draw[name] for name in ("exposure", "full_well_electrons", "read_noise_dn")}


def _thing(rng: np.random.Generator, shapes: list[str], small: bool) -> Distractor:
    """A distractor at the origin; a small one fits between cubes and is lower than they are."""
    shape, k = str(rng.choice(shapes)), 1.0 if small else 2.2
    half = {
        "box": (*rng.uniform(0.004, 0.016, 2) * k, rng.uniform(0.001, 0.010) * k),
        "cylinder": (rng.uniform(0.004, 0.014) * k, 0.0, rng.uniform(0.001, 0.010) * k),
        "sphere": (rng.uniform(0.004, 0.010) * k, 0.0, 0.0),
        "capsule": (rng.uniform(0.004, 0.016) * k, rng.uniform(0.003, 0.008) * k, 0.0),
    }[shape]
    colour = tuple(rng.uniform(0.05, 0.9, 3).tolist())
    return Distractor((0.0, 0.0), tuple(map(float, half)), float(rng.uniform(-3, 3)), colour, shape)


def _clutter(rng: np.random.Generator, shapes: list[str], scene: TrainingScene) -> list[Distractor]:
    """Small things on the tray's floor, clear of the cubes."""
    found, region = [], cell.TRAY
    for _ in range(int(rng.integers(1, CLUTTER_MAX + 1))):
        thing = _thing(rng, shapes, small=True)
        reach = float(np.hypot(*thing.half_extents_m[:2]))
        if thing.shape == "capsule":
            reach += thing.half_extents_m[1]
        for _ in range(20):
            xy = rng.uniform([region.x_min_m, region.y_min_m], [region.x_max_m, region.y_max_m])
            cubes = np.linalg.norm(scene.position_m[:, :2] - xy, axis=1)
            if region.contains(xy, reach) and (cubes > reach + CLEAR_OF_CUBES_M).all():
                found.append(replace(thing, xy_m=tuple(xy.tolist())))
                break
    return found


def _beside(rng: np.random.Generator, shapes: list[str]) -> list[Distractor]:
    """Things on the table, outside tray and box."""
    found = []
    for _ in range(int(rng.integers(0, 4))):
        x, y = rng.uniform(0.25, 0.95), rng.uniform(-0.55, 0.15)
        if not (0.31 < x < 0.73 and -0.33 < y < 0.15):
            found.append(replace(_thing(rng, shapes, small=False), xy_m=(float(x), float(y))))
    return found


def _scratch(rng: np.random.Generator, cube: int, colour: tuple[float, ...]) -> Scratch:
    """A scratch that lies on the top face as a whole."""
    ranges, half = splits()["scratch"], cell.CUBE_SIZE_M / 2
    length, width = (float(rng.uniform(*ranges[name])) for name in ("length_m", "width_m"))
    turn = float(rng.uniform(0, np.pi))
    reach = (np.abs([np.cos(turn), np.sin(turn)]) * length + np.abs([np.sin(turn), np.cos(turn)]) * width) / 2
    xy = rng.uniform(-1, 1, 2) * (half - 0.001 - reach)
    if rng.random() < 0.5:
        shown = np.array(colour) * rng.uniform(*ranges["darker"])
    else:
        shown = np.array(colour) + (1 - np.array(colour)) * rng.uniform(*ranges["lighter"])
    return Scratch(cube, tuple(xy.tolist()), length, width, turn, tuple(shown.tolist()))


def scene_look(
    rng: np.random.Generator, split: str, scene: TrainingScene, setup: int, scratched: float | None = None
) -> Look:
    """The look of a scene under a light set-up. `scratched` is the share of cubes with a scratch."""
    own, shares = splits()[split], splits()["shares"]
    base = sample_look(int(rng.integers(2**31)), split)  # colours
    light, sensor = light_setup(split, setup)
    low, high = TABLE_BRIGHTNESS
    hue = rng.uniform(-TABLE_HUE, TABLE_HUE, 3)
    table = np.clip(low + (high - low) * _owned(rng, own["table_bands"]) + hue - hue.mean(), 0.02, 0.98)
    patterns = [
        (str(rng.choice(own["textures"])), int(rng.integers(2**31))) if rng.random() < shares["textured"] else None
        for _ in range(2)
    ]
    things = _beside(rng, own["distractors"])
    if rng.random() < shares["clutter"]:
        things += _clutter(rng, own["distractors"], scene)
    share = shares["scratched"] if scratched is None else scratched
    scratches = [
        _scratch(rng, k, base.cube_colours[k]) for k in range(len(scene.position_m)) if rng.random() < share
    ]
    camera = splits()["camera"]
    return replace(
        base, light=light, **sensor, table_colour=tuple(table.tolist()), table_texture=patterns[0],
        tray_floor_texture=patterns[1], distractors=tuple(things), scratches=tuple(scratches),
        camera_shift_m=tuple(rng.normal(0, camera["shift_m"], 3).tolist()),
        camera_turn_rad=tuple(rng.normal(0, camera["turn_rad"], 3).tolist()),
    )


def perturbed(rng: np.random.Generator, look: Look) -> Look:
    """The same scene a little later: light and camera changed within the published perturbation family."""
    family, light = splits()["perturbation"], look.light
    signed = lambda name: float(rng.uniform(-family[name], family[name]))
    azimuth = np.arctan2(light.direction[1], light.direction[0]) + signed("azimuth_rad")
    elevation = np.clip(np.arcsin(light.direction[2]) + signed("elevation_rad"), 0.5, 1.5)
    gain = 1.0 + signed("intensity")
    changed = replace(
        light, direction=_direction(azimuth, elevation), ambient=light.ambient * gain, diffuse=light.diffuse * gain,
        colour=tuple(np.clip(np.array(light.colour) * _warm(signed("warmth")), 0.5, 1.0).tolist()),
    )
    shift, turn = (
        tuple((np.array(before) + rng.normal(0, family[name], 3)).tolist())
        for before, name in ((look.camera_shift_m, "shift_m"), (look.camera_turn_rad, "turn_rad"))
    )
    return replace(look, light=changed, camera_shift_m=shift, camera_turn_rad=turn)
