"""URScript's registers and inputs/outputs, as functions of the controller (script manual, "Module interfaces")."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from steadyhand_sim.ur_controller.registers import BITS, NUMBERS, checked_index

if TYPE_CHECKING:
    from steadyhand_sim.ur_controller.controller import URController


class IoBuiltins:
    """Public methods are the script functions of the same name."""

    def __init__(self, controller: URController):
        self._c = controller

    def read_input_integer_register(self, address: int) -> int:
        """What an RTDE client wrote last."""
        return self._c.inputs.ints[checked_index(address, NUMBERS)]

    def read_input_float_register(self, address: int) -> float:
        """What an RTDE client wrote last."""
        return self._c.inputs.doubles[checked_index(address, NUMBERS)]

    def read_input_boolean_register(self, address: int) -> bool:
        """What an RTDE client wrote last."""
        return self._c.inputs.bits[checked_index(address, BITS)]

    def read_output_integer_register(self, address: int) -> int:
        """What a program wrote last."""
        return self._c.outputs.ints[checked_index(address, NUMBERS)]

    def read_output_float_register(self, address: int) -> float:
        """What a program wrote last."""
        return self._c.outputs.doubles[checked_index(address, NUMBERS)]

    def read_output_boolean_register(self, address: int) -> bool:
        """What a program wrote last."""
        return self._c.outputs.bits[checked_index(address, BITS)]

    def write_output_integer_register(self, address: int, value: int) -> None:
        """Shown to RTDE clients in this cycle's package."""
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
            raise ValueError(f"value {value!r} is not a 32 bit integer")
        self._c.outputs.ints[checked_index(address, NUMBERS)] = value

    def write_output_float_register(self, address: int, value: float) -> None:
        """Shown to RTDE clients in this cycle's package."""
        self._c.outputs.doubles[checked_index(address, NUMBERS)] = finite("value", value)

    def write_output_boolean_register(self, address: int, value: bool) -> None:
        """Shown to RTDE clients in this cycle's package."""
        self._c.outputs.bits[checked_index(address, BITS)] = _boolean(value)

    def set_standard_digital_out(self, n: int, b: bool) -> None:
        """Standard outputs 0-7."""
        self._set_digital(checked_index(n, 8), b)

    def set_configurable_digital_out(self, n: int, b: bool) -> None:
        """Configurable outputs 0-7."""
        self._set_digital(8 + checked_index(n, 8), b)

    def set_tool_digital_out(self, n: int, b: bool) -> None:
        """Tool outputs 0-1."""
        self._set_digital(16 + checked_index(n, 2), b)

    def set_digital_out(self, n: int, b: bool) -> None:
        """The old numbering: 0-7 standard, 8-9 tool."""
        index = checked_index(n, 10)
        self._set_digital(index if index < 8 else index + 8, b)

    def get_standard_digital_out(self, n: int) -> bool:
        """Standard outputs 0-7."""
        return bool(self._c.digital_outputs >> checked_index(n, 8) & 1)

    def get_digital_out(self, n: int) -> bool:
        """The old numbering: 0-7 standard."""
        return self.get_standard_digital_out(n)

    def get_standard_digital_in(self, n: int) -> bool:
        """Standard inputs 0-7."""
        return bool(self._c.measured.digital_inputs >> checked_index(n, 8) & 1)

    def get_digital_in(self, n: int) -> bool:
        """The old numbering: 0-7 standard."""
        return self.get_standard_digital_in(n)

    def get_standard_analog_in(self, n: int) -> float:
        """Volts."""
        return self._c.measured.analog_inputs_v[checked_index(n, 2)]

    def set_standard_analog_out(self, n: int, f: float) -> None:
        """0..1 of the range."""
        self._c.set_analog_output(checked_index(n, 2), finite("f", f))

    def set_analog_outputdomain(self, port: int, domain: int) -> None:
        """0: current, 1: voltage."""
        if domain not in (0, 1) or isinstance(domain, bool):
            raise ValueError(f"domain = {domain!r} is neither 0 (current) nor 1 (voltage)")
        self._c.analog_domains[checked_index(port, 2)] = domain

    def get_standard_analog_out(self, n: int) -> float:
        """0..1 of the range."""
        return self._c.analog_outputs[checked_index(n, 2)]

    def get_configurable_digital_out(self, n: int) -> bool:
        """Configurable outputs 0-7."""
        return bool(self._c.digital_outputs >> 8 + checked_index(n, 8) & 1)

    def get_configurable_digital_in(self, n: int) -> bool:
        """Configurable inputs 0-7."""
        return bool(self._c.measured.digital_inputs >> 8 + checked_index(n, 8) & 1)

    def get_tool_digital_out(self, n: int) -> bool:
        """Tool outputs 0-1."""
        return bool(self._c.digital_outputs >> 16 + checked_index(n, 2) & 1)

    def get_tool_digital_in(self, n: int) -> bool:
        """Tool inputs 0-1."""
        return bool(self._c.measured.digital_inputs >> 16 + checked_index(n, 2) & 1)

    def set_tool_voltage(self, voltage: int) -> None:
        """0, 12 or 24 V at the tool's connector."""
        if voltage not in (0, 12, 24) or isinstance(voltage, bool):
            raise ValueError(f"voltage = {voltage!r} is none of 0, 12, 24")
        self._c.tool_voltage_v = int(voltage)

    def _set_digital(self, bit: int, value: Any) -> None:
        self._c.set_digital_outputs(1 << bit, int(_boolean(value)) << bit)


def finite(name: str, value: Any) -> float:
    """A finite number; raises ValueError naming the argument."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{name} = {value!r} is not a finite number")
    return float(value)


def three(name: str, value: Any) -> tuple[float, float, float]:
    """Three finite numbers; raises ValueError naming the argument."""
    x, y, z = (finite(name, v) for v in value)
    return x, y, z


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not a boolean")
    return value
