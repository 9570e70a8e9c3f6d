"""A task of way-points for Nav2: one goal after the other, each begun when the one before is reached. Pure."""
from __future__ import annotations

import math

from steadyhand.agv import DriveTo, TaskState, Waypoint
from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.link_core import GoalState
from steadyhand_firmware_bridge.agv_ros.wire import Status

UNDER_WAY = (TaskState.SENT, TaskState.UNDER_WAY)
UNANSWERED_S = 3.0  # a goal that Nav2 neither takes nor refuses


class NavTask:
    """`begin` a task; `advance` with each status; `due` gives the pose to send next, or None."""

    def __init__(self) -> None:
        self.task_id, self.state, self.detail = "", TaskState.NONE, ""
        self.paused = False
        self.unanswered = ""  # why nobody knows whether Nav2 will drive
        self._points: tuple[Waypoint, ...] = ()
        self._next = 0  # index of the way-point that is driven to
        self._seq = 0  # of the goal under way; 0: to be sent
        self._sent_s = -math.inf

    @property
    def last_waypoint(self) -> str:
        """The newest that was reached."""
        return self._points[self._next - 1].name if 0 < self._next <= len(self._points) else ""

    @property
    def left(self) -> int:
        """Way-points not reached yet."""
        return len(self._points) - self._next if self.state in UNDER_WAY else 0

    def begin(self, command: DriveTo) -> None:
        """The first way-point is where the vehicle stands."""
        self.task_id, self.state, self.detail = command.task_id, TaskState.SENT, ""
        self._points, self._next, self._seq, self.paused = command.waypoints, 1, 0, False

    def due(self) -> tuple[float, float, float] | None:
        """x, y, yaw of the goal to send now; None when there is none. A free heading is that of the way to it."""
        if self.state not in UNDER_WAY or self.paused or self._seq:
            return None
        before, point = self._points[self._next - 1:self._next + 1]
        yaw = point.yaw_rad
        if yaw is None:
            yaw = math.atan2(point.y_m - before.y_m, point.x_m - before.x_m)
        return point.x_m, point.y_m, yaw

    def sent(self, seq: int, now_s: float) -> None:
        """The goal that was due has gone out."""
        self._seq, self._sent_s = seq, now_s

    def advance(self, status: Status, now_s: float) -> None:
        """What Nav2 says of the goal."""
        if self.state not in UNDER_WAY or not self._seq:
            return
        if status.goal_seq != self._seq:
            if now_s - self._sent_s > UNANSWERED_S:
                self._unknown(f"goal {self._points[self._next].name!r} did not reach Nav2")
            return
        if status.goal_state == GoalState.UNDER_WAY.value:
            self.state = TaskState.UNDER_WAY
        elif status.goal_state == GoalState.SENT.value and now_s - self._sent_s > UNANSWERED_S:
            self._unknown("Nav2 did not answer the goal: is bt_navigator active?")
        elif status.goal_state == GoalState.FAILED.value:
            self._fail(status.goal_detail)
        elif status.goal_state == GoalState.ARRIVED.value:
            self._next, self._seq = self._next + 1, 0
            if self._next == len(self._points):
                self.state = TaskState.ARRIVED

    def _unknown(self, detail: str) -> None:
        self.unanswered = detail
        self._fail(detail)

    def _fail(self, detail: str) -> None:
        self.state, self.detail = TaskState.FAILED, detail

    def pause(self, on: bool) -> None:
        """The goal is cancelled meanwhile, and sent again afterwards."""
        self.paused = on
        self._seq = 0

    def stop(self) -> None:
        """Given up."""
        self.paused, self.unanswered = False, ""
        if self.state in UNDER_WAY:
            self.state = TaskState.STOPPED


def refused(command: DriveTo, config: RosVehicleConfig) -> str:
    """Why Nav2 cannot be given this task, naming field and value; empty when it can."""
    if command.speed_m_s is not None:
        return f"speed_m_s={command.speed_m_s}: Nav2 has limits of its own; leave it out"
    for number, point in enumerate(command.waypoints):
        if point.map_id not in ("", config.map_frame):
            return f"waypoints[{number}].map_id={point.map_id[:40]!r}: give {config.map_frame!r}, or leave it out"
        if point.actions or point.way_actions:
            return f"waypoints[{number}].actions: Nav2 has none; leave them out"
        if point.deviation_m is not None or point.deviation_rad is not None:
            return f"waypoints[{number}].deviation_m: Nav2's goal checker has a tolerance of its own; leave it out"
    return ""
