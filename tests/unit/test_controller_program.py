"""Our program on the controller: each rule, run in the interpreter against scripted registers.

`RULES_BROKEN` at the end breaks each rule in the text of the program and requires its test to fail.
"""
import math
import re

import pytest

from steadyhand.payload import Payload
from steadyhand.protocols import Command, ProgramState
from steadyhand_firmware_bridge import urscript
from steadyhand_firmware_bridge.urscript import ProgramConfig
from steadyhand_sim.urscript import ScriptError, State, is_strict_program
from tests.unit.controller_program_rig import START_Q, TOKEN, Rig

BOTH_RATES = pytest.mark.parametrize("steptime_s", [0.008, 0.002])


def moved(step, joint=0):
    return [q + (step if k == joint else 0.0) for k, q in enumerate(START_Q)]


def test_it_is_checked_at_upload_by_its_header():
    assert is_strict_program(urscript.render(TOKEN))
    assert Rig().machine.strict
    assert Rig().machine.name == "steadyhand"


def test_waits_for_a_heartbeat_that_changes_with_the_right_token():
    rig = Rig()
    rig.int_in[urscript.IN_HEARTBEAT] = 77  # left by an earlier session
    rig.int_in[urscript.IN_TOKEN] = TOKEN
    rig.tick(20)
    assert rig.state is ProgramState.NONE
    rig.cycle(token=TOKEN + 1)
    rig.tick(5)
    assert rig.state is ProgramState.NONE
    rig.cycle(command=Command.HOLD)
    assert rig.state is ProgramState.READY
    assert rig.int_out[urscript.OUT_TOKEN] == TOKEN


@BOTH_RATES
def test_no_first_heartbeat_ends_in_the_stated_time(steptime_s):
    rig = Rig(steptime_s, ProgramConfig(first_heartbeat_timeout_s=0.4))
    rig.tick(round(0.4 / steptime_s) + 1)
    assert rig.state is ProgramState.NONE
    rig.tick(2)
    rig.assert_stopped_once(ProgramState.STOPPED_NO_HEARTBEAT)


@BOTH_RATES
def test_heartbeat_lost_for_40_ms_stops_in_that_cycle(steptime_s):
    rig = Rig(steptime_s).servoing()
    last_seen = rig.machine.cycle
    rig.tick(round(0.040 / steptime_s) - 1)
    assert rig.state is ProgramState.SERVOING and not rig.named("stopj")
    rig.tick()
    assert rig.state is ProgramState.STOPPED_HEARTBEAT
    assert [c[0] - last_seen for c in rig.named("stopj")] == [round(0.040 / steptime_s)]
    assert rig.named("stopj")[0][2] == (ProgramConfig().stop_deceleration_rad_s2,)
    assert rig.int_out[urscript.OUT_LONGEST_SILENCE] == round(0.040 / steptime_s)
    rig.assert_stopped_once(ProgramState.STOPPED_HEARTBEAT)


def test_heartbeat_lost_while_ready_ends_too():
    rig = Rig().ready()
    rig.tick(5)
    rig.assert_stopped_once(ProgramState.STOPPED_HEARTBEAT)


def test_a_silence_below_the_limit_is_survived_and_reported():
    rig = Rig().servoing()
    for _ in range(10):
        rig.tick(4)
        rig.cycle(command=Command.SERVO, q=START_Q)
    assert rig.state is ProgramState.SERVOING
    assert rig.int_out[urscript.OUT_LONGEST_SILENCE] == 4


def test_repeated_heartbeats_outside_the_counter_are_silence():
    rig = Rig().servoing()
    for value in (0, -1, urscript.HEARTBEAT_MAX + 1, -(2**31), 2**31 - 1):
        rig.int_in[urscript.IN_HEARTBEAT] = value
        rig.tick()
    rig.assert_stopped_once(ProgramState.STOPPED_HEARTBEAT)


def test_wrong_token_stops_in_the_same_cycle():
    rig = Rig().servoing()
    rig.cycle(command=Command.SERVO, q=START_Q, token=TOKEN + 1)
    assert rig.named("stopj")[0][0] == rig.machine.cycle
    rig.assert_stopped_once(ProgramState.STOPPED_TOKEN)


def test_wrong_token_without_a_new_heartbeat_stops_too():
    rig = Rig().servoing()
    rig.cycle(token=0, beat=False)
    rig.assert_stopped_once(ProgramState.STOPPED_TOKEN)


