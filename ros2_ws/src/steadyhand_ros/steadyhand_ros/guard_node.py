"""ROS shell of the guard: topics, services and diagnostics on one side, the guard's socket on the other.

It may be killed at any time: the guard notices that its commander has gone and stops the arm. It decides nothing.
"""
from __future__ import annotations

import json
import secrets
import select
import threading
import time
from dataclasses import dataclass

from rclpy.task import Future
from sensor_msgs.msg import JointState
from std_msgs.msg import String
from std_srvs.srv import Trigger
from steadyhand_interfaces import msg, srv

from steadyhand import guard_protocol as protocol
from steadyhand import ur5
from steadyhand.config import check_ranges, described
from steadyhand.errors import ProtocolError, RobotError
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_ros import conversions, qos
from steadyhand_ros.background import Background
from steadyhand_ros.node import ERROR, OK, WARN, SteadyhandNode, request_realtime, run
from steadyhand_ros.params import declare

REALTIME_PRIORITY = 10  # below the guard's: its silence for 40 ms stops the arm, so it must not wait for a busy core


@dataclass(frozen=True)
class GuardNodeConfig:
    """How the shell speaks to the guard and to the graph."""

    state_divider: int = described(2, "publish every n-th state of the guard", "", 1, 50)
    reconnect_s: float = described(0.2, "pause between attempts to reach the guard", "s", 0.02, 5.0)
    reply_timeout_s: float = described(8.0, "time the guard has to answer a service", "s", 0.5, 30.0)

    def __post_init__(self) -> None:
        check_ranges(self)


