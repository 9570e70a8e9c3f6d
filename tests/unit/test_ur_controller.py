"""The controller core: programs, stops, power, registers. No sockets."""
import os
from types import SimpleNamespace

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.errors import ConfigError
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.__main__ import Pendant
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.derived import Tool
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.modes import (
    RobotMode, RuntimeState, SafetyMode, robot_status_bits, safety_status_bits,
)
from steadyhand_sim.ur_controller.motion import Setpoint
from steadyhand_sim.ur_controller.plant import PlantState
from steadyhand_sim.ur_controller.rtde_fields import OUTPUTS, TYPES, apply_inputs

MOVE = "def move():\n  q = get_actual_joint_positions()\n  q[0] = q[0] + 1.0\n  movej(q, a=1.4, v=1.05)\nend\n"
SPEED = "def fast():\n  while True:\n    speedj([0.8,0,0,0,0,0], 4.0, 0.008)\n  end\nend\n"
# servo while a heartbeat in integer register 24 counts; brake and halt when it does not for five cycles
HEARTBEAT = """def beat():
  last = read_input_integer_register(24)
  missed = 0
  q = get_target_joint_positions()
  while missed < 5:
    beat = read_input_integer_register(24)
    if beat == last:
      missed = missed + 1
    else:
      missed = 0
      last = beat
    end
    i = 0
    while i < 6:
      q[i] = read_input_float_register(24 + i)
      i = i + 1
    end
    servoj(q, 0, 0, 0.008, 0.03, 2000)
  end
  write_output_integer_register(24, 3)
  stopj(8.0)
  halt
end
"""
from steadyhand_sim.urscript import Pose


@pytest.fixture
def robot():
    return URController(KinematicPlant())


def until(robot, condition, cycles=2000):
    for n in range(cycles):
        if condition():
            return n
        robot.step()
    raise AssertionError(f"not within {cycles} cycles; log {list(robot.messages)[-3:]}")


def stopped(robot):
    return robot.runtime_state is RuntimeState.STOPPED


def speed(robot):
    return float(np.abs(robot.target.qd_rad_s).max())


def test_a_program_moves_the_arm(robot):
    assert robot.start_program(MOVE)
    assert robot.runtime_state is RuntimeState.PLAYING
    until(robot, lambda: stopped(robot))
    assert robot.measured.q_rad[0] == pytest.approx(cell.HOME_Q_RAD[0] + 1.0, abs=2e-3)
    assert robot.safety_mode is SafetyMode.NORMAL


def test_the_target_never_jumps(robot):
    robot.start_program(MOVE)
    previous = robot.target
    for _ in range(60):
        robot.step()
        assert np.abs(robot.target.qd_rad_s - previous.qd_rad_s).max() <= 1.4 * 0.008 + 1e-9
        previous = robot.target
    robot.stop_program()
    while robot.target.moving:
        robot.step()
        assert np.abs(robot.target.qd_rad_s - previous.qd_rad_s).max() <= 10.0 * 0.008 + 1e-9
        previous = robot.target


def test_a_missed_heartbeat_brakes_and_halts(robot):
    for i in range(6):
        apply_inputs(robot, {f"input_double_register_{24 + i}": float(robot.target.q_rad[i])})
    robot.start_program(HEARTBEAT)
    q0 = robot.target.q_rad.copy()
    for k in range(60):
        q = q0 + [0.004 * k, 0, 0, 0, 0, 0]
        setpoint = {f"input_double_register_{24 + i}": float(q[i]) for i in range(6)}
        apply_inputs(robot, setpoint | {"input_int_register_24": k + 1})
        robot.step()
    assert speed(robot) == pytest.approx(0.5, abs=0.02)
    falling_after = until(robot, lambda: robot.outputs.ints[24] == 3)
    assert falling_after <= 6
    before = speed(robot)
    robot.step()
    assert speed(robot) < before  # the target falls from the first cycle of stopj on
    until(robot, lambda: stopped(robot))
    assert speed(robot) == 0.0


