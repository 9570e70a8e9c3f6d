"""What a gripper says of itself, as the worker reports it, and what of it forbids AUTO. Pure."""
from __future__ import annotations

import enum
import json
import math
from dataclasses import asdict, dataclass, field, fields

from steadyhand.errors import ProtocolError
from steadyhand_firmware_bridge.robotiq.config import RobotiqConfig


class Obj(enum.IntEnum):
    """OBJ."""

    MOVING = 0
    CONTACT_OPENING = 1
    CONTACT_CLOSING = 2
    AT_REQUEST = 3


RESET, ACTIVATING, ACTIVE = 0, 1, 3  # STA
FAULTS = {  # FLT, and what to do
    5: "the action waits for the activation to end",
    7: "not activated: `steadyhand robot gripper-activate`",
    8: "too hot (85 C inside): let it cool below 80 C",
    9: "no communication for a second: check the gripper's cable",
    10: "supply below its minimum: check 24 V at the wrist",
    11: "automatic release under way",
    12: "internal fault: see the vendor",
    13: "activation fault: free the fingers, then `steadyhand robot gripper-activate`",
    14: "overcurrent: free the fingers, then `steadyhand robot gripper-activate`",
    15: "automatic release done: `steadyhand robot gripper-activate`",
}


@dataclass(frozen=True)
class GripperState:
    """One reading. `link` is empty while the socket is well; a register that could not be read is None."""

    stamp_s: float  # monotonic, the worker's; same clock as the guard's
    link: str = ""
    pos: int | None = None
    pre: int | None = None
    obj: int | None = None
    sta: int | None = None
    flt: int | None = None
    act: str = ""  # the activation asked for last: "", "under way", "done", or why it failed
    counters: dict[str, int] = field(default_factory=dict)

    def trouble(self) -> str:
        """Why it may not be relied on now, and what to do; empty when it is well."""
        if self.link:
            return self.link
        if None in (self.pos, self.pre, self.obj, self.sta, self.flt):
            return "its values cannot be read ('?'): is the robot powered, and its emergency stop released?"
        if self.flt in (8, 9, 10, 11, 12, 13, 14, 15) or self.flt not in (0, *FAULTS):
            return f"fault {self.flt}: {FAULTS.get(self.flt, 'see its manual')}"
        if self.sta != ACTIVE:
            under_way = self.sta == ACTIVATING
            return "activation under way" if under_way else "not activated: `steadyhand robot gripper-activate`"
        return ""

    def width_m(self, config: RobotiqConfig) -> float:
        """Measured opening; NaN when it could not be read, or before the fingers were referenced by an activation."""
        known = not self.link and self.pos is not None and self.sta == ACTIVE
        return config.width_of(self.pos) if known else math.nan

    def commanded_m(self, config: RobotiqConfig) -> float:
        """Opening asked for last, as the gripper echoes it; NaN likewise."""
        known = not self.link and self.pre is not None and self.sta == ACTIVE
        return config.width_of(self.pre) if known else math.nan

    def encode(self) -> bytes:
        """For the guard."""
        return json.dumps(asdict(self)).encode()


def decode(packet: bytes) -> GripperState:
    """A worker's report. Raises ProtocolError when it is none."""
    try:
        raw = json.loads(packet)
        known = {f.name for f in fields(GripperState)}
        if not isinstance(raw, dict) or set(raw) != known or not isinstance(raw["stamp_s"], float):
            raise ValueError("fields")
        return GripperState(**raw)
    except ValueError as error:
        raise ProtocolError(f"gripper worker: {error}") from error
