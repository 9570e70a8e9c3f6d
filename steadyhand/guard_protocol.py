"""Messages between the guard and its clients: msgpack maps, one per packet, strictly checked on both sides.

Sockets live in the slot's socket folder (0700):
  command.sock  SOCK_SEQPACKET. Clients send Hello first, then Chunk, Gripper, Heartbeat, Stop, Arm, RobotAct (to a
                vehicle's guard Drive, Twist, Pause, VehicleAct). The guard answers Verdict and Reply, and streams State (AgvState)
                every control cycle to clients that asked for it. A client that does not read loses states (counted),
                never time of the guard.
  domain.sock   SOCK_DGRAM. Beats of the other guards of the stop domain; there only when the configuration names peers.
  stop.sock     SOCK_DGRAM. Any datagram is a stop request; a readable one names its source. Fails towards stopping.
The re-arm credential is the content of `rearm.token` in the same folder (0600), made new at each start of the guard.
"""
from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import msgpack
import numpy as np

from steadyhand.errors import ProtocolError

VERSION = 1
MAX_PACKET = 65536
MAX_TEXT_BYTES, MAX_ITEMS = 4096, 4096  # of a text, of a list
COMMAND_SOCKET = "command.sock"
STOP_SOCKET = "stop.sock"
DOMAIN_SOCKET = "domain.sock"
REARM_TOKEN_FILE = "rearm.token"


@dataclass(frozen=True)
class Hello:
    """First packet of a client. `states` asks for the state stream; a commander may send Chunk and Gripper."""

    client: str
    commander: bool = False
    states: bool = False
    version: int = VERSION


@dataclass(frozen=True)
class Chunk:
    """`types.JointChunk` on the wire."""

    token: int
    state_seq: int
    state_stamp_s: float
    trace_id: str
    source: str
    joint_names: list[str]
    period_s: float
    q_rad: list[list[float]]


@dataclass(frozen=True)
class Gripper:
    """Move the gripper to an opening. Its own command: a stop never writes the gripper (I12)."""

    token: int
    width_m: float
    trace_id: str


@dataclass(frozen=True)
class Payload:
    """What the gripper holds, in the flange; 0 kg: nothing. Answered by a Verdict once the controller shows it."""

    token: int
    object_kg: float
    object_cog_m: list[float]
    trace_id: str


@dataclass(frozen=True)
class Drive:
    """A task for a vehicle driven by orders, `agv.DriveTo` on the wire. A pose is [x_m, y_m] or [x_m, y_m, yaw_rad].

    `deviations` is empty, or has for each of them [], [m] or [m, rad]. An entry of `actions` is `agv_action.read`'s map
    and `at`, the index of the way-point, and `on_way` true for one that is done on the way to it.
    """

    token: int
    state_stamp_s: float
    trace_id: str
    task_id: str
    names: list[str]
    poses: list[list[float]]
    map_id: str = ""
    speed_m_s: float = 0.0  # 0: the vehicle's own limit
    deviations: list[list[float]] = field(default_factory=list)
    actions: list[dict] = field(default_factory=list)


@dataclass(frozen=True)
class Twist:
    """A velocity for a vehicle driven by velocity, in its own frame; holds until the next one, 500 ms at most."""

    token: int
    state_stamp_s: float
    trace_id: str
    vx_m_s: float
    vy_m_s: float
    omega_rad_s: float


@dataclass(frozen=True)
class Pause:
    """Come to rest and keep the task, or, with `hold` false, go on with it. A late hold is obeyed, a late go is not."""

    token: int
    state_stamp_s: float
    trace_id: str
    hold: bool


