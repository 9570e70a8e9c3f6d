"""The arm as a witness: it has moved through the picture by the joints' word, and the picture has not changed.

This finds what pixels alone cannot: a picture that was frozen before the first frame, one without its noise, one from a
camera whose noise cannot be read. It needs no knowledge of the picture, only that a moved arm changes some part of it.
"""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics
from steadyhand.config import check_ranges, described
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_checks import ImageFault

CELLS = 10  # the picture is cut into so many rows and columns


@dataclass(frozen=True)
class WitnessConfig:
    """How far the arm must have gone, and what counts as a change; figures in docs/camera.md."""

    moved_px: float = described(15.0, "way of the tool in the picture that must change it", "px", 5.0, 500.0)
    edge_px: float = described(12.0, "nearer to the picture's edge the tool does not count as seen", "px", 0.0, 500.0)
    change_dn: float = described(1.5, "change of a cell's mean brightness that is one; noise makes 0.1", "", 0.3, 50.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class ArmWitness:
    """Feed `check` with every image and the joints' angles at about its time."""

    def __init__(self, camera: PinholeCamera, config: WitnessConfig = WitnessConfig()) -> None:
        self._camera, self._config = camera, config
        self._since: tuple[np.ndarray, np.ndarray] | None = None  # cell means, tool's pixel

    def check(self, image: np.ndarray, q_rad: np.ndarray | None) -> tuple[ImageFault, ...]:
        """`unmoved` for an RGB image (H, W, 3); joints (6,), or None when they are not known: then nothing is said."""
        means = _cell_means(image)
        same = self._since is not None and bool(np.abs(means - self._since[0]).max() < self._config.change_dn)
        if q_rad is None:
            self._since = self._since if same else None
            return ()
        tool_px = self._camera.project(kinematics.pose_base_link_tool(q_rad)[:3, 3])
        if not same:
            self._since = means, tool_px
            return ()
        before_px = self._since[1]
        way_px = float(np.linalg.norm(tool_px - before_px))
        if not way_px >= self._config.moved_px or not (self._sees(tool_px) and self._sees(before_px)):  # NaN: behind it
            return ()
        return (ImageFault("unmoved", f"the tool has gone {way_px:.0f} px in a picture that did not change"),)

    def _sees(self, pixel: np.ndarray) -> bool:
        edge_px = self._config.edge_px
        far = np.array([self._camera.width_px, self._camera.height_px]) - 1 - edge_px
        return bool((pixel >= edge_px).all() and (pixel <= far).all())


def _cell_means(image: np.ndarray) -> np.ndarray:
    """Mean brightness (CELLS, CELLS) of the picture's cells; what is left at the lower and right edge is not used."""
    height, width = (n // CELLS for n in image.shape[:2])
    cut = image[: CELLS * height, : CELLS * width].reshape(CELLS, height, CELLS, width * 3)
    return cut.mean(axis=(1, 3), dtype=np.float32)
