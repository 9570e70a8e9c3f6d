"""Is this an image to see with? Named faults of one frame, and of a run of frames.

An image that shows nothing must not be read as "the tray is empty". Pure functions of the pixels; `FrozenFrames` keeps
the digests of the last frames. Times are not asked here: the age of a frame is its user's matter.
"""
from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError

ENCODINGS = {"rgb8": None, "bgr8": (2, 1, 0)}  # ROS image encodings -> order of channels that makes RGB


@dataclass(frozen=True)
class ImageCheckConfig:
    """Thresholds. Luminance is the mean of the channels, 0..255; figures in docs/perception.md."""

    dark_mean: float = 18.0  # below: lens capped or light off
    saturated_share: float = 0.95  # share of pixels with every channel >= 250; a white tray in strong light has 0.9
    flat_std: float = 6.0  # luminance deviation over 8 x 8 blocks' means: below, covered or out of focus
    noise_ratio: float = 2.0  # fine over coarse structure: above, snow rather than a picture
    half_rows_share: float = 0.10  # share of rows at an edge, all of one value below 255: a half-written frame
    frozen_frames: int = 3  # identical raw bytes so many times running

    def __post_init__(self) -> None:
        for name in ("dark_mean", "flat_std", "noise_ratio"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"{name}={getattr(self, name)}: must be finite and above 0")
        for name in ("saturated_share", "half_rows_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must lie in (0, 1]")
        if self.frozen_frames < 2:
            raise ConfigError(f"frozen_frames={self.frozen_frames}: must be at least 2")


@dataclass(frozen=True)
class ImageFault:
    """One reason not to trust an image. `name` is one of: encoding, empty, dtype, shape, size, dark, saturated,
    covered, noise, half_written, frozen."""

    name: str
    detail: str


def image_from_bytes(
    data: bytes, height_px: int, width_px: int, encoding: str, step_bytes: int = 0
) -> tuple[np.ndarray | None, tuple[ImageFault, ...]]:
    """The raw bytes of a message as RGB (H, W, 3) uint8, or None and the fault that says why not.

    `step_bytes` is the length of a row with its padding; 0 means no padding.
    """
    if encoding not in ENCODINGS:
        return None, (ImageFault("encoding", f"encoding {encoding!r}: publish one of {sorted(ENCODINGS)}"),)
    if height_px <= 0 or width_px <= 0 or not len(data):
        return None, (ImageFault("empty", f"{height_px} x {width_px} px, {len(data)} bytes"),)
    step = step_bytes or 3 * width_px
    if step < 3 * width_px or len(data) != step * height_px:
        return None, (ImageFault("size", f"{len(data)} bytes for {height_px} rows of {step} (3 x {width_px} px)"),)
    rows = np.frombuffer(data, np.uint8).reshape(height_px, step)[:, : 3 * width_px]
    image = rows.reshape(height_px, width_px, 3)
    order = ENCODINGS[encoding]
    return (image if order is None else np.ascontiguousarray(image[..., order])), ()


def check_image(
    image: np.ndarray, expected_shape: tuple[int, int, int], config: ImageCheckConfig = ImageCheckConfig()
) -> tuple[ImageFault, ...]:
    """Faults of one RGB image; empty when there is none. A wrong kind of array ends the check at once."""
    if not isinstance(image, np.ndarray) or image.size == 0:
        return (ImageFault("empty", f"got {type(image).__name__} of size {getattr(image, 'size', 0)}"),)
    if image.dtype != np.uint8:
        return (ImageFault("dtype", f"dtype {image.dtype}, must be uint8"),)
    if image.shape != tuple(expected_shape):
        return (ImageFault("shape", f"shape {image.shape}, must be {tuple(expected_shape)}"),)
    faults = []
    luminance = image.mean(axis=2, dtype=np.float32)
    mean = float(luminance.mean())
    saturated = float((image.min(axis=2) >= 250).mean())
    coarse, fine = _structure(luminance)
    if mean < config.dark_mean:
        faults.append(ImageFault("dark", f"mean luminance {mean:.1f}, at least {config.dark_mean}"))
    if saturated > config.saturated_share:
        faults.append(ImageFault("saturated", f"{saturated:.0%} of pixels white, at most {config.saturated_share:.0%}"))
    if coarse < config.flat_std:
        faults.append(ImageFault("covered", f"structure of {coarse:.1f} levels, at least {config.flat_std}"))
    if fine > config.noise_ratio * coarse:
        faults.append(ImageFault("noise", f"pixel noise {fine:.1f} against structure {coarse:.1f} levels"))
    blank = _blank_edge_rows(image)
    if blank > config.half_rows_share:
        faults.append(ImageFault("half_written", f"{blank:.0%} of the rows, at one edge, hold one single value"))
    return tuple(faults)


def _structure(luminance: np.ndarray) -> tuple[float, float]:
    """Deviation of the means of 8 x 8 blocks, and the noise of single pixels.

    The noise is the median of |2 a - b - c| over horizontal neighbours, scaled for white noise (median |n| = 0.6745 s,
    deviation of the second difference = sqrt(6) s): edges are few and do not move a median.
    """
    height, width = (n // 8 * 8 for n in luminance.shape)
    blocks = luminance[:height, :width].reshape(height // 8, 8, width // 8, 8).mean(axis=(1, 3))
    second = np.abs(2 * luminance[:, 1:-1] - luminance[:, :-2] - luminance[:, 2:])
    return float(blocks.std()), float(np.median(second)) / (0.6745 * np.sqrt(6))


def _blank_edge_rows(image: np.ndarray) -> float:
    """Share of rows, counted from the top or the bottom edge, in which every byte is the same value below 255.

    Rows of nothing but 255 are an overexposed table, which is a picture.
    """
    rows = image.reshape(len(image), -1)
    blank = (rows == rows[:, :1]).all(axis=1) & (rows[:, 0] < 255)
    if blank.all():
        return 1.0
    return max(int(np.argmin(blank)), int(np.argmin(blank[::-1]))) / len(blank)


class FrozenFrames:
    """Counts how often running the very same bytes came. A static scene does not alarm: a camera's noise differs."""

    def __init__(self, config: ImageCheckConfig = ImageCheckConfig()) -> None:
        self._limit = config.frozen_frames
        self._digest, self._repeats = b"", 0

    def check(self, image: np.ndarray) -> tuple[ImageFault, ...]:
        """Call once per frame; the fault stands as long as the frames stay the same."""
        digest = hashlib.blake2b(np.ascontiguousarray(image), digest_size=16).digest()
        self._repeats = self._repeats + 1 if digest == self._digest else 1
        self._digest = digest
        if self._repeats < self._limit:
            return ()
        return (ImageFault("frozen", f"{self._repeats} frames with identical bytes, limit {self._limit}"),)
