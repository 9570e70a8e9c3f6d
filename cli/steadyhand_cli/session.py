"""An operator's session with the running graph: readiness, goals with feedback and result, faults. One thread spins."""
from __future__ import annotations

import contextlib
import os
import threading
import time
from dataclasses import dataclass, field

import rclpy
from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from std_msgs.msg import Bool
from steadyhand_interfaces.action import ExecuteTask
from steadyhand_interfaces.msg import Fault

from steadyhand.errors import RobotError
from steadyhand.slot import current_slot
from steadyhand_ros import qos


@dataclass
class Goal:
    """One goal of ExecuteTask as it goes on. `result` is None until the one terminal result has come."""

    feedback: ExecuteTask.Feedback | None = None
    result: ExecuteTask.Result | None = None
    status: int = GoalStatus.STATUS_UNKNOWN
    rejected: bool = False
    handle: object = None
    done: threading.Event = field(default_factory=threading.Event)


class Session:
    """Context manager; every wait has a limit. `namespace` is the robot's; left out: of STEADYHAND_NAMESPACE."""

    def __init__(self, name: str = "steadyhand_operator", namespace: str | None = None):
        slot = current_slot()
        namespace = os.environ.get("STEADYHAND_NAMESPACE", "") if namespace is None else namespace
        os.environ.update(slot.environment())  # the middleware reads its discovery range from there
        self.context = Context()
        rclpy.init(
            args=[], context=self.context, domain_id=slot.ros_domain_id,
            signal_handler_options=rclpy.SignalHandlerOptions.NO
        )
        self.node = Node(name, context=self.context, namespace=namespace)
        self.ready = threading.Event()
        self.faults: list[Fault] = []
        self._client = ActionClient(self.node, ExecuteTask, "execute_task")
        self.node.create_subscription(Bool, "system_ready", self._on_ready, qos.LATCHED)
        self.node.create_subscription(Fault, "faults", self.faults.append, qos.EVENTS)
        self._executor = SingleThreadedExecutor(context=self.context)
        self._executor.add_node(self.node)
        self._stopping = False
        self._thread = threading.Thread(target=self._spin, name="session", daemon=True)
        self._thread.start()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc) -> None:
        self._stopping = True
        self._thread.join(timeout=2.0)
        self._client.destroy()
        self.node.destroy_node()
        rclpy.try_shutdown(context=self.context)

    def send_goal(self, task: str, max_objects: int = 0, timeout_s: float = 5.0) -> Goal:
        """Send a goal; RobotError when nobody serves it in time. The Goal fills in by itself."""
        if not self._client.wait_for_server(timeout_sec=timeout_s):
            raise RobotError(f"nobody serves execute_task within {timeout_s} s; see `steadyhand doctor` and the logs")
        goal = Goal()
        request = ExecuteTask.Goal(task=task, max_objects=max_objects)

        def on_feedback(message) -> None:
            goal.feedback = message.feedback

        def on_result(future) -> None:
            answer = future.result()
            goal.result, goal.status = answer.result, answer.status
            goal.done.set()

        def on_response(future) -> None:
            handle = future.result()
            if not handle.accepted:
                goal.rejected = True
                goal.done.set()
                return
            goal.handle = handle
            handle.get_result_async().add_done_callback(on_result)

        self._client.send_goal_async(request, feedback_callback=on_feedback).add_done_callback(on_response)
        return goal

    def cancel(self, goal: Goal, timeout_s: float = 2.0) -> bool:
        """Ask for cancellation, once the goal has been accepted; false when it was not accepted in time."""
        deadline = time.monotonic() + timeout_s
        while goal.handle is None and not goal.done.is_set():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        if goal.handle is not None:
            goal.handle.cancel_goal_async()
        return True

    def call(self, kind, name: str, request, timeout_s: float):
        """One service call; RobotError when nobody serves it or answers in time."""
        client, done = self.node.create_client(kind, name), threading.Event()
        try:
            if not client.wait_for_service(timeout_sec=timeout_s):
                raise RobotError(f"nobody serves {name} within {timeout_s} s; is the graph running in this slot?")
            future = client.call_async(request)
            future.add_done_callback(lambda _: done.set())
            if not done.wait(timeout_s):
                raise RobotError(f"{name} did not answer within {timeout_s} s")
            return future.result()
        finally:
            self.node.destroy_client(client)

    def _on_ready(self, message: Bool) -> None:
        if message.data:
            self.ready.set()
        else:
            self.ready.clear()

    def _spin(self) -> None:
        with contextlib.suppress(ExternalShutdownException):  # a wait outlasted `__exit__`: a clock was set back
            while not self._stopping and self.context.ok():
                self._executor.spin_once(timeout_sec=0.1)