@pytest.mark.parametrize("stop", ["protective_stop", "safeguard_stop", "emergency_stop", "pause_program"])
def test_every_stop_only_pauses_the_program(robot, stop):
    robot.start_program(MOVE)
    until(robot, lambda: speed(robot) > 0.5)
    getattr(robot, stop)()
    assert robot.runtime_state is RuntimeState.PAUSING
    peak = speed(robot)
    robot.step()
    assert speed(robot) < peak
    until(robot, lambda: robot.runtime_state is RuntimeState.PAUSED)
    assert speed(robot) == 0.0
    q = robot.target.q_rad.copy()
    for _ in range(50):
        robot.step()
    assert robot.program is not None
    assert robot.target.q_rad == pytest.approx(q, abs=2e-3)


@pytest.mark.parametrize(
    ("stop", "clear"),
    [
        ("protective_stop", ["unlock_protective_stop", "play_program"]),
        ("pause_program", ["play_program"]),
        ("safeguard_stop", ["release_safeguard"]),  # by itself: the harsher case
        ("emergency_stop", ["release_emergency_stop", "brake_release", "play_program"]),
    ],
)
def test_a_paused_program_goes_on_and_finishes_its_move(robot, stop, clear):
    robot.start_program(MOVE)
    until(robot, lambda: speed(robot) > 0.5)
    getattr(robot, stop)()
    until(robot, lambda: robot.runtime_state is RuntimeState.PAUSED)
    for _ in range(3):
        robot.step()
    for action in clear:
        getattr(robot, action)()
        until(robot, lambda: robot.robot_mode is not RobotMode.BOOTING)
    until(robot, lambda: stopped(robot))
    assert robot.target.q_rad[0] == pytest.approx(cell.HOME_Q_RAD[0] + 1.0, abs=1e-6)


def test_no_play_while_the_cause_persists(robot):
    robot.start_program(MOVE)
    robot.protective_stop()
    until(robot, lambda: robot.runtime_state is RuntimeState.PAUSED)
    assert not robot.play_program()
    assert not robot.start_program(MOVE)
    assert robot.counters["programs_refused"] == 1


def test_stop_of_a_paused_program_cannot_be_undone(robot):
    robot.start_program(MOVE)
    until(robot, lambda: speed(robot) > 0.3)
    robot.protective_stop()
    robot.stop_program()
    until(robot, lambda: stopped(robot))
    robot.unlock_protective_stop()
    assert not robot.play_program()
    robot.step()
    assert speed(robot) == 0.0


def test_emergency_stop_ends_without_power(robot):
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.7)
    robot.emergency_stop()
    until(robot, lambda: robot.robot_mode is RobotMode.POWER_OFF)
    assert speed(robot) == 0.0
    assert not robot.power_on()
    assert not robot.brake_release()
    robot.release_emergency_stop()
    assert robot.power_on()
    until(robot, lambda: robot.robot_mode is RobotMode.IDLE)
    robot.brake_release()
    until(robot, lambda: robot.robot_mode is RobotMode.RUNNING)


def test_an_emergency_stop_released_while_braking_ends_without_power_too(robot):
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.7)
    robot.emergency_stop()
    robot.step()
    assert speed(robot) > 0.0
    robot.release_emergency_stop()
    for _ in range(50):
        robot.step()
        assert robot.robot_mode is RobotMode.POWER_OFF


def test_power_off_while_moving_ends_the_program(robot):
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.5)
    robot.power_off()
    until(robot, lambda: stopped(robot), 3)
    assert speed(robot) == 0.0
    assert not robot.start_program(MOVE)


def test_a_motion_commanded_in_the_cycle_of_a_stop_waits(robot):
    robot.start_program("def p():\n  protective_stop()\n  speedj([0.5,0,0,0,0,0], 4.0, 1.0)\nend\n")
    for _ in range(20):
        robot.step()
        assert speed(robot) == 0.0
    assert robot.runtime_state is RuntimeState.PAUSED


@pytest.mark.parametrize("ending", ["powers down", "stopped while paused"])
def test_nothing_of_a_program_is_left_for_the_next(robot, ending):
    if ending == "powers down":
        robot.start_program("def p():\n  powerdown()\n  movej([0.0,-1.0,1.0,-1.0,-1.0,0.0])\nend\n")
        robot.step()
        assert robot.robot_mode is RobotMode.POWER_OFF and stopped(robot)
        robot.brake_release()
        until(robot, lambda: robot.robot_mode is RobotMode.RUNNING)
    else:
        robot.start_program(MOVE)
        until(robot, lambda: speed(robot) > 0.5)
        robot.pause_program()
        until(robot, lambda: robot.runtime_state is RuntimeState.PAUSED)
        robot.stop_program()
    q = robot.target.q_rad.copy()
    robot.start_program("def idle():\n  while True:\n    sync()\n  end\nend\n")
    robot.step()
    robot.pause_program()
    robot.step()
    assert robot.play_program()
    for _ in range(50):
        robot.step()
        assert speed(robot) == 0.0
    assert robot.target.q_rad == pytest.approx(q)


