"""Bad input by name: what is answered, and the tests that show it. Data only."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class BadInput:
    """One kind of bad input. `tests` are `file::function`."""

    name: str
    answer: str
    tests: tuple[str, ...]


_PROCESS = "tests/process/test_guard_process.py::"
_CORE = "tests/unit/test_guard_core.py::"
_BAD = "tests/property/test_bad_input.py::"
_REAL = "tests/process/test_bad_input.py::"

ROWS = (
    BadInput("flood of commands",
             "each sender has a budget per cycle; the rest waits in the kernel, newest chunk wins, counted",
             (_PROCESS + "test_a_flood_neither_stops_the_loop_nor_delays_a_stop",
              "tests/unit/test_guard_server.py::test_a_flood_waits_for_the_next_cycle")),
    BadInput("flood of stops", "is one stop, counted", (
        _PROCESS + "test_a_flood_of_stops_is_a_stop",
        "tests/unit/test_guard_server.py::test_a_flood_of_stops_is_bounded_per_cycle_and_counted")),
    BadInput("slow-drip sender",
             "a packet is whole or it is none: bytes that come one at a time are refused one at a time; a chunk "
             "every now and then does not keep a moving arm alive", (
                 _BAD + "test_a_slow_drip_of_bytes_is_refused_piece_by_piece",
                 _BAD + "test_a_slow_drip_of_chunks_ends_at_rest",
                 _REAL + "test_a_slow_drip_of_bytes_does_nothing_and_holds_nobody_up")),
    BadInput("connections that never say hello", "closed after 2 s, counted: they keep nobody out for longer", (
        "tests/unit/test_guard_loop.py::test_connections_that_never_say_hello_do_not_keep_others_out",)),
    BadInput("second commander", "refused at its hello, each of its commands refused and counted", (
        _PROCESS + "test_a_second_commander_is_refused_but_may_watch",
        _CORE + "test_another_connection_than_the_commanders_is_refused")),
    BadInput("clock steps of -5 s, +5 s, +1 h",
             "nothing decides by the wall clock; an image under way makes nothing older, it is refused; what waits by that "
             "clock is woken; `python -m benchmarks clock_steps --set-the-clock` does it to the running graph", (
        "tests/scenario/test_clear_tray.py::test_a_clock_that_is_set_changes_nothing",
        "tests/unit/test_estimator.py::test_a_clock_set_while_an_image_is_under_way",
        _BAD + "test_a_set_wall_clock_changes_no_decision_of_the_guard",
        "tests/unit/test_architecture.py::test_no_decision_by_the_wall_clock",
        "tests/unit/test_clock_watch.py::test_what_waits_is_woken_once_when_the_clock_was_set_back",
        "tests/unit/test_steady_timers.py::test_every_node_of_ours_has_steady_timers")),
    BadInput("messages from before a restart", "foreign token, whatever they say", (
        _PROCESS + "test_after_a_restart_the_old_token_moves_nothing",
        "tests/scenario/test_agent.py::test_a_new_token_ends_the_goal_even_when_armed_again_at_once")),
    BadInput("stop during arming", "the arming ends, its program is withdrawn; a late 'ready' arms nothing", (
        _CORE + "test_a_stop_while_arming_ends_it",
        _BAD + "test_a_stop_at_any_moment_of_arming_wins",
        _REAL + "test_a_stop_during_arming_wins")),
    BadInput("re-arm during a stop", "refused with the cause until rest is measured; the stop goes on", (
        _BAD + "test_a_rearm_during_a_stop_is_refused_and_the_stop_goes_on",
        "tests/property/test_guard_state.py::test_a_stop_under_way_is_never_weakened",
        _REAL + "test_a_rearm_during_a_stop_is_refused_and_the_stop_goes_on")),
    BadInput("malformed, foreign, expired, unauthorised", "refused by name, counted; a million of them move nothing", (
        "tests/property/test_hostile_inputs.py::test_nothing_crashes_and_nothing_moves",
        "tests/property/test_hostile_inputs.py::test_nothing_crashes_and_nothing_moves_through_the_shell")),
    BadInput("answers of a Robotiq that are late, truncated, oversized, foreign or no numbers",
             "named, counted, a new connection; the guard's cycle never waits; AUTO stops after 500 ms", (
                 "tests/unit/test_robotiq.py::test_a_session_gives_up_by_name_and_counts_it",
                 "tests/unit/test_robotiq.py::test_no_bytes_crash_the_parsers",
                 "tests/process/test_guard_robotiq.py::test_a_frozen_worker_is_named_and_the_queue_is_bounded")),
    BadInput("payload that is out of range, under way, or without a grasp",
             "refused by name by the guard, and once more by the program on the controller; nothing is changed", (
                 "tests/unit/test_guard_payload.py::test_each_refused_request_is_named_and_changes_nothing",
                 "tests/unit/test_controller_program.py::test_a_payload_out_of_range_or_under_way_is_refused",
                 "tests/process/test_guard_payload.py::test_a_request_without_a_grasp_is_refused_and_with_one_answered")),
    BadInput("wrong robot: another model, another firmware, another arm behind a controller that calls itself a UR5",
             "never armed, named; the commissioning wizard says what to do",
             ("tests/contract/test_robot_ur5.py::test_another_robot_is_named_and_never_armed",
              "tests/unit/test_right_robot.py::test_an_arm_is_known_by_its_measures",
              "tests/unit/test_urdf_arm.py::test_only_a_ur5_is_fit",
              "tests/process/test_commissioning_robot.py::test_another_model_and_an_old_firmware_are_named")),
    BadInput("local control, and a dashboard connection from before it",
             "disarms, forbids arming; after the switch back commands go over a new connection",
             ("tests/process/test_guard_stop_sources.py::test_local_control_of_an_e_series_stops",
              "tests/unit/test_rtde_client.py::"
              "test_after_a_switch_of_control_the_dashboard_is_asked_over_a_new_connection")),
    BadInput("play pressed on the pendant, somebody's program, one that does not compile",
             "named with its name, or its line and the controller's words; armed, ours is lost and the arm stops", (
                 "tests/process/test_guard_programs.py::test_a_program_played_at_the_pendant_while_disarmed_is_named",
                 "tests/process/test_guard_programs.py::test_a_foreign_program_that_takes_the_place_of_ours_is_the_cause",
                 "tests/process/test_guard_programs.py::test_a_program_that_the_controller_refuses_is_named_with_its_line")),
    BadInput("nonsense from the controller's primary port",
             "costs that connection, counted; stops nothing; nothing is armed before the arm's measures are told", (
                 "tests/unit/test_primary.py::test_no_body_crashes_the_parsers",
                 "tests/unit/test_primary.py::test_a_hostile_peer_costs_the_connection_and_is_counted",
                 "tests/unit/test_ur5_arming.py::test_an_arm_that_has_not_told_its_measures_is_not_taken_for_a_ur5")),
    BadInput("a disk that is full, refuses a write, or vanishes",
             "recording stops, one warning, counted, and goes on with room again; graph and guard go on; nothing waits", (
                 "tests/unit/test_storage.py::"
                 "test_a_full_disk_stops_the_trace_once_and_loudly_and_room_lets_it_go_on",
                 "tests/unit/test_recording_and_keys.py::"
                 "test_a_full_disk_is_counted_once_and_the_next_intervention_is_written",
                 "tests/unit/test_guard_disk.py::test_the_loop_touches_no_file_from_arming_to_rest",
                 "tests/process/test_service.py::test_a_full_disk_behind_its_log_costs_the_guard_nothing")),
)
