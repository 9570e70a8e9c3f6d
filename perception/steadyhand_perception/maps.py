"""The maps that the network predicts, and both ways between them and objects.

Each cell of a coarse grid over the image has an *anchor*: the point where the ray through the cell's centre meets the
plane of the cubes' centres, by the nominal camera. A cell that shows a cube's centre predicts, in `base_link`:

    map 0     logit of "a cube's centre lies here"
    map 1, 2  (x, y) of the centre minus the anchor, in units of `OFFSET_UNIT_M`
    map 3, 4  sin(4 yaw), cos(4 yaw): a cube is the same after a quarter turn
    map 5     log of the standard deviation of the position, in units of `OFFSET_UNIT_M`

Objects are arrays (N, 3): x_m, y_m, yaw_rad. Pure numpy; the training code builds its targets with `encode`, the
runtime reads objects with `decode`.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError
from steadyhand_perception.geometry import PinholeCamera

MAP_NAMES = ("centre_logit", "offset_x", "offset_y", "sin_4_yaw", "cos_4_yaw", "log_std")
MAPS = len(MAP_NAMES)
OFFSET_UNIT_M = 0.01
TAUGHT_HEAT = 0.2  # a cell with less heat is not asked for an offset
AVERAGED_HEAT = 0.3  # of a peak's neighbours, those that are heard: safely within the taught ones
MIN_STD_M, MAX_STD_M = 2e-4, 0.05  # what a predicted standard deviation is held to: a figure outside is no figure


@dataclass(frozen=True)
class Grid:
    """The cells of the maps: (rows, columns), every `stride_px` pixels, and their anchors by the nominal camera."""

    camera: PinholeCamera
    stride_px: int
    plane_z_m: float

    def __post_init__(self) -> None:
        if self.stride_px < 1 or self.camera.width_px % self.stride_px or self.camera.height_px % self.stride_px:
            raise ConfigError(
                f"grid stride_px={self.stride_px}: must divide the image, "
                f"{self.camera.width_px} x {self.camera.height_px} px"
            )

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, columns)."""
        return self.camera.height_px // self.stride_px, self.camera.width_px // self.stride_px

    def anchors_m(self) -> np.ndarray:
        """Anchors (rows, columns, 2); NaN where a cell looks past the plane."""
        rows, columns = self.shape
        v, u = np.mgrid[:rows, :columns] * self.stride_px + (self.stride_px - 1) / 2
        return self.camera.unproject(np.stack([u, v], axis=-1), self.plane_z_m)

    def cells(self, xy_m: np.ndarray) -> np.ndarray:
        """Where points (N, 2) lie on the grid, (N, 2) fractional (row, column); whole numbers are cells' centres."""
        xy_m = np.asarray(xy_m, dtype=float).reshape(-1, 2)
        points = np.concatenate([xy_m, np.full((len(xy_m), 1), self.plane_z_m)], axis=1)
        return (self.camera.project(points)[:, ::-1] - (self.stride_px - 1) / 2) / self.stride_px


@dataclass(frozen=True)
class DecodeConfig:
    """How peaks become detections.

    `presence_scale` and `presence_bias` turn a peak's logit into a calibrated probability
    (Platt: p = 1 / (1 + exp(-(scale * logit + bias)))), fitted on the validation set.
    """

    presence_min: float = 0.5
    presence_scale: float = 1.0
    presence_bias: float = 0.0
    separation_m: float = 0.03  # two cubes' centres cannot be closer than one edge; of two nearer peaks one is dropped
    std_scale: float = 1.0  # makes the predicted standard deviation match the validation errors
    max_detections: int = 16

    def __post_init__(self) -> None:
        if not 0.0 < self.presence_min < 1.0:
            raise ConfigError(f"presence_min={self.presence_min}: must lie between 0 and 1")
        for name in ("presence_scale", "separation_m", "std_scale"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"{name}={getattr(self, name)}: must be finite and above 0")
        if not np.isfinite(self.presence_bias):
            raise ConfigError(f"presence_bias={self.presence_bias}: must be finite")
        if self.max_detections < 1:
            raise ConfigError(f"max_detections={self.max_detections}: must be at least 1")


@dataclass(frozen=True)
class Peaks:
    """Objects read from one set of maps, best first: each array has one row per object."""

    xy_m: np.ndarray  # (N, 2) in base_link
    yaw_rad: np.ndarray  # (N,) in (-pi/4, pi/4]
    presence: np.ndarray  # (N,) probability
    std_m: np.ndarray  # (N,)
    logit: np.ndarray  # (N,)
    scratch_logit: np.ndarray  # (N,) "its top face is scratched"; NaN where the model has no such head


def wrap_yaw(yaw_rad: np.ndarray | float) -> np.ndarray:
    """The same cube orientation in (-pi/4, pi/4]."""
    quarter = np.pi / 2
    return np.asarray(yaw_rad) - quarter * np.ceil(np.asarray(yaw_rad) / quarter - 0.5)


