"""SSI of what the camera shows now, while the arm rests and is not armed: the last word before arming. Pure.

An armed arm moves and hides things, so nothing is measured then and nothing is refused: a signal that fails under way
is the estimator's matter. A tray in which somebody works is unstable too, and arming waits until that is over.
"""
from __future__ import annotations

from collections import deque

import numpy as np

from steadyhand import arm_shadow, cell
from steadyhand.types import Detection, Mode, RobotState
from steadyhand_perception.ssi import Seen, SsiConfig, SsiReport, report

WINDOW = 60  # images: at 20 Hz what was seen in the last three seconds
EVERY = 10  # images from one report to the next
SETTLING = 5  # images after a motion that do not count: taken before it ended
ROBOT_AGE_MAX_S = 0.5
HIDDEN_M = 0.08 + cell.CUBE_SIZE_M  # half width of the arm, and of a cube that it hides in part


class LiveSsi:
    """One thread feeds `add`; any thread reads `latest`, which is replaced as a whole."""

    def __init__(self, config: SsiConfig = SsiConfig(), feature_range: float = 0.0, window: int = WINDOW):
        self.config = config
        self.latest: SsiReport | None = None  # None: not enough images of a scene at rest
        self._feature_range = feature_range
        self._images: deque[Seen] = deque(maxlen=max(window, config.images_min))
        self._new, self._settling = 0, SETTLING

    def add(self, seen: Seen, still: bool) -> None:
        """One image; `still`: the robot rests and is not armed, so that the scene should not change."""
        if not still:
            self._images.clear()
            self.latest, self._new, self._settling = None, 0, SETTLING
            return
        if self._settling > 0:
            self._settling -= 1
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

    @property
    def figures(self) -> dict[str, float]:
        """`ssi_<signal>` -> SSI now, for diagnostics; empty while too little has been seen."""
        latest = self.latest
        return {} if latest is None else {f"ssi_{name}": round(s.p95, 4) for name, s in latest.signals.items()}


def may_be_measured(robot: RobotState | None, age_s: float) -> bool:
    """Whether the scene should stand still: the robot is known to rest, and is not armed."""
    armed = (Mode.ARMED_AUTO, Mode.ARMED_MANUAL, Mode.RECOVERING)
    return robot is not None and age_s <= ROBOT_AGE_MAX_S and robot.at_rest and robot.mode not in armed


def unhidden(objects: tuple[Detection, ...], q_rad: np.ndarray, camera_m: np.ndarray) -> tuple[Detection, ...]:
    """Objects that the arm at (6,) does not hide, not even in part: what it half hides comes and goes by right."""
    line = arm_shadow.shadow(q_rad, camera_m)
    return tuple(o for o in objects if not arm_shadow.hides(line, np.asarray(o.position_m)[:2], HIDDEN_M))
