"""THE table: every fault the runtime can raise, who notices it, and what is then done. Read alone, it is the policy.

Levels (highest first, in every state):
  STOP  the robot must be at rest: brake, end the task, wait for the operator.
  L3    stop, hold, diagnose, report; wait for the operator.
  L2    the step failed: reach the same sub-goal by a *different* action within three further steps.
  L1    absorbed inside the step: the datum is dropped and counted; the step's own deadline bounds it.
The state machine knows only levels. A fault that is not here cannot be raised (`fault` refuses it).
The software stop is not the safety function of the cell: the wired e-stop and the robot's own safety system are.
"""
from __future__ import annotations

import enum
from dataclasses import dataclass

from steadyhand.types import Fault


class Level(enum.IntEnum):
    """Values of Fault.msg `level`."""

    L1 = 1
    L2 = 2
    L3 = 3
    STOP = 4


@dataclass(frozen=True)
class FaultRow:
    """One row. `limit` is the time or count within which the reaction must have begun; `test` is `file::function`."""

    name: str
    detector: str
    level: Level
    reaction: str
    limit: str
    test: str


_AGENT = "tests/scenario/test_agent.py::"
_PROPERTY = "tests/property/test_agent_states.py::"
_SCENARIO = "tests/scenario/test_clear_tray.py::"
_ESTIMATOR = "tests/unit/test_estimator.py::"

_ROWS = (
    # ---- STOP ----------------------------------------------------------------------------------------------------
    FaultRow("disarmed", "agent", Level.STOP, "drop goal, policy call and path; end STOPPED at rest; never resume",
             "next state", _AGENT + "test_stop_in_the_middle_ends_the_goal_once_at_rest"),
    FaultRow("guard_silent", "agent", Level.STOP, "send nothing; end the task; rest is unknown after 2 s",
             "300 ms without a state", _AGENT + "test_guard_silence_ends_in_rest_unknown"),
    FaultRow("perception_lost", "estimator", Level.STOP, "brake and hold; end PERCEPTION_LOST unless it comes back",
             "age 200 ms + prediction 300 ms; 5 s to come back", _SCENARIO + "test_perception_lost_for_good"),
    FaultRow("rest_unknown", "agent", Level.STOP, "end the task with at_rest false", "2 s after the stop",
             _AGENT + "test_rest_never_measured_is_said"),
    FaultRow("internal_error", "agent", Level.STOP, "ask the guard for a stop; end the task INTERNAL", "same step",
             _AGENT + "test_an_exception_inside_asks_for_a_stop"),
    # ---- L3 ------------------------------------------------------------------------------------------------------
    FaultRow("repeated_failure", "executor", Level.L3, "brake, hold, diagnose, write the report, end the task",
             "5 consecutive failed steps", _SCENARIO + "test_frictionless_fingers_end_in_a_report"),
    # ---- L2 ------------------------------------------------------------------------------------------------------
    FaultRow("step_deadline", "executor", Level.L2, "back off upwards; re-approach from above, then re-perceive",
             "deadline of the step", _AGENT + "test_a_stalled_policy_is_re_approached_from_above"),
    FaultRow("grasp_empty", "executor", Level.L2, "open, back off, re-perceive; then the other yaw", "1.5 s",
             _SCENARIO + "test_slipping_grasps_are_retried_differently"),
    FaultRow("grasp_lost", "executor", Level.L2, "open, back off, re-perceive", "3 states in a row without width",
             _SCENARIO + "test_an_object_lost_on_the_way_is_found_again"),
    FaultRow("release_unverified", "executor", Level.L2, "back off upwards, then another release point", "1.5 s",
             _SCENARIO + "test_a_gripper_that_does_not_open_is_not_counted_as_placed"),
    FaultRow("target_lost", "executor", Level.L2, "back off, re-perceive", "1.5 s unmeasured during the approach",
             _SCENARIO + "test_an_object_taken_away_is_not_chased"),
    FaultRow("target_moved", "executor", Level.L2, "back off, re-perceive", "30 mm from where it was chosen",
             _SCENARIO + "test_an_object_that_moves_is_seen_again"),
    FaultRow("chunks_refused", "executor", Level.L2, "back off, re-approach from above", "4 refusals in a row",
             _AGENT + "test_refused_chunks_change_the_action"),
    FaultRow("policy_unavailable", "agent", Level.L2, "brake; try again after the back-off, then end the task",
             "500 ms without a usable reply", _AGENT + "test_a_dead_policy_ends_in_policy_unavailable"),
    FaultRow("path_infeasible", "planner", Level.L2, "another object first", "same step",
             _AGENT + "test_an_infeasible_path_is_a_failure_not_a_crash"),
    # ---- L1 ------------------------------------------------------------------------------------------------------
    FaultRow("policy_timeout", "agent", Level.L1, "drop the call; the plan under way ends at rest by itself", "50 ms",
             _AGENT + "test_late_and_foreign_replies_are_dropped_and_counted"),
    FaultRow("policy_reply_foreign", "agent", Level.L1, "drop the reply, count", "same step",
             _AGENT + "test_late_and_foreign_replies_are_dropped_and_counted"),
    FaultRow("policy_output_invalid", "agent", Level.L1, "drop the reply, count", "same step",
             _AGENT + "test_invalid_policy_output_is_refused"),
    FaultRow("state_invalid", "agent", Level.L1, "drop the state; silence then counts", "same step",
             _AGENT + "test_a_state_that_is_not_finite_is_dropped"),
    FaultRow("estimate_degraded", "estimator", Level.L1, "half speed while predicting", "300 ms",
             _ESTIMATOR + "test_silence_degrades_then_loses"),
    FaultRow("camera_frozen", "estimator", Level.L1, "identical content is no measurement; prediction is bounded",
             "3 images", _ESTIMATOR + "test_a_frozen_camera_is_a_lost_camera"),
    FaultRow("image_fault", "perception", Level.L1, "the image is no measurement: nothing is published for it; "
             "prediction is bounded by the estimator", "same image; 200 ms without one",
             _ESTIMATOR + "test_silence_degrades_then_loses"),
    FaultRow("detection_invalid", "estimator", Level.L1, "drop the detection, count", "same image",
             _ESTIMATOR + "test_what_is_not_finite_is_refused"),
    FaultRow("detection_out_of_order", "estimator", Level.L1, "drop the image, count", "same image",
             _ESTIMATOR + "test_old_and_repeated_images_are_refused"),
)
TABLE: dict[str, FaultRow] = {row.name: row for row in _ROWS}


def level(name: str) -> Level:
    """Level of a fault; KeyError for one that is not in the table."""
    return TABLE[name].level


def fault(name: str, stamp_s: float, detail: str = "", **evidence: object) -> Fault:
    """A Fault of the table. KeyError when the name is not in it: a fault without a reaction must not exist."""
    return Fault(name, stamp_s, TABLE[name].detector, detail, dict(evidence))
