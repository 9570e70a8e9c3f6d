"""Names and types of the RTDE fields, how an output is read from the controller and an input written to it.

Source: RTDE guide, tables of controller outputs and inputs. A field that is listed but not modelled has a constant
nominal value (`docs/emulated_controller.md` names them); a field not listed is answered NOT_FOUND. The types stand in
`steadyhand_firmware_bridge.rtde_wire` too, on purpose: two readings of the vendor's table, so that a slip shows.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from steadyhand_sim.ur_controller import modes
from steadyhand_sim.ur_controller.registers import NUMBERS

if TYPE_CHECKING:
    from steadyhand_sim.ur_controller.controller import URController

# type -> (struct code, number of values)
TYPES = {
    "BOOL": ("?", 1),
    "UINT8": ("B", 1),
    "UINT32": ("I", 1),
    "UINT64": ("Q", 1),
    "INT32": ("i", 1),
    "DOUBLE": ("d", 1),
    "VECTOR3D": ("3d", 3),
    "VECTOR6D": ("6d", 6),
    "VECTOR6INT32": ("6i", 6),
}
Reader = Callable[["URController"], Any]


def _constant(value: Any) -> Reader:
    return lambda controller: value


_ZERO3, _ZERO6 = (0.0,) * 3, (0.0,) * 6

OUTPUTS: dict[str, tuple[str, Reader]] = {
    "timestamp": ("DOUBLE", lambda c: c.time_s),
    "target_q": ("VECTOR6D", lambda c: c.target.q_rad.tolist()),
    "target_qd": ("VECTOR6D", lambda c: c.target.qd_rad_s.tolist()),
    "target_qdd": ("VECTOR6D", lambda c: c.target.qdd_rad_s2.tolist()),
    "actual_q": ("VECTOR6D", lambda c: c.measured.q_rad.tolist()),
    "actual_qd": ("VECTOR6D", lambda c: c.measured.qd_rad_s.tolist()),
    "actual_current": ("VECTOR6D", lambda c: c.measured.current_a.tolist()),
    "joint_control_output": ("VECTOR6D", lambda c: c.measured.current_a.tolist()),
    "actual_TCP_pose": ("VECTOR6D", lambda c: c.tool.actual_pose.tolist()),
    "actual_TCP_speed": ("VECTOR6D", lambda c: c.tool.actual_speed.tolist()),
    "actual_TCP_force": ("VECTOR6D", lambda c: c.tcp_force_n.tolist()),
    "target_TCP_pose": ("VECTOR6D", lambda c: c.tool.target_pose.tolist()),
    "target_TCP_speed": ("VECTOR6D", lambda c: c.tool.target_speed.tolist()),
    "tcp_force_scalar": ("DOUBLE", lambda c: float((c.tcp_force_n[:3] ** 2).sum() ** 0.5)),
    "actual_digital_input_bits": ("UINT64", lambda c: c.measured.digital_inputs),
    "actual_digital_output_bits": ("UINT64", lambda c: c.digital_outputs),
    "standard_analog_input0": ("DOUBLE", lambda c: c.measured.analog_inputs_v[0]),
    "standard_analog_input1": ("DOUBLE", lambda c: c.measured.analog_inputs_v[1]),
    "standard_analog_output0": ("DOUBLE", lambda c: c.analog_output(0)),
    "standard_analog_output1": ("DOUBLE", lambda c: c.analog_output(1)),
    "robot_mode": ("INT32", lambda c: int(c.robot_mode)),
    "joint_mode": ("VECTOR6INT32", lambda c: (int(modes.joint_mode(c.robot_mode)),) * 6),
    "safety_mode": ("INT32", lambda c: int(c.safety_mode.legacy)),
    "safety_status": ("INT32", lambda c: int(c.safety_mode)),
    "runtime_state": ("UINT32", lambda c: int(c.runtime_state)),
    "robot_status_bits": (
        "UINT32", lambda c: modes.robot_status_bits(c.robot_mode, c.runtime_state, c.freedrive_pressed)
    ),
    "safety_status_bits": ("UINT32", lambda c: modes.safety_status_bits(c.safety_mode)),
    "speed_scaling": ("DOUBLE", lambda c: c.speed_scaling),
    "target_speed_fraction": ("DOUBLE", lambda c: c.speed_slider),
    "payload": ("DOUBLE", lambda c: c.payload_kg),
    "payload_cog": ("VECTOR3D", lambda c: c.payload_cog_m),
    "payload_inertia": ("VECTOR6D", lambda c: c.payload_inertia),
    "script_control_line": ("UINT32", lambda c: c.script_line),
    "output_bit_registers0_to_31": ("UINT32", lambda c: c.outputs.word(0)),
    "output_bit_registers32_to_63": ("UINT32", lambda c: c.outputs.word(32)),
    "input_bit_registers0_to_31": ("UINT32", lambda c: c.inputs.word(0)),
    "input_bit_registers32_to_63": ("UINT32", lambda c: c.inputs.word(32)),
    # listed in the guide, not modelled: nominal constants
    "target_current": ("VECTOR6D", _constant(_ZERO6)),
    "target_moment": ("VECTOR6D", _constant(_ZERO6)),
    "joint_temperatures": ("VECTOR6D", _constant((30.0,) * 6)),
    "actual_execution_time": ("DOUBLE", _constant(0.0)),
    "actual_tool_accelerometer": ("VECTOR3D", _constant((0.0, 0.0, -9.81))),
    "actual_momentum": ("DOUBLE", _constant(0.0)),
    "actual_main_voltage": ("DOUBLE", _constant(48.0)),
    "actual_robot_voltage": ("DOUBLE", _constant(48.0)),
    "actual_robot_current": ("DOUBLE", _constant(0.5)),
    "actual_joint_voltage": ("VECTOR6D", _constant((48.0,) * 6)),
    "elbow_position": ("VECTOR3D", _constant(_ZERO3)),
    "elbow_velocity": ("VECTOR3D", _constant(_ZERO3)),
    "analog_io_types": ("UINT32", lambda c: 3 | c.analog_domains[0] << 2 | c.analog_domains[1] << 3),
    "io_current": ("DOUBLE", _constant(0.0)),
    "tool_mode": ("UINT32", _constant(253)),
    "tool_analog_input_types": ("UINT32", _constant(0)),
    "tool_analog_input0": ("DOUBLE", _constant(0.0)),
    "tool_analog_input1": ("DOUBLE", _constant(0.0)),
    "tool_output_voltage": ("INT32", lambda c: c.tool_voltage_v),
    "tool_output_current": ("DOUBLE", _constant(0.0)),
    "tool_temperature": ("DOUBLE", _constant(30.0)),
    "ft_raw_wrench": ("VECTOR6D", lambda c: c.tcp_force_n.tolist()),
}

INPUT_TYPES: dict[str, str] = {
    "speed_slider_mask": "UINT32",
    "speed_slider_fraction": "DOUBLE",
    "standard_digital_output_mask": "UINT8",
    "standard_digital_output": "UINT8",
    "configurable_digital_output_mask": "UINT8",
    "configurable_digital_output": "UINT8",
    "tool_digital_output_mask": "UINT8",
    "tool_digital_output": "UINT8",
    "standard_analog_output_mask": "UINT8",
    "standard_analog_output_type": "UINT8",
    "standard_analog_output_0": "DOUBLE",
    "standard_analog_output_1": "DOUBLE",
    "external_force_torque": "VECTOR6D",
    "input_bit_registers0_to_31": "UINT32",
    "input_bit_registers32_to_63": "UINT32",
}


def _register_fields() -> None:
    for i in range(NUMBERS):
        OUTPUTS[f"output_int_register_{i}"] = ("INT32", lambda c, i=i: c.outputs.ints[i])
        OUTPUTS[f"output_double_register_{i}"] = ("DOUBLE", lambda c, i=i: c.outputs.doubles[i])
        OUTPUTS[f"input_int_register_{i}"] = ("INT32", lambda c, i=i: c.inputs.ints[i])
        OUTPUTS[f"input_double_register_{i}"] = ("DOUBLE", lambda c, i=i: c.inputs.doubles[i])
        INPUT_TYPES[f"input_int_register_{i}"] = "INT32"
        INPUT_TYPES[f"input_double_register_{i}"] = "DOUBLE"
    for i in range(64, 128):
        OUTPUTS[f"output_bit_register_{i}"] = ("BOOL", lambda c, i=i: c.outputs.bits[i])
        OUTPUTS[f"input_bit_register_{i}"] = ("BOOL", lambda c, i=i: c.inputs.bits[i])
        INPUT_TYPES[f"input_bit_register_{i}"] = "BOOL"


_register_fields()

# mask field -> (value field, first bit of the digital outputs)
_DIGITAL = {
    "standard_digital_output_mask": ("standard_digital_output", 0),
    "configurable_digital_output_mask": ("configurable_digital_output", 8),
    "tool_digital_output_mask": ("tool_digital_output", 16),
}


def apply_inputs(controller: URController, values: dict[str, Any]) -> None:
    """Write one input package: all its fields at once, before the next control cycle.

    An output changes only where its mask says so (RTDE guide); a value without its mask in the same package changes
    nothing.
    """
    for name, value in values.items():
        if name.startswith("input_"):
            _write_register(controller, name, value)
        elif name == "external_force_torque":
            controller.external_force_n = tuple(value)
        controller.note_input(name)
    for mask_name, (value_name, shift) in _DIGITAL.items():
        if mask_name in values and value_name in values:
            controller.set_digital_outputs(values[mask_name] << shift, values[value_name] << shift)
    if values.get("speed_slider_mask") and "speed_slider_fraction" in values:
        controller.set_speed_slider(values["speed_slider_fraction"])
    for i in (0, 1):
        if values.get("standard_analog_output_mask", 0) >> i & 1 and f"standard_analog_output_{i}" in values:
            controller.set_analog_output(i, values[f"standard_analog_output_{i}"])
            if "standard_analog_output_type" in values:
                controller.analog_domains[i] = values["standard_analog_output_type"] >> i & 1


def _write_register(controller: URController, name: str, value: Any) -> None:
    kind, _, number = name.removeprefix("input_").rpartition("_")
    bank = controller.inputs
    if kind == "int_register":
        bank.ints[int(number)] = value
    elif kind == "double_register":
        bank.doubles[int(number)] = value
    elif kind == "bit_register":
        bank.bits[int(number)] = value
    else:
        bank.set_word(0 if name == "input_bit_registers0_to_31" else 32, value)
