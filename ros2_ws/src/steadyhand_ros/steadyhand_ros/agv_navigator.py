"""Nav2's action `NavigateToPose`, polled: goals of ours, everybody's cancelled. Loaded late, it needs nav2_msgs."""
from __future__ import annotations

import functools
import math
import uuid
from typing import Any

from action_msgs.msg import GoalStatus, GoalStatusArray
from action_msgs.srv import CancelGoal
from nav2_msgs.action import NavigateToPose
from rclpy.action import ActionClient
from rclpy.node import Node
from steadyhand_ros.qos import LATCHED
from unique_identifier_msgs.msg import UUID

from steadyhand_firmware_bridge.agv_ros.link_core import GoalState, Navigation
from steadyhand_firmware_bridge.agv_ros.wire import Goal

UNDER_WAY = (GoalStatus.STATUS_ACCEPTED, GoalStatus.STATUS_EXECUTING, GoalStatus.STATUS_CANCELING)
OURS_MAX = 64  # ids of goals that are remembered
SAID = {
    GoalStatus.STATUS_ABORTED: "Nav2 gave the goal up",
    GoalStatus.STATUS_CANCELED: "the goal was cancelled",
}


class Navigator:
    """One goal of ours at a time. Nothing is waited for."""

    def __init__(self, node: Node, action: str, frame: str):
        self._node, self._action, self._frame = node, action, frame
        self._client = ActionClient(node, NavigateToPose, action)
        self._status = f"{action}/_action/status"
        node.create_subscription(GoalStatusArray, self._status, self._on_status, LATCHED)
        self._cancel = node.create_client(CancelGoal, f"{action}/_action/cancel_goal")
        self._asked: Any = None  # the newest cancellation
        self._seq, self._cancelled_seq = 0, 0
        self._state, self._detail = GoalState.NONE, ""
        self._ours: list[bytes] = []
        self._under_way: set[bytes] = set()

    def _on_status(self, m: GoalStatusArray) -> None:
        self._under_way = {bytes(s.goal_info.goal_id.uuid) for s in m.status_list if s.status in UNDER_WAY}

    def server_ready(self) -> bool:
        """Whether somebody serves the action."""
        return self._client.server_is_ready()

    def foreign(self) -> int:
        """Goals under way that are not ours. A status that outlived its server counts for nothing."""
        return len(self._listed() - set(self._ours))

    def _listed(self) -> set[bytes]:
        return self._under_way if self._under_way and self._node.count_publishers(self._status) else set()

    def look(self) -> Navigation:
        """Where the newest goal stands."""
        pending = self._state in (GoalState.SENT, GoalState.UNDER_WAY)
        if pending and not self.server_ready():
            self._state, self._detail, pending = GoalState.FAILED, f"no action server {self._action} any more", False
        return Navigation(self._seq, self._state, self._detail, pending or bool(self._listed()))

    def send(self, goal: Goal) -> None:
        """A new goal; what was before has ended."""
        self._seq, self._state, self._detail = goal.seq, GoalState.SENT, ""
        request = NavigateToPose.Goal()
        pose = request.pose
        pose.header.frame_id = self._frame  # stamp 0: the newest transform
        pose.pose.position.x, pose.pose.position.y = goal.x_m, goal.y_m
        pose.pose.orientation.z, pose.pose.orientation.w = math.sin(goal.yaw_rad / 2), math.cos(goal.yaw_rad / 2)
        number = uuid.uuid4().bytes
        self._ours = [*self._ours[-OURS_MAX + 1:], number]
        if not self.server_ready():
            self._state, self._detail = GoalState.FAILED, f"no action server {self._action}"
            return
        future = self._client.send_goal_async(request, goal_uuid=UUID(uuid=list(number)))
        future.add_done_callback(functools.partial(self._answered, goal.seq))

    def _answered(self, seq: int, future: Any) -> None:
        handle = None if future.cancelled() or future.exception() is not None else future.result()
        if handle is None or not handle.accepted:
            return self._to(seq, GoalState.FAILED, "Nav2 refused the goal")
        if seq <= self._cancelled_seq:
            handle.cancel_goal_async()  # stopped before it was taken
        self._to(seq, GoalState.UNDER_WAY, "")
        return handle.get_result_async().add_done_callback(functools.partial(self._ended, seq))

    def _ended(self, seq: int, future: Any) -> None:
        if future.cancelled() or future.exception() is not None:
            return self._to(seq, GoalState.FAILED, "Nav2 told no result")
        status, result = future.result().status, future.result().result
        if status == GoalStatus.STATUS_SUCCEEDED:
            return self._to(seq, GoalState.ARRIVED, "")
        why = getattr(result, "error_msg", "") or f"error code {getattr(result, 'error_code', 'unknown')}"
        return self._to(seq, GoalState.FAILED, f"{SAID.get(status, f'status {status}')}: {why}")

    def _to(self, seq: int, state: GoalState, detail: str) -> None:
        if seq == self._seq:
            self._state, self._detail = state, detail

    def cancel(self) -> None:
        """Every goal, whoever's: an empty request cancels all. Asked again by who needs it."""
        self._cancelled_seq = self._seq
        if self._asked is not None:
            self._cancel.remove_pending_request(self._asked)
            self._asked = None
        if self._cancel.service_is_ready():
            self._asked = self._cancel.call_async(CancelGoal.Request())
