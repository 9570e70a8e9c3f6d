"""How old is the newest image: by its arrival on our monotonic clock, and by the stamp that its sensor gave it. Pure.

The two answer different questions. Arrival tells silence, whatever the clocks say. The stamp tells delay before us
(queues, links, a camera that buffers) and needs the camera's clock to agree with ours: an age by the stamp is wrong for
the one image that is under way while a clock is set, and only that image is refused.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

from steadyhand.config import check_ranges, described
from steadyhand_perception.image_checks import ImageFault


@dataclass(frozen=True)
class AgeConfig:
    """Limits of age."""

    arrival_s: float = described(0.2, "silence above which the newest image is stale", "s", 0.02, 5.0)
    stamp_s: float = described(0.2, "age by the stamp above which an image is late", "s", 0.02, 5.0)
    ahead_s: float = described(0.05, "how far a stamp may lie ahead of our clock", "s", 0.0, 1.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class ImageAge:
    """Times in seconds: `now_s` monotonic, `stamp_s` and `clock_s` of the clock that stamps images (ROS time)."""

    def __init__(self, config: AgeConfig = AgeConfig()) -> None:
        self.config = config
        self._stamp_s = -math.inf

    def silence(self, now_s: float, arrived_s: float) -> tuple[ImageFault, ...]:
        """`stale` once the newest image, whatever it is worth, arrived longer ago than the limit."""
        age_s = now_s - arrived_s
        if age_s <= self.config.arrival_s:
            return ()
        return (ImageFault("stale", f"no image for {age_s:.2f} s, limit {self.config.arrival_s} s"),)

    def judge_stamp(self, stamp_s: float, clock_s: float) -> tuple[ImageFault, ...]:
        """Call once per image, in the order of arrival, when it is about to be looked at."""
        if not (math.isfinite(stamp_s) and stamp_s > 0):
            return (ImageFault("stamp_order", f"stamp {stamp_s}: the driver gives no time"),)
        before_s, self._stamp_s = self._stamp_s, stamp_s  # also of a refused one: a clock set back refuses one image
        if stamp_s <= before_s:
            return (ImageFault("stamp_order", f"stamp {before_s - stamp_s:.3f} s before the last one"),)
        age_s = clock_s - stamp_s
        if age_s > self.config.stamp_s:
            return (ImageFault("late", f"{age_s:.3f} s old by its stamp, limit {self.config.stamp_s} s"),)
        if age_s < -self.config.ahead_s:
            return (ImageFault("early", f"stamped {-age_s:.3f} s ahead of our clock, limit {self.config.ahead_s} s"),)
        return ()
