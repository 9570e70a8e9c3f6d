"""What the network is asked of a batch of images, from the labels of a set."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from policies.training.perception.dataset import IGNORED, NOT_ASKED, PRESENT
from policies.training.perception.scenes import HELD_CUBE
from steadyhand_perception.maps import MAPS, OFFSET_UNIT_M, Grid, encode

IGNORE_CELLS = 2.0  # round an ignored cube's centre


@dataclass(frozen=True)
class Targets:
    """Of N images; the weights are 0 where nothing is asked."""

    maps: np.ndarray  # (N, MAPS, rows, columns)
    weight: np.ndarray  # (N, rows, columns) of position and yaw
    keep: np.ndarray  # (N, rows, columns) of the centres
    scratch: np.ndarray  # (N, rows, columns)
    scratch_weight: np.ndarray
    held: np.ndarray  # (N, rows, columns) a Gaussian at the centre of the held cube
    held_keep: np.ndarray  # (N, rows, columns)


class TargetMaker:
    """Targets on one grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid, self._anchors = grid, np.nan_to_num(grid.anchors_m(), nan=1e6)
        rows, columns = grid.shape
        self._row_of, self._column_of = np.mgrid[:rows, :columns]

    def batch(self, labels: dict[str, np.ndarray], numbers: np.ndarray, blank: np.ndarray) -> Targets:
        """Targets of images by number; those marked in `blank` (N,) show nothing."""
        n, (rows, columns) = len(numbers), self._grid.shape
        made = Targets(
            np.zeros((n, MAPS, rows, columns), np.float32), np.zeros((n, rows, columns), np.float32),
            np.ones((n, rows, columns), np.float32), np.zeros((n, rows, columns), np.float32),
            np.zeros((n, rows, columns), np.float32), np.zeros((n, rows, columns), np.float32),
            np.zeros((n, rows, columns), np.float32),
        )
        for i, k in enumerate(numbers):
            if not blank[i]:
                self._one(made, i, labels["cubes"][k], labels["label"][k], labels["scratch"][k])
                self._held(made, i, labels["cubes"][k, HELD_CUBE], labels["grasp"][k])
            else:
                made.held_keep[i] = 1.0
        return made

    def _held(self, made: Targets, i: int, cube: np.ndarray, grasp: int) -> None:
        """A held cube whose centre lies outside the image is not asked for."""
        if grasp == 1:
            made.held[i] = encode(self._grid, cube)[0][0]
        made.held_keep[i] = grasp == 0 or (grasp == 1 and made.held[i].any())

    def _one(self, made: Targets, i: int, cubes: np.ndarray, label: np.ndarray, scratch: np.ndarray) -> None:
        made.maps[i], made.weight[i] = encode(self._grid, cubes[label == PRESENT])
        for row, column in self._grid.cells(cubes[label == IGNORED, :2]):
            made.keep[i][np.hypot(self._row_of - row, self._column_of - column) < IGNORE_CELLS] = 0.0
        taught = made.weight[i] > 0
        xy = self._anchors[taught] + made.maps[i, 1:3, taught] * OFFSET_UNIT_M
        for cube, marked in zip(cubes[scratch != NOT_ASKED], scratch[scratch != NOT_ASKED]):
            own = np.zeros_like(taught)
            own[taught] = np.abs(xy - cube[:2]).max(axis=-1) < 1e-4
            made.scratch[i][own] = marked
            made.scratch_weight[i][own] = made.weight[i][own]
