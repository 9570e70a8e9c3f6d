"""The steps of a task, in one table: who controls, what is measured at the end, until when, and how it fails.

Executor, documentation and tests read this table. Deadlines are fields of `ExecutorConfig`.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass, fields

from steadyhand.config import check_ranges, described


class Phase(str, enum.Enum):
    """What the executor is doing; the feedback's `phase`."""

    OBSERVE = "observe"  # at home, the tray in view: choose the next object
    TURN = "turn"  # wrist a quarter turn, so that the policy takes the other orientation
    ABOVE = "above"  # planned move above the target
    PICK = "pick"  # the policy approaches the object
    GRASP = "grasp"  # brake, close, verify by width
    LIFT = "lift"  # straight up, verify by width and height
    PLACE = "place"  # the policy carries to the release point
    RELEASE = "release"  # brake, open, verify by width
    RETREAT = "retreat"  # straight up out of the box
    HOME = "home"
    BACK_OFF = "back_off"  # brake, then straight up; before every second try
    BLIND = "blind"  # perception lost: brake and wait for it
    DIAGNOSE = "diagnose"  # L3: brake and hold
    DONE = "done"


POLICY_PHASES = frozenset({Phase.PICK, Phase.PLACE})


@dataclass(frozen=True)
class ExecutorConfig:
    """Deadlines, speeds and limits of the phases."""

    joint_velocity_rad_s: float = described(1.6, "speed of planned joint moves", "rad/s", 0.1, 3.0)
    joint_acceleration_rad_s2: float = described(5.0, "acceleration of planned joint moves", "rad/s^2", 0.5, 8.0)
    tool_velocity_m_s: float = described(0.45, "speed of planned straight tool moves", "m/s", 0.02, 1.0)
    tool_acceleration_m_s2: float = described(2.0, "acceleration of planned straight tool moves", "m/s^2", 0.1, 5.0)
    window: int = described(12, "way-points of a planned chunk", "", 8, 20)
    policy_deadline_s: float = described(8.0, "deadline of a policy skill", "s", 1.0, 60.0)
    move_deadline_s: float = described(6.0, "deadline of a planned move", "s", 1.0, 60.0)
    gripper_deadline_s: float = described(1.5, "deadline of closing or opening", "s", 0.3, 10.0)
    observe_deadline_s: float = described(5.0, "longest wait for a usable estimate", "s", 0.5, 60.0)
    tray_empty_s: float = described(1.0, "seen empty for this long, the tray counts as empty", "s", 0.2, 10.0)
    blind_limit_s: float = described(5.0, "perception may come back within this", "s", 0.5, 60.0)
    rest_deadline_s: float = described(
        2.0, "rest is measured within this before a task is given up, or not waited for", "s", 0.5, 10.0
    )
    target_age_max_s: float = described(
        1.5, "object unmeasured (the gripper hides it) during the approach", "s", 0.2, 5.0
    )
    target_age_limit_s: float = described(6.0, "object unmeasured at all, back-off included", "s", 0.5, 30.0)
    target_moved_m: float = described(0.03, "an object this far from where it was chosen has moved", "m", 0.01, 0.2)
    arrived_rad: float = described(0.01, "measured distance at which a planned move has arrived", "rad", 0.001, 0.1)
    diverged_rad: float = described(
        0.15, "commanded distance from the path at which it is planned anew", "rad", 0.02, 0.5
    )
    degraded_speed: float = described(0.5, "share of the policy's speed while the estimate predicts", "", 0.5, 1.0)
    speed_slew_per_s: float = described(4.0, "fastest change of that share", "1/s", 0.5, 20.0)
    lift_z_m: float = described(0.16, "tool height after lifting", "m", 0.13, 0.4)
    clear_z_m: float = described(0.22, "tool height after backing off or retreating", "m", 0.15, 0.5)
    failures_max: int = described(5, "consecutive failures that end the task (L3)", "", 1, 20)

    def __post_init__(self) -> None:
        check_ranges(self)


