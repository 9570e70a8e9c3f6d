"""SSI of what the camera shows now, while the arm rests and is not armed: the last word before arming. Pure.

An armed arm moves and hides things, so nothing is measured then and nothing is refused: a signal that fails under way
is the estimator's matter. A tray in which somebody works is unstable too, and arming waits until that is over.
"""
from __future__ import annotations

from collections import deque

from steadyhand_perception.ssi import Seen, SsiConfig, SsiReport, report

WINDOW = 60  # images: at 20 Hz what was seen in the last three seconds
EVERY = 10  # images from one report to the next


class LiveSsi:
    """One thread feeds `add`; any thread reads `latest`, which is replaced as a whole."""

    def __init__(self, config: SsiConfig = SsiConfig(), feature_range: float = 0.0, window: int = WINDOW):
        self.config = config
        self.latest: SsiReport | None = None  # None: not enough images of a scene at rest
        self._feature_range = feature_range
        self._images: deque[Seen] = deque(maxlen=max(window, config.images_min))
        self._new = 0

    def add(self, seen: Seen, still: bool) -> None:
        """One image; `still`: the robot rests and is not armed, so that the scene should not change."""
        if not still:
            self._images.clear()
            self.latest, self._new = None, 0
            return
        self._images.append(seen)
        self._new += 1
        if len(self._images) >= self.config.images_min and (self.latest is None or self._new >= EVERY):
            self.latest, self._new = report([list(self._images)], self.config, self._feature_range), 0

    @property
    def causes(self) -> tuple[str, ...]:
        """What forbids arming; empty while too little has been seen to say so."""
        latest = self.latest
        return latest.causes if latest is not None else ()
