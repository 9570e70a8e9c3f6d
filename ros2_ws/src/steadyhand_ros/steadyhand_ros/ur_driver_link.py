"""The ROS side of the robot `ur_driver`: topics, services and actions of a stock ur_robot_driver, polled.

Loaded late by `steadyhand_firmware_bridge.ur_driver_link.open_link`. It lives in the guard's process and thread: the
guard's cycle calls `spin`, so no callback runs at another time. A context of its own, without signal handlers: the
guard's end is the guard's.
"""
from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import rclpy
from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from builtin_interfaces.msg import Duration
from controller_manager_msgs.srv import ListControllers, SwitchController
from rclpy.experimental import EventsExecutor
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSProfile, ReliabilityPolicy
from rclpy.signals import SignalHandlerOptions
from sensor_msgs.msg import JointState
from std_msgs.msg import Bool, Float64, Float64MultiArray, String
from std_srvs.srv import Trigger
from steadyhand_ros.qos import LATCHED, NEWEST
from steadyhand_ros.spinning import BoundedSpin
from ur_dashboard_msgs.msg import RobotMode, SafetyMode
from ur_msgs.msg import Analog, IOStates
from ur_msgs.srv import SetIO

from steadyhand_firmware_bridge.ur_driver_joints import JointSample
from steadyhand_firmware_bridge.ur_driver_link import (
    POSITION_CONTROLLER, TRAJECTORY_CONTROLLERS, Controller, Status, UrDriverConfig,
)

ANSWERS_S = 1.0  # for what is still asked for when the guard ends
CALL_LIMIT_S = 3.0
ASK_AGAIN_S = 0.5  # a server drops its answer to one whom it has not discovered yet
JOINTS_MAX = 16  # joint states of one cycle: twice what 500 Hz brings in the longest cycle that is no fault
STATES = QoSProfile(reliability=ReliabilityPolicy.BEST_EFFORT, history=HistoryPolicy.KEEP_LAST, depth=JOINTS_MAX)
SET_POINTS = QoSProfile(reliability=ReliabilityPolicy.RELIABLE, history=HistoryPolicy.KEEP_LAST, depth=1)
UNDER_WAY = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)
TRIGGERS = {
    "stop": "dashboard_client/stop",
    "play": "dashboard_client/play",
    "resend": "io_and_status_controller/resend_robot_program",
}


class RosCall:
    """`ur_driver_link.Call`. Ends by an answer, or after `CALL_LIMIT_S` by none."""

    def __init__(self, client: Any, request: Any, read: Callable[[Any], tuple[bool, str, Any]], repeat: bool):
        self.done, self.ok, self.text, self.value = False, False, "", None
        self._client, self._request, self._read, self._repeat = client, request, read, repeat
        self._futures: list = []
        self._asked_s = self._began_s = time.monotonic()
        if client.service_is_ready():
            self._ask()
        else:
            self.done, self.text = True, f"service {client.srv_name} is not there: is that part of the driver running?"

    def _ask(self) -> None:
        future = self._client.call_async(self._request)
        future.add_done_callback(self._on_answer)
        self._futures.append(future)

    def _on_answer(self, future: Any) -> None:
        if not self.done and not future.cancelled() and future.exception() is None:
            self.done = True
            self.ok, self.text, self.value = self._read(future.result())

    def drop(self) -> None:
        """See `Call.drop`."""
        if not self.done:
            self.done, self.text = True, "dropped"

    def tend(self, now_s: float) -> None:
        """Ask again, or give up, by the time that has passed."""
        if not self.done and now_s - self._began_s > CALL_LIMIT_S:
            self.done, self.text = True, f"no answer of {self._client.srv_name} within {CALL_LIMIT_S} s"
        elif not self.done and self._repeat and now_s - self._asked_s > ASK_AGAIN_S:
            self._asked_s = now_s
            self._ask()
        if self.done:
            for future in self._futures:
                self._client.remove_pending_request(future)


