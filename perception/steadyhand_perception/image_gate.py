"""Every check of an image in one place: from the message's bytes to pixels that may be looked at, or faults by name."""
from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from steadyhand_perception.arm_witness import ArmWitness
from steadyhand_perception.frozen_frames import FrozenConfig, FrozenFrames
from steadyhand_perception.geometry import PinholeCamera
from steadyhand_perception.image_age import AgeConfig, ImageAge
from steadyhand_perception.image_checks import (
    Decoded,
    ImageCheckConfig,
    ImageFault,
    check_image,
    image_from_bytes,
    image_from_compressed,
)


@dataclass(frozen=True)
class Frame:
    """What a message holds. `compressed`: `encoding` is then the format of a CompressedImage, and sizes are unused."""

    data: bytes
    encoding: str
    stamp_s: float
    height_px: int = 0
    width_px: int = 0
    step_bytes: int = 0
    compressed: bool = False


class ImageGate:
    """One camera. `faults_by_name` counts; an image with any fault is no measurement, and must not be looked at."""

    def __init__(
        self, camera: PinholeCamera, age: AgeConfig = AgeConfig(), checks: ImageCheckConfig = ImageCheckConfig(),
        frozen: FrozenConfig = FrozenConfig(),
    ) -> None:
        self._shape, self._checks = (camera.height_px, camera.width_px, 3), checks
        self.age, self.frozen, self._arm = ImageAge(age), FrozenFrames(frozen), ArmWitness(camera)
        self.faults_by_name: Counter[str] = Counter()

    def admit(self, frame: Frame, clock_s: float, q_rad: np.ndarray | None = None) -> Decoded:
        """The picture, RGB (H, W, 3) uint8, or None and every fault found. Call in order of arrival.

        `clock_s` is now by the clock that stamps images, `q_rad` (6,) the arm's measured joints now, None when unknown.
        """
        faults = self.age.judge_stamp(frame.stamp_s, clock_s)
        if frame.compressed:
            image, wrong = image_from_compressed(frame.data, frame.encoding)
        else:
            image, wrong = image_from_bytes(
                frame.data, frame.height_px, frame.width_px, frame.encoding, frame.step_bytes
            )
        if image is not None:
            wrong = check_image(image, self._shape, self._checks)
            if not wrong:  # what shows nothing cannot show anything new either
                wrong = (*self.frozen.check(image), *self._arm.check(image, q_rad))
        return self._counted(image, (*wrong, *faults))

    def silence(self, now_s: float, arrived_s: float) -> tuple[ImageFault, ...]:
        """`stale` when the newest image arrived too long ago, counted at each call."""
        return self._counted(None, self.age.silence(now_s, arrived_s))[1]

    def _counted(self, image: np.ndarray | None, faults: tuple[ImageFault, ...]) -> Decoded:
        self.faults_by_name.update(fault.name for fault in faults)
        return (None if faults else image), faults