def test_a_new_program_replaces_the_old_one(robot):
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.5)
    assert robot.start_program("def other():\n  stopj(4.0)\nend\n")
    until(robot, lambda: stopped(robot))
    assert robot.program_name == "other"
    assert speed(robot) == 0.0


def test_a_failing_program_brakes_and_names_its_line(robot):
    robot.start_program("def bad():\n  speedj([0.5,0,0,0,0,0], 4.0, 0.3)\n  servoj([1,2,3], t=0.008)\nend\n")
    until(robot, lambda: stopped(robot))
    assert "line 3" in robot.messages[-1][1]
    assert "six" in robot.messages[-1][1]
    assert speed(robot) == 0.0
    assert robot.counters["program_errors"] == 1


def test_unknown_function_is_refused_with_its_line(robot):
    robot.start_program("def bad():\n  sync()\n  freedrive_mode()\nend\n")
    until(robot, lambda: stopped(robot))
    assert "line 3" in robot.messages[-1][1]
    assert "freedrive_mode" in robot.messages[-1][1]


def test_malformed_program_is_refused(robot):
    assert not robot.start_program("def bad(:\n  movej(\nend\n")
    assert robot.counters["programs_refused"] == 1


def test_a_secondary_program_runs_beside_and_may_not_move(robot):
    robot.start_program(SPEED)
    assert robot.run_secondary("sec s():\n  set_standard_digital_out(2, True)\nend\n")
    assert robot.digital_outputs == 4
    assert not robot.run_secondary("sec s():\n  movej([0,0,0,0,0,0])\nend\n")
    assert not robot.run_secondary("sec s():\n  sync()\n  set_standard_digital_out(3, True)\nend\n")
    assert robot.digital_outputs == 4
    assert robot.runtime_state is RuntimeState.PLAYING


def test_rtde_watchdog_stops_the_program(robot):
    watchdog = 'rtde_set_watchdog("input_int_register_24", 10.0, "stop")'
    robot.start_program(f"def w():\n  {watchdog}\n  while True:\n    sync()\n  end\nend\n")
    for _ in range(50):
        apply_inputs(robot, {"input_int_register_24": 1})
        robot.step()
    assert robot.runtime_state is RuntimeState.PLAYING
    assert until(robot, lambda: stopped(robot)) == pytest.approx(0.1 / 0.008, abs=2)


def test_too_fast_is_a_protective_stop(robot):
    robot.start_program("def f():\n  speedj([4.0,0,0,0,0,0], 20.0, 1.0)\nend\n")
    until(robot, lambda: robot.safety_mode is SafetyMode.PROTECTIVE_STOP)
    until(robot, lambda: speed(robot) == 0.0)


def test_a_blocked_arm_is_a_protective_stop(robot):
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.5)
    robot.plant.offset_rad = np.array([0.2, 0, 0, 0, 0, 0])
    until(robot, lambda: robot.safety_mode is SafetyMode.PROTECTIVE_STOP, 2)


def test_servo_commands_keep_their_speed_when_the_slider_is_low(robot):
    robot.set_speed_slider(0.1)
    for _ in range(30):
        robot.step()
    assert robot.speed_scaling == pytest.approx(0.1)
    robot.start_program(SPEED)
    until(robot, lambda: speed(robot) > 0.7, 40)


def test_inputs_are_seen_in_the_same_cycle_and_outputs_too(robot):
    robot.start_program(
        "def e():\n  while True:\n    write_output_integer_register(25, read_input_integer_register(24))\n"
        "    write_output_float_register(24, read_input_float_register(24))\n    sync()\n  end\nend\n"
    )
    robot.step()
    apply_inputs(robot, {"input_int_register_24": 77, "input_double_register_24": 1.5})
    robot.step()
    assert OUTPUTS["output_int_register_25"][1](robot) == 77
    assert OUTPUTS["output_double_register_24"][1](robot) == 1.5


