"""The perception node as a process: raw and compressed images, camera_info, and faults by name on the topic."""
import io
from pathlib import Path

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from PIL import Image as Picture
from sensor_msgs.msg import CameraInfo, CompressedImage, Image
from steadyhand_interfaces import msg

from steadyhand_perception.contract import load_contract
from steadyhand_policies.repository import DEFAULT_REPOSITORY
from steadyhand_ros import qos
from tests.process.test_node_life import change
from tests.support.graph import Graph, node

pytestmark = [pytest.mark.ros, pytest.mark.process]
TRAY = np.asarray(Picture.open(Path(__file__).parents[1] / "data" / "perception" / "tray_1.png").convert("RGB"))
CAMERA = load_contract(Path(DEFAULT_REPOSITORY) / "tray_poses" / "1" / "contract.json").camera


class Camera:
    """A driver: every frame has noise of its own, and camera_info goes with it."""

    def __init__(self, node, compressed: bool):
        self._node, self._compressed, self._rng = node, compressed, np.random.default_rng(0)
        topic, kind = ("camera/image_raw/compressed", CompressedImage) if compressed else ("camera/image_raw", Image)
        self._images = node.create_publisher(kind, topic, qos.NEWEST)
        self._infos = node.create_publisher(CameraInfo, "camera/camera_info", qos.NEWEST)

    def publish(self, depth: bool = False, info: bool = True) -> None:
        pixels = np.clip(TRAY + self._rng.normal(0, 1.5, TRAY.shape), 0, 255).astype(np.uint8)
        if self._compressed:
            data = io.BytesIO()
            Picture.fromarray(pixels).save(data, "PNG")
            image = CompressedImage(format="16UC1; compressedDepth png" if depth else "png", data=data.getvalue())
        else:
            height, width, _ = pixels.shape
            image = Image(height=height, width=width, step=3 * width, data=pixels.tobytes())
            image.encoding = "16UC1" if depth else "rgb8"
        image.header.stamp = self._node.get_clock().now().to_msg()
        if info:
            c = CAMERA
            k = [c.fx_px, 0.0, c.cx_px, 0.0, c.fy_px, c.cy_px, 0.0, 0.0, 1.0]
            self._infos.publish(CameraInfo(height=c.height_px, width=c.width_px, k=k))
        self._images.publish(image)


@pytest.mark.parametrize("compressed", [False, True])
def test_images_are_looked_at_only_when_nothing_is_wrong_with_them(compressed, tmp_path):
    perception = node(
        "perception_node", model_repository=DEFAULT_REPOSITORY, compressed=str(compressed).lower(), image_timeout_s="2.0"
    )
    with Graph([perception], tmp_path / "log") as graph:
        me, seen = graph.session.node, []
        me.create_subscription(msg.ObjectPoses, "perception/objects", seen.append, qos.NEWEST)
        camera = Camera(me, compressed)
        assert change(graph, "perception_node", Transition.TRANSITION_CONFIGURE) == "inactive"
        assert change(graph, "perception_node", Transition.TRANSITION_ACTIVATE) == "active"

        def told(kind, active=True, **image):
            camera.publish(**image)
            return any(f.detail.startswith(f"{kind}:") and f.active == active for f in graph.session.faults)

        graph.until(lambda: told("camera_info", info=False), 20.0, "a fault without camera_info")
        assert not seen
        graph.until(lambda: camera.publish() or seen, 20.0, "objects")
        assert len(seen[-1].objects) >= 1 and seen[-1].header.frame_id == "base_link"
        graph.until(lambda: told("depth", depth=True), 20.0, "a fault of depth images")
        graph.until(lambda: told("depth", active=False), 20.0, "the end of that fault")
        graph.until(lambda: any(f.detail.startswith("stale:") for f in graph.session.faults), 20.0, "a stale camera")