@BOTH_RATES
def test_paused_and_resumed_stops_without_moving(steptime_s):
    rig = Rig(steptime_s).servoing()
    rig.machine.pause()
    for _ in range(6):  # 48 ms of heartbeats nobody read
        rig.cycle(command=Command.SERVO, q=START_Q)
    before = len(rig.named("servoj"))
    rig.machine.resume()
    rig.tick()
    assert len(rig.named("servoj")) == before
    rig.assert_stopped_once(ProgramState.STOPPED_RESUMED)


def test_a_burst_within_the_timeout_is_no_pause():
    rig = Rig().servoing()
    rig.tick(4)
    for _ in range(5):
        rig.send(command=Command.SERVO, q=START_Q)
    rig.tick()
    assert rig.state is ProgramState.SERVOING


def test_heartbeat_counter_wraps():
    rig = Rig()
    rig.int_in[urscript.IN_HEARTBEAT] = urscript.HEARTBEAT_MAX - 2
    rig.ready()
    for k in range(8):
        rig.cycle(command=Command.SERVO, q=START_Q, sequence=k)
    assert rig.int_in[urscript.IN_HEARTBEAT] == 7
    assert rig.state is ProgramState.SERVOING


def test_heartbeat_stepping_back_stops():
    rig = Rig()
    rig.int_in[urscript.IN_HEARTBEAT] = 500
    rig.servoing()
    rig.int_in[urscript.IN_HEARTBEAT] = 400
    rig.tick()
    rig.assert_stopped_once(ProgramState.STOPPED_RESUMED)


@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("step", [0.0101, -0.0101])
def test_first_setpoint_too_far_from_the_target_is_refused(joint, step):
    rig = Rig().ready()
    rig.cycle(command=Command.SERVO, q=moved(step, joint), sequence=1)
    assert not rig.named("servoj")
    rig.assert_stopped_once(ProgramState.STOPPED_SETPOINT)


def test_first_setpoint_within_the_tolerance_is_taken():
    rig = Rig().ready()
    rig.cycle(command=Command.SERVO, q=moved(0.0099), sequence=1)
    assert rig.state is ProgramState.SERVOING
    assert rig.named("servoj")[0][2][0] == moved(0.0099)


def test_first_setpoint_is_compared_with_the_target_of_that_moment():
    rig = Rig().ready()
    rig.target = moved(0.5)
    rig.cycle(command=Command.SERVO, q=START_Q, sequence=1)
    rig.assert_stopped_once(ProgramState.STOPPED_SETPOINT)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("joint", range(6))
@pytest.mark.parametrize("already_servoing", [False, True])
def test_not_a_number_is_refused(bad, joint, already_servoing):
    rig = Rig()
    rig = rig.servoing() if already_servoing else rig.ready()
    served = len(rig.named("servoj"))
    q = list(START_Q)
    q[joint] = bad
    rig.cycle(command=Command.SERVO, q=q, sequence=2)
    assert len(rig.named("servoj")) == served
    rig.assert_stopped_once(ProgramState.STOPPED_SETPOINT)


@BOTH_RATES
def test_a_step_no_joint_can_make_is_refused(steptime_s):
    limit = ProgramConfig().step_max_rad
    rig = Rig(steptime_s).servoing()
    rig.cycle(command=Command.SERVO, q=moved(0.99 * limit), sequence=2)
    assert rig.state is ProgramState.SERVOING
    rig.cycle(command=Command.SERVO, q=moved(2.0 * limit), sequence=3)
    rig.assert_stopped_once(ProgramState.STOPPED_SETPOINT)


def test_two_packages_in_one_cycle_allow_twice_the_step():
    limit = ProgramConfig().step_max_rad
    rig = Rig().servoing()
    rig.send(command=Command.SERVO, q=moved(0.9 * limit), sequence=2)
    rig.cycle(command=Command.SERVO, q=moved(1.8 * limit), sequence=3)
    assert rig.state is ProgramState.SERVOING
    assert rig.int_out[urscript.OUT_SEQUENCE] == 3


