"""Requests and messages of strangers to a node, found by `python -m benchmarks fuzz`: refused, and the node lives."""
import math

import pytest

rclpy = pytest.importorskip("rclpy")
from rcl_interfaces import msg, srv  # noqa: E402
from rclpy.context import Context  # noqa: E402
from rclpy.node import Node  # noqa: E402

from steadyhand import guard_protocol as protocol  # noqa: E402
from steadyhand.errors import ProtocolError  # noqa: E402
from steadyhand_ros.parameter_service import ParameterService  # noqa: E402
from steadyhand_ros.teleop_node import on_time  # noqa: E402

pytestmark = pytest.mark.ros


@pytest.fixture
def service():
    context = Context()
    rclpy.init(args=[], context=context)
    node = Node("refuser", context=context, start_parameter_services=False)
    node.declare_parameter("speed", 0.5)
    yield ParameterService(node)
    node.destroy_node()
    rclpy.try_shutdown(context=context)


def wanted(name, **value):
    return msg.Parameter(name=name, value=msg.ParameterValue(**value))


@pytest.mark.parametrize("wrong", [
    wanted("speed", type=200), wanted("speed", type=255), wanted("speed", type=4, string_value="fast"),
    wanted("no such", type=3, double_value=1.0), wanted("speed", type=10),
])  # fmt: skip
def test_a_parameter_that_cannot_be_read_is_refused_and_the_others_are_set(service, wrong):
    right = wanted("speed", type=3, double_value=0.7)
    answer = service._set_parameters_callback(
        srv.SetParameters.Request(parameters=[wrong, right]), srv.SetParameters.Response()
    )
    assert [r.successful for r in answer.results] == [False, True] and answer.results[0].reason
    answer = service._set_parameters_atomically_callback(
        srv.SetParametersAtomically.Request(parameters=[right, wrong]), srv.SetParametersAtomically.Response()
    )
    assert not answer.result.successful and answer.result.reason
    read = service._get_parameters_callback(
        srv.GetParameters.Request(names=["speed"]), srv.GetParameters.Response()
    )
    assert read.values[0].double_value == 0.7


@pytest.mark.parametrize("kind", ["GetParameters", "GetParameterTypes", "DescribeParameters"])
@pytest.mark.parametrize("name", ["", "no.such", "a b", "x" * 70_000])
def test_a_name_that_is_none_gets_an_empty_answer(service, kind, name):
    callback = {
        "GetParameters": service._get_parameters_callback,
        "GetParameterTypes": service._get_parameter_types_callback,
        "DescribeParameters": service._describe_parameters_callback,
    }[kind]
    kind = getattr(srv, kind)
    assert callback(kind.Request(names=["speed", name]), kind.Response()) == kind.Response()


@pytest.mark.parametrize("stamp_s, age_s", [(-1.0, 1.8e9), (-(2.0**31), 4e9), (5.0, 0.11), (5.0, -0.11), (1.0, math.nan)])
def test_a_command_stamped_at_another_time_is_late(stamp_s, age_s):
    assert not on_time(stamp_s, age_s, 0.1)


def test_a_command_without_a_stamp_is_on_time():
    assert on_time(0.0, 1.8e9, 0.1) and on_time(5.0, 0.09, 0.1) and on_time(5.0, -0.09, 0.1)


@pytest.mark.parametrize("message", [
    protocol.Gripper(1, 0.04, "x" * 4097), protocol.Gripper(2**63, 0.04, "g"), protocol.Heartbeat("é" * 2049, True),
    protocol.Chunk(1, 2**63, 0.0, "t", "policy", ["a"] * 6, 0.05, [[0.0] * 6]),
    protocol.Chunk(1, 1, 0.0, "t", "policy", ["x" * 4097] * 6, 0.05, [[0.0] * 6]),
    protocol.Chunk(1, 1, 0.0, "t", "policy", ["a"] * 6, 0.05, [[0.0]] * 4097),
], ids=lambda m: type(m).__name__)  # fmt: skip
def test_what_the_guard_could_not_read_is_refused_before_it_is_sent(message):
    with pytest.raises(ProtocolError, match=type(message).__name__.lower()):
        protocol.check(message)
    with pytest.raises(ProtocolError):
        protocol.decode(protocol.encode(message))


def test_what_the_guard_reads_passes():
    protocol.check(protocol.Chunk(1, 1, math.nan, "t", "policy", ["a"] * 6, 0.05, [[math.inf] * 6] * 64))
