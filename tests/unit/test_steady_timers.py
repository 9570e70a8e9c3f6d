"""No timer of a node stands still when the machine's clock is set back."""
import importlib
import inspect
import pkgutil

import pytest

rclpy = pytest.importorskip("rclpy")
from rclpy.clock import ClockType  # noqa: E402
from rclpy.context import Context  # noqa: E402
from rclpy.node import Node  # noqa: E402

import steadyhand_ros  # noqa: E402
from steadyhand_cli.injection import commander  # noqa: E402
from steadyhand_ros.steady_timers import SteadyTimers  # noqa: E402

pytestmark = pytest.mark.ros


class Timed(SteadyTimers, Node):
    """A node like ours."""


def test_timers_are_steady_unless_asked_otherwise():
    context = Context()
    rclpy.init(args=[], context=context)
    node = Timed("timed", context=context, start_parameter_services=False)
    try:
        kinds = [
            node.create_timer(1.0, lambda: None).clock.clock_type,
            node.create_timer(1.0, lambda: None, clock=node.get_clock()).clock.clock_type,
        ]
    finally:
        node.destroy_node()
        rclpy.try_shutdown(context=context)
    assert kinds == [ClockType.STEADY_TIME, ClockType.ROS_TIME]


def test_every_node_of_ours_has_steady_timers():
    names = [m.name for m in pkgutil.iter_modules(steadyhand_ros.__path__) if m.name.split("_")[-1] == "node"]
    modules = [importlib.import_module(f"steadyhand_ros.{name}") for name in names] + [commander]
    nodes = {
        found for module in modules for _, found in inspect.getmembers(module, inspect.isclass)
        if issubclass(found, Node) and found.__module__ == module.__name__
    }
    assert len(nodes) >= 8
    assert {found.__name__ for found in nodes if found.create_timer is not SteadyTimers.create_timer} == set()
