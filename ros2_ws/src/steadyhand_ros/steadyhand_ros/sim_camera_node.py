"""The simulated cell's camera as a ROS camera driver would be: image_raw and camera_info, nothing else of the scene.

Stands in for a driver in simulation. A process of its own, so that drawing never delays the simulated controller.
"""
from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from sensor_msgs.msg import CameraInfo, Image

from steadyhand.config import check_ranges, described
from steadyhand_ros import qos
from steadyhand_ros.background import Background
from steadyhand_ros.node import OK, WARN, SteadyhandNode, run
from steadyhand_ros.params import declare
from steadyhand_sim.camera import CameraConfig, Renderer
from steadyhand_sim.look import sample_look
from steadyhand_sim.scene_stream import SceneClient


@dataclass(frozen=True)
class SimCameraConfig:
    """Frame rate of the simulated camera."""

    rate_hz: float = described(15.0, "frames a second", "Hz", 1.0, 60.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class SimCameraNode(SteadyhandNode):
    """Draws in a thread; no lifecycle manager is needed: a camera driver publishes when it is started."""

    def __init__(self):
        super().__init__("sim_camera_node")
        self._renderer: Background | None = None
        self._frames = 0
        self._draw_ms = 0.0
        self.build()
        self.open()
        self.active = True

    def build(self) -> None:
        self.config = declare(self, SimCameraConfig)
        self._image_pub = self.create_publisher(Image, "camera/image_raw", qos.NEWEST)
        # with every image, as drivers do
        self._info_pub = self.create_publisher(CameraInfo, "camera/camera_info", qos.NEWEST)

    def open(self) -> None:
        self._renderer = Background("renderer", self._draw_all)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None

    def _draw_all(self, stopping: threading.Event) -> None:
        camera = CameraConfig()
        renderer, scene, look, newest = Renderer(camera=camera, noise_seed=time.monotonic_ns()), SceneClient(), None, -1
        info = _camera_info(camera)
        period_s = 1.0 / self.config.rate_hz
        next_s = time.monotonic()
        try:
            while not stopping.is_set():
                next_s = max(next_s + period_s, time.monotonic() - period_s)
                snapshot = scene.latest()
                if snapshot is not None and snapshot.camera != "off":
                    if look != (snapshot.look_seed, snapshot.look_split):
                        look = (snapshot.look_seed, snapshot.look_split)
                        renderer.set_look(sample_look(*look))
                    if snapshot.seq < newest:  # another run of the simulator: a sensor's noise never comes again
                        renderer.noise_seed += 1
                    newest = snapshot.seq
                    stamp = self.get_clock().now().to_msg()
                    start = time.perf_counter()
                    pixels = renderer.draw(snapshot)
                    self._draw_ms = (time.perf_counter() - start) * 1e3
                    info.header.stamp = stamp
                    self._info_pub.publish(info)
                    self._image_pub.publish(_image(pixels, stamp))
                    self._frames += 1
                stopping.wait(max(0.0, next_s - time.monotonic()))
        finally:
            scene.close()
            renderer.close()

    def diagnostics(self):
        values = {"frames": self._frames, "draw_ms": round(self._draw_ms, 2)}
        return (OK, "drawing", values) if self._frames else (WARN, "waiting for the simulator", values)


def _image(pixels, stamp) -> Image:
    height, width, _ = pixels.shape
    image = Image(height=height, width=width, encoding="rgb8", is_bigendian=0, step=3 * width)
    image.header.stamp = stamp
    image.header.frame_id = "camera_optical_frame"
    image.data = pixels.tobytes()
    return image


def _camera_info(camera: CameraConfig) -> CameraInfo:
    k = camera.camera_matrix
    info = CameraInfo(height=camera.height, width=camera.width, distortion_model="plumb_bob", d=[0.0] * 5)
    info.header.frame_id = "camera_optical_frame"
    info.k = k.ravel().tolist()
    info.r = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0]
    info.p = [k[0, 0], 0.0, k[0, 2], 0.0, 0.0, k[1, 1], k[1, 2], 0.0, 0.0, 0.0, 1.0, 0.0]
    return info


def main() -> int:
    return run(SimCameraNode)


if __name__ == "__main__":
    raise SystemExit(main())
