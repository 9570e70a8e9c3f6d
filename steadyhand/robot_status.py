"""What the robot says of itself, as named causes of the guard's table (`guard_state.RULES`). Pure.

Where the robot's own safety system has acted, the cause is `robot_safety:...` or `robot_mode:...` (S0: send nothing,
stop the old program). Where it has only changed what it allows, the guard disarms by braking (S1). Source of the
numbers: Universal Robots, "Real-Time Data Exchange (RTDE) Guide": robot_mode, safety_mode, robot_status_bits.
"""
from __future__ import annotations

from steadyhand.protocols import Feedback

RUNNING, BACKDRIVE = 7, 6  # robot_mode
NORMAL, REDUCED = 1, 2  # safety_mode
TEACH_PRESSED = 1 << 2  # robot_status_bits: the freedrive button

SAFETY_CAUSES = {
    3: ("protective_stop", "see why, then unlock it at the pendant"),
    4: ("recovery_mode", "move the arm back inside its safety limits at the pendant"),
    5: ("safeguard_stop", "close the safeguard and acknowledge it"),
    6: ("system_emergency_stop", "release the emergency stop of the cell, then power on at the pendant"),
    7: ("robot_emergency_stop", "release the robot's emergency stop, then power on at the pendant"),
    8: ("violation", "see why, then restart the safety system (pendant, or steadyhand robot restart-safety) and power on"),
    9: ("fault", "the safety system has a fault: see the robot's log"),
    10: ("validate_joint_id", "confirm the joints at the pendant"),
    12: ("automatic_mode_safeguard_stop", "close the safeguard of automatic mode and acknowledge it"),
    13: ("enabling_stop", "hold the three-position enabling device, or leave manual mode"),
}
MODE_NAMES = {
    -1: "no_controller", 0: "disconnected", 1: "confirm_safety", 2: "booting", 3: "power_off", 4: "power_on", 5: "idle",
    BACKDRIVE: "freedrive",
}  # fmt: skip


def causes(feedback: Feedback) -> dict[str, str]:
    """Named causes that hold now: name -> what to do about it. Empty when the robot is well and ready to be moved."""
    found: dict[str, str] = {}
    if feedback.safety_mode == REDUCED:
        found["robot_reduced"] = "reduced mode: its limits are not those that chunks are checked against"
    elif feedback.safety_mode != NORMAL:
        name, remedy = SAFETY_CAUSES.get(feedback.safety_mode, ("unknown", "clear it at the robot"))
        found[f"robot_safety:{name}"] = f"safety mode {feedback.safety_mode}, wanted {NORMAL} (normal): {remedy}"
    if feedback.robot_mode != RUNNING:
        name = MODE_NAMES.get(feedback.robot_mode, "unknown")
        found[f"robot_mode:{name}"] = f"robot mode {feedback.robot_mode}, wanted {RUNNING} (running)"
    elif feedback.freedrive:
        found["robot_mode:freedrive"] = "the freedrive button is pressed: a person moves the arm by hand"
    return found