@dataclass(frozen=True)
class Heartbeat:
    """An AUTO input is alive and fresh, or says why not: `ok` false is a fault at once, silence after its limit."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class Stop:
    """Stop request on the command socket; the stop socket takes the same packet or anything else."""

    source: str
    reason: str = ""
    request_id: str = ""


@dataclass(frozen=True)
class Arm:
    """Re-arm: an authenticated operator act. `mode` is "auto", "manual" or "recover"; "disarm" needs no credential.

    `command` asks, for manual and recover, that this connection alone commands until that arming ends; its loss stops.
    """

    mode: str
    credential: str
    request_id: str
    command: bool = False


@dataclass(frozen=True)
class RobotAct:
    """Power on, release brakes, unlock ...: an operator's act on the robot itself, authenticated like an arming.

    Refused while armed, arming or stopping. The Reply comes when the controller has answered.
    """

    act: str
    credential: str
    request_id: str


@dataclass(frozen=True)
class VehicleAct:
    """An operator's act on a vehicle: "factsheet", "pause", "cancel"; and, authenticated, "resume", "position".

    `vehicle`, when given, has to be the name of this guard's. To resume, `token` and `state_stamp_s` are as in Pause.
    `place` is [x_m, y_m, yaw_rad] in `map_id`, `node` what the vehicle stands on there. Answered by a Reply: what the
    vehicle told is its `snapshot`.
    """

    act: str
    credential: str
    request_id: str
    vehicle: str = ""
    token: int = 0
    state_stamp_s: float = 0.0
    place: list[float] = field(default_factory=list)
    map_id: str = ""
    node: str = ""


@dataclass(frozen=True)
class Link:
    """Operator link: one beat of an operator who is in control, or, with `in_control` false, its orderly end.

    While in control, silence for `link_timeout_s` or the loss of the connection is a stop.
    """

    name: str
    in_control: bool
    request_id: str = ""


@dataclass(frozen=True)
class Beat:
    """One guard of a stop domain to another. `boot` is random per start, `stops` counts the stops that began here."""

    guard: str
    boot: int
    stops: int
    cause: str = ""
    unsafe: str = ""  # what the robot's own safety system has done; empty when nothing
    zone: str = ""  # what of this robot is, or is about to be, where arm and vehicle meet; empty when it is clear


@dataclass(frozen=True)
class Verdict:
    """Answer to a Chunk or Gripper. `reason` is a `types.Reason` value, empty when accepted."""

    trace_id: str
    accepted: bool
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Reply:
    """Answer to Stop and Arm. When an Arm is refused, `causes` lists what persists; `snapshot` what was interrupted."""

    request_id: str
    ok: bool
    message: str = ""
    causes: list[str] = field(default_factory=list)
    snapshot: dict = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """What the guard knows, each control cycle, stamped by its own monotonic clock."""

    stamp_s: float
    seq: int
    token: int
    mode: str
    q_rad: list[float]
    qd_rad_s: list[float]
    q_commanded_rad: list[float]
    qd_commanded_rad_s: list[float]
    gripper_width_m: float
    gripper_commanded_m: float
    at_rest: bool
    causes: list[str]
    robot_mode: int
    safety_mode: int
    trace_id: str  # of the plan being executed; empty when none
    plan_left_s: float
    counters: dict  # refusals by reason, stops by source, cycles, late cycles, dropped states
    scheduler: str  # "SCHED_FIFO" or "SCHED_OTHER"
    # Newest stop of an armed arm: number, cause, reaction, received_s (when the guard took it) and, once the first
    # braking set-point has gone out, braking_s (start of that cycle). Empty before the first one. For measurements.
    last_stop: dict = field(default_factory=dict)


@dataclass(frozen=True)
class AgvState:
    """What the guard of a vehicle knows, each cycle. Lists are empty where the vehicle does not tell."""

    stamp_s: float
    seq: int
    token: int
    mode: str
    vehicle: str
    kind: str  # agv.AgvKind
    at_rest: bool
    causes: list[str]
    pose_m_rad: list[float]  # x, y, yaw in the map
    map_id: str
    twist_m_s_rad_s: list[float]  # vx, vy, omega
    driving: bool
    paused: bool
    operating_mode: str
    battery_percent: float
    task_id: str
    task_state: str  # agv.TaskState
    task_detail: str
    last_waypoint: str
    waypoints_left: int
    interlock: str  # why it may not leave now; empty when it may
    counters: dict
    scheduler: str
    last_stop: dict = field(default_factory=dict)
    report: dict = field(default_factory=dict)  # agv.AgvFeedback.report


STATES = (State, AgvState)
MESSAGES: dict[str, type] = {
    c.__name__.lower(): c
    for c in (
        Hello, Chunk, Gripper, Payload, Drive, Twist, Pause, Heartbeat, Stop, Arm, RobotAct, VehicleAct, Link, Beat,
        Verdict, Reply, State, AgvState,
    )
}  # fmt: skip


def _kind(message: Any) -> str:
    return type(message).__name__.lower()


def encode(message: Any) -> bytes:
    """One packet; raises ProtocolError when it would be too long."""
    body = {f.name: getattr(message, f.name) for f in fields(message)}
    packet = msgpack.packb([_kind(message), body], use_bin_type=True)
    if len(packet) > MAX_PACKET:
        raise ProtocolError(f"{_kind(message)}: {len(packet)} bytes, limit {MAX_PACKET}; send fewer way-points")
    return packet


def decode(packet: bytes, messages: Mapping[str, type] = MESSAGES) -> Any:
    """The message in a packet. Raises ProtocolError naming kind, field and value; never anything else.

    `messages`: the kinds that are expected. Checks types and lengths only. NaN passes here, so that the gate refuses it by name and counts it.
    """
    if len(packet) > MAX_PACKET:
        raise ProtocolError(f"packet of {len(packet)} bytes, limit {MAX_PACKET}")
    try:
        raw = msgpack.unpackb(
            packet, raw=False, strict_map_key=True, max_array_len=MAX_ITEMS, max_map_len=256,
            max_str_len=MAX_TEXT_BYTES, max_bin_len=0, max_ext_len=0,
        )
    except Exception as error:  # msgpack raises many kinds; at this edge each one means the same
        raise ProtocolError(f"not a message: {type(error).__name__}") from error
    if not (isinstance(raw, list) and len(raw) == 2 and isinstance(raw[0], str) and isinstance(raw[1], dict)):
        raise ProtocolError("not a message: expected [kind, fields]")
    cls = messages.get(raw[0])
    if cls is None:
        raise ProtocolError(f"kind {raw[0][:32]!r}: expected one of {', '.join(sorted(messages))}")
    body = raw[1]
    known = {f.name: f.type for f in fields(cls)}
    for name in body:
        if name not in known:
            raise ProtocolError(f"{raw[0]}.{str(name)[:32]}: unknown field")
    for name, kind in known.items():
        if name in body:
            _check(raw[0], name, kind, body[name])
    try:
        return cls(**body)
    except TypeError as error:
        raise ProtocolError(f"{raw[0]}: {error}") from error


def check(message: Any) -> None:
    """Raise ProtocolError when the receiver would refuse this message: so that who sends for others can tell them."""
    kind = _kind(message)
    for f in fields(message):
        value = getattr(message, f.name)
        _check(kind, f.name, f.type, value)
        for text in (value,) if isinstance(value, str) else value if f.type == "list[str]" else ():
            if len(text.encode(errors="surrogatepass")) > MAX_TEXT_BYTES:
                raise ProtocolError(f"{kind}.{f.name}: {text[:40]!r}... is longer than {MAX_TEXT_BYTES} bytes")
        if isinstance(value, list) and len(value) > MAX_ITEMS:
            raise ProtocolError(f"{kind}.{f.name}: {len(value)} items, limit {MAX_ITEMS}")


def _check(kind: str, name: str, wanted: str, value: Any) -> None:
    """Raise ProtocolError unless `value` has the annotated type (numbers: int is a float, bool is neither)."""
    if not _fits(wanted, value):
        raise ProtocolError(f"{kind}.{name}: {str(value)[:40]!r} is not {wanted}")


def _fits(wanted: str, value: Any) -> bool:
    if wanted == "float":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and _representable(value)
    if wanted == "int":
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    if wanted in ("str", "bool", "dict"):
        return isinstance(value, {"str": str, "bool": bool, "dict": dict}[wanted])
    inner = wanted[len("list["):-1]
    return isinstance(value, list) and all(_fits(inner, v) for v in value)


def _representable(value: float) -> bool:
    return isinstance(value, float) or math.isfinite(float(value))


def floats(array: np.ndarray) -> list:
    """Nested lists of Python floats, as messages carry arrays."""
    return np.asarray(array, dtype=float).tolist()
