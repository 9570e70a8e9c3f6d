"""Camera image in, object poses out. The newest image wins; what could not be handled in time is counted, never queued.

A faulty image is published as a fault, never as "no objects". While the arm rests disarmed, the stability of what is seen
is measured; an unstable signal refuses arming through the input `perception` of the guard.
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sensor_msgs.msg import Image
from steadyhand_interfaces import msg

from steadyhand import faults
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.types import RobotState
from steadyhand_perception.image_checks import FrozenFrames, ImageFault, image_from_bytes
from steadyhand_perception.ssi import Seen, SsiConfig
from steadyhand_perception.ssi_live import LiveSsi, may_be_measured, unhidden
from steadyhand_perception.tray_poses import Sight, TrayPoses
from steadyhand_ros import conversions, qos
from steadyhand_ros.node import ERROR, OK, WARN, SteadyhandNode, run
from steadyhand_ros.params import declare

FAULT_NAME = "image_fault"
HEARTBEAT = "perception"  # input name that the guard requires for AUTO


@dataclass(frozen=True)
class PerceptionNodeConfig:
    """Which model, and how long without an image is a fault."""

    model_repository: str = described("", "folder of the models")
    model: str = described("tray_poses", "model name in the repository")
    threads: int = described(1, "threads of the inference session", "", 1, 16)
    image_timeout_s: float = described(0.2, "age of the newest image from which the input is not fresh", "s", 0.02, 5.0)
    feature_range: float = described(0.0, "working range of the model's features, by `steadyhand ssi`; 0: their "
                                     "stability is not judged", "", 0.0, 1e6)

    def __post_init__(self) -> None:
        check_ranges(self)


class PerceptionNode(SteadyhandNode):
    """One worker thread runs the model; the callback only swaps the newest image in."""

    def __init__(self):
        super().__init__("perception_node")
        self._newest: tuple[int, Image] | None = None  # sequence number, image
        self._arrived_s = 0.0
        self._wake = threading.Condition()
        self._worker: threading.Thread | None = None
        self._stopping = False
        self._counts = {"images": 0, "dropped": 0, "faulty": 0, "malformed_states": 0, "not_finite": 0}
        self._last_ms = 0.0
        self._fault: ImageFault | None = None

    def build(self) -> None:
        self.config = declare(self, PerceptionNodeConfig)
        if not self.config.model_repository:
            raise ConfigError("model_repository: give the folder of the models")
        self._model = TrayPoses(Path(self.config.model_repository) / self.config.model, self.config.threads)
        self._frozen = FrozenFrames()
        self._stability = LiveSsi(declare(self, SsiConfig, "ssi"), self.config.feature_range)
        self._robot: tuple[float, RobotState] | None = None  # when it came
        self._objects_pub = self.create_publisher(msg.ObjectPoses, "perception/objects", qos.NEWEST)
        self._features_pub = self.create_publisher(msg.Features, "perception/features", qos.NEWEST)
        self._fault_pub = self.create_publisher(msg.Fault, "faults", qos.EVENTS)
        self._heartbeat_pub = self.create_publisher(msg.InputHeartbeat, "input_heartbeat", qos.EVENTS)
        self._subscription = self.create_subscription(Image, "camera/image_raw", self._on_image, qos.NEWEST)
        self._state_subscription = self.create_subscription(
            msg.SafetyState, "safety_state", self._on_state, qos.NEWEST
        )
        self._watch = self.create_timer(self.config.image_timeout_s / 2, self._watch_age)

    def open(self) -> None:
        self._stopping, self._arrived_s = False, time.monotonic()  # from now on an image is owed
        self._worker = threading.Thread(target=self._work, name="inference", daemon=True)
        self._worker.start()

    def close(self) -> None:
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._worker is not None:
            self._worker.join(timeout=2.0)
            self._worker = None

    def _on_image(self, image: Image) -> None:
        with self._wake:
            self._counts["images"] += 1
            self._counts["dropped"] += self._newest is not None
            self._newest, self._arrived_s = (self._counts["images"], image), time.monotonic()
            self._wake.notify()

    def _on_state(self, m: msg.SafetyState) -> None:
        try:
            self._robot = time.monotonic(), conversions.robot_state(m)
        except ProtocolError:
            self._counts["malformed_states"] += 1

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or self._newest is not None, timeout=0.5)
                if self._stopping:
                    return
                newest, self._newest = self._newest, None
            if newest is not None and self.active:
                self._handle(*newest)

    def _handle(self, sequence: int, image: Image) -> None:
        array, found = image_from_bytes(image.data, image.height, image.width, image.encoding, image.step)
        if not found:
            found = (*self._model.check(array), *self._frozen.check(array))
        if found:
            self._counts["faulty"] += 1
            self._say(found[0])
            return
        seen = self._model.infer(array)
        self._last_ms = seen.inference_ms
        observation_id = f"{image.header.stamp.sec}.{image.header.stamp.nanosec:09d}"
        poses = msg.ObjectPoses(
            image_seq=sequence, observation_id=observation_id,
            inference_ms=seen.inference_ms, provider=seen.provider,
            objects=[conversions.detection_msg(d, in_box=False) for d in seen.in_tray + seen.elsewhere]
            + [conversions.detection_msg(d, in_box=True) for d in seen.in_box],
        )
        poses.header.stamp = image.header.stamp
        poses.header.frame_id = "base_link"
        self._objects_pub.publish(poses)
        features = msg.Features(observation_id=observation_id, model=self.config.model, data=seen.features.tolist())
        features.header = poses.header
        self._features_pub.publish(features)
        self._say(None)
        self._watch_stability(seen)

    def _watch_stability(self, seen: Sight) -> None:
        came_s, robot = self._robot or (0.0, None)
        still = may_be_measured(robot, time.monotonic() - came_s)
        camera_m = np.array(self._model.camera.pose_base_link_camera)[:3, 3]
        try:
            shown = unhidden(seen.in_tray, robot.q_rad, camera_m) if still else ()
            self._stability.add(Seen(shown, seen.features), still)
        except ConfigError:  # what is not finite
            self._counts["not_finite"] += 1

    def _say(self, fault: ImageFault | None) -> None:
        """Publish a fault when it appears, changes its kind or clears; the estimator bounds how long it may last."""
        changed = (fault and fault.name) != (self._fault and self._fault.name)
        told, self._fault = fault or self._fault, fault
        if changed:
            message = msg.Fault(
                name=FAULT_NAME, level=int(faults.level(FAULT_NAME)), detector="perception",
                detail=f"{told.name}: {told.detail}", active=fault is not None,
            )
            message.header.stamp = self.get_clock().now().to_msg()
            self._fault_pub.publish(message)

    def _watch_age(self) -> None:
        if self.active:
            causes = self._stability.causes
            self._heartbeat_pub.publish(msg.InputHeartbeat(name=HEARTBEAT, ok=not causes, detail="; ".join(causes)))
        if self.active and time.monotonic() - self._arrived_s > self.config.image_timeout_s:
            age = time.monotonic() - self._arrived_s
            self._say(ImageFault("stale", f"no image for {age:.2f} s, limit {self.config.image_timeout_s} s"))

    def diagnostics(self):
        values = dict(self._counts, inference_ms=round(self._last_ms, 2))
        if not self.active:
            return WARN, "inactive", values
        values |= {"provider": self._model.provider, **self._stability.figures}
        if self._fault is not None:
            return ERROR, f"{self._fault.name}: {self._fault.detail}", values
        if causes := self._stability.causes:
            return ERROR, "; ".join(causes), values
        return OK, "sees", values


def main() -> int:
    return run(PerceptionNode)


if __name__ == "__main__":
    raise SystemExit(main())
