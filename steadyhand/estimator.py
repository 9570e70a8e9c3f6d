"""Kalman tracks of the objects, and how far they may be trusted: NOMINAL, DEGRADED (predicting), LOST. Pure.

One constant-position filter per object (x, y, z, yaw): parts in a tray rest. Detections pass a median of five per
track, are associated globally within a gate, and give birth to a track after three hits. A track that should be seen
and is not dies after some images; one that the arm hides is kept, its age growing, and whoever uses it bounds that age
(the executor: 1.5 s). The object in the fingers is no track: it is recognised by the measured width and removed.
"""
from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np
from filterpy.kalman import KalmanFilter
from scipy.optimize import linear_sum_assignment

from steadyhand import arm_shadow, cell, faults, kinematics, skills
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError
from steadyhand.median_filter import QUARTER_TURN_RAD, PoseMedian, wrap_quarter_turn
from steadyhand.types import Detection, Detections, Estimate, EstimateMode, Fault, ObjectEstimate, RobotState


DETECTION_MAX = 1e3  # m, rad: beyond any cell; the square of a greater number may be none


@dataclass(frozen=True)
class EstimatorConfig:
    """Limits of time, covariance and association."""

    image_age_max_s: float = described(0.2, "age of the newest image above which it predicts", "s", 0.05, 2.0)
    prediction_max_s: float = described(0.3, "longest prediction without measurement", "s", 0.0, 2.0)
    frozen_images: int = described(3, "identical images in a row that make the camera frozen", "", 2, 100)
    recover_images: int = described(3, "good images in a row that end LOST", "", 1, 100)
    presence_min: float = described(0.5, "probability above which a detection counts", "", 0.0, 1.0)
    gate_sigma: float = described(4.0, "association gate, in standard deviations", "", 1.0, 10.0)
    gate_max_m: float = described(0.03, "association gate, at most; above, it is another object", "m", 0.005, 0.08)
    birth_hits: int = described(3, "hits that make a track", "", 1, 20)
    death_misses: int = described(8, "images without a visible object until its track ends", "", 1, 200)
    hidden_max_s: float = described(30.0, "a track that the arm hides ends after this", "s", 1.0, 600.0)
    position_std_max_m: float = described(0.03, "a track less certain than this ends", "m", 0.002, 0.2)
    process_std_m: float = described(0.002, "random walk of an object", "m/sqrt(s)", 0.0, 0.1)
    process_std_rad: float = described(0.02, "random walk of its yaw", "rad/sqrt(s)", 0.0, 1.0)
    yaw_std_rad: float = described(0.06, "standard deviation of a measured yaw", "rad", 0.001, 1.0)
    measurement_std_min_m: float = described(0.002, "a detection is never trusted better than this", "m", 1e-4, 0.05)
    median_window: int = described(5, "images of the median; odd; its delay is half of it", "", 1, 15)
    grasp_s: float = described(0.25, "a grasp's width lasts this long: closing fingers pass it", "s", 0.0, 2.0)
    camera_x_m: float = described(1.05, "camera position in base_link", "m", -2.0, 2.0)
    camera_y_m: float = described(-0.10, "camera position in base_link", "m", -2.0, 2.0)
    camera_z_m: float = described(0.85, "camera position in base_link", "m", 0.2, 3.0)
    arm_radius_m: float = described(0.08, "half width of what the arm hides", "m", 0.01, 0.3)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.median_window % 2 == 0:
            raise ConfigError(f"EstimatorConfig.median_window = {self.median_window}: give an odd number of images")


@dataclass
class Track:
    """One object."""

    object_id: int
    filter: KalmanFilter
    median: PoseMedian
    presence: float
    measured_s: float
    predicted_s: float
    hits: int = 1
    misses: int = 0
    hidden: bool = False

    @property
    def position_m(self) -> np.ndarray:
        """(3,) centre."""
        return self.filter.x[:3, 0]

    @property
    def std_m(self) -> float:
        """Larger standard deviation of x and y."""
        return math.sqrt(max(self.filter.P[0, 0], self.filter.P[1, 1]))


