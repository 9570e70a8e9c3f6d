"""What the AGV's guard asks of a vehicle. Bridges (VDA 5050; a fake in the process) implement it, held to it by
`tests/contract/agv_contract.py`.

Two kinds of bridge, one contract. An *order driven* vehicle (VDA 5050) is told where to go and drives by itself;
a *velocity driven* one (such as by cmd_vel) is told a velocity again and again, and silence stops it. Nothing here blocks: the
guard's loop calls every method between two cycles. What a vehicle does when this host dies is written in docs/agv.md.
"""
from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from steadyhand.agv_action import MAX_ACTIONS, Action, wrong
from steadyhand.protocols import Arming

MAX_WAYPOINTS = 256
MAX_DEVIATION_M = 5.0


class AgvKind(enum.Enum):
    """What `go` takes."""

    ORDER = "order"  # DriveTo
    VELOCITY = "velocity"  # Velocity, at least every 500 ms


class TaskState(enum.Enum):
    """Where the newest task stands."""

    NONE = "none"
    SENT = "sent"  # not yet acknowledged by the vehicle
    UNDER_WAY = "under way"
    ARRIVED = "arrived"
    FAILED = "failed"  # the vehicle refused it or gave up; `task_detail` says why
    STOPPED = "stopped"  # ended by `stop`


@dataclass(frozen=True)
class Waypoint:
    """A pose in a map. `name` is the node's id for VDA 5050. `way_actions` are done on the way here.

    Deviations are how far from the pose it counts as reached: None leaves that to the bridge's configuration.
    """

    name: str
    x_m: float
    y_m: float
    yaw_rad: float | None = None  # None: any
    map_id: str = ""
    actions: tuple[Action, ...] = ()
    way_actions: tuple[Action, ...] = ()
    deviation_m: float | None = None
    deviation_rad: float | None = None


@dataclass(frozen=True)
class DriveTo:
    """Drive along these way-points, the first of which is where the vehicle stands (or next to it)."""

    task_id: str
    waypoints: tuple[Waypoint, ...]
    speed_m_s: float | None = None  # None: the vehicle's own limit


@dataclass(frozen=True)
class Velocity:
    """Velocity in the vehicle's frame; holds until the next one, at most 500 ms."""

    vx_m_s: float
    vy_m_s: float
    omega_rad_s: float


@dataclass(frozen=True)
class AgvFeedback:
    """What the vehicle says of itself. `stamp_s` is the guard's monotonic clock at arrival of the newest measurement.

    Pose in the map, twist in the vehicle's frame; None where the vehicle does not tell it. `twist_stamp_s` ages the
    twist, which may come by another way than the rest.
    """

    stamp_s: float
    driving: bool
    pose_m_rad: tuple[float, float, float] | None = None  # x, y, yaw
    map_id: str = ""
    twist_m_s_rad_s: tuple[float, float, float] | None = None  # vx, vy, omega
    twist_stamp_s: float = -math.inf
    paused: bool = False
    operating_mode: str = "AUTOMATIC"
    battery_percent: float = math.nan
    task_id: str = ""
    task_state: TaskState = TaskState.NONE
    task_detail: str = ""
    last_waypoint: str = ""
    waypoints_left: int = 0
    report: Mapping[str, Any] = field(default_factory=dict)  # for people: safety, errors, loads, actions; bounded


@dataclass(frozen=True)
class ActEnd:
    """How an operator's act on the vehicle ended. `told` is what the vehicle said, for people."""

    ok: bool
    text: str
    told: Mapping[str, Any] = field(default_factory=dict)


