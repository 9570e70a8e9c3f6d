"""The calibration board: a ChArUco board, and its corners in an image.

Each of its inner corners has a number of its own, so a view in which something covers half of the board still counts.
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError, DependencyMissing

MIN_CORNERS = 8  # of one view; a pose needs four, and more to show an error


def opencv():
    """OpenCV, imported when it is needed."""
    try:
        import cv2
    except ImportError as error:
        raise DependencyMissing("needs OpenCV: pip install 'steadyhand[calibration]'") from error
    return cv2


@dataclass(frozen=True)
class BoardConfig:
    """A printed board: squares across and down, side lengths as measured on the print, and the markers' dictionary."""

    columns: int = 5
    rows: int = 7
    square_m: float = 0.035
    marker_m: float = 0.02625
    dictionary: str = "DICT_4X4_50"

    def __post_init__(self) -> None:
        for name in ("columns", "rows"):
            if not 3 <= getattr(self, name) <= 50:
                raise ConfigError(f"board {name} = {getattr(self, name)}: give 3 to 50 squares")
        if not (np.isfinite(self.square_m) and 0.002 <= self.square_m <= 1.0):
            raise ConfigError(f"board square_m = {self.square_m}: give 0.002 to 1.0 m")
        if not (np.isfinite(self.marker_m) and 0 < self.marker_m < self.square_m):
            raise ConfigError(f"board marker_m = {self.marker_m}: give 0 to square_m = {self.square_m}")
        if not re.fullmatch(r"DICT_\w+", self.dictionary):
            raise ConfigError(f"board dictionary {self.dictionary!r}: give one of OpenCV's, such as DICT_4X4_50")

    @classmethod
    def parse(cls, text: str) -> BoardConfig:
        """`5x7:0.035:0.02625:DICT_4X4_50`: columns x rows : square in m : marker in m : dictionary."""
        match = re.fullmatch(r"(\d+)x(\d+):([\d.]+):([\d.]+):(\w+)", text)
        if match is None:
            raise ConfigError(f"board {text!r}: give columns x rows : square_m : marker_m : dictionary, "
                              "as 5x7:0.035:0.02625:DICT_4X4_50")
        columns, rows, square, marker, dictionary = match.groups()
        try:
            return cls(int(columns), int(rows), float(square), float(marker), dictionary)
        except ValueError as error:
            raise ConfigError(f"board {text!r}: {error}") from error

    @property
    def corners_m(self) -> np.ndarray:
        """Inner corners (N, 3) in the board's frame, by number: x along a row, y down, z into the board."""
        across, down = np.meshgrid(np.arange(1, self.columns), np.arange(1, self.rows))
        flat = np.column_stack([across.ravel(), down.ravel(), np.zeros(across.size)])
        return flat * self.square_m

    def opencv_board(self):
        """The same board as an OpenCV object; ConfigError for a dictionary that is unknown or too small."""
        cv2 = opencv()
        number = getattr(cv2.aruco, self.dictionary, None)
        if number is None:
            raise ConfigError(f"board dictionary {self.dictionary!r}: OpenCV has no such dictionary")
        dictionary = cv2.aruco.getPredefinedDictionary(number)
        needed = self.columns * self.rows // 2
        if len(dictionary.bytesList) < needed:
            raise ConfigError(f"board dictionary {self.dictionary} has {len(dictionary.bytesList)} of {needed} markers")
        return cv2.aruco.CharucoBoard((self.columns, self.rows), self.square_m, self.marker_m, dictionary)


@dataclass(frozen=True)
class View:
    """Corners found in one image: `ids` (N,) numbers of corners, `pixels` (N, 2); `size_px` (width, height)."""

    name: str
    size_px: tuple[int, int]
    ids: np.ndarray
    pixels: np.ndarray


def find_board(image: np.ndarray, board: BoardConfig, name: str = "image") -> View:
    """The board in an image, grey (H, W) or RGB (H, W, 3) uint8. ConfigError that names it where too little is seen."""
    if not isinstance(image, np.ndarray) or image.dtype != np.uint8 or image.ndim not in (2, 3) or not image.size:
        raise ConfigError(f"{name}: {getattr(image, 'dtype', type(image).__name__)} {getattr(image, 'shape', '')}: "
                          "give an 8-bit grey or colour picture")
    cv2 = opencv()
    detector = cv2.aruco.CharucoDetector(board.opencv_board())
    grey = image if image.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(image), cv2.COLOR_RGB2GRAY)
    pixels, ids, _, markers = detector.detectBoard(np.ascontiguousarray(grey))
    found = 0 if ids is None else len(ids)
    if found < MIN_CORNERS:
        seen = 0 if markers is None else len(markers)
        raise ConfigError(f"{name}: board not found: {found} corners of {len(board.corners_m)}, {seen} markers; "
                          f"at least {MIN_CORNERS} corners are needed. Is it this board: {board}?")
    order = np.argsort(ids.ravel())
    return View(name, (grey.shape[1], grey.shape[0]), ids.ravel()[order].astype(int), pixels.reshape(-1, 2)[order])


def read_view(path: Path, board: BoardConfig) -> View:
    """The board in an image file; ConfigError names the file."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            if picture.mode not in ("L", "RGB", "RGBA", "P"):
                raise ConfigError(f"{path}: mode {picture.mode}: give an 8-bit grey or colour picture")
            image = np.asarray(picture.convert("L"))
    except ConfigError:
        raise
    except Exception as error:  # the parsers of Pillow raise whatever they meet
        raise ConfigError(f"{path}: no readable image: {error}") from error
    return find_board(image, board, path.name)