@BOTH_RATES
def test_servo_parameters_and_one_call_per_cycle(steptime_s):
    config = ProgramConfig(servo_lookahead_s=0.07, servo_gain=700.0)
    rig = Rig(steptime_s, config).servoing()
    for k in range(10):
        rig.cycle(command=Command.SERVO, q=moved(0.001 * k), sequence=2 + k)
    calls = rig.named("servoj")
    assert {c[2][1:] for c in calls} == {(steptime_s, 0.07, 700.0)}
    assert [b[0] - a[0] for a, b in zip(calls, calls[1:])] == [1] * (len(calls) - 1)
    assert calls[-1][2][0] == moved(0.001 * 9)


def test_sequence_is_echoed_when_its_setpoint_is_taken():
    rig = Rig().servoing()
    for sequence in (5, 6, 2**31 - 1, 1):
        rig.cycle(command=Command.SERVO, q=START_Q, sequence=sequence)
        assert rig.int_out[urscript.OUT_SEQUENCE] == sequence
    rig.cycle(command=Command.HOLD, q=START_Q, sequence=99)
    assert rig.int_out[urscript.OUT_SEQUENCE] == 1


def test_hold_keeps_the_target_and_ignores_setpoints():
    rig = Rig().servoing()
    rig.cycle(command=Command.SERVO, q=moved(0.01), sequence=2)
    for k in range(20):
        rig.cycle(command=Command.HOLD, q=moved(1.0), sequence=3 + k)
    assert rig.state is ProgramState.SERVOING
    assert rig.named("servoj")[-1][2][0] == moved(0.01)
    assert rig.named("servoj")[-1][0] == rig.machine.cycle


def test_ready_moves_nothing():
    rig = Rig().ready()
    for _ in range(50):
        rig.cycle(command=Command.HOLD, q=moved(1.0), sequence=9)
    assert rig.calls == [] and rig.state is ProgramState.READY


def test_setpoint_of_an_old_package_is_not_taken_again():
    rig = Rig().servoing()
    rig.send(command=Command.SERVO, q=moved(0.01), sequence=2, beat=False)
    rig.tick()
    assert rig.state is ProgramState.SERVOING
    assert rig.named("servoj")[-1][2][0] == START_Q


@pytest.mark.parametrize("command, state", [(Command.HALT, ProgramState.HALTED), (3, ProgramState.STOPPED_COMMAND),
                                            (-1, ProgramState.STOPPED_COMMAND)])
@pytest.mark.parametrize("beat", [True, False])
def test_stop_command_and_unknown_commands_stop_at_once(command, state, beat):
    rig = Rig().servoing()
    rig.cycle(command=command, beat=beat)
    assert rig.named("stopj")[0][0] == rig.machine.cycle
    rig.assert_stopped_once(state)


def test_state_is_written_before_the_arm_brakes():
    rig = Rig(stop_cycles=50).servoing()
    rig.cycle(command=Command.HALT)
    assert rig.state is ProgramState.HALTED
    assert rig.machine.state is State.RUNNING  # still braking


def test_nothing_but_motion_payload_and_integer_registers_is_touched():
    """I12: a stop never writes an output. Every function the program calls is one of these."""
    text = re.sub(r"#[^\n]*", "", urscript.render(TOKEN))
    called = set(re.findall(r"(\w+)\s*\(", text)) - set(re.findall(r"def (\w+)", text)) - {"not", "and", "or", "if"}
    assert called == {
        "get_steptime", "get_target_joint_positions", "read_input_integer_register", "read_input_float_register",
        "write_output_integer_register", "servoj", "stopj", "sync", "get_target_joint_speeds", "set_payload",
    }
    written = set(re.findall(r"write_output_integer_register\((\d+)", text))
    assert written == {"24", "25", "26", "27", "28"}


@pytest.mark.parametrize("token", [0, -1, 2**31, 1.0, True, "7", None])
def test_render_refuses_a_bad_token(token):
    with pytest.raises(urscript.ConfigError, match="token="):
        urscript.render(token)


@pytest.mark.parametrize("name", ProgramConfig.RANGES)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0, 1e9, "1", None, True])
def test_config_names_the_bad_field(name, value):
    with pytest.raises(urscript.ConfigError, match=f"{name}="):
        ProgramConfig(**{name: value})


def test_config_refuses_a_timeout_of_hardly_two_heartbeats():
    with pytest.raises(urscript.ConfigError, match="heartbeat_timeout_s"):
        ProgramConfig(heartbeat_period_s=0.01, heartbeat_timeout_s=0.02)