def encode(grid: Grid, objects: np.ndarray, spread_cells: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    """Target maps (MAPS, rows, columns) float32 and a weight (rows, columns) for the maps after the first.

    Map 0 holds a Gaussian of the distance from each centre, 1 in the cell that holds the centre (CenterNet, Zhou et al.
    2019); it is a target, not a logit. The last map is not a target and stays 0. The weight is that Gaussian where it
    exceeds `TAUGHT_HEAT` (the centre's neighbourhood), else 0: neighbours learn the offset too, `decode` averages them.
    """
    rows, columns = grid.shape
    maps, weight = np.zeros((MAPS, rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    objects = np.asarray(objects, dtype=float).reshape(-1, 3)
    if not len(objects):
        return maps, weight
    anchors = grid.anchors_m()
    row_of, column_of = np.mgrid[:rows, :columns]
    for (x, y, yaw), (row, column) in zip(objects, grid.cells(objects[:, :2])):
        nearest = (int(np.rint(row)), int(np.rint(column))) if np.isfinite(row + column) else (-1, -1)
        if not (0 <= nearest[0] < rows and 0 <= nearest[1] < columns):
            continue  # outside the image
        bump = np.exp(-((row_of - row) ** 2 + (column_of - column) ** 2) / (2 * spread_cells**2)).astype(np.float32)
        bump[nearest] = 1.0
        own = (bump > maps[0]) & (bump > TAUGHT_HEAT)
        maps[0] = np.maximum(maps[0], bump)
        weight[own] = bump[own]
        maps[1:3, own] = (np.array([x, y]) - anchors[own]).T / OFFSET_UNIT_M
        maps[3, own], maps[4, own] = np.sin(4 * yaw), np.cos(4 * yaw)
    return maps, weight


def decode(grid: Grid, maps: np.ndarray, config: DecodeConfig, scratch: np.ndarray | None = None) -> Peaks:
    """Objects in maps (MAPS, rows, columns), and in the map of scratches' logits (rows, columns) where there is one.

    A peak is a cell whose logit is the greatest of its 3 x 3 neighbourhood. Position and yaw are averaged over that
    neighbourhood's hot cells weighted by the squared heat, so that a centre between cells is not left to one cell's
    word. Then non-maximum suppression in metres. Cells with a value that is not finite are no peaks.
    """
    rows, columns = grid.shape
    if maps.shape != (MAPS, rows, columns):
        raise ConfigError(f"maps have shape {maps.shape}, the grid wants {(MAPS, rows, columns)}")
    scratch = np.full((rows, columns), np.nan) if scratch is None else np.asarray(scratch, dtype=float)
    maps = np.asarray(maps, dtype=float)
    anchors = grid.anchors_m()
    finite = np.isfinite(maps).all(axis=0) & np.isfinite(anchors).all(axis=-1)
    logit = np.where(finite, maps[0], -np.inf)
    presence = _sigmoid(config.presence_scale * logit + config.presence_bias)
    padded = np.pad(logit, 1, constant_values=-np.inf)
    window = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).max(axis=(2, 3))
    candidates = np.argwhere((logit >= window) & (presence >= config.presence_min))
    candidates = candidates[np.argsort(-logit[tuple(candidates.T)], kind="stable")]
    xy_of_cell = anchors + np.moveaxis(maps[1:3], 0, -1) * OFFSET_UNIT_M
    kept: list[tuple] = []
    for row, column in candidates:
        near = (slice(max(row - 1, 0), row + 2), slice(max(column - 1, 0), column + 2))
        heat = np.where(finite[near], _sigmoid(logit[near]), 0.0)
        weight = np.where(heat >= min(AVERAGED_HEAT, heat.max()), heat**2, 0.0)
        weight /= weight.sum()
        xy = np.nansum(xy_of_cell[near] * weight[..., None], axis=(0, 1))
        if any(np.hypot(*(xy - other[0])) < config.separation_m for other in kept):
            continue
        sine, cosine = (float(np.nansum(m[near] * weight)) for m in maps[3:5])
        std = np.exp(np.clip(maps[5, row, column], -20, 20)) * OFFSET_UNIT_M * config.std_scale
        marked = float((scratch[near] * weight)[weight > 0].sum())
        kept.append((xy, np.arctan2(sine, cosine) / 4, presence[row, column], std, logit[row, column], marked))
        if len(kept) == config.max_detections:
            break
    xy, yaw, present, std, peak, marked = (np.array([k[i] for k in kept]) for i in range(6))
    return Peaks(xy.reshape(-1, 2), wrap_yaw(yaw), present, np.clip(std, MIN_STD_M, MAX_STD_M), peak, marked)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-np.clip(x, -60, 60)))
