"""URScript's functions of the tool and of the outputs: freedrive, contact, forces, payload, domains."""
import numpy as np
import pytest

from steadyhand_sim.ur_controller.controller import ControllerConfig, URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.rtde_fields import OUTPUTS, apply_inputs


@pytest.fixture
def robot():
    return URController(KinematicPlant(), ControllerConfig.e_series())


def run(robot, *lines, cycles=200):
    """A program to its end, or for so many cycles; the text of its error."""
    assert robot.start_program("def p():\n" + "".join(f"  {line}\n" for line in lines) + "end\n"), robot.messages
    for _ in range(cycles):
        robot.step()
        if robot.program is None:
            break
    return robot.messages[-1][1] if robot.counters["program_errors"] else ""


@pytest.mark.parametrize("begin", ["teach_mode()", "freedrive_mode()"])
def test_in_freedrive_a_motion_is_an_error_and_the_program_s_end_ends_it(robot, begin):
    home = robot.target.q_rad.copy()
    error = run(robot, begin, "sync()", "movej([0, 0, 0, 0, 0, 0])")
    assert "freedrive" in error and not robot.freedrive
    assert np.array_equal(robot.target.q_rad, home)
    assert run(robot, begin, "sync()", "end_" + begin, "stopj(2.0)").count("freedrive") == 1  # the error from before


def test_no_freedrive_while_the_arm_moves(robot):
    assert "moves" in run(robot, "speedj([0.3, 0, 0, 0, 0, 0], 2.0, 0.1)", "teach_mode()")


def test_a_contact_counts_from_where_the_tool_is_pressed_against_the_direction(robot):
    down, up, any_ = np.array([0.0, 0, -1]), np.array([0.0, 0, 1]), np.zeros(3)
    for force, cycles in ((robot.config.contact_n - 0.1, 5), (robot.config.contact_n + 0.1, 7)):
        robot.plant.tcp_force_n[2] = force
        for _ in range(cycles):
            robot.step()
    assert [robot.contact_steps(d) for d in (down, up, any_, 5 * down)] == [7, 0, 7, 7]
    robot.plant.tcp_force_n[2] = 0.0
    robot.step()
    assert robot.contact_steps(down) == 0


def test_an_external_sensor_takes_the_place_of_the_estimate_when_a_program_says_so(robot):
    robot.plant.tcp_force_n[:] = 1.0
    apply_inputs(robot, {"external_force_torque": (5.0, 0.0, 0.0, 0.0, 0.0, 0.0)})
    robot.step()
    read = OUTPUTS["actual_TCP_force"][1]
    assert read(robot) == [1.0] * 6
    assert run(robot, "ft_rtde_input_enable(True)") == "" and read(robot) == [5.0, 0, 0, 0, 0, 0]
    assert run(robot, "enable_external_ft_sensor(False)") == "" and read(robot) == [1.0] * 6


def test_payload_and_inertia(robot):
    assert run(robot, "set_target_payload(0.5, [0, 0, 0.02], [0.1, 0.2, 0.3, 0, 0, 0])") == ""
    assert (robot.payload_kg, robot.payload_cog_m) == (0.5, (0, 0, 0.02)) and robot.payload_inertia == (0.1, 0.2, 0.3, 0, 0, 0)


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("set_payload(10.1)", "payload"), ("set_payload(-1)", "payload"), ("set_target_payload(1, [0, 0, 0], [1])", "inertia"),
        ("set_analog_outputdomain(0, 2)", "domain"), ("set_analog_outputdomain(2, 1)", "2"), ("set_tool_voltage(5)", "voltage"),
        ("force_mode_set_gain_scaling(2.1)", "scaling"), ("force_mode_set_damping(-0.1)", "damping"),
        ("tool_contact([1, 2])", "direction"), ("set_tool_digital_out(2, True)", "2"), ("get_configurable_digital_in(8)", "8"),
    ],
)  # fmt: skip
def test_a_wrong_argument_fails_the_program_by_name(robot, line, named):
    assert named in run(robot, line)


def test_only_the_e_series_has_its_functions():
    robot = URController(KinematicPlant())
    assert run(robot, "zero_ftsensor()") == ""
    assert "force_mode_set_gain_scaling" in run(robot, "force_mode_set_gain_scaling(1.0)")


def test_outputs_are_set_and_read_where_they_are(robot):
    lines = ["set_configurable_digital_out(2, True)", "set_tool_digital_out(1, True)", "set_tool_voltage(12)"]
    checks = ["get_configurable_digital_out(2)", "get_tool_digital_out(1)"]
    assert run(robot, *lines, *(f"write_output_boolean_register({64 + i}, {c})" for i, c in enumerate(checks))) == ""
    assert robot.digital_outputs == 1 << 10 | 1 << 17 and robot.tool_voltage_v == 12
    assert robot.outputs.bits[64] and robot.outputs.bits[65]
    robot.plant.digital_inputs = 1 << 9 | 1 << 16
    robot.step()
    checks = ["get_configurable_digital_in(1)", "get_tool_digital_in(0)", "get_tool_digital_in(1)"]
    assert run(robot, *(f"write_output_boolean_register({64 + i}, {c})" for i, c in enumerate(checks))) == ""
    assert [robot.outputs.bits[64 + i] for i in range(3)] == [True, True, False]


def test_an_analog_output_is_volts_or_amperes_by_its_domain(robot):
    volts = {"standard_analog_output_mask": 1, "standard_analog_output_type": 1, "standard_analog_output_0": 0.5}
    amperes = {"standard_analog_output_mask": 2, "standard_analog_output_type": 0, "standard_analog_output_1": 0.25}
    apply_inputs(robot, volts)
    apply_inputs(robot, amperes)
    assert robot.analog_output(0) == 5.0 and robot.analog_output(1) == pytest.approx(0.008)
    apply_inputs(robot, volts | {"standard_analog_output_mask": 2, "standard_analog_output_0": 0.9})
    assert robot.analog_output(0) == 5.0  # without its mask
    assert run(robot, "set_analog_outputdomain(0, 0)") == "" and robot.analog_output(0) == pytest.approx(0.012)