def test_digital_outputs_change_only_under_their_mask(robot):
    apply_inputs(robot, {"standard_digital_output_mask": 3, "standard_digital_output": 1})
    assert robot.digital_outputs == 1
    apply_inputs(robot, {"standard_digital_output_mask": 2, "standard_digital_output": 2})
    assert robot.digital_outputs == 3
    apply_inputs(robot, {"standard_digital_output": 0})
    assert robot.digital_outputs == 3


def test_a_stop_never_writes_the_gripper(robot):
    apply_inputs(robot, {"standard_digital_output_mask": 3, "standard_digital_output": 1})
    robot.start_program(MOVE)
    until(robot, lambda: speed(robot) > 0.3)
    robot.emergency_stop()
    until(robot, lambda: robot.robot_mode is RobotMode.POWER_OFF)
    robot.stop_program()
    for _ in range(100):
        robot.step()
    assert robot.digital_outputs == 1
    assert robot.measured.analog_inputs_v[0] == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rtde_set_watchdog", ("input_int_register_24", float("nan"), "stop")),  # it would never act
        ("rtde_set_watchdog", ("input_int_register_24", float("inf"), "stop")),
        ("set_payload", (1.0, [0, 0, float("nan")])), ("set_gravity", ([0, 0, float("inf")],)),
        ("write_output_float_register", (0, float("nan"))), ("write_output_float_register", (0, "1.5")),
        ("set_standard_analog_out", (0, float("nan"))), ("get_actual_joint_positions_history", (-1,)),
        ("movel", (np.array([0.4, 0.1, 0.3, 0, 3, 0]), 1.2, 0.25, float("nan"))), ("movej", ([0] * 6, 1.4, 1.05, -1.0)),
        ("get_inverse_kin_has_solution", ([0.4, 0.1, 0.3],)), ("get_inverse_kin_has_solution", ("pose",)),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_an_error_of_the_program(robot, name, arguments):
    robot.start_program(SPEED)
    with pytest.raises(ValueError, match="finite|six|positive|steps"):
        robot.builtins.table()[name](*arguments)


def test_inverse_kinematics_says_where_there_is_none(robot):
    functions = robot.builtins.table()
    here = functions["get_actual_tcp_pose"]()
    assert functions["get_inverse_kin_has_solution"](here) and functions["is_within_safety_limits"](here)
    assert functions["get_inverse_kin"](here) == pytest.approx(robot.measured.q_rad.tolist(), abs=1e-4)
    far = Pose([2.0, *here[1:]])
    assert not functions["get_inverse_kin_has_solution"](far) and not functions["is_within_safety_limits"](far)
    with pytest.raises(ValueError, match="no inverse kinematics solution"):
        functions["get_inverse_kin"](far)


@pytest.mark.parametrize("index", [-1, 48, 1.0, True, "1"])
def test_registers_have_bounds(robot, index):
    with pytest.raises(ValueError, match="register"):
        robot.builtins.table()["read_input_integer_register"](index)


def test_every_output_field_has_a_value_of_its_type(robot):
    import struct

    robot.step()
    for name, (kind, read) in OUTPUTS.items():
        code, count = TYPES[kind]
        value = read(robot)
        struct.pack(">" + code, *([value] if count == 1 else value)), name


def test_the_tool_is_shown_where_the_joints_put_it(robot):
    """Pose and speed of every cycle, target and actual: the speed is the difference of the poses."""
    robot.start_program(MOVE)
    until(robot, lambda: speed(robot) > 0.5)
    for which in ("actual", "target"):
        before = np.array(OUTPUTS[f"{which}_TCP_pose"][1](robot))
        robot.step()
        after = np.array(OUTPUTS[f"{which}_TCP_pose"][1](robot))
        shown = np.array(OUTPUTS[f"{which}_TCP_speed"][1](robot))
        assert np.linalg.norm(shown[:3]) > 0.1
        assert (after - before)[:3] / 0.008 == pytest.approx(shown[:3], abs=0.02)


