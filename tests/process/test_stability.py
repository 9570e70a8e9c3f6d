"""The perception node measures how stable what it sees is while the arm rests, and names what forbids arming."""
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture
from sensor_msgs.msg import Image
from steadyhand_interfaces.msg import InputHeartbeat, SafetyState

from steadyhand import cell, ur5
from steadyhand_perception.pictures import GREEN, YELLOW
from steadyhand_ros import qos
from tests.support.graph import Graph, node

pytestmark = [pytest.mark.ros, pytest.mark.process]
ROOT = Path(__file__).parents[2]
SCENES = [np.asarray(Picture.open(ROOT / f"tests/data/perception/tray_{k}.png").convert("RGB")) for k in (1, 2)]


class Camera:
    """Publishes images of the scenes in turn, and a robot that rests in `mode`; keeps the beats of perception."""

    def __init__(self, ros_node, mode: str):
        self.shown, self.mode, self.beats, self._k = SCENES[:1], mode, [], 0
        self._rng = np.random.default_rng(0)
        self._node = ros_node
        self._images = ros_node.create_publisher(Image, "camera/image_raw", qos.NEWEST)
        self._states = ros_node.create_publisher(SafetyState, "safety_state", qos.NEWEST)
        ros_node.create_subscription(InputHeartbeat, "input_heartbeat", self.beats.append, qos.EVENTS)
        ros_node.create_timer(0.05, self._publish)

    def _publish(self):
        self._k += 1
        picture = self.shown[self._k % len(self.shown)]
        noisy = np.clip(picture + self._rng.normal(0, 2.0, picture.shape), 0, 255).astype(np.uint8)
        message = Image(height=picture.shape[0], width=picture.shape[1], encoding="rgb8", step=3 * picture.shape[1])
        message.data = noisy.tobytes()
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._images.publish(message)
        q, rest = cell.HOME_Q_RAD.tolist(), [0.0] * ur5.DOF
        self._states.publish(SafetyState(
            mode=self.mode, at_rest=True, joint_names=list(ur5.JOINT_NAMES),
            q=q, qd=rest, q_commanded=q, qd_commanded=rest,
        ))


def test_unsteady_sight_forbids_arming_by_name_and_steady_sight_allows_it(tmp_path):
    specs = [
        node(  # old images are not the question here
            "perception_node", model_repository=ROOT / "policies/model_repository", camera_info="false",
            image_timeout_s="5.0",
        ),
        node("lifecycle_manager_node", node_names="[perception_node]", retry_s="0.2"),
    ]
    with Graph(specs, tmp_path / "log") as graph:
        camera = Camera(graph.session.node, SafetyState.STOPPED)
        graph.until(lambda: camera.beats, 30, "the first beat")
        assert camera.beats[0].name == "perception" and all(b.ok for b in camera.beats)
        camera.shown = SCENES
        graph.until(lambda: not camera.beats[-1].ok, 30, "a beat that refuses")
        assert "perception unstable: SSI of" in camera.beats[-1].detail
        camera.mode = SafetyState.ARMED_AUTO  # an armed arm is not stopped for it
        graph.until(lambda: camera.beats[-1].ok, 30, "a beat that is well while armed")
        camera.shown, camera.mode = SCENES[:1], SafetyState.STOPPED
        first = len(camera.beats)
        graph.until(lambda: len(camera.beats) > first + 30, 30, "beats of a steady scene")
        assert all(b.ok for b in camera.beats[first:])
        drawn = []  # pictures for people come once somebody looks
        graph.session.node.create_subscription(Image, "perception/annotated", drawn.append, qos.NEWEST)
        graph.until(lambda: drawn, 30, "an annotated image")
        pixels = np.frombuffer(bytes(drawn[0].data), np.uint8).reshape(drawn[0].height, drawn[0].width, 3)
        marked = (pixels == GREEN).all(axis=2) | (pixels == YELLOW).all(axis=2)
        assert drawn[0].encoding == "rgb8" and marked.sum() > 20