@dataclass(frozen=True)
class PhaseRow:
    """One step. `deadline_field` is empty for DONE only; `late` is the fault of a missed deadline, or the task ends."""

    phase: Phase
    controller: str
    post_condition: str
    deadline_field: str
    late: str
    faults: tuple[str, ...]
    on_success: str

    def deadline(self) -> str:
        """The shipped deadline and the name of its parameter, for people."""
        default = next((f.default for f in fields(ExecutorConfig) if f.name == self.deadline_field), None)
        return "none" if default is None else f"{default:g} s (`{self.deadline_field}`)"


_MOVE, _CUT = "step_deadline", ("chunks_refused", "path_infeasible", "step_deadline")
_JOINTS = "every joint measured within 0.01 rad of the goal (`arrived_rad`), the path over"
_ROWS = (
    PhaseRow(Phase.OBSERVE, "holds position", "3 fresh estimates at home, an object in the tray measured within 0.3 s",
             "observe_deadline_s", "", (), "`turn` or `pick`; task ends when the tray stays empty"),
    PhaseRow(Phase.TURN, "planned joint move", _JOINTS, "move_deadline_s", _MOVE, _CUT, "`pick`"),
    PhaseRow(Phase.ABOVE, "planned joint move", _JOINTS, "move_deadline_s", _MOVE, _CUT, "`pick` or `place`"),
    PhaseRow(Phase.PICK, "policy, position towards the object",
             "tool within 12 mm (xy) and 10 mm (z) of the object, below 80 mm/s, and the policy asks to close",
             "policy_deadline_s", _MOVE, (*_CUT, "target_lost", "target_moved", "policy_unavailable"), "`grasp`"),
    PhaseRow(Phase.GRASP, "braking, then finger force", "width 30 to 46 mm, 3 times in a row after 120 ms of rest",
             "gripper_deadline_s", "grasp_empty", ("grasp_empty", "chunks_refused"), "`lift`"),
    PhaseRow(Phase.LIFT, "planned straight tool move", "width 30 to 46 mm, tool 100 mm above the grasp",
             "move_deadline_s", _MOVE, (*_CUT, "grasp_lost"), "`place`"),
    PhaseRow(Phase.PLACE, "policy, position towards the release point",
             "tool within 25 mm (xy) and 20 mm (z) of the release point, below 80 mm/s, and the policy asks to open",
             "policy_deadline_s", _MOVE, (*_CUT, "grasp_lost", "policy_unavailable"), "`release`"),
    PhaseRow(Phase.RELEASE, "braking, then finger position", "width above 50 mm twice in a row, tool over the box",
             "gripper_deadline_s", "release_unverified", ("release_unverified", "chunks_refused"),
             "`retreat`; the object counts as placed"),
    PhaseRow(Phase.RETREAT, "planned straight tool move", _JOINTS, "move_deadline_s", _MOVE, _CUT, "`home`"),
    PhaseRow(Phase.HOME, "planned joint move", _JOINTS, "move_deadline_s", _MOVE, _CUT, "`observe`"),
    PhaseRow(Phase.BACK_OFF, "braking, then planned straight tool move", _JOINTS, "move_deadline_s", _MOVE,
             (*_CUT, "grasp_lost"), "`home` or `above`, as the recovery says"),
    PhaseRow(Phase.BLIND, "braking", "an estimate that is not LOST", "blind_limit_s", "", ("target_lost",),
             "`back_off`"),
    PhaseRow(Phase.DIAGNOSE, "braking", "at rest, measured", "rest_deadline_s", "", (), "task ends with a report"),
    PhaseRow(Phase.DONE, "none", "none", "", "", (), "the agent waits for measured rest"),
)
PHASES: dict[Phase, PhaseRow] = {row.phase: row for row in _ROWS}