def test_the_tool_s_actual_values_are_measured_and_its_target_values_commanded():
    commanded = Setpoint(cell.HOME_Q_RAD + 0.1, np.full(6, 0.2), np.zeros(6))
    measured = PlantState(np.array(cell.HOME_Q_RAD), np.zeros(6), np.zeros(6))
    tool = Tool(commanded, measured, np.zeros(6))
    assert (tool.actual_speed == 0.0).all() and np.linalg.norm(tool.target_speed[:3]) > 0.01
    assert tool.actual_pose == pytest.approx(frames.forward(cell.HOME_Q_RAD, np.zeros(6)))
    assert tool.target_pose == pytest.approx(frames.forward(cell.HOME_Q_RAD + 0.1, np.zeros(6)))


def test_robot_status_bits():
    assert robot_status_bits(RobotMode.RUNNING, RuntimeState.PLAYING) == 0b11
    assert robot_status_bits(RobotMode.IDLE, RuntimeState.STOPPED, freedrive_pressed=True) == 0b101
    assert robot_status_bits(RobotMode.POWER_OFF, RuntimeState.PAUSED) == 0


def test_safety_bits():
    assert safety_status_bits(SafetyMode.NORMAL) == 1
    assert safety_status_bits(SafetyMode.PROTECTIVE_STOP) == 1 << 2 | 1 << 10
    assert safety_status_bits(SafetyMode.ROBOT_EMERGENCY_STOP) == 1 << 6 | 1 << 7 | 1 << 10


@pytest.mark.parametrize(
    "field",
    [{"control_hz": 0.0}, {"tcp": (0,)}, {"program_stop_rad_s2": -1.0}, {"deviation_limit_rad": float("nan")},
     {"tcp": (0, 0, float("nan"), 0, 0, 0)}, {"power_on_s": -1.0}],
)
def test_config_names_its_field(field):
    with pytest.raises(ConfigError, match=next(iter(field))):
        ControllerConfig(**field)


def test_both_generations_make_the_same_move():
    ends = []
    for config in (ControllerConfig.cb3(), ControllerConfig.e_series()):
        robot = URController(KinematicPlant(), config)
        robot.start_program(MOVE)
        until(robot, lambda: stopped(robot), 4000)
        ends.append(robot.time_s)
    assert ends[0] == pytest.approx(ends[1], abs=0.03)


def test_the_way_point_of_a_move_that_leaves_the_reach_fails_the_program_not_the_controller(robot):
    far = "p[0.4, -0.3, 3.0, 0, 3.14, 0]"
    text = f"def far():\n  thread go():\n    movel({far}, a=0.1, v=0.01)\n  end\n  run go()\n  sync()\n"
    assert robot.start_program(text + "  x = get_target_waypoint()\nend\n")
    until(robot, lambda: robot.program is None)
    assert robot.counters["program_errors"] == 1 and "inverse kinematics" in robot.messages[-1][1]


@pytest.fixture
def pendant(robot):
    read, write = os.pipe()
    yield Pendant(SimpleNamespace(controller=robot), read)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize(
    "line", ["touch", "touch 1", "touch 1 2 nan", "touch 1 2 3 4", "touch a b c", "digital_input", "digital_input 1",
             "digital_input 70 1", "digital_input -1 1", "digital_input 1 2", "digital_input 1 1 1", "", "fly", "shove",
             "shove 0", "shove 6 1", "shove -1 1", "shove 0 nan", "shove 0 99", "object"],
)  # fmt: skip
def test_what_cannot_be_done_at_the_pendant_is_named_and_changes_nothing(robot, pendant, line):
    assert "give" in pendant._act(line)["error"] or line.split()[0] in pendant._act(line)["error"]
    robot.step()
    assert robot.measured.digital_inputs == 0 and robot.tcp_force_n.tolist() == robot.plant.qd_rad_s.tolist() == [0.0] * 6


def test_what_is_done_at_the_pendant_is_seen_by_the_controller(robot, pendant):
    assert pendant._act("touch 1 2 -3")["result"] is None and pendant._act("digital_input 17 1")["result"] is None
    robot.step()
    assert robot.tcp_force_n.tolist() == [1, 2, -3, 0, 0, 0] and robot.measured.digital_inputs == 1 << 17
    pendant._act("digital_input 17 0")
    robot.step()
    assert robot.measured.digital_inputs == 0


@pytest.mark.parametrize("version", [(3, 15, 8), (3, 15, 8, 2**32), (3, -1, 8, 0)])
def test_a_version_that_no_package_can_hold_is_refused(version):
    with pytest.raises(ConfigError, match="version"):
        ControllerConfig(version=version)
