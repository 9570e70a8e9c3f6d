"""The fault that was published last is the one that holds, whichever thread said it."""
import threading
from types import SimpleNamespace

import pytest

pytest.importorskip("rclpy")
from builtin_interfaces.msg import Time
from steadyhand_perception.image_checks import ImageFault
from steadyhand_ros.perception_node import PerceptionNode

pytestmark = pytest.mark.ros


class SlowPublisher:
    """The first message waits for another one to pass it, as long as one could."""

    def __init__(self):
        self.sent, self.entered, self.passed = [], threading.Event(), threading.Event()

    def publish(self, message):
        if not self.entered.is_set():
            self.entered.set()
            self.passed.wait(0.3)
        self.sent.append(message.active)
        self.passed.set()


def test_two_threads_do_not_pass_each_other():
    publisher = SlowPublisher()
    clock = SimpleNamespace(now=lambda: SimpleNamespace(to_msg=Time))
    node = SimpleNamespace(
        _fault=None, _saying=threading.Lock(), _fault_pub=publisher, get_clock=lambda: clock,
    )
    watching = threading.Thread(target=PerceptionNode._say, args=(node, ImageFault("stale", "no image for 0.3 s")))
    watching.start()
    assert publisher.entered.wait(10.0)
    PerceptionNode._say(node, None)
    watching.join(10.0)
    assert publisher.sent == [True, False] and node._fault is None