class Estimator:
    """Feed it images and robot states in order of arrival; read `estimate(now_s)`. Times: one monotonic clock."""

    def __init__(self, config: EstimatorConfig = EstimatorConfig()):
        self.config = config
        self.counters: Counter[str] = Counter()
        self.faults: list[Fault] = []  # new since the last `take_faults`
        self._tracks: list[Track] = []
        self._next_id = 1
        self._stamp_s, self._seq = -math.inf, -1
        self._observation_id = ""
        self._seen_s: float | None = None  # when the content of the newest good image was current
        self._content, self._same, self._good = b"", 1, 0
        self._lost = True
        self._robot: RobotState | None = None
        self._holding = False
        self._verified_s = math.inf  # since when the width has been that of a grasp

    # -- inputs ------------------------------------------------------------------------------------------------------
    def on_robot(self, state: RobotState) -> None:
        """The newest guard state: what the arm hides, and whether the fingers hold an object."""
        if not np.isfinite([*state.q_rad, state.gripper_width_m, state.gripper_commanded_m]).all():
            self._refuse("detection_invalid", state.stamp_s, "robot state is not finite")
            return
        self._robot = state
        verified = skills.grasp_verified(state.gripper_width_m, state.gripper_commanded_m < 0.02)
        self._verified_s = min(self._verified_s, state.stamp_s) if verified else math.inf
        holding = state.stamp_s - self._verified_s >= self.config.grasp_s
        if holding and not self._holding:
            tool = self._tool_m()
            self._tracks = [
                t for t in self._tracks
                if np.linalg.norm((t.position_m - tool)[:2]) > cell.CUBE_SIZE_M or tool[2] > 0.08
            ]
        self._holding = holding

    def on_detections(self, image: Detections, now_s: float, capture_age_s: float = 0.0) -> None:
        """One image's detections, arrived now; `capture_age_s` is its age on arrival, as far as it is known."""
        if not (math.isfinite(image.stamp_s) and math.isfinite(capture_age_s)):
            self._refuse("detection_invalid", now_s, f"image {image.image_seq}: stamp or age not finite")
            return
        if image.stamp_s <= self._stamp_s and image.image_seq <= self._seq:  # a clock set back leaves the sequence
            self._refuse("detection_out_of_order", now_s, f"image {image.image_seq} is not newer than the last one")
            return
        self._stamp_s, self._seq = image.stamp_s, image.image_seq
        if self._frozen(image):
            self._refuse("camera_frozen", now_s, f"{self._same} images with identical content")
            return
        seen_s = now_s - max(capture_age_s, 0.0)  # wrong for one image when a clock is set while it is under way:
        self._seen_s = seen_s if self._seen_s is None else max(self._seen_s, seen_s)  # it makes nothing older
        self._observation_id = image.observation_id
        self._good += 1
        self._predict(now_s)
        self._update([d for d in image.objects if self._usable(d, now_s)], now_s)

    def estimate(self, now_s: float) -> Estimate:
        """Tracks and mode now. Reading it often is what makes LOST sticky until `recover_images` good images came."""
        age_s = math.inf if self._seen_s is None else now_s - self._seen_s
        limit_s = self.config.image_age_max_s
        if age_s > limit_s:
            self._good = 0
        if age_s > limit_s + self.config.prediction_max_s:
            self._lost = True
        elif self._good >= self.config.recover_images:
            self._lost = False
        cause = "camera frozen" if self._same >= self.config.frozen_images else "no image"
        if self._seen_s is None:
            mode, reason = EstimateMode.LOST, "no image yet"
        elif self._lost:
            back = age_s <= limit_s
            mode, reason = EstimateMode.LOST, "images are coming back" if back else f"{cause} for {age_s:.2f} s"
        elif age_s > limit_s:
            mode, reason = EstimateMode.DEGRADED, f"{cause} for {age_s:.2f} s: predicting"
        else:
            hidden = [t.object_id for t in self._tracks if t.hidden and t.hits >= self.config.birth_hits]
            mode, reason = EstimateMode.NOMINAL, f"hidden by the arm: {hidden}" if hidden else ""
        objects = tuple(self._object(t, now_s) for t in self._tracks if t.hits >= self.config.birth_hits)
        return Estimate(self._stamp_s, mode, reason, self._observation_id, age_s, objects)

    @property
    def median_delay_s(self) -> float:
        """How old the middle of the medians' windows is, at most: what they report of an object that moves is so late."""
        return max((t.median.latest.delay_s for t in self._tracks), default=0.0)

    def take_faults(self) -> list[Fault]:
        """Faults since the last call."""
        taken, self.faults = self.faults, []
        return taken

    # -- checks ------------------------------------------------------------------------------------------------------
    def _refuse(self, name: str, now_s: float, detail: str) -> None:
        self.counters[name] += 1
        if len(self.faults) < 100:
            self.faults.append(faults.fault(name, now_s, detail))

    def _frozen(self, image: Detections) -> bool:
        """Whether this is (at least) the third image in a row with the very same numbers: real sensors have noise."""
        numbers = [[*d.position_m, d.yaw_rad, d.presence] for d in image.objects]
        content = np.array(numbers, dtype=float).tobytes()
        self._same = self._same + 1 if content and content == self._content else 1
        self._content = content
        return self._same >= self.config.frozen_images

    def _usable(self, d: Detection, now_s: float) -> bool:
        numbers = np.array([*d.position_m, d.yaw_rad, d.presence, d.position_std_m], dtype=float)
        sane = numbers.shape == (6,) and bool((np.abs(numbers) < DETECTION_MAX).all())  # not so for NaN
        if not sane or d.position_std_m < 0:
            self._refuse("detection_invalid", now_s, f"detection {[f'{v:.4g}' for v in numbers.ravel()]}")
            return False
        if self._holding and np.linalg.norm(d.position_m[:2] - self._on_tray(self._tool_m())) < 0.08:
            return False  # the carried object, seen against the tray
        return d.presence >= self.config.presence_min

    # -- tracks ------------------------------------------------------------------------------------------------------
    def _predict(self, now_s: float) -> None:
        c = self.config
        for track in self._tracks:
            dt = max(now_s - track.predicted_s, 0.0)
            track.filter.Q = np.diag([c.process_std_m**2] * 3 + [c.process_std_rad**2]) * dt
            track.filter.predict()
            track.predicted_s = now_s

    def _update(self, detections: list[Detection], now_s: float) -> None:
        pairs = self._associate(detections)
        taken = {j for _, j in pairs}
        for i, j in pairs:
            self._measure(self._tracks[i], detections[j], now_s)
        measured = {i for i, _ in pairs}
        shadow = self.shadow()
        alive = []
        for i, track in enumerate(self._tracks):
            track.hidden = i not in measured and self.in_shadow(track.position_m[:2], shadow)
            if i in measured or track.hidden:
                track.misses = 0
            else:
                track.misses += 1
            if self._dead(track, now_s):
                self.counters["tracks_ended"] += 1
            else:
                alive.append(track)
        self._tracks = alive
        for j, d in enumerate(detections):
            near = any(np.linalg.norm(t.position_m[:2] - d.position_m[:2]) < cell.CUBE_SIZE_M / 2 for t in self._tracks)
            if j not in taken and not near and len(self._tracks) < 4 * cell.MAX_CUBES:
                self._tracks.append(self._birth(d, now_s))

    def _associate(self, detections: list[Detection]) -> list[tuple[int, int]]:
        """Pairs (track, detection) of least total squared distance, within the gate."""
        if not detections or not self._tracks:
            return []
        cost = np.empty((len(self._tracks), len(detections)))
        for i, track in enumerate(self._tracks):
            for j, d in enumerate(detections):
                distance = float(np.linalg.norm(track.position_m[:2] - d.position_m[:2]))
                std = math.hypot(track.std_m, max(d.position_std_m, self.config.measurement_std_min_m))
                inside = distance <= min(self.config.gate_sigma * std + 0.004, self.config.gate_max_m)
                cost[i, j] = distance**2 if inside else 1e3
        rows, columns = linear_sum_assignment(cost)
        return [(int(i), int(j)) for i, j in zip(rows, columns) if cost[i, j] < 1e3]

    def _measure(self, track: Track, d: Detection, now_s: float) -> None:
        median = track.median.add(now_s, [*d.position_m, d.yaw_rad])
        if median is None:  # a second image in the same instant
            return
        *position, yaw = median.values
        near = track.filter.x[3, 0]  # the representative of the yaw, modulo a quarter turn, nearest to the track's
        z = np.array([*position, near + math.remainder(yaw - near, QUARTER_TURN_RAD)])
        # A sample takes part in `window` medians: their errors are correlated, so each counts that much less.
        window = self.config.median_window
        track.filter.update(z, R=self._noise(d) * window)
        track.filter.x[3, 0] = wrap_quarter_turn(track.filter.x[3, 0])
        track.presence += 0.3 * (d.presence - track.presence)
        track.measured_s, track.hits = now_s, track.hits + 1

    def _noise(self, d: Detection) -> np.ndarray:
        std = max(d.position_std_m, self.config.measurement_std_min_m)
        return np.diag([std**2] * 3 + [self.config.yaw_std_rad**2])

    def _birth(self, d: Detection, now_s: float) -> Track:
        filter = KalmanFilter(dim_x=4, dim_z=4)
        filter.x = np.array([[*d.position_m, wrap_quarter_turn(d.yaw_rad)]]).T
        filter.F, filter.H, filter.P = np.eye(4), np.eye(4), self._noise(d) * self.config.median_window
        median = PoseMedian(self.config.median_window)
        median.add(now_s, [*d.position_m, d.yaw_rad])
        track = Track(self._next_id, filter, median, d.presence, now_s, now_s)
        self._next_id += 1
        return track

    def _dead(self, track: Track, now_s: float) -> bool:
        c = self.config
        if track.hits < c.birth_hits:
            return track.misses >= 2
        age_s = now_s - track.measured_s
        return track.misses >= c.death_misses or age_s > c.hidden_max_s or track.std_m > c.position_std_max_m

    def _object(self, track: Track, now_s: float) -> ObjectEstimate:
        """The track predicted to now: constant position, growing uncertainty."""
        grown = max(now_s - track.predicted_s, 0.0) * self.config.process_std_m**2
        return ObjectEstimate(
            track.object_id, track.position_m.copy(), wrap_quarter_turn(float(track.filter.x[3, 0])), track.presence,
            math.sqrt(track.std_m**2 + grown), max(now_s - track.measured_s, 0.0), cell.BOX.contains(track.position_m),
        )

    # -- what the arm hides ------------------------------------------------------------------------------------------
    def _tool_m(self) -> np.ndarray:
        return kinematics.pose_base_link_tool(self._robot.q_rad)[:3, 3]

    def _on_tray(self, point_m: np.ndarray) -> np.ndarray:
        """(2,) where the camera sees a point against the plane of the objects."""
        return arm_shadow.on_tray(point_m, self._camera_m())

    def _camera_m(self) -> np.ndarray:
        return np.array([self.config.camera_x_m, self.config.camera_y_m, self.config.camera_z_m])

    def shadow(self) -> list[np.ndarray]:
        """The arm from the elbow to the tool as a polyline on the plane of the objects; empty without a robot state."""
        return [] if self._robot is None else arm_shadow.shadow(self._robot.q_rad, self._camera_m())

    def in_shadow(self, point_m: np.ndarray, shadow: list[np.ndarray]) -> bool:
        """Whether the arm hides a point (2,) of the plane of the objects."""
        return arm_shadow.hides(shadow, point_m, self.config.arm_radius_m)
