"""Is this an image to see with? Named faults of one frame by its pixels and its message.

An image that shows nothing must not be read as "the tray is empty". Pure functions; what a run of frames tells is in
`frozen_frames`, what the clocks tell in `image_age`, and all of it together in `image_gate`.
"""
from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from steadyhand.errors import ConfigError, DependencyMissing

ENCODINGS = {"rgb8": None, "bgr8": (2, 1, 0)}  # ROS image encodings -> order of channels that makes RGB
DEPTH = ("16UC1", "mono16", "32FC1", "16SC1")
COMPRESSED = {"jpeg": "JPEG", "jpg": "JPEG", "png": "PNG"}  # words of CompressedImage.format -> formats of Pillow
COMPRESSED_MAX_PIXELS = 4096 * 4096  # a small file can claim to be a giant picture

# Every kind of image fault, and what a person does about it. What is not here cannot be raised.
KINDS = {
    "encoding": "publish rgb8 or bgr8 (raw), or jpeg or png of a colour picture (compressed)",
    "depth": "a 16-bit or depth image: give perception the colour topic",
    "empty": "no pixels: see the camera's driver",
    "size": "bytes and size disagree: a cut-off message or a wrong driver",
    "undecodable": "compressed data that is no picture: see the driver or the link",
    "dtype": "not 8 bits a channel",
    "shape": "not the size that the model's contract names: set the camera's or the resizing node's output",
    "dark": "lens capped or light off",
    "saturated": "too much light or exposure",
    "covered": "lens covered, out of focus or facing a blank wall",
    "noise": "snow instead of a picture: cable, gain",
    "half_written": "part of the picture is missing or left over from the frame before: driver or link",
    "frozen": "the same bytes again and again: restart the camera",
    "replayed": "a series of frames seen before: somebody plays a recording into the topic",
    "noise_on_frozen": "one picture with ever new noise: restart the camera, see who publishes",
    "unmoved": "the arm has moved through the picture, which did not change: restart the camera, see who publishes",
    "stale": "no image within the limit: camera, driver or link is gone",
    "late": "the stamp is too old: a queue or a slow link before us, or the camera's clock is behind",
    "early": "the stamp lies ahead: the camera's clock is ahead of ours",
    "stamp_order": "a stamp that is no later than the one before: repeated or reordered frames",
    "camera_info": "the camera is not the one the model was made for: calibrate, or rectify and resize the image",
}


@dataclass(frozen=True)
class ImageCheckConfig:
    """Thresholds. Luminance is the mean of the channels, 0..255; figures in docs/camera.md."""

    dark_mean: float = 18.0  # below: lens capped or light off
    saturated_share: float = 0.95  # share of pixels with every channel >= 250; a white tray in strong light has 0.9
    flat_std: float = 6.0  # luminance deviation over 8 x 8 blocks' means: below, covered or out of focus
    noise_ratio: float = 2.0  # fine over coarse structure: above, snow rather than a picture
    half_rows_share: float = 0.10  # share of rows at an edge, all of one value below 255: a half-written frame

    def __post_init__(self) -> None:
        for name in ("dark_mean", "flat_std", "noise_ratio"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ConfigError(f"{name}={getattr(self, name)}: must be finite and above 0")
        for name in ("saturated_share", "half_rows_share"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(f"{name}={getattr(self, name)}: must lie in (0, 1]")


@dataclass(frozen=True)
class ImageFault:
    """One reason not to trust an image. `name` is one of KINDS."""

    name: str
    detail: str

    def __post_init__(self) -> None:
        if self.name not in KINDS:
            raise KeyError(f"image fault {self.name!r}: give one of {sorted(KINDS)}")


Decoded = tuple[np.ndarray | None, tuple[ImageFault, ...]]


def image_from_bytes(data: bytes, height_px: int, width_px: int, encoding: str, step_bytes: int = 0) -> Decoded:
    """The raw bytes of a message as RGB (H, W, 3) uint8, or None and the fault that says why not.

    `step_bytes` is the length of a row with its padding; 0 means no padding.
    """
    if encoding in DEPTH:
        return None, (ImageFault("depth", f"encoding {encoding!r} is depth or 16 bits: give a colour topic"),)
    if encoding not in ENCODINGS:
        return None, (ImageFault("encoding", f"encoding {encoding[:40]!r}: publish one of {sorted(ENCODINGS)}"),)
    if height_px <= 0 or width_px <= 0 or not len(data):
        return None, (ImageFault("empty", f"{height_px} x {width_px} px, {len(data)} bytes"),)
    step = step_bytes or 3 * width_px
    if step < 3 * width_px or len(data) != step * height_px:
        return None, (ImageFault("size", f"{len(data)} bytes for {height_px} rows of {step} (3 x {width_px} px)"),)
    rows = np.frombuffer(data, np.uint8).reshape(height_px, step)[:, : 3 * width_px]
    image = rows.reshape(height_px, width_px, 3)
    order = ENCODINGS[encoding]
    return (image if order is None else np.ascontiguousarray(image[..., order])), ()


def image_from_compressed(data: bytes, message_format: str) -> Decoded:
    """A `sensor_msgs/CompressedImage` as RGB (H, W, 3) uint8, or None and the fault that says why not.

    `message_format` as image_transport writes it: "jpeg", "rgb8; jpeg compressed bgr8", "png" ...; the picture's own
    header decides about its channels. Raises DependencyMissing without Pillow.
    """
    try:
        from PIL import Image
    except ImportError as error:
        raise DependencyMissing("compressed images need pillow: pip install pillow") from error
    words = message_format.lower().replace(";", " ").split()
    if "compresseddepth" in words or any(depth.lower() in words for depth in DEPTH):
        return None, (ImageFault("depth", f"format {message_format[:60]!r} is depth or 16 bits: give a colour topic"),)
    allowed = [COMPRESSED[word] for word in words if word in COMPRESSED]
    if not allowed:
        return None, (ImageFault("encoding", f"format {message_format[:60]!r}: publish jpeg or png"),)
    if not len(data):
        return None, (ImageFault("empty", "0 bytes"),)
    try:
        with Image.open(io.BytesIO(data), formats=allowed) as picture:
            if picture.width * picture.height > COMPRESSED_MAX_PIXELS:
                return None, (ImageFault("shape", f"{picture.width} x {picture.height} px, larger than a camera's"),)
            if picture.mode.startswith(("I", "F")):
                return None, (ImageFault("depth", f"a picture of mode {picture.mode}: depth or 16 bits"),)
            if picture.mode != "RGB":
                return None, (ImageFault("encoding", f"a picture of mode {picture.mode}, must be RGB"),)
            try:
                return np.asarray(picture), ()
            except Exception as error:  # the header is whole, the picture is not
                return None, (ImageFault("half_written", f"{len(data)} bytes: {error}"),)
    except Exception as error:  # the parsers of Pillow raise whatever they meet
        return None, (ImageFault("undecodable", f"{len(data)} bytes of {message_format[:60]!r}: {error}"),)


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
    red, green, blue = (image[..., k] for k in range(3))  # a reduction over an axis of 3 takes ten times as long
    luminance = (red.astype(np.float32) + green + blue) / np.float32(3)
    mean = float(luminance.mean())
    saturated = float((np.minimum(np.minimum(red, green), blue) >= 250).mean())
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
    return edge_run(blank) / len(blank)


def edge_run(rows: np.ndarray) -> int:
    """Length of the longer of the two runs of true rows (N,) that begin at an edge."""
    return len(rows) if rows.all() else max(int(np.argmin(rows)), int(np.argmin(rows[::-1])))
