"""The controller's states as numbers, as RTDE shows them.

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide" (robot_mode, safety_mode, runtime_state,
robot_status_bits, safety_status_bits) and "Remote Control Via TCP/IP" (joint modes; its sheet of client interfaces numbers
the safety status, as do ur_dashboard_msgs' SafetyStatus and SafetyMode).
"""
from __future__ import annotations

import enum


class RobotMode(enum.IntEnum):
    """robot_mode."""

    NO_CONTROLLER = -1
    DISCONNECTED = 0
    CONFIRM_SAFETY = 1
    BOOTING = 2
    POWER_OFF = 3
    POWER_ON = 4
    IDLE = 5
    BACKDRIVE = 6
    RUNNING = 7


class SafetyMode(enum.IntEnum):
    """safety_mode and safety_status."""

    NORMAL = 1
    REDUCED = 2
    PROTECTIVE_STOP = 3
    RECOVERY = 4
    SAFEGUARD_STOP = 5
    SYSTEM_EMERGENCY_STOP = 6
    ROBOT_EMERGENCY_STOP = 7
    VIOLATION = 8
    FAULT = 9
    AUTOMATIC_MODE_SAFEGUARD_STOP = 12  # safety_status only, e-Series (10 and 11 do not occur here)
    SYSTEM_THREE_POSITION_ENABLING_STOP = 13

    @property
    def legacy(self) -> SafetyMode:
        """As safety_mode shows it, which has no number above 9."""
        return SafetyMode.SAFEGUARD_STOP if self > SafetyMode.FAULT else self


class RuntimeState(enum.IntEnum):
    """runtime_state of the program."""

    STOPPING = 0
    STOPPED = 1
    PLAYING = 2
    PAUSING = 3
    PAUSED = 4
    RESUMING = 5


class JointMode(enum.IntEnum):
    """joint_mode, the two that occur here."""

    POWER_OFF = 239
    RUNNING = 253
    IDLE = 255


MOTION_ALLOWED = frozenset((SafetyMode.NORMAL, SafetyMode.REDUCED))
EMERGENCY = frozenset((SafetyMode.SYSTEM_EMERGENCY_STOP, SafetyMode.ROBOT_EMERGENCY_STOP))
BROKEN = frozenset((SafetyMode.VIOLATION, SafetyMode.FAULT))  # left by a restart of the safety system only
POWERLESS = EMERGENCY | BROKEN  # the power goes off, in an emergency stop once at rest
SAFEGUARD = frozenset((
    SafetyMode.SAFEGUARD_STOP, SafetyMode.AUTOMATIC_MODE_SAFEGUARD_STOP,
    SafetyMode.SYSTEM_THREE_POSITION_ENABLING_STOP,
))  # fmt: skip
CONTROLLED = EMERGENCY | SAFEGUARD | {SafetyMode.PROTECTIVE_STOP}  # stops of category 1 and 2: `stop_monitor`

_STOPPED_DUE_TO_SAFETY = 1 << 10
_EMERGENCY_STOPPED = 1 << 7
_SAFETY_BITS = {
    SafetyMode.NORMAL: 1 << 0,
    SafetyMode.REDUCED: 1 << 1,
    SafetyMode.PROTECTIVE_STOP: 1 << 2 | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.RECOVERY: 1 << 3,
    SafetyMode.SAFEGUARD_STOP: 1 << 4 | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.SYSTEM_EMERGENCY_STOP: 1 << 5 | _EMERGENCY_STOPPED | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.ROBOT_EMERGENCY_STOP: 1 << 6 | _EMERGENCY_STOPPED | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.VIOLATION: 1 << 8 | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.FAULT: 1 << 9 | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.AUTOMATIC_MODE_SAFEGUARD_STOP: 1 << 4 | _STOPPED_DUE_TO_SAFETY,
    SafetyMode.SYSTEM_THREE_POSITION_ENABLING_STOP: 1 << 4 | _STOPPED_DUE_TO_SAFETY,
}


def safety_status_bits(mode: SafetyMode) -> int:
    """Bits 0-10: normal, reduced, protective, recovery, safeguard, system e-stop, robot e-stop, e-stop, violation,
    fault, stopped due to safety."""
    return _SAFETY_BITS[mode]


def robot_status_bits(mode: RobotMode, runtime: RuntimeState, freedrive_pressed: bool = False) -> int:
    """Bit 0 power on, bit 1 program running, bit 2 teach (freedrive) button pressed."""
    powered = mode in (RobotMode.IDLE, RobotMode.BACKDRIVE, RobotMode.RUNNING)
    running = runtime in (RuntimeState.PLAYING, RuntimeState.PAUSING, RuntimeState.RESUMING)
    return int(powered) | int(running) << 1 | int(freedrive_pressed) << 2


def joint_mode(mode: RobotMode) -> JointMode:
    """Mode of every joint: they have one mode together here."""
    if mode is RobotMode.RUNNING:
        return JointMode.RUNNING
    return JointMode.IDLE if mode is RobotMode.IDLE else JointMode.POWER_OFF