def test_render_leaves_no_placeholder_and_no_exponent():
    text = urscript.render(1, ProgramConfig(qd_max_rad_s=0.05, first_setpoint_tolerance_rad=0.0005))
    assert "{{" not in text
    assert "TOKEN = 1\n" in text and "STEP_MAX = 0.000500000\n" in text

# --- payload ---


def payload_order(rig, number, mass=1.0, cog=(0.0, 0.0, 0.06)):
    rig.float_in[urscript.IN_PAYLOAD_FIRST:urscript.IN_PAYLOAD_FIRST + 4] = [mass, *cog]
    rig.int_in[urscript.IN_PAYLOAD_ORDER] = number
    rig.cycle(command=Command.SERVO, q=START_Q)
    return rig.int_out[urscript.OUT_PAYLOAD_ORDER]


def test_a_payload_order_is_done_once_at_rest_and_echoed():
    rig = Rig().servoing()
    assert rig.int_out[urscript.OUT_PAYLOAD_ORDER] == 0 and not rig.named("set_payload")
    assert payload_order(rig, 7) == 7
    for _ in range(5):
        rig.cycle(command=Command.SERVO, q=START_Q)
    assert [c[2] for c in rig.named("set_payload")] == [(1.0, [0.0, 0.0, 0.06])]
    assert payload_order(rig, 8, 0.9) == 8 and rig.state is ProgramState.SERVOING


@pytest.mark.parametrize("mass, cog, speed", [
    (float("nan"), (0, 0, 0), 0.0), (-0.1, (0, 0, 0), 0.0), (5.1, (0, 0, 0), 0.0), (1.0, (0, 0, 0.31), 0.0),
    (1.0, (float("nan"), 0, 0), 0.0), (1.0, (0, -0.31, 0), 0.0), (1.0, (0, 0, 0), 0.02), (1.0, (0, 0, 0), -0.02),
    (1.0, (0, 0, 0), float("nan")),
])
def test_a_payload_out_of_range_or_under_way_is_refused(mass, cog, speed):
    rig = Rig().servoing()
    rig.target_speeds[3] = speed
    assert payload_order(rig, 7, mass, cog) == -7
    assert not rig.named("set_payload") and rig.state is ProgramState.SERVOING


def test_an_order_that_was_there_before_the_program_is_none():
    rig = Rig()
    rig.int_in[urscript.IN_PAYLOAD_ORDER] = 5
    rig.servoing()
    rig.cycle(command=Command.SERVO, q=START_Q)
    assert not rig.named("set_payload") and rig.int_out[urscript.OUT_PAYLOAD_ORDER] == 0


def test_the_payload_of_before_is_in_force_before_anything_moves_and_a_stop_leaves_it():
    rig = Rig(text=urscript.render(TOKEN, payload=Payload(1.0, (0.0, 0.01, -0.06)))).servoing()
    assert [(c[1], c[2]) for c in rig.calls][0] == ("set_payload", (1.0, [0.0, 0.01, -0.06]))
    rig.tick(5)
    rig.assert_stopped_once(ProgramState.STOPPED_HEARTBEAT)
    assert len(rig.named("set_payload")) == 1