class RosDriverLink:
    """`ur_driver_link.DriverLink`."""

    def __init__(self, config: UrDriverConfig):
        self.status = Status()
        self.joints: deque[JointSample] = deque(maxlen=JOINTS_MAX)
        self._calls: list[RosCall] = []
        self._trajectories: dict[str, bool] = {}
        self._context = rclpy.Context()
        rclpy.init(args=[], context=self._context, signal_handler_options=SignalHandlerOptions.NO)
        self._node = rclpy.create_node(
            "steadyhand_guard", context=self._context, start_parameter_services=False, enable_rosout=False
        )
        self._executor = EventsExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._bounded = BoundedSpin(self._executor)
        at = self._at = lambda name: f"{config.namespace}/{name}"
        self._commands = at(f"{POSITION_CONTROLLER}/commands")
        self._publisher = self._node.create_publisher(Float64MultiArray, self._commands, SET_POINTS)
        status = at("io_and_status_controller")
        self._listen(JointState, at("joint_states"), self._on_joints, STATES)
        self._listen(RobotMode, f"{status}/robot_mode", lambda m: setattr(self.status, "robot_mode", m.mode), LATCHED)
        safety = f"{status}/safety_mode"
        self._listen(SafetyMode, safety, lambda m: setattr(self.status, "safety_mode", m.mode), LATCHED)
        self._listen(Bool, f"{status}/robot_program_running", self._on_running, LATCHED)
        described = at("robot_description")
        self._listen(String, described, lambda m: setattr(self.status, "description", m.data), LATCHED)
        self._listen(IOStates, f"{status}/io_states", self._on_io, NEWEST)
        self._listen(Float64, at("speed_scaling_state_broadcaster/speed_scaling"), self._on_scaling, NEWEST)
        self._clients = {name: self._node.create_client(Trigger, at(path)) for name, path in TRIGGERS.items()}
        self._clients["list"] = self._node.create_client(ListControllers, at("controller_manager/list_controllers"))
        self._clients["switch"] = self._node.create_client(SwitchController, at("controller_manager/switch_controller"))
        self._clients["set_io"] = self._node.create_client(SetIO, f"{status}/set_io")
        goals = QoSProfile(
            reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL, depth=1,
            history=HistoryPolicy.KEEP_LAST,
        )  # fmt: skip
        for name in TRAJECTORY_CONTROLLERS:
            action = at(f"{name}/follow_joint_trajectory/_action")
            self._listen(GoalStatusArray, f"{action}/status", lambda m, n=name: self._on_goals(n, m), goals)
            self._clients[name] = self._node.create_client(CancelGoal, f"{action}/cancel_goal")

    def _listen(self, kind: type, topic: str, take: Callable[[Any], None], qos: QoSProfile) -> None:
        self._node.create_subscription(kind, topic, self._bounded.counted(take), qos)

    # --- what arrives ---

    def _on_joints(self, m: JointState) -> None:
        stamp_s = m.header.stamp.sec + 1e-9 * m.header.stamp.nanosec
        self.joints.append(JointSample(time.monotonic(), stamp_s, m.name, m.position, m.velocity))

    def _on_running(self, m: Bool) -> None:
        self.status.program_running = m.data

    def _on_scaling(self, m: Float64) -> None:
        self.status.speed_scaling, self.status.speed_scaling_s = m.data, time.monotonic()

    def _on_io(self, m: IOStates) -> None:
        self.status.digital_outputs = sum(1 << d.pin for d in m.digital_out_states if d.state and d.pin < 64)
        width = next((a for a in m.analog_in_states if a.pin == 0), None)
        self.status.analog_input_0_v = width.state if width is not None and width.domain == Analog.VOLTAGE else None
        self.status.analog_input_0_is_current = width is not None and width.domain == Analog.CURRENT

    def _on_goals(self, controller: str, m: GoalStatusArray) -> None:
        self._trajectories[controller] = any(goal.status in UNDER_WAY for goal in m.status_list)

    def spin(self) -> None:
        """Take what has arrived; see to the calls under way."""
        self._bounded.spin()
        if self._calls:
            now_s = time.monotonic()
            for call in self._calls:
                call.tend(now_s)
            self._calls = [c for c in self._calls if not c.done]

    # --- what goes out ---

    def publish(self, q_rad: np.ndarray) -> bool:
        """One set-point; false when nobody listens."""
        self._publisher.publish(Float64MultiArray(data=q_rad.tolist()))
        return self._publisher.get_subscription_count() > 0

    def call(self, service: str, request: Mapping[str, Any] | None = None) -> RosCall:
        """See `DriverLink.call`."""
        asked, read = Trigger.Request(), lambda r: (r.success, r.message, None)
        given = request or {}
        if service == "list":
            asked, read = ListControllers.Request(), lambda r: (True, "", [_controller(c) for c in r.controller])
        elif service == "switch":
            asked = SwitchController.Request(
                activate_controllers=list(given["activate"]), deactivate_controllers=list(given["deactivate"])
            )
            asked.strictness = asked.STRICT if given["activate"] else asked.BEST_EFFORT
            asked.timeout = Duration(sec=2)
            read = lambda r: (r.ok, getattr(r, "message", "") or f"refused {dict(given)}", None)  # noqa: E731
        elif service == "set_io":
            asked = SetIO.Request(fun=SetIO.Request.FUN_SET_DIGITAL_OUT, pin=given["pin"], state=float(given["on"]))
            read = lambda r: (r.success, "set_io refused", None)  # noqa: E731
        call = RosCall(self._clients[service], asked, read, repeat=service not in ("resend", "play"))
        self._calls.append(call)
        return call

    def cancel_trajectories(self) -> None:
        """Every goal of both names: an empty request cancels all. Nobody waits for the answer."""
        for name in TRAJECTORY_CONTROLLERS:
            if self._clients[name].service_is_ready():
                ended = lambda r: (True, "", None)  # noqa: E731
                self._calls.append(RosCall(self._clients[name], CancelGoal.Request(), ended, repeat=False))

    def trajectory_under_way(self) -> str:
        """A status that outlived its controller counts for nothing."""
        for name, under_way in self._trajectories.items():
            topic = self._at(f"{name}/follow_joint_trajectory/_action/status")
            if under_way and self._node.count_publishers(topic) > 0:
                return f"{name}/follow_joint_trajectory"
        return ""

    def other_publishers(self) -> int:
        """Beside our own."""
        return self._node.count_publishers(self._commands) - 1

    def close(self) -> None:
        """Leave the graph: what stays in it would look like another publisher to the next guard.

        What is still asked for, the program's end above all, is seen to its answer first, for `ANSWERS_S` at most: a
        request that its process does not outlive may never have been sent.
        """
        self._node.destroy_publisher(self._publisher)
        end_s = time.monotonic() + ANSWERS_S
        while self._calls and time.monotonic() < end_s:
            self.spin()
            time.sleep(0.002)
        self._executor.remove_node(self._node)
        self._executor.shutdown()
        self._node.destroy_node()
        rclpy.shutdown(context=self._context)


def _controller(c: Any) -> Controller:
    return Controller(c.name, c.state == "active", tuple(c.claimed_interfaces))
