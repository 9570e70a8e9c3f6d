"""Camera image in, object poses out. The newest image wins; what could not be handled in time is counted, never queued.

A faulty image is published as a fault, never as "no objects". The callbacks only put the newest message down; every
check, the model and a Triton server's answer are waited for by one worker thread. While the arm rests disarmed, the
stability of what is seen is measured; an unstable signal refuses arming through the input `perception` of the guard.
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from steadyhand_interfaces import msg

from steadyhand import faults
from steadyhand.config import check_ranges, described
from steadyhand.errors import ConfigError, ProtocolError
from steadyhand.slot import current_slot
from steadyhand.types import RobotState
from steadyhand_calibration.files import load_hand_eye
from steadyhand_perception import camera_check
from steadyhand_perception.image_age import AgeConfig
from steadyhand_perception.image_checks import ImageFault
from steadyhand_perception.image_gate import Frame, ImageGate
from steadyhand_perception.ssi import Seen, SsiConfig
from steadyhand_perception.ssi_live import LiveSsi, may_be_measured, unhidden
from steadyhand_perception.tray_poses import Sight, TrayPoses
from steadyhand_perception.triton_poses import TritonPoses, TritonPosesConfig
from steadyhand_ros import conversions, qos
from steadyhand_ros.background import Background
from steadyhand_ros.node import ERROR, OK, WARN, SteadyhandNode, run
from steadyhand_ros.params import declare
from steadyhand_ros.sight_pictures import SightPictures

FAULT_NAME = "image_fault"
ROBOT_AGE_MAX_S = 0.1  # of the joints that bear witness of an image
HEARTBEAT, BEAT_S = "perception", 0.1  # input name that the guard requires for AUTO


@dataclass(frozen=True)
class PerceptionNodeConfig:
    """Which model, where it runs, what camera, and how old an image may be."""

    model_repository: str = described("", "folder of the models")
    model: str = described("tray_poses", "model name in the repository")
    threads: int = described(1, "threads of the inference session", "", 1, 16)
    use_triton: bool = described(False, "ask a Triton server; the model in this process is the fallback")
    triton_url: str = described("", "host:port of the server's gRPC endpoint; empty: this slot's")
    triton_deadline_s: float = described(0.05, "limit of an answer of the server", "s", 0.005, 1.0)
    compressed: bool = described(False, "subscribe to CompressedImage on <image topic>/compressed instead of Image")
    camera_info: bool = described(True, "refuse images until camera_info agrees with the model's camera")
    hand_eye: str = described("", "file of `steadyhand calibrate hand-eye`; empty: the camera's place is not checked")
    image_timeout_s: float = described(
        0.2, "age, by arrival or by stamp, from which the newest image is not fresh", "s", 0.02, 5.0
    )
    feature_range: float = described(0.0, "working range of the model's features, by `steadyhand ssi`; 0: their "
                                     "stability is not judged", "", 0.0, 1e6)

    def __post_init__(self) -> None:
        check_ranges(self)


class PerceptionNode(SteadyhandNode):
    """One worker thread looks; a callback only swaps the newest message in."""

    def __init__(self):
        super().__init__("perception_node")
        self._newest: tuple[int, Image | CompressedImage] | None = None  # sequence number, message
        self._arrived_s = 0.0
        self._wake = threading.Condition()
        self._worker: Background | None = None
        self._saying = threading.Lock()
        self._counts = {"images": 0, "dropped": 0, "faulty": 0, "malformed_states": 0, "not_finite": 0}
        self._last_ms = 0.0
        self._fault: ImageFault | None = None

    def build(self) -> None:
        c = self.config = declare(self, PerceptionNodeConfig)
        if not c.model_repository:
            raise ConfigError("model_repository: give the folder of the models")
        folder = Path(c.model_repository) / c.model
        self._model = TrayPoses(folder, c.threads)
        self._check_place()
        self._pictures = SightPictures(self, self._model, folder)
        self._poses = self._model
        if c.use_triton:
            url = c.triton_url or f"127.0.0.1:{current_slot().triton_grpc_port}"
            self._poses = TritonPoses(self._model, TritonPosesConfig(url, c.triton_deadline_s))
        self._ssi = declare(self, SsiConfig, "ssi")
        self._robot: tuple[float, RobotState] | None = None  # when it came
        self._objects_pub = self.create_publisher(msg.ObjectPoses, "perception/objects", qos.NEWEST)
        self._features_pub = self.create_publisher(msg.Features, "perception/features", qos.NEWEST)
        self._fault_pub = self.create_publisher(msg.Fault, "faults", qos.EVENTS)
        self._heartbeat_pub = self.create_publisher(msg.InputHeartbeat, "input_heartbeat", qos.EVENTS)
        self.create_subscription(msg.SafetyState, "safety_state", self._on_state, qos.NEWEST)
        topic = "camera/image_raw"
        if c.compressed:  # image_transport's name, beside the topic that image_raw is remapped to
            self.create_subscription(
                CompressedImage, f"{self.resolve_topic_name(topic)}/compressed", self._on_image, qos.NEWEST
            )
        else:
            self.create_subscription(Image, topic, self._on_image, qos.NEWEST)
        if c.camera_info:
            self.create_subscription(CameraInfo, "camera/camera_info", self._on_camera_info, qos.NEWEST)
        self.create_timer(c.image_timeout_s / 2, self._watch_age)
        self.create_timer(BEAT_S, self._beat)

    def _check_place(self) -> None:
        if not self.config.hand_eye:
            return
        measured = load_hand_eye(Path(self.config.hand_eye))
        if measured["mount"] != "eye_to_hand":
            raise ConfigError(f"hand_eye: mount is {measured['mount']}, the model's camera is fixed in the cell")
        off = camera_check.pose_disagreement(measured["pose_parent_camera"], self._model.camera)
        if off:
            raise ConfigError(f"hand_eye: {off}")

    def tear_down(self) -> None:
        if isinstance(getattr(self, "_poses", None), TritonPoses):
            self._poses.close()

    def open(self) -> None:
        limit_s = self.config.image_timeout_s
        self._gate = ImageGate(self._model.camera, AgeConfig(arrival_s=limit_s, stamp_s=limit_s))
        self._stability = LiveSsi(self._ssi, self.config.feature_range)  # cubes may have been moved meanwhile
        self._newest, self._arrived_s = None, time.monotonic()
        self._camera_fault: ImageFault | None = None
        if self.config.camera_info:
            self._camera_fault = ImageFault("camera_info", "no camera_info yet: publish it, or set camera_info: false")
        self._worker = Background("inference", self._work)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _on_image(self, image: Image | CompressedImage) -> None:
        with self._wake:
            self._counts["images"] += 1
            self._counts["dropped"] += self._newest is not None
            self._newest, self._arrived_s = (self._counts["images"], image), time.monotonic()
            self._wake.notify()

    def _on_camera_info(self, info: CameraInfo) -> None:
        if not self.active:
            return
        said = camera_check.CameraInfo(info.width, info.height, tuple(info.k), tuple(info.d), info.distortion_model)
        found = camera_check.camera_info_faults(said, self._model.camera)
        self._camera_fault = found[0] if found else None

    def _on_state(self, m: msg.SafetyState) -> None:
        try:
            self._robot = time.monotonic(), conversions.robot_state(m)
        except ProtocolError:
            self._counts["malformed_states"] += 1

    def _work(self, stopping: threading.Event) -> None:
        while not stopping.is_set():
            with self._wake:
                self._wake.wait_for(lambda: self._newest is not None, timeout=0.1)
                newest, self._newest = self._newest, None
            if newest is not None and self.active:
                self._handle(*newest)

    def _handle(self, sequence: int, image: Image | CompressedImage) -> None:
        came_s, robot = self._robot or (0.0, None)
        fresh = robot is not None and time.monotonic() - came_s < ROBOT_AGE_MAX_S
        clock_s = self.get_clock().now().nanoseconds * 1e-9
        array, found = self._gate.admit(_frame(image), clock_s, robot.q_rad if fresh else None)
        camera_fault = self._camera_fault
        if camera_fault is not None:
            self._gate.faults_by_name[camera_fault.name] += 1
            found = (*found, camera_fault)
        if found:
            self._counts["faulty"] += 1
            self._say(found[0])
            return
        seen = self._poses.infer(array)
        self._last_ms = seen.inference_ms
        observation_id = f"{image.header.stamp.sec}.{image.header.stamp.nanosec:09d}"
        poses = conversions.object_poses_msg(seen, sequence, observation_id)
        poses.header.stamp = image.header.stamp
        poses.header.frame_id = "base_link"
        self._objects_pub.publish(poses)
        features = msg.Features(observation_id=observation_id, model=self.config.model, data=seen.features.tolist())
        features.header = poses.header
        self._features_pub.publish(features)
        self._say(None)
        self._watch_stability(seen)
        self._pictures.show(image.header, array, seen)

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
        with self._saying:  # two threads say: what is published last must be what holds
            changed = (fault and fault.name) != (self._fault and self._fault.name)
            told, self._fault = fault or self._fault, fault
            if changed:
                message = msg.Fault(
                    name=FAULT_NAME, level=int(faults.level(FAULT_NAME)), detector="perception",
                    detail=f"{told.name}: {told.detail}", active=fault is not None,
                )
                message.header.stamp = self.get_clock().now().to_msg()
                self._fault_pub.publish(message)

    def _beat(self) -> None:
        if self.active:
            causes = self._stability.causes
            self._heartbeat_pub.publish(msg.InputHeartbeat(name=HEARTBEAT, ok=not causes, detail="; ".join(causes)))

    def _watch_age(self) -> None:
        if not self.active:
            return
        if found := self._gate.silence(time.monotonic(), self._arrived_s):
            self._say(found[0])

    def diagnostics(self):
        values = dict(self._counts, inference_ms=round(self._last_ms, 2))
        if not self.active:
            return WARN, "inactive", values
        values |= {f"fault_{name}": count for name, count in sorted(self._gate.faults_by_name.items())}
        values |= {"provider": self._poses.provider, "noise_on_frozen_blind": self._gate.frozen.blind or "no"}
        values |= self._stability.figures
        if isinstance(self._poses, TritonPoses):
            values |= {"triton": self._poses.problem or "trusted", **self._poses.counts}
        if self._fault is not None:
            return ERROR, f"{self._fault.name}: {self._fault.detail}", values
        if causes := self._stability.causes:
            return ERROR, "; ".join(causes), values
        if isinstance(self._poses, TritonPoses) and self._poses.problem:
            return WARN, f"sees, in process: {self._poses.problem}", values
        return OK, "sees", values


def _frame(image: Image | CompressedImage) -> Frame:
    stamp_s = image.header.stamp.sec + image.header.stamp.nanosec * 1e-9
    if isinstance(image, CompressedImage):
        return Frame(image.data, image.format, stamp_s, compressed=True)
    return Frame(image.data, image.encoding, stamp_s, image.height, image.width, image.step)


def main() -> int:
    return run(PerceptionNode)


if __name__ == "__main__":
    raise SystemExit(main())
