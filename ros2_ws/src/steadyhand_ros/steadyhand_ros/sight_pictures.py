"""Pictures for people of what perception sees: made only while somebody looks, after the poses have been published.

`perception/annotated`: objects drawn into the image. `perception/heat`: Grad-CAM over the image, of the object that most
wants an explanation: the likeliest scratch, or without that word the least certain object.
"""
from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from sensor_msgs.msg import Image

from steadyhand.errors import ConfigError, ContractError
from steadyhand.types import Detection
from steadyhand_perception import pictures
from steadyhand_perception.explain import Explainer
from steadyhand_perception.tray_poses import Sight, TrayPoses
from steadyhand_ros import qos

SCALE = 2
ANNOTATED_EVERY_S, HEAT_EVERY_S = 0.2, 1.0  # a picture costs 2 ms and 300 kB, an explanation as much as an inference


def to_explain(objects: tuple[Detection, ...]) -> tuple[Detection, str] | None:
    """The object to explain and what of it; None without objects."""
    if not objects:
        return None
    judged = [o for o in objects if o.defect is not None]
    if judged:
        return max(judged, key=lambda o: o.defect), "scratch"
    return min(objects, key=lambda o: o.presence), "presence"


class SightPictures:
    """Publishers of a node; called by the thread that runs the model."""

    def __init__(self, node, model: TrayPoses, model_dir: Path) -> None:
        self._node, self._model, self._model_dir = node, model, model_dir
        self._explainer: Explainer | None = None
        self._unexplained = ""  # why there is no explanation
        self._annotated_pub = node.create_publisher(Image, "perception/annotated", qos.NEWEST)
        self._heat_pub = node.create_publisher(Image, "perception/heat", qos.NEWEST)
        self._annotated_s = self._heat_s = -np.inf

    def show(self, header, image: np.ndarray, sight: Sight) -> None:
        """Publish the pictures that are asked for and due."""
        now_s = time.monotonic()
        if self._annotated_pub.get_subscription_count() and now_s - self._annotated_s >= ANNOTATED_EVERY_S:
            self._annotated_s = now_s
            drawn = pictures.annotate(image, sight.objects, self._model.camera, SCALE)
            self._annotated_pub.publish(image_msg(header, drawn))
        if self._heat_pub.get_subscription_count() and now_s - self._heat_s >= HEAT_EVERY_S:
            self._heat_s = now_s
            self._show_heat(header, image, sight)

    def _show_heat(self, header, image: np.ndarray, sight: Sight) -> None:
        wanted = to_explain(sight.objects)
        if wanted is None or self._unexplained:
            return
        try:
            self._explainer = self._explainer or Explainer(self._model_dir)
            heat = self._explainer.heat(image, wanted[0].position_m[:2], wanted[1])
        except ContractError as error:
            self._unexplained = str(error)
            self._node.get_logger().warning(f"no heat map: {error}")
        except ConfigError:  # the object's centre lies just outside the image
            pass
        else:
            shown = pictures.annotate(pictures.overlay(image, heat), wanted[:1], self._model.camera, SCALE)
            self._heat_pub.publish(image_msg(header, shown))


def image_msg(header, pixels: np.ndarray) -> Image:
    """RGB (H, W, 3) uint8 as a message."""
    height, width, _ = pixels.shape
    image = Image(header=header, height=height, width=width, encoding="rgb8", is_bigendian=0, step=3 * width)
    image.data = pixels.tobytes()
    return image
