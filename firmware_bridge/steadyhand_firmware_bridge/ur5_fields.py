"""What is exchanged with a UR controller over RTDE, by name, and how a state becomes `Feedback`. Pure.

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide". The registers from 24 on are those that an RTDE client
may write while a fieldbus has the lower ones.
"""
from __future__ import annotations

from steadyhand import cell
from steadyhand.protocols import Feedback, ProgramState
from steadyhand.robot_status import TEACH_PRESSED
from steadyhand_firmware_bridge.rtde import RtdeSample

RUNTIME_PLAYING = 2  # RTDE runtime_state
WIDTH_PER_VOLT_M = 0.010  # analog input 0: 0..10 V over 0..100 mm
GRIPPER_MASK = 0b11  # digital output 0 closes, 1 selects the pre-grasp opening

OUTPUTS = (
    "timestamp", "actual_q", "actual_qd", "target_q", "target_qd", "robot_mode", "safety_mode", "runtime_state",
    "robot_status_bits", "standard_analog_input0", "actual_digital_output_bits",
    "output_int_register_24", "output_int_register_25", "output_int_register_26", "output_int_register_27",
    "output_int_register_28", "payload", "payload_cog",
)  # fmt: skip
SETPOINT = (
    *(f"input_int_register_{i}" for i in range(24, 28)),
    *(f"input_double_register_{i}" for i in range(24, 30)),
)
PAYLOAD = ("input_int_register_28", *(f"input_double_register_{i}" for i in range(30, 34)))
GRIPPER = ("standard_digital_output_mask", "standard_digital_output")


def as_feedback(sample: RtdeSample, widths_m: tuple[float, float] | None = None) -> Feedback:
    """`widths_m` measured and commanded, of a gripper that is not at the controller's terminals."""
    v = sample.values
    if widths_m is None:
        outputs = int(v["actual_digital_output_bits"]) & GRIPPER_MASK
        widths_m = float(v["standard_analog_input0"]) * WIDTH_PER_VOLT_M, gripper_opening(outputs)
    return Feedback(
        stamp_s=sample.received_s,
        controller_stamp_s=float(v["timestamp"]),
        q_rad=v["actual_q"],
        qd_rad_s=v["actual_qd"],
        q_target_rad=v["target_q"],
        qd_target_rad_s=v["target_qd"],
        robot_mode=int(v["robot_mode"]),
        safety_mode=int(v["safety_mode"]),
        program_running=int(v["runtime_state"]) == RUNTIME_PLAYING,
        program_state=int(v["output_int_register_24"]),
        program_token=int(v["output_int_register_26"]),
        echoed_seq=int(v["output_int_register_25"]),
        missed_cycles=int(v["output_int_register_27"]),
        gripper_width_m=widths_m[0],
        gripper_commanded_m=widths_m[1],
        freedrive=bool(int(v["robot_status_bits"]) & TEACH_PRESSED),
        payload_kg=float(v["payload"]),
        payload_cog_m=tuple(float(c) for c in v["payload_cog"]),
        payload_order=int(v["output_int_register_28"]),
    )


_OPENINGS = {0b01: 0.0, 0b11: 0.0, 0b10: cell.GRIPPER_PREGRASP_M, 0b00: cell.GRIPPER_OPEN_M}


def gripper_outputs(width_m: float) -> int:
    """Digital outputs of the opening nearest to `width_m`."""
    return min((0b01, 0b10, 0b00), key=lambda bits: abs(_OPENINGS[bits] - width_m))


def gripper_opening(outputs: int) -> float:
    """Opening (m) that these digital outputs ask for."""
    return _OPENINGS[outputs & GRIPPER_MASK]


def program_state_name(number: int) -> str:
    """Name of a program state for people; the number when it is none of ours."""
    try:
        return ProgramState(number).name
    except ValueError:
        return str(number)
