"""Pictures for people: what was seen drawn into the image, a heat map over it, a sheet of several. Pure numpy."""
from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from steadyhand import cell
from steadyhand.types import Detection
from steadyhand_perception.geometry import PinholeCamera

GREEN, RED, BLUE, YELLOW = (0, 220, 0), (255, 0, 0), (60, 60, 255), (255, 210, 0)
DEFECT_LIMIT = 0.5
LINE_STEPS = 40


def enlarged(image: np.ndarray, scale: int) -> np.ndarray:
    """Each pixel `scale` by `scale` times; always a copy."""
    return image.repeat(scale, axis=0).repeat(scale, axis=1).copy()


def annotate(image: np.ndarray, objects: Iterable[Detection], camera: PinholeCamera, scale: int = 3) -> np.ndarray:
    """The image (H, W, 3), enlarged, with the top face of every object: green, red where scratched, yellow when unsure.

    The dot is the centre of the top face; the ring round it has twice the standard deviation as its radius.
    """
    drawn = enlarged(image, scale)
    for seen in objects:
        scratched = seen.defect is not None and seen.defect >= DEFECT_LIMIT
        colour = RED if scratched else (GREEN if seen.presence >= 0.9 else YELLOW)
        centre = np.array([*seen.position_m[:2], seen.position_m[2] + cell.CUBE_SIZE_M / 2])
        turn = seen.yaw_rad + np.arange(5) * np.pi / 2 + np.pi / 4
        corners = _around(centre, cell.CUBE_SIZE_M / 2**0.5, turn)
        for a, b in itertools.pairwise(corners):
            _dots(drawn, camera, np.linspace(a, b, LINE_STEPS), colour, scale)
        ring = _around(centre, 2 * seen.position_std_m, np.linspace(0, 2 * np.pi, LINE_STEPS))
        _dots(drawn, camera, ring, colour, scale)
        _dots(drawn, camera, centre[None], colour, scale)
    return drawn


def mark(image: np.ndarray, points_m: np.ndarray, camera: PinholeCamera, scale: int, colour=BLUE) -> None:
    """Dots at points (N, 3) into an enlarged image."""
    _dots(image, camera, points_m, colour, scale)


def frame(image: np.ndarray, colour=RED, width: int = 3) -> None:
    """A frame into an image."""
    image[:width], image[-width:], image[:, :width], image[:, -width:] = colour, colour, colour, colour


def overlay(image: np.ndarray, heat: np.ndarray) -> np.ndarray:
    """A heat map (H, W), 0..1, in red over the image (H, W, 3)."""
    share = 0.65 * np.clip(heat, 0.0, 1.0)[..., None]
    return np.rint((1 - share) * image + share * np.array(RED)).astype(np.uint8)


def sheet(tiles: Sequence[np.ndarray], columns: int) -> np.ndarray:
    """Tiles of one shape in rows; the last row is filled up with black. Raises ValueError without tiles."""
    if not tiles:
        raise ValueError("sheet: no tiles")
    blank = [np.zeros_like(tiles[0])] * (-len(tiles) % columns)
    tiles = [*tiles, *blank]
    return np.concatenate(
        [np.concatenate(tiles[k : k + columns], axis=1) for k in range(0, len(tiles), columns)], axis=0
    )


def _around(centre: np.ndarray, radius_m: float, angle_rad: np.ndarray) -> np.ndarray:
    """Points (N, 3) of a level circle."""
    ring = np.stack([np.cos(angle_rad), np.sin(angle_rad), 0 * angle_rad], axis=-1)
    return centre + radius_m * ring


def _dots(image: np.ndarray, camera: PinholeCamera, points_m: np.ndarray, colour, scale: int) -> None:
    pixels = (camera.project(points_m) + 0.5) * scale
    pixels = np.floor(pixels[np.isfinite(pixels).all(axis=-1)]).astype(int)
    inside = ((pixels >= 0) & (pixels < np.array(image.shape[1::-1]))).all(axis=-1)
    image[pixels[inside, 1], pixels[inside, 0]] = colour