# Each rule of the program, broken, and a test above that must notice.
RULES_BROKEN = {
    "token ignored": ("if read_input_integer_register(25) != TOKEN:", "if False:",
                      test_wrong_token_stops_in_the_same_cycle),
    "heartbeat ignored": ("> HEARTBEAT_TIMEOUT_S:", "> 1000:", test_heartbeat_lost_while_ready_ends_too),
    "a cycle late": ("(silent + 0.5)", "(silent - 0.5)", test_heartbeat_lost_while_ready_ends_too),
    "resumed after a pause": ("if beats > HEARTBEAT_JUMP_MAX:", "if beats > 100:",
                              lambda: test_paused_and_resumed_stops_without_moving(0.008)),
    "wrap forgotten": ("counted = counted + HEARTBEAT_MAX", "counted = -1", test_heartbeat_stepping_back_stops),
    "wrap wrong": ("counted = counted + HEARTBEAT_MAX", "counted = 999", test_heartbeat_counter_wraps),
    "stale register": ("  heartbeat = read_input_integer_register(24)\n  waited", "  waited",
                       test_waits_for_a_heartbeat_that_changes_with_the_right_token),
    "any token at first": ("> 0 and read_input_integer_register(25) == TOKEN:", "> 0:",
                           test_waits_for_a_heartbeat_that_changes_with_the_right_token),
    "first set-point unchecked": ("setpoint_within(FIRST_SETPOINT_TOLERANCE)", "True",
                                  lambda: test_first_setpoint_too_far_from_the_target_is_refused(3, 0.0101)),
    "old target": ("          target = get_target_joint_positions()\n", "",
                   test_first_setpoint_is_compared_with_the_target_of_that_moment),
    "jump unchecked": ("setpoint_within(STEP_MAX * beats)", "True",
                       lambda: test_a_step_no_joint_can_make_is_refused(0.008)),
    "NaN passes": ("if not (step <= distance and step >= -distance):", "if step > distance or step < -distance:",
                   lambda: test_not_a_number_is_refused(math.nan, 2, True)),
    "last joint unchecked": ("    while joint < 6:\n      local step", "    while joint < 5:\n      local step",
                             lambda: test_first_setpoint_too_far_from_the_target_is_refused(5, 0.0101)),
    "hold moves": ("elif command == 1:", "elif command == 1 or command == 0:",
                   test_hold_keeps_the_target_and_ignores_setpoints),
    "stop ignored": ("if command == 2:", "if False:",
                     lambda: test_stop_command_and_unknown_commands_stop_at_once(2, ProgramState.HALTED, True)),
    "unknown command": (
        "elif command != 0:", "elif command > 99:",
        lambda: test_stop_command_and_unknown_commands_stop_at_once(3, ProgramState.STOPPED_COMMAND, True)),
    "no stopj": ("    stopj(STOP_DECELERATION)\n", "", test_wrong_token_stops_in_the_same_cycle),
    "no halt": ("    halt\n", "", test_wrong_token_stops_in_the_same_cycle),
    "state after braking": ("    write_output_integer_register(24, reason)\n    stopj(STOP_DECELERATION)\n",
                            "    stopj(STOP_DECELERATION)\n    write_output_integer_register(24, reason)\n",
                            test_state_is_written_before_the_arm_brakes),
    "sequence not echoed": ("write_output_integer_register(25, read_input_integer_register(27))", "pass",
                            test_sequence_is_echoed_when_its_setpoint_is_taken),
    "old package taken": ("      if beats > 0:\n        read_setpoint()", "      if True:\n        read_setpoint()",
                          test_setpoint_of_an_old_package_is_not_taken_again),
    "payload under way": (
        "if not (speeds[joint] <= PAYLOAD_REST and speeds[joint] >= -PAYLOAD_REST):", "if False:",
        lambda: test_a_payload_out_of_range_or_under_way_is_refused(1.0, (0, 0, 0), 0.02)),
    "payload's mass": ("if not (mass >= 0 and mass <= PAYLOAD_MAX_KG):", "if False:",
                       lambda: test_a_payload_out_of_range_or_under_way_is_refused(5.1, (0, 0, 0), 0.0)),
    "payload's centre": ("if not (cog[axis] <= PAYLOAD_COG_MAX and cog[axis] >= -PAYLOAD_COG_MAX):", "if False:",
                         lambda: test_a_payload_out_of_range_or_under_way_is_refused(1.0, (0, 0, 0.31), 0.0)),
    "order of before": ("  payload_order = read_input_integer_register(28)\n", "  payload_order = 0\n",
                        test_an_order_that_was_there_before_the_program_is_none),
    "payload not kept": ("if PAYLOAD_KNOWN == 1:", "if False:",
                         test_the_payload_of_before_is_in_force_before_anything_moves_and_a_stop_leaves_it),
    "gripper written": ("    halt\n", "    set_standard_digital_out(0, False)\n    halt\n",
                        test_nothing_but_motion_payload_and_integer_registers_is_touched),
}


@pytest.mark.parametrize("rule", RULES_BROKEN)
def test_a_broken_rule_is_noticed(rule, monkeypatch):
    old, new, test = RULES_BROKEN[rule]
    text = urscript.program_path().read_text()
    assert text.count(old) == 1, f"{rule}: the text to break occurs {text.count(old)} times"
    monkeypatch.setattr(urscript, "program_text", lambda: text.replace(old, new))
    with pytest.raises((AssertionError, IndexError, ScriptError)):
        test()
