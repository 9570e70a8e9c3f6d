"""Brings the lifecycle nodes up in order and keeps them up: a node whose process came back is configured again.

One reconciliation loop: ask each node for its state, give the transition that leads towards active, in the given order.
It never moves the robot and never re-arms; a node that comes back finds the guard disarmed.
"""
from __future__ import annotations

import time
from dataclasses import dataclass

from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from lifecycle_msgs.msg import State, Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.node import Node
from std_msgs.msg import Bool

from steadyhand.config import check_ranges, described
from steadyhand_ros import qos
from steadyhand_ros.node import run
from steadyhand_ros.parameter_service import ParameterService
from steadyhand_ros.params import declare
from steadyhand_ros.steady_timers import SteadyTimers

TOWARDS_ACTIVE = {
    State.PRIMARY_STATE_UNCONFIGURED: Transition.TRANSITION_CONFIGURE,
    State.PRIMARY_STATE_INACTIVE: Transition.TRANSITION_ACTIVATE,
}


@dataclass(frozen=True)
class LifecycleManagerConfig:
    """Which nodes, in which order, and how patiently."""

    node_names: tuple[str, ...] = described(
        ("guard_node", "perception_node", "estimator_node", "agent_node"), "nodes to bring up, in order"
    )
    starting_period_s: float = described(0.1, "period of the loop until all are active", "s", 0.02, 1.0)
    watching_period_s: float = described(0.5, "period of the loop when all are active", "s", 0.1, 5.0)
    request_timeout_s: float = described(2.0, "time a node has to answer a request", "s", 0.2, 60.0)
    retry_s: float = described(2.0, "pause after a refused transition", "s", 0.1, 60.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class ManagedNode:
    """One node: its clients, its last known state and the request in flight."""

    def __init__(self, parent: Node, name: str):
        self.name = name
        self.get_state = parent.create_client(GetState, f"{name}/get_state")
        self.change_state = parent.create_client(ChangeState, f"{name}/change_state")
        self.state: int | None = None
        self.label = "unknown"
        self.pending = None  # (future, sent_s, kind)
        self.not_before_s = 0.0
        self.restarts = 0
        self.was_active = False

    @property
    def active(self) -> bool:
        return self.state == State.PRIMARY_STATE_ACTIVE


class LifecycleManagerNode(SteadyTimers, Node):
    """A plain node: it must run before any lifecycle exists."""

    def __init__(self):
        super().__init__("lifecycle_manager_node", start_parameter_services=False)
        self._parameter_service = ParameterService(self)
        self.config = declare(self, LifecycleManagerConfig)
        self.nodes = [ManagedNode(self, name) for name in self.config.node_names]
        self._ready_pub = self.create_publisher(Bool, "system_ready", qos.LATCHED)
        self._diagnostics_pub = self.create_publisher(DiagnosticArray, "/diagnostics", qos.EVENTS)
        self._ready: bool | None = None
        self._next_watch_s = 0.0
        self.create_timer(self.config.starting_period_s, self._tick)
        self.create_timer(1.0, self._publish_diagnostics)

    def close(self) -> None:
        """Nothing moves by this node's hand."""

    def tear_down(self) -> None:
        """Clients die with the node."""

    @staticmethod
    def _now_s() -> float:
        return time.monotonic()

    def _tick(self) -> None:
        now = self._now_s()
        if self._ready and now < self._next_watch_s:
            return
        self._next_watch_s = now + self.config.watching_period_s
        all_before_active = True
        for node in self.nodes:
            self._drive(node, now, may_activate=all_before_active)
            all_before_active = all_before_active and node.active
        if all_before_active != self._ready:
            self._ready = all_before_active
            self._ready_pub.publish(Bool(data=self._ready))
            self.get_logger().info("all nodes active" if self._ready else "not all nodes active")

    def _drive(self, node: ManagedNode, now: float, may_activate: bool) -> None:
        if node.pending is not None:
            future, sent, kind = node.pending
            if future.done():
                node.pending = None
                self._handle(node, kind, future, now)
            elif now - sent > self.config.request_timeout_s:
                (node.get_state if kind == "state" else node.change_state).remove_pending_request(future)
                node.pending = None
                self._lost(node, "no answer")
            return
        if not node.get_state.service_is_ready():
            if node.state is not None:
                self._lost(node, "gone")
            return
        transition = TOWARDS_ACTIVE.get(node.state) if node.state is not None else None
        wants_activation = transition == Transition.TRANSITION_ACTIVATE
        if transition is not None and now >= node.not_before_s and (may_activate or not wants_activation):
            request = ChangeState.Request(transition=Transition(id=transition))
            node.pending = (node.change_state.call_async(request), now, "change")
        else:
            node.pending = (node.get_state.call_async(GetState.Request()), now, "state")

    def _handle(self, node: ManagedNode, kind: str, future, now: float) -> None:
        answer = future.result()
        if answer is None:
            self._lost(node, "no answer")
        elif kind == "state":
            node.state, node.label = answer.current_state.id, answer.current_state.label
            node.was_active = node.was_active or node.active
        else:
            if not answer.success:
                node.not_before_s = now + self.config.retry_s
                self.get_logger().warning(f"{node.name} refused its transition from {node.label}: see its log")
            node.state = None  # ask again

    def _lost(self, node: ManagedNode, why: str) -> None:
        if node.was_active:
            node.restarts += 1
            node.was_active = False
            self.get_logger().warning(f"{node.name}: {why}; it is brought up again when it is back")
        node.state, node.label = None, why

    def _publish_diagnostics(self) -> None:
        level = DiagnosticStatus.OK if self._ready else DiagnosticStatus.WARN
        status = DiagnosticStatus(
            level=level, name=self.get_fully_qualified_name(), hardware_id="steadyhand",
            message="all nodes active" if self._ready else "bringing nodes up",
            values=[KeyValue(key=n.name, value=f"{n.label}, lost {n.restarts} times") for n in self.nodes],
        )
        array = DiagnosticArray(status=[status])
        array.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics_pub.publish(array)


def main() -> int:
    return run(LifecycleManagerNode)


if __name__ == "__main__":
    raise SystemExit(main())
