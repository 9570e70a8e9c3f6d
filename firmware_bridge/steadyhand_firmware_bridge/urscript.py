"""The controller program as it is uploaded: `render(token, config)` fills in one arming's values.

Registers and states are documented in `firmware_bridge/urscript/PROTOCOL.md`, named here and by
`steadyhand.protocols.Command` (input 26) and `ProgramState` (output 24).
"""
from __future__ import annotations

import functools
import math
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path

from steadyhand import ur5
from steadyhand.errors import ConfigError, DependencyMissing
from steadyhand.payload import COG_MAX_M, MASS_MAX_KG, Payload

# Inputs, one atomic RTDE package: integer registers and the first of six double registers.
IN_HEARTBEAT, IN_TOKEN, IN_COMMAND, IN_SEQUENCE = 24, 25, 26, 27
IN_Q_FIRST = 24
# Outputs, integer registers.
IN_PAYLOAD_ORDER, IN_PAYLOAD_FIRST = 28, 30  # an integer; mass and centre of mass, doubles
OUT_PAYLOAD_ORDER = 28
OUT_STATE, OUT_SEQUENCE, OUT_TOKEN, OUT_LONGEST_SILENCE = 24, 25, 26, 27

HEARTBEAT_MAX = 2**30 - 1  # the counter runs 1..HEARTBEAT_MAX, then 1 again: no sum of it leaves 32 bits
TOKEN_MAX = 2**31 - 1


def next_heartbeat(counter: int) -> int:
    """The heartbeat after `counter` (0 before the first)."""
    return counter % HEARTBEAT_MAX + 1


@dataclass(frozen=True)
class ProgramConfig:
    """Values of the controller program, each with its accepted range; reasons in PROTOCOL.md."""

    heartbeat_period_s: float = ur5.SERVO_PERIOD_CB3_S  # of the guard's loop
    heartbeat_timeout_s: float = 0.040
    first_heartbeat_timeout_s: float = 2.0
    servo_lookahead_s: float = 0.05
    servo_gain: float = 500.0
    stop_deceleration_rad_s2: float = 8.0
    first_setpoint_tolerance_rad: float = 0.01
    qd_max_rad_s: float = float(ur5.QD_MAX_RAD_S.max())
    setpoint_margin: float = 1.25
    payload_rest_rad_s: float = 0.01  # the target of a joint is at rest below this

    RANGES = {
        "heartbeat_period_s": (0.002, 0.010),
        "heartbeat_timeout_s": (0.020, 0.200),
        "first_heartbeat_timeout_s": (0.1, 30.0),
        "servo_lookahead_s": (0.03, 0.2),  # script manual, servoj
        "servo_gain": (100.0, 2000.0),  # script manual, servoj
        "stop_deceleration_rad_s2": (2.0, 10.0),
        "first_setpoint_tolerance_rad": (0.0005, 0.05),
        "qd_max_rad_s": (0.05, 2 * math.pi),
        "setpoint_margin": (1.0, 2.0),
        "payload_rest_rad_s": (0.001, 0.02),
    }

    def __post_init__(self):
        for field in fields(self):
            value, (low, high) = getattr(self, field.name), self.RANGES[field.name]
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
                raise ConfigError(f"{field.name}={value!r}: give a number from {low} to {high}")
        if self.heartbeat_timeout_s < 2.5 * self.heartbeat_period_s:
            raise ConfigError(
                f"heartbeat_timeout_s={self.heartbeat_timeout_s}: give 2.5 x {self.heartbeat_period_s} s or more"
            )

    @property
    def heartbeat_jump_max(self) -> int:
        """Heartbeats between two cycles of the program that a late network may cause; more means it was paused.

        A silence that just stays below the timeout ends in a burst of as many heartbeats as fit into the timeout.
        """
        return math.ceil(self.heartbeat_timeout_s / self.heartbeat_period_s - 1e-6)

    @property
    def step_max_rad(self) -> float:
        """Largest step of one joint in one heartbeat."""
        return self.qd_max_rad_s * self.heartbeat_period_s * self.setpoint_margin


def render(token: int, config: ProgramConfig = ProgramConfig(), payload: Payload | None = None) -> str:
    """The program text of one arming. Raises ConfigError for a token outside 1..2^31-1.

    `payload` is in force from its start; None leaves that of the controller.
    """
    if isinstance(token, bool) or not isinstance(token, int) or not 1 <= token <= TOKEN_MAX:
        raise ConfigError(f"token={token!r}: give a whole number from 1 to {TOKEN_MAX}")
    values = {
        "TOKEN": token,
        "HEARTBEAT_TIMEOUT_S": float(config.heartbeat_timeout_s),
        "FIRST_HEARTBEAT_TIMEOUT_S": float(config.first_heartbeat_timeout_s),
        "HEARTBEAT_MAX": HEARTBEAT_MAX,
        "HEARTBEAT_JUMP_MAX": config.heartbeat_jump_max,
        "LOOKAHEAD_S": float(config.servo_lookahead_s),
        "GAIN": float(config.servo_gain),
        "STOP_DECELERATION": float(config.stop_deceleration_rad_s2),
        "FIRST_SETPOINT_TOLERANCE": float(config.first_setpoint_tolerance_rad),
        "STEP_MAX": config.step_max_rad,
        "PAYLOAD_KNOWN": int(payload is not None),
        "PAYLOAD_KG": float(payload.mass_kg) if payload is not None else 0.0,
        **{f"PAYLOAD_{axis}": float(c) for axis, c in zip("XYZ", payload.cog_m if payload is not None else (0.0,) * 3)},
        "PAYLOAD_MAX_KG": MASS_MAX_KG,
        "PAYLOAD_COG_MAX": COG_MAX_M,
        "PAYLOAD_REST": float(config.payload_rest_rad_s),
    }
    text = program_text()
    wanted = set(re.findall(r"\{\{(\w+)\}\}", text))
    if wanted != set(values):
        raise ConfigError(f"{program_path()}: placeholders {sorted(wanted ^ set(values))} are not of this version")
    # Fixed-point numbers: the manual shows no exponents.
    shown = {k: str(v) if isinstance(v, int) else f"{v:.9f}" for k, v in values.items()}
    return re.sub(r"\{\{(\w+)\}\}", lambda match: shown[match.group(1)], text)


@functools.cache
def program_text() -> str:
    """The program with its placeholders, read once: the guard's loop waits for no disk when it arms, and a guard that
    runs while another version is installed goes on with its own program."""
    return program_path().read_text()


def program_path() -> Path:
    """Where `steadyhand.script` lies: in the source tree, or in the installed share folder."""
    candidates = (
        Path(__file__).parents[1] / "urscript" / "steadyhand.script",
        Path(sys.prefix) / "share" / "steadyhand" / "urscript" / "steadyhand.script",
    )
    for path in candidates:
        if path.is_file():
            return path
    raise DependencyMissing(f"steadyhand.script is in none of {', '.join(map(str, candidates))}: reinstall steadyhand")
