"""THE table: every fault the runtime can raise, who notices it, and what is then done. Read alone, it is the policy.

Levels (highest first, in every state):
  STOP  the robot must be at rest: brake, end the task, wait for the operator.
  L3    stop, hold, diagnose, report; wait for the operator.
  L2    the step failed: reach the same sub-goal by a *different* action within three further steps.
  L1    absorbed inside the step: the datum is dropped and counted; the step's own deadline bounds it.
The state machine knows only levels. A fault that is not here cannot be raised (`fault` refuses it). The guard's own
faults, all of level STOP, are in the second table; `docs/faults.md` shows both, made by `steadyhand.fault_page`.
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
    FaultRow("release_unverified", "executor", Level.L2,
             "back off upwards, then another release point; re-perceive when the width says neither held nor free",
             "1.5 s",
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
             "prediction is bounded by the estimator; kinds: docs/camera.md",
             "same image; third of a frozen camera; 200 ms without one",
             "tests/unit/test_image_gate.py::test_each_fault_is_named_and_counted"),
    FaultRow("detection_invalid", "estimator", Level.L1, "drop the detection, count", "same image",
             _ESTIMATOR + "test_what_is_not_finite_is_refused"),
    FaultRow("detection_out_of_order", "estimator", Level.L1, "drop the image, count", "same image",
             _ESTIMATOR + "test_old_and_repeated_images_are_refused"),
)
TABLE: dict[str, FaultRow] = {row.name: row for row in _ROWS}

# ---- the guard's own: each stops, latches and empties everything; how it stops is ruled by `guard_state.RULES` ------
_GUARD = "tests/unit/test_guard_core.py::"
_AGV = "tests/unit/test_agv_guard.py::"
_OPERATOR = "tests/unit/test_guard_operator.py::"
_PROCESS = "tests/process/test_guard_process.py::"
_STATE = "tests/property/test_guard_state.py::"

# How the guard stops, by the reaction of its rule.
STOPS = {
    "BRAKE": "S1: brake along the checked path, then halt the program",
    "SILENCE": "S2: send nothing; the controller program misses the heartbeat and stops by itself",
    "WITHDRAW": "S0: send nothing and end the program at once, so that nobody can resume it",
}


def _guard(name: str, detector: str, limit: str, test: str) -> FaultRow:
    return FaultRow(name, detector, Level.STOP, "", limit, test)  # the reaction is `guard_state.RULES`'


_GUARD_ROWS = (
    _guard("robot_safety", "robot's safety mode", "next feedback (8 ms)",
           _GUARD + "test_the_robots_own_stop_is_withdrawn_from_at_once_and_blocks_arming"),
    _guard("robot_mode", "robot's mode, freedrive", "next feedback (8 ms)",
           _OPERATOR + "test_what_the_robot_says_stops_under_its_own_name"),
    _guard("robot_reduced", "robot's safety mode", "next feedback (8 ms)",
           _OPERATOR + "test_every_safety_mode_but_normal_is_a_cause"),
    _guard("robot_local", "dashboard of the controller", "next answer (asked every 250 ms)",
           "tests/process/test_guard_stop_sources.py::test_local_control_of_an_e_series_stops"),
    _guard("robot_speed", "speed scaling of ur_robot_driver", "next message",
           "tests/unit/test_ur_driver.py::test_a_slider_below_full_speed_stops"),
    _guard("robot_shared", "publishers beside the guard, by the ROS graph", "next look (every 250 ms)",
           "tests/unit/test_ur_driver.py::test_another_publisher_of_set_points_stops"),
    _guard("robot_unreachable", "driver's connections", "next cycle",
           _PROCESS + "test_an_unreachable_robot_is_said_and_not_fatal"),
    _guard("feedback_lost", "age and content of feedback", "40 ms", _GUARD + "test_lost_feedback_is_silence"),
    _guard("link_lost", "packages that the controller took", "3 packages",
           _GUARD + "test_a_link_that_takes_nothing_is_lost"),
    _guard("program_lost", "echoed token and state of the program", "next feedback (8 ms)",
           _GUARD + "test_a_program_that_ends_by_itself_stops_the_guard"),
    _guard("script_error", "runtime exception messages of the controller's primary port", "next message",
           "tests/process/test_guard_programs.py::test_a_program_that_the_controller_refuses_is_named_with_its_line"),
    _guard("foreign_program", "messages of the primary port; RTDE's runtime state and our registers",
           "next message; 1 s without messages",
           "tests/process/test_guard_programs.py::test_a_program_played_at_the_pendant_while_disarmed_is_named"),
    _guard("loop_late", "the guard's own clock", "40 ms",
           _PROCESS + "test_a_dead_or_frozen_guard_is_stopped_by_the_controller_program"),
    _guard("internal_error", "the guard's loop", "same cycle", _STATE + "test_stop_wins_in_every_mode"),
    _guard("tracking", "commanded against measured pose", "52 ms lag allowed",
           _GUARD + "test_an_arm_that_does_not_follow_stops"),
    _guard("margin", "measured pose against limits and clearances", "next feedback (8 ms)",
           _OPERATOR + "test_beyond_a_limit_only_recovering_may_be_armed"),
    _guard("payload", "controller's payload against what it was told", "next feedback (8 ms); 500 ms for an order",
           "tests/unit/test_guard_payload.py::test_a_payload_that_somebody_changed_stops"),
    _guard("gripper", "worker of a Robotiq gripper: its socket, its fault and activation", "500 ms without a state",
           "tests/process/test_guard_robotiq.py::test_a_lost_gripper_stops_auto_and_is_named"),
    _guard("input", "watchdog per AUTO input", "500 ms each, the agent 75 ms while moving; in the guard's configuration",
           _GUARD + "test_auto_needs_its_inputs_and_manual_does_not"),
    _guard("command_source_silent", "watchdog of chunks", "100 ms",
           _GUARD + "test_policy_silence_while_moving_stops_within_its_limit"),
    _guard("shell_lost", "the commander's connection and heartbeat",
           "32 ms of silence while moving; a lost connection at once",
           _GUARD + "test_a_frozen_commander_stops_a_moving_arm"),
    _guard("operator_link", "beats of operators in control", "500 ms; a lost connection at once",
           _OPERATOR + "test_an_operator_in_control_that_falls_silent_stops"),
    _guard("peer", "beats of the other guards of the cell", "100 ms; a stop of theirs at once",
           _OPERATOR + "test_a_silent_peer_stops_and_forbids"),
    _guard("interlock", "zone of the peers' beats, while a vehicle moves", "next cycle (20 ms)",
           _AGV + "test_an_arm_over_a_moving_vehicle_stops_it"),
    _guard("agv_foreign", "orders and actions of another master, on the topics and in the vehicle's state; with ROS, "
           "publishers beside the guard and goals of others",
           "next message", "tests/unit/test_vda5050_master.py::"
           "test_another_masters_order_is_noticed_on_the_topic_and_in_the_state"),
    _guard("stop_requested", "stop socket, command socket, plug-ins", "16 ms to the first braking set-point",
           _GUARD + "test_a_stop_brakes_along_the_path_latches_and_halts_the_program"),
    _guard("arming_failed", "driver while arming", "5 s",
           _GUARD + "test_arming_is_refused_when_the_controllers_target_is_not_where_the_arm_is"),
    _guard("disarmed", "operator", "next cycle", _STATE + "test_over_any_history_the_invariants_hold"),
    _guard("shutdown", "signal to the guard", "next cycle; at rest within 4 s",
           _GUARD + "test_shutdown_brakes_and_settles"),
    _guard("started", "start of the guard", "at start", _GUARD + "test_starts_stopped_and_sends_nothing"),
)
GUARD_TABLE: dict[str, FaultRow] = {row.name: row for row in _GUARD_ROWS}


def level(name: str) -> Level:
    """Level of a fault; KeyError for one that is not in the table."""
    return TABLE[name].level


def fault(name: str, stamp_s: float, detail: str = "", **evidence: object) -> Fault:
    """A Fault of the table. KeyError when the name is not in it: a fault without a reaction must not exist."""
    return Fault(name, stamp_s, TABLE[name].detector, detail, dict(evidence))
