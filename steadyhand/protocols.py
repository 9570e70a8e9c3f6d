"""What the guard asks of a robot. Drivers (UR5, fake) implement it, held to it by `tests/contract/robot_contract.py`.

Nothing here blocks: the guard's loop calls every method between two set-points.
"""
from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from steadyhand.payload import Payload


class Command(enum.IntEnum):
    """What the program on the controller is told with each set-point."""

    HOLD = 0  # alive, holding the present target
    SERVO = 1
    HALT = 2  # stop and end the program


class ProgramState(enum.IntEnum):
    """What the program on the controller says of itself."""

    NONE = 0  # or waiting for the first heartbeat
    READY = 1
    SERVOING = 2
    STOPPED_HEARTBEAT = 3
    STOPPED_TOKEN = 4
    HALTED = 5
    STOPPED_RESUMED = 6
    STOPPED_SETPOINT = 7  # not a number, too far from the target at first, or a jump no joint can make
    STOPPED_NO_HEARTBEAT = 8  # none came after the upload
    STOPPED_COMMAND = 9  # unknown command


ALIVE = frozenset({ProgramState.READY, ProgramState.SERVOING})


@dataclass(frozen=True)
class Feedback:
    """One measurement by the controller. `stamp_s` is the guard's monotonic clock at arrival."""

    stamp_s: float
    controller_stamp_s: float
    q_rad: np.ndarray  # (6,) measured
    qd_rad_s: np.ndarray  # (6,) measured
    q_target_rad: np.ndarray  # (6,) the controller's own target
    qd_target_rad_s: np.ndarray  # (6,)
    robot_mode: int
    safety_mode: int
    program_running: bool
    program_state: int  # ProgramState; any other number counts as not alive
    program_token: int
    echoed_seq: int
    missed_cycles: int
    gripper_width_m: float
    gripper_commanded_m: float  # opening that the controller's outputs ask for now
    freedrive: bool = False  # the freedrive (teach) button is pressed
    payload_kg: float = float("nan")  # that the controller reckons with
    payload_cog_m: tuple[float, ...] = ()  # (3,) in the flange
    payload_order: int = 0  # newest order that our program has done; negative: refused


class ArmingPhase(enum.Enum):
    """Progress of an arming."""

    IDLE = "idle"
    UNDER_WAY = "under way"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True)
class Arming:
    """Where an arming stands; `detail` names the present step, or why it failed and what to do."""

    phase: ArmingPhase
    detail: str = ""


@dataclass(frozen=True)
class ActResult:
    """How an operator's act on the robot ended; `detail` is the controller's own answer, or why there is none."""

    act: str
    ok: bool
    detail: str = ""


@runtime_checkable
class OperatorActs(Protocol):
    """What a robot may offer beside `Robot`: power, brakes and unlocking. The guard calls it on an operator's word only."""

    def begin_act(self, act: str, now_s: float) -> None:
        """Start an act, such as "power-on". Raises RobotError for an unknown one, or while another is under way."""

    def act_result(self) -> ActResult | None:
        """How the act begun last has ended, once; None before."""


@runtime_checkable
class QueuedGripper(Protocol):
    """What a robot offers beside `Robot` whose gripper commands wait in a queue before they are written."""

    def drop_gripper_queue(self) -> None:
        """Forget what is not written yet: a stop empties everything. Writes nothing to the gripper (I12)."""


@runtime_checkable
class PayloadRobot(Protocol):
    """What a robot offers beside `Robot` whose program can be told of another payload."""

    def keep_payload(self, payload: Payload | None) -> None:
        """The program of the next arming begins with this one; None: it leaves the controller's own."""

    def command_payload(self, order: int, payload: Payload) -> bool:
        """Give the running program a numbered order. False when the link does not take it."""


@runtime_checkable
class TellsOfPrograms(Protocol):
    """What a robot offers beside `Robot` whose controller says which program runs and why one ended."""

    def program_troubles(self, ours_runs: bool) -> Mapping[str, str]:
        """`script_error` and `foreign_program`, with what to do. `ours_runs`: a program is being started, runs or ends."""


@runtime_checkable
class Counting(Protocol):
    """What a robot offers beside `Robot` that counts more than the guard sees."""

    def counters(self) -> Mapping[str, int]:
        """Name -> count."""


class Robot(Protocol):
    """An arm behind its controller.

    `send` is one atomic package (heartbeat, token, command, sequence, set-point); when it is not called any more the
    program on the controller stops by itself.
    """

    name: str
    joint_names: Sequence[str]
    period_s: float

    def open(self, now_s: float) -> None:
        """Begin to connect. Reconnects by itself afterwards, with back-off; connecting arms nothing."""

    def service(self, now_s: float) -> None:
        """Advance connections, arming and slow commands by what is ready now."""

    def readable(self) -> Sequence[Any]:
        """Sockets whose input `service` wants to see at once."""

    def feedback(self) -> Feedback | None:
        """The newest measurement, also an old one; None before the first."""

    def troubles(self) -> Mapping[str, str]:
        """What is wrong with the link now: fault name -> detail that says what to do. Empty when well."""

    def begin_arming(self, token: int, now_s: float) -> None:
        """Start the program with this token. Never powers on, releases brakes or unlocks."""

    def arming(self) -> Arming:
        """Where the arming stands."""

    def send(self, command: Command, token: int, seq: int, q_rad: np.ndarray) -> bool:
        """Send one package. False when the link does not take it whole now."""

    def stop_program(self, now_s: float) -> None:
        """End whatever program runs, through the controller's own stop; also ends an arming under way."""

    def command_gripper(self, width_m: float) -> bool:
        """Move the gripper. False when the link does not take it."""

    def close(self) -> None:
        """Let go of all connections. Writes nothing to motion or gripper."""
