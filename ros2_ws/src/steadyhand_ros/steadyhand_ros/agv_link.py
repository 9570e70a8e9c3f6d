"""The link process of a vehicle driven over ROS: `python -m steadyhand_ros.agv_link`, started by the AGV's guard.

Moves messages and decides nothing: that is `steadyhand_firmware_bridge.agv_ros.link_core`. Its life is bound to the
guard's socket, not to signals: when the guard ends or dies, it brakes the vehicle to zero and ends too.
"""
from __future__ import annotations

import argparse
import json
import select
import signal
import socket
import sys
import time
import uuid
from typing import Any

import rclpy
from geometry_msgs.msg import Twist, TwistStamped
from nav_msgs.msg import Odometry
from rclpy.experimental import EventsExecutor
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from steadyhand_ros.spinning import BoundedSpin

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.agv_ros import wire
from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig, vehicle
from steadyhand_firmware_bridge.agv_ros.link_core import CancelGoals, LinkCore, Publish, SendGoal
from steadyhand_firmware_bridge.agv_ros.ramp import Twist as Velocity

GRAPH_S = 0.25  # how often the ROS graph is looked at
LOOK_S = 0.01  # longest wait before the executor is looked at
NODE = "steadyhand_agv_link"
ODOMETRY = QoSProfile(reliability=ReliabilityPolicy.BEST_EFFORT, history=HistoryPolicy.KEEP_LAST, depth=10)
SET_POINTS = QoSProfile(reliability=ReliabilityPolicy.RELIABLE, history=HistoryPolicy.KEEP_LAST, depth=1)


class RosLink:
    """Node, loop and socket."""

    def __init__(self, config: RosVehicleConfig, guard: socket.socket):
        guard.setblocking(False)
        self.config, self.guard = config, guard
        self.core = LinkCore(config, time.monotonic())
        self._guard_lives, self._graph_s = True, 0.0
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        # a name of its own, so that publishers can be told apart
        self._name = f"{NODE}_{uuid.uuid4().hex[:8]}"
        self.node = rclpy.create_node(
            self._name, context=self._context, start_parameter_services=False, enable_rosout=False
        )
        self._executor = EventsExecutor(context=self._context)
        self._executor.add_node(self.node)
        self._bounded = BoundedSpin(self._executor)
        self._topic, self._odom = config.name_of(config.cmd_vel), config.name_of(config.odom)
        self._kind = {"Twist": Twist, "TwistStamped": TwistStamped}[config.cmd_vel_type]
        self._publisher = self.node.create_publisher(self._kind, self._topic, SET_POINTS)
        self.node.create_subscription(Odometry, self._odom, self._bounded.counted(self._on_odometry), ODOMETRY)
        self.navigator = None
        if config.nav2:
            from steadyhand_ros.agv_navigator import Navigator  # needs nav2_msgs

            self.navigator = Navigator(self.node, config.name_of(config.action), config.map_frame)

    # --- what comes in ---

    def _on_odometry(self, m: Odometry) -> None:
        now_s, pose, twist = time.monotonic(), m.pose.pose, m.twist.twist
        p, q, v, w = pose.position, pose.orientation, twist.linear, twist.angular
        stamp_s = m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec
        self.core.measured((v.x, v.y, w.z), now_s)
        self._tell(
            wire.Odom(
                now_s, stamp_s, m.header.frame_id[:200], m.child_frame_id[:200], [p.x, p.y, p.z, q.x, q.y, q.z, q.w],
                [v.x, v.y, v.z, w.x, w.y, w.z],
            )  # fmt: skip
        )

    def _listen(self) -> None:
        """Take what the guard has said."""
        while self._guard_lives:
            try:
                packet = self.guard.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self._guard_lives = False
                self.core.guard_gone(time.monotonic())
                return
            try:
                self.core.take(wire.decode(packet), time.monotonic())
            except ProtocolError:
                self.core.counts["malformed"] = self.core.counts.get("malformed", 0) + 1

    # --- what goes out ---

    def _tell(self, message: Any) -> None:
        if not self._guard_lives:
            return
        try:
            self.guard.send(wire.encode(message))
        except BlockingIOError:  # a guard that does not read: it will find that this is too old
            self.core.counts["unread"] = self.core.counts.get("unread", 0) + 1
        except OSError:
            pass  # `_listen` finds that it is gone

    def _publish(self, v: Velocity) -> None:
        message = self._kind()
        twist = message
        if self._kind is TwistStamped:
            message.header.stamp = self.node.get_clock().now().to_msg()
            message.header.frame_id = self.config.base_frame
            twist = message.twist
        twist.linear.x, twist.linear.y, twist.angular.z = map(float, v)
        self._publisher.publish(message)

    def _graph(self, now_s: float) -> wire.Graph:
        def ends(found: list) -> list[list[str]]:
            return [[f"{e.node_namespace.rstrip('/')}/{e.node_name}"[:200], e.topic_type[:200]] for e in found]

        # its own publisher is left out by its node's name
        others = [n for n, _ in ends(self.node.get_publishers_info_by_topic(self._topic)) if n != f"/{self._name}"]
        nav = self.navigator
        return wire.Graph(
            now_s, ends(self.node.get_subscriptions_info_by_topic(self._topic))[:50],
            self._publisher.get_subscription_count(), others[:50],
            ends(self.node.get_publishers_info_by_topic(self._odom))[:50],
            *(() if nav is None else (nav.server_ready(), nav.foreign())),
        )  # fmt: skip

    def _cycle(self, now_s: float) -> None:
        if self.navigator is not None:
            self.core.navigation = self.navigator.look()
        for act in self.core.step(now_s):
            match act:
                case Publish(velocity):
                    self._publish(velocity)
                case SendGoal(goal):
                    self.navigator.send(goal)
                case CancelGoals():
                    self.navigator.cancel()
        if now_s - self._graph_s >= GRAPH_S:
            self._graph_s = now_s
            self._tell(self._graph(now_s))
        self._tell(self.core.status(now_s))

    def run(self) -> None:
        """Until the guard is gone and the vehicle has been told to stand for a while."""
        period_s, due_s = 1.0 / self.config.hz, time.monotonic()
        while True:
            now_s = time.monotonic()
            self._listen()
            self._bounded.spin()
            self._cycle(now_s)
            if self.core.done(now_s):
                return
            due_s = max(due_s + period_s, now_s)
            while (left_s := due_s - time.monotonic()) > 0:
                select.select([self.guard] * self._guard_lives, [], [], min(left_s, LOOK_S))
                self._listen()
                self._bounded.spin()

    def close(self) -> None:
        """Leave the graph at once: what stays in it would look like another publisher to the next link."""
        self._executor.remove_node(self.node)
        self.node.destroy_publisher(self._publisher)
        self._executor.shutdown()
        self.node.destroy_node()
        rclpy.shutdown(context=self._context)


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="steadyhand-agv-link", description=__doc__.splitlines()[0])
    parser.add_argument("--fd", type=int, required=True, help="the guard's socket")
    parser.add_argument("--vehicle", required=True, help="parameters as JSON")
    args = parser.parse_args(argv)
    for number in (signal.SIGTERM, signal.SIGINT):  # the guard decides when it ends, and brakes first
        signal.signal(number, signal.SIG_IGN)
    with socket.socket(fileno=args.fd) as guard:
        link = RosLink(vehicle(json.loads(args.vehicle)), guard)
        try:
            link.run()
        finally:
            link.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
