"""Messages between the guard's side and the link process: `guard_protocol`'s packets over a socket pair (SEQPACKET).

Both ends run on one machine, so that stamps are of one monotonic clock. NaN passes: it is judged by who reads it.
"""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from steadyhand import guard_protocol
from steadyhand.errors import ProtocolError

# --- from the guard's side -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alive:
    """Each cycle of the guard. Its silence ends an arming."""

    stamp_s: float


@dataclass(frozen=True)
class Begin:
    """An arming. Set-points and goals carry its token."""

    token: int
    stamp_s: float


@dataclass(frozen=True)
class SetPoint:
    """A velocity, followed until it expires."""

    token: int
    seq: int
    stamp_s: float
    vx_m_s: float
    vy_m_s: float
    omega_rad_s: float


@dataclass(frozen=True)
class Goal:
    """A pose for Nav2, in the map's frame."""

    token: int
    seq: int
    stamp_s: float
    x_m: float
    y_m: float
    yaw_rad: float


@dataclass(frozen=True)
class Hold:
    """Come to rest and stay so, or go on."""

    token: int
    on: bool


@dataclass(frozen=True)
class Halt:
    """Stop: goals cancelled, velocity ramped to zero by the stop's limits, zero held until the next arming."""

    stamp_s: float


# --- from the link process -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Odom:
    """One `nav_msgs/Odometry` as it came. `arrival_s` is our clock, `stamp_s` the sender's."""

    arrival_s: float
    stamp_s: float
    frame: str
    child_frame: str
    pose: list[float]  # x, y, z, qx, qy, qz, qw
    twist: list[float]  # vx, vy, vz, wx, wy, wz


@dataclass(frozen=True)
class Graph:
    """What the ROS graph tells, a few times a second. Nodes by full name, with the type of the topic as they see it."""

    stamp_s: float
    takers: list[list[str]]  # [node, type] of who listens to cmd_vel
    matched: int  # how many of them hear us
    others: list[str]  # nodes that publish to cmd_vel beside us
    odom: list[list[str]]  # [node, type] of who publishes odometry
    server: bool = True  # whether Nav2's action server is there
    foreign_goals: int = 0  # under way in Nav2, and not ours


@dataclass(frozen=True)
class Status:
    """Each cycle of the link process."""

    stamp_s: float
    token: int  # of the arming that it follows; 0: none
    stage: str
    ended: str  # why it ended the last arming by itself
    velocity: list[float]  # commanded now
    goal_seq: int = 0
    goal_state: str = ""
    goal_detail: str = ""
    goals: bool = False  # whether Nav2 has a goal, or may have
    counters: dict = field(default_factory=dict)


MESSAGES: dict[str, type] = {
    c.__name__.lower(): c for c in (Alive, Begin, SetPoint, Goal, Hold, Halt, Odom, Graph, Status)
}
encode = guard_protocol.encode


def decode(packet: bytes) -> Any:
    """See `guard_protocol.decode`."""
    message = guard_protocol.decode(packet, MESSAGES)
    if isinstance(message, Graph) and any(len(pair) != 2 for pair in (*message.takers, *message.odom)):
        raise ProtocolError("graph: takers and odom are pairs of node and type")
    return message
