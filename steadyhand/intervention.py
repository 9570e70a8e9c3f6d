"""What a person did with the arm, recorded so that it can become a demonstration: observation, command, motion, label.

Pure. An intervention begins when the guard reports a manual mode and ends when it no longer does. Its records are those
of a trace (`steadyhand.trace`): one `begin`, a `step` each `period_s`, one `end`. `demonstration` turns them into the
action space of the policy (`policy_io`): tool displacements per period and the gripper's side.
"""
from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from steadyhand import kinematics, policy_io
from steadyhand.errors import SteadyhandError
from steadyhand.jog import JogCommand
from steadyhand.trace import Record
from steadyhand.types import Estimate, Mode, RobotState

PERIOD_S = policy_io.PERIOD_S
MANUAL = (Mode.ARMED_MANUAL, Mode.RECOVERING)
CLOSED_M = 0.02  # commanded opening below which the gripper is asked to close


class BadRecording(SteadyhandError):
    """Records that are no whole intervention."""


@dataclass
class Recorder:
    """`step` takes each new state and returns records to be written, in order. Bounded: it keeps no history."""

    period_s: float = PERIOD_S
    number: int = 0
    _causes: tuple[str, ...] = ()
    _was: Mode = Mode.STOPPED
    _from: Mode = Mode.STOPPED
    _steps: int = 0
    _begun_s: float = math.nan
    _next_s: float = -math.inf

    def step(
        self, state: RobotState, command: JogCommand | None = None, estimate: Estimate | None = None, status: str = "",
        by: str = "",
    ) -> list[Record]:
        """`command` is the newest one of the operator (None: none, or another's), `estimate` the newest observation."""
        records: list[Record] = []
        if state.mode is not self._was:
            if self._was in MANUAL:
                records.append(self._end(state))
            if state.mode in MANUAL:
                records.append(self._begin(state, by))
            elif state.mode is Mode.ARMED_AUTO:
                self._from = Mode.ARMED_AUTO
            self._was = state.mode
        if state.mode not in MANUAL and state.causes:
            self._causes = state.causes
        if state.mode in MANUAL and state.stamp_s >= self._next_s:
            self._next_s = max(self._next_s + self.period_s, state.stamp_s + self.period_s / 2)
            self._steps += 1
            records.append(_step(state, command, estimate, status))
        return records

    @property
    def active(self) -> bool:
        """Whether an intervention is being recorded."""
        return self._was in MANUAL

    def _begin(self, state: RobotState, by: str) -> Record:
        self.number, self._steps, self._begun_s, self._next_s = self.number + 1, 0, state.stamp_s, -math.inf
        return Record("begin", state.stamp_s, {
            "number": self.number, "label": label(state.mode, self._causes), "by": by, "mode": state.mode.value,
            "from_mode": self._from.value, "causes": list(self._causes), "period_s": self.period_s,
            "token": state.token,
        })  # fmt: skip

    def _end(self, state: RobotState) -> Record:
        self._from = self._was
        return Record("end", state.stamp_s, {
            "number": self.number, "steps": self._steps, "duration_s": state.stamp_s - self._begun_s,
            "ended_by": list(state.causes), "at_rest": state.at_rest,
        })  # fmt: skip


def label(mode: Mode, causes: Iterable[str]) -> str:
    """Why a person moved the arm: recover, takeover, after_fault or manual."""
    if mode is Mode.RECOVERING:
        return "recover"
    names = [c.partition(":")[0] for c in causes]
    if any(c.startswith("stop_requested: takeover") for c in causes):
        return "takeover"
    quiet = {"started", "disarmed", "stop_requested"}
    return "after_fault" if any(name not in quiet for name in names) else "manual"


def _step(state: RobotState, command: JogCommand | None, estimate: Estimate | None, status: str) -> Record:
    return Record("step", state.stamp_s, {
        "q_rad": state.q_rad, "qd_rad_s": state.qd_rad_s, "q_commanded_rad": state.q_commanded_rad,
        "qd_commanded_rad_s": state.qd_commanded_rad_s, "gripper_width_m": state.gripper_width_m,
        "gripper_commanded_m": state.gripper_commanded_m, "status": status,
        "command": None if command is None else {
            "kind": "joint" if command.joint else "twist", "frame": "" if command.joint else command.frame,
            "values": list(command.values),
        },
        "observation_id": "" if estimate is None else estimate.observation_id,
        "estimate_mode": "" if estimate is None else estimate.mode.name,
        "objects": [] if estimate is None else [
            {"id": o.object_id, "position_m": o.position_m, "yaw_rad": o.yaw_rad, "in_box": o.in_box}
            for o in estimate.objects
        ],
    })  # fmt: skip


@dataclass(frozen=True)
class Demonstration:
    """One intervention in the policy's action space. Step k leads from row k to row k + 1 of the commanded motion."""

    label: str
    stamp_s: np.ndarray  # (T,)
    q_commanded_rad: np.ndarray  # (T, 6)
    q_rad: np.ndarray  # (T, 6) executed
    actions: np.ndarray  # (T - 1, 5) dx, dy, dz, dyaw in units of policy_io.STEP_*, grip +1 close, -1 open
    tilt_rad: float  # greatest angle of the tool from straight down: the policy has no action for it
    complete: bool  # has its end


def demonstration(records: Iterable[Mapping[str, object]]) -> Demonstration:
    """From the decoded lines of one intervention. Raises BadRecording when it has no begin or fewer than two steps."""
    begin, rows, complete = None, [], False
    for record in records:
        kind = record.get("kind")
        if kind == "begin":
            begin, rows, complete = record, [], False
        elif kind == "step" and begin is not None:
            rows.append(record)
        elif kind == "end":
            complete = begin is not None
    if begin is None or len(rows) < 2:
        raise BadRecording(f"{len(rows)} steps{'' if begin else ' and no begin'}: not a whole intervention")
    try:
        commanded, executed, opening, stamps = (
            np.array([r[name] for r in rows], dtype=float)
            for name in ("q_commanded_rad", "q_rad", "gripper_commanded_m", "stamp_s")
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadRecording(f"step of unexpected content: {error}") from error
    for name, values, columns in (("q_commanded_rad", commanded, (6,)), ("q_rad", executed, (6,)),
                                  ("gripper_commanded_m", opening, ()), ("stamp_s", stamps, ())):
        if values.shape != (len(rows), *columns) or not np.isfinite(values).all():
            raise BadRecording(f"{name} of shape {values.shape}: wanted finite {(len(rows), *columns)}")
    poses = kinematics.pose_base_link_tool(commanded)
    yaw = np.unwrap([policy_io.tool_yaw(p) for p in poses])
    actions = np.column_stack([
        np.diff(poses[:, :3, 3], axis=0) / policy_io.STEP_M, np.diff(yaw) / policy_io.STEP_YAW_RAD,
        np.where(opening[1:] < CLOSED_M, 1.0, -1.0),
    ])  # fmt: skip
    tilt = float(np.arccos(np.clip(-poses[:, 2, 2], -1.0, 1.0)).max())
    return Demonstration(str(begin.get("label", "")), stamps, commanded, executed, actions, tilt, complete)
