"""Words of a task: what is asked of the agent, what it answers. Data only."""
from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from steadyhand.trace import Record
from steadyhand.types import ActionChunk, Estimate, Fault, JointChunk, RobotState, Verdict


class Code(enum.IntEnum):
    """Result codes of ExecuteTask.action."""

    OK = 0
    UNKNOWN_TASK = 1
    EMPTY_TRAY = 2
    UNREACHABLE = 3
    NOT_ARMED = 4
    STOPPED = 5
    CANCELLED = 6
    L3_FAILURE = 7
    PERCEPTION_LOST = 8
    POLICY_UNAVAILABLE = 9
    BUSY = 10
    INTERNAL = 99


@dataclass(frozen=True)
class Goal:
    """A task by name; `max_objects` 0 means all that are seen."""

    goal_id: str
    task: str
    max_objects: int = 0


@dataclass(frozen=True)
class Failure:
    """One failed step and what was chosen next."""

    fault: str
    stamp_s: float
    phase: str
    detail: str
    recovery: str


@dataclass(frozen=True)
class Diagnosis:
    """L3: what failed, where, what was tried and what to do. Texts are for people; `findings` are by layer."""

    stamp_s: float
    task: str
    goal_id: str
    message: str
    layer: str
    share: float  # of the recent failures that are this layer's
    scope: str
    findings: Mapping[str, tuple[str, ...]]
    measures: tuple[str, ...]
    actions: tuple[str, ...]
    expected_recovery: str
    failures: tuple[Failure, ...]  # the recent ones
    robot: tuple[str, ...]
    counters: Mapping[str, int]


@dataclass(frozen=True)
class PolicyRequest:
    """A policy call as data: the shell runs it and brings the reply back, naming `observation_id`."""

    observation_id: str
    observation: np.ndarray  # (OBSERVATION_DIM,) float32
    deadline_s: float


@dataclass(frozen=True)
class PolicyReply:
    """What became of a policy call: a chunk, or the error it ended in."""

    observation_id: str
    chunk: ActionChunk | None
    error: str = ""


@dataclass(frozen=True)
class Gripper:
    """Gripper command: its own command, never part of a stop."""

    token: int
    width_m: float
    trace_id: str


@dataclass(frozen=True)
class Feedback:
    """Feedback of ExecuteTask.action."""

    phase: str
    object_id: int
    placed: int
    attempted: int
    level: int
    detail: str


@dataclass(frozen=True)
class Result:
    """The one terminal result of a goal."""

    goal_id: str
    code: Code
    message: str
    at_rest: bool
    placed: int = 0
    attempted: int = 0
    statistics: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Inputs:
    """Everything new since the last step. `state` and `estimate` are the newest known, new or not."""

    now_s: float
    state: RobotState | None = None
    estimate: Estimate | None = None
    policy_reply: PolicyReply | None = None
    verdicts: tuple[Verdict, ...] = ()
    goals: tuple[Goal, ...] = ()
    cancels: tuple[str, ...] = ()
    single_step: bool | None = None  # turn the operator's single-step on or off; None: as it is
    next_step: bool = False  # the operator's word for one more step


@dataclass(frozen=True)
class Decision:
    """Everything to be done after a step. Empty fields mean: nothing."""

    chunk: JointChunk | None = None
    gripper: Gripper | None = None
    policy_request: PolicyRequest | None = None
    feedback: Feedback | None = None
    results: tuple[Result, ...] = ()
    faults: tuple[Fault, ...] = ()
    stop: str = ""  # reason of a stop asked of the guard; empty: none
    report: Diagnosis | None = None  # of L3
    records: tuple[Record, ...] = ()