class Agv(Protocol):
    """A vehicle behind its link. Everything that the vehicle must do to stop begins with `stop`, at any time."""

    name: str
    kind: AgvKind
    period_s: float  # how often the guard cycles

    def open(self, now_s: float) -> None:
        """Begin to connect. Reconnects by itself afterwards, with back-off; connecting arms and resumes nothing."""

    def poll(self, now_s: float) -> None:
        """Take what has arrived and send what is due. Never blocks."""

    def readable(self) -> Sequence[Any]:
        """Sockets whose input `poll` wants to see at once."""

    def feedback(self) -> AgvFeedback | None:
        """The newest measurement, also an old one; None before the first."""

    def troubles(self, now_s: float) -> Mapping[str, str]:
        """What forbids motion now: cause name -> detail that says what to do. Empty when well. Names are those of
        `guard_state.RULES`: `robot_safety:...` (its own safety has acted), `robot_mode:...` (not automatic, errors,
        not localised), `robot_unreachable` (link or broker), `feedback_lost`, `link_lost`, `agv_foreign` (another
        master commands it)."""

    def begin_arming(self, token: int, now_s: float) -> None:
        """Make sure that the vehicle has no task and hears us. Moves nothing; ends a hold of ours if there is one."""

    def arming(self) -> Arming:
        """Where the arming stands."""

    def go(self, command: DriveTo | Velocity, now_s: float) -> str:
        """Take a command; empty when it was taken, else why not. Taken is not arrived: see `feedback().task_state`."""

    def hold(self, now_s: float) -> str:
        """Come to rest and keep the task; empty when it was taken, else why not."""

    def resume(self, now_s: float) -> str:
        """Go on after `hold`; empty when it was taken, else why not (a stop in between ends the task)."""

    def cancel(self, now_s: float) -> str:
        """Come to rest and give the task up, still armed; empty when it was taken, else why not. It has ended when
        `task_state` is STOPPED; one that cannot be ended fails, and is a trouble."""

    def stop(self, now_s: float) -> None:
        """Come to rest and give the task up. Repeats what the vehicle has not acknowledged, until it is idle."""

    def close(self) -> None:
        """Let go of all connections, in an orderly way."""


@runtime_checkable
class Asked(Protocol):
    """What a bridge offers beside `Agv` when its vehicle can be asked. Acts: "factsheet", "position"."""

    def request_factsheet(self, now_s: float) -> str:
        """Ask what kind of vehicle it is; why not, empty when it was asked."""

    def initialise_position(self, place: Waypoint, now_s: float) -> str:
        """Tell a standing vehicle without a task where it is; why not, empty when it was told."""

    def act_end(self, act: str, now_s: float) -> ActEnd | None:
        """How the newest such act ended; None before its end, which comes within the bridge's limit."""


def check_command(command: DriveTo | Velocity, kind: AgvKind) -> str:
    """Why a command cannot be given to this kind of vehicle, naming field and value; empty when it can."""
    if isinstance(command, Velocity):
        if kind is not AgvKind.VELOCITY:
            return "this vehicle is driven by orders: give way-points, not a velocity"
        for name in ("vx_m_s", "vy_m_s", "omega_rad_s"):
            if not _finite(getattr(command, name)):
                return f"{name}={getattr(command, name)!r}: give a finite number"
        return ""
    if kind is not AgvKind.ORDER:
        return "this vehicle is driven by velocity: give vx, vy and omega, not way-points"
    if not 2 <= len(command.waypoints) <= MAX_WAYPOINTS:
        return f"waypoints: {len(command.waypoints)}, give 2 to {MAX_WAYPOINTS} (the first is where the vehicle stands)"
    if not command.task_id or len(command.task_id) > 64:
        return f"task_id={command.task_id[:20]!r}: give 1 to 64 characters"
    if command.speed_m_s is not None and not (_finite(command.speed_m_s) and command.speed_m_s > 0):
        return f"speed_m_s={command.speed_m_s!r}: give a number above 0, or leave it out"
    for number, point in enumerate(command.waypoints):
        for name in ("x_m", "y_m", "yaw_rad"):
            value = getattr(point, name)
            if not (value is None and name == "yaw_rad" or _finite(value)):
                return f"waypoints[{number}].{name}={value!r}: give a finite number"
        if point.yaw_rad is not None and abs(point.yaw_rad) > math.pi:
            return f"waypoints[{number}].yaw_rad={point.yaw_rad}: give -pi to pi"
        if not point.name or len(point.name) > 64:
            return f"waypoints[{number}].name={point.name[:20]!r}: give 1 to 64 characters"
        refused = _check_extras(point, number)
        if refused:
            return f"waypoints[{number}].{refused}"
    return ""


def _check_extras(point: Waypoint, number: int) -> str:
    for name, most in (("deviation_m", MAX_DEVIATION_M), ("deviation_rad", math.pi)):
        value = getattr(point, name)
        if value is not None and not (_finite(value) and 0.0 <= value <= most):
            return f"{name}={value!r}: give 0 to {most:g}, or leave it out"
    if point.deviation_rad is not None and point.yaw_rad is None:
        return f"deviation_rad={point.deviation_rad} without yaw_rad: give the heading that it is from"
    if number == 0 and point.way_actions:
        return "way_actions: the vehicle stands there, there is no way to it"
    if len(point.actions) + len(point.way_actions) > MAX_ACTIONS:
        return f"actions: {len(point.actions) + len(point.way_actions)}, limit {MAX_ACTIONS}"
    for name in ("actions", "way_actions"):
        for k, action in enumerate(getattr(point, name)):
            if why := wrong(action):
                return f"{name}[{k}].{why}"
    return ""


def _finite(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