class GuardNode(SteadyhandNode):
    """One connection to the guard, read by a thread of its own so that no callback can delay it.

    Callbacks send on the same connection: whoever finds it broken lets go of it, under the lock.
    """

    def __init__(self, scheduler: str = "SCHED_OTHER"):
        super().__init__("guard_node")
        self._scheduler = scheduler
        self._client: GuardClient | None = None
        self._link_thread: Background | None = None
        self._replies: dict[str, Future] = {}
        self._lock = threading.Lock()
        self._counts = {"chunks": 0, "grippers": 0, "heartbeats": 0, "malformed": 0, "unsent": 0, "connections": 0}
        self._link = "not connected"

    def build(self) -> None:
        self.config = declare(self, GuardNodeConfig)
        self._state_pub = self.create_publisher(msg.SafetyState, "safety_state", qos.NEWEST)
        self._joint_pub = self.create_publisher(JointState, "joint_states", qos.NEWEST)
        self._verdict_pub = self.create_publisher(msg.Verdict, "chunk_verdict", qos.COMMAND)
        self._entities = [
            self.create_subscription(msg.JointChunk, "joint_chunk", self._on_chunk, qos.COMMAND),
            self.create_subscription(msg.GripperCommand, "gripper_command", self._on_gripper, qos.COMMAND),
            self.create_subscription(msg.InputHeartbeat, "input_heartbeat", self._on_heartbeat, qos.EVENTS),
            self.create_subscription(String, "operator_stop", self._on_operator_stop, qos.COMMAND),
            self.create_service(Trigger, "stop", self._on_stop),
            self.create_service(srv.Rearm, "rearm", self._on_rearm),
        ]
        self._client = GuardClient("guard_node", commander=True)
        self._reply_timer = self.create_timer(0.5, self._expire_replies)
        self._reply_deadlines: dict[str, float] = {}

    def open(self) -> None:
        self._link_thread = Background("guard-link", self._serve)

    def close(self) -> None:
        if self._link_thread is not None:
            self._link_thread.close()
            self._link_thread = None
        if self._client is not None:
            self._client.close()  # the guard sees its commander go

    def tear_down(self) -> None:
        self._client = None

    # -- from the guard (own thread) ------------------------------------------------------------------------------
    def _serve(self, stopping: threading.Event) -> None:
        client, states = self._client, 0
        while not stopping.is_set():
            if not client.connected:
                try:
                    client.connect()
                    self._counts["connections"] += 1
                    self._link = "connected"
                except RobotError as error:
                    self._link = str(error)
                    stopping.wait(self.config.reconnect_s)
                    continue
            try:
                select.select([client], [], [], 0.1)
            except (OSError, ValueError):
                continue  # a sender found the guard gone and let go of the connection
            with self._lock:
                messages = client.poll()
            for message in messages:
                if isinstance(message, protocol.State):
                    states += 1
                    if states % self.config.state_divider == 0:
                        self._publish_state(message)
                elif isinstance(message, protocol.Verdict):
                    self._verdict_pub.publish(conversions.verdict_msg(message))
                elif isinstance(message, protocol.Reply):
                    self._resolve(message.request_id, message)

    def _publish_state(self, state: protocol.State) -> None:
        stamp = self.get_clock().now().to_msg()
        self._state_pub.publish(conversions.safety_state_msg(state, stamp))
        joints = JointState(name=list(ur5.JOINT_NAMES), position=[*state.q_rad], velocity=[*state.qd_rad_s])
        joints.header.stamp = stamp
        joints.header.frame_id = "base_link"
        self._joint_pub.publish(joints)

    # -- to the guard ---------------------------------------------------------------------------------------------
    def _send(self, make) -> tuple[str, str]:
        """Hand `make()` to the guard; reason and detail of why it was not, empty when it was."""
        try:
            message = make()
            protocol.check(message)  # the guard counts what it cannot read, but can answer nobody
            with self._lock:
                sent = self.active and self._client.send(message)
        except ProtocolError as error:
            self._counts["malformed"] += 1
            return "malformed", str(error)
        if not sent:
            self._counts["unsent"] += 1
            return "not_armed", "no link to the guard"
        return "", ""

    def _on_chunk(self, m: msg.JointChunk) -> None:
        self._counts["chunks"] += 1
        self._command(m.trace_id, lambda: conversions.guard_chunk(m))

    def _on_gripper(self, m: msg.GripperCommand) -> None:
        self._counts["grippers"] += 1
        self._command(
            m.trace_id, lambda: protocol.Gripper(token=m.token, width_m=m.width, trace_id=m.trace_id)
        )

    def _command(self, trace_id: str, make) -> None:
        """Hand a command on; one that does not reach the guard gets its verdict here."""
        reason, detail = self._send(make)
        if reason:
            self._verdict_pub.publish(
                msg.Verdict(trace_id=trace_id[:200], accepted=False, reason=reason, detail=detail)
            )

    def _on_heartbeat(self, m: msg.InputHeartbeat) -> None:
        self._counts["heartbeats"] += 1
        self._send(lambda: protocol.Heartbeat(name=m.name, ok=m.ok, detail=m.detail[:200]))

    def _on_operator_stop(self, m: String) -> None:
        try:
            operator.stop("topic", m.data[:200])
        except RobotError as error:
            self.get_logger().error(f"operator stop: {error}")

    def _on_stop(self, request: Trigger.Request, response: Trigger.Response) -> Trigger.Response:
        try:
            operator.stop("service")
            response.success, response.message = True, "stop handed to the guard; rest is in safety_state.at_rest"
        except RobotError as error:
            response.success, response.message = False, str(error)
        return response

    async def _on_rearm(self, request: srv.Rearm.Request, response: srv.Rearm.Response) -> srv.Rearm.Response:
        request_id = secrets.token_hex(8)
        future = Future(executor=self.executor)
        self._replies[request_id] = future
        self._reply_deadlines[request_id] = time.monotonic() + self.config.reply_timeout_s
        arm = protocol.Arm(mode=request.mode, credential=request.credential, request_id=request_id)
        _, refusal = self._send(lambda: arm)
        if refusal:
            self._resolve(request_id, protocol.Reply(request_id, False, refusal))
        reply = await future
        response.success, response.message = reply.ok, reply.message
        response.causes, response.snapshot_json = reply.causes, json.dumps(reply.snapshot)
        return response

    def _resolve(self, request_id: str, reply: protocol.Reply) -> None:
        future = self._replies.pop(request_id, None)
        self._reply_deadlines.pop(request_id, None)
        if future is not None:
            future.set_result(reply)

    def _expire_replies(self) -> None:
        now_s = time.monotonic()
        for request_id in [r for r, deadline in list(self._reply_deadlines.items()) if now_s > deadline]:
            self._resolve(request_id, protocol.Reply(request_id, False, "the guard did not answer in time"))

    def diagnostics(self):
        state = self._client.state if self._client is not None else None
        values = dict(self._counts, link=self._link, scheduler=self._scheduler)
        if state is None:
            return ERROR if self.active else WARN, self._link, values
        values |= {"mode": state.mode, "causes": "; ".join(state.causes), "guard.scheduler": state.scheduler}
        values |= {f"guard.{k}": v for k, v in state.counters.items()}
        return (OK if self._client.connected else ERROR), f"{state.mode}", values


def main() -> int:
    scheduler = request_realtime(REALTIME_PRIORITY)
    return run(lambda: GuardNode(scheduler), coroutines=True)


if __name__ == "__main__":
    raise SystemExit(main())
