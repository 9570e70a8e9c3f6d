"""The payload in force, and its switching through the program on the controller: ordered, echoed, shown, or a fault.

By itself, when the configuration names the object: after a verified grasp, and back after a verified release. On a
commander's `Payload` request otherwise. A stop changes nothing: what is held is still held.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steadyhand.errors import ConfigError
from steadyhand.payload import Evidence, Fingers, Payload, PayloadConfig, payload_of, refusal
from steadyhand.protocols import Feedback, PayloadRobot

ORDER_TIMEOUT_S = 0.5
ORDER_MAX = 2**30 - 1
NOTHING = Payload(0.0)
Ended = Callable[[bool, str], None]


class Payloads:
    """One order at a time. `config` None: all is left to the pendant. Raises ConfigError for a robot that cannot."""

    def __init__(self, config: PayloadConfig | None, robot: Any):
        self.config = config
        self._robot = robot if isinstance(robot, PayloadRobot) else None
        if config is not None and self._robot is None:
            raise ConfigError(f"payload: robot {robot.name} takes none; leave it out and set it at the pendant")
        self.fingers = Fingers()
        self.held: Payload | None = None  # the object the controller was told of; None: nothing told yet
        self.switched = self.refused = 0
        self._number = 0
        self._order: tuple[int, Payload, float, Ended | None] | None = None  # number, object, deadline, who asked

    @property
    def under_way(self) -> bool:
        """An order waits for its echo: nothing new may begin to move."""
        return self._order is not None

    @property
    def told(self) -> Payload | None:
        """What the controller was told last."""
        return None if self.config is None or self.held is None else self.config.tool + self.held

    def measure(self, feedback: Feedback) -> None:
        """A new measurement of the fingers."""
        if self.config is not None:
            self.fingers.update(feedback.stamp_s, feedback.gripper_width_m, feedback.gripper_commanded_m)

    def begin_arming(self, token: int, now_s: float) -> None:
        """Which payload the program begins with: that of before, unless the fingers prove otherwise."""
        self._order, self._number = None, token
        if self.config is None:
            return
        evidence = self.fingers.verified(now_s)
        if evidence is Evidence.FREE:
            self.held = NOTHING
        elif evidence is Evidence.HELD and self.held in (None, NOTHING):
            self.held = self.config.object  # None: an object nobody has told of; the controller keeps what it has
        self._robot.keep_payload(self.told)

    def wrong(self, feedback: Feedback) -> str:
        """Why the controller's payload is not what it was told; empty when it is, or while that is being changed."""
        told = self.told
        if told is None or self.under_way or told.shown_by(feedback.payload_kg, feedback.payload_cog_m):
            return ""
        cog_mm = ", ".join(f"{c * 1e3:.0f}" for c in feedback.payload_cog_m)
        return f"the controller shows {feedback.payload_kg:.3f} kg at ({cog_mm}) mm, told was {told}: who changed it?"

    def due(self, now_s: float, at_once: bool = False) -> Payload | None:
        """The object that the fingers show and the controller was not told of; `at_once`: before they have rested."""
        if self.config is None or self.config.object is None:
            return None
        evidence = self.fingers.seen if at_once else self.fingers.verified(now_s)
        if evidence is Evidence.HELD and self.held in (None, NOTHING):
            return self.config.object
        return NOTHING if evidence is Evidence.FREE and self.held not in (None, NOTHING) else None

    def request(self, object_kg: Any, object_cog_m: Any, at_rest: bool, now_s: float, ended: Ended) -> str:
        """A commander's word on what is held (0 kg: nothing). The refusal, empty when the order is under way."""
        if self.config is None:
            why = "this guard switches no payload: see `payload` in its configuration"
        elif self.under_way:
            why = "a payload is being switched"
        else:
            try:
                held = payload_of(object_kg, object_cog_m)
                self.config.tool + held
                why = refusal(held.mass_kg, self.fingers.verified(now_s), at_rest)
                why = why or self._begin(held, now_s, ended)
            except ConfigError as error:
                why = str(error)
        self.refused += bool(why)
        return why

    def cycle(self, feedback: Feedback, armed: bool, at_rest: bool, now_s: float) -> str:
        """Once a cycle while feedback is fresh: echoes, and switching by itself. A fault's detail, or empty."""
        if self._order is not None:
            return self._advance(feedback, armed, now_s)
        due = self.due(now_s)
        if due is None or not armed or refusal(due.mass_kg, self.fingers.verified(now_s), at_rest):
            return ""
        self._begin(due, now_s, None)  # a link that takes nothing is tried again in the next cycle
        return ""

    def _begin(self, held: Payload, now_s: float, ended: Ended | None) -> str:
        number = (self._number + 1) % ORDER_MAX + 1
        if not self._robot.command_payload(number, self.config.tool + held):
            return "the link took no order; send it again"
        self._number = number
        self._order = number, held, now_s + ORDER_TIMEOUT_S, ended
        return ""

    def _advance(self, feedback: Feedback, armed: bool, now_s: float) -> str:
        number, held, deadline_s, ended = self._order
        wanted = self.config.tool + held
        fault = why = ""
        if feedback.payload_order == number and wanted.shown_by(feedback.payload_kg, feedback.payload_cog_m):
            self.held = held
            self.switched += 1
        elif feedback.payload_order == -number:
            why = "the program on the controller refused it: the arm moved, or the numbers are out of range"
        elif not armed:
            why = "stopped meanwhile"
        elif now_s > deadline_s:
            shown = f"{feedback.payload_kg:.3f} kg"
            fault = why = f"not confirmed within {ORDER_TIMEOUT_S:g} s: wanted {wanted}, shown {shown}"
        else:
            return ""
        self._order = None
        self.refused += bool(why)
        if ended is not None:
            ended(not why, why)
        return fault

    def counters(self, now_s: float) -> dict[str, int]:
        """`payload_due`: the task waits for it before it lifts."""
        if self.config is None:
            return {}
        due = self.under_way or self.due(now_s, at_once=True) is not None
        told = self.told
        return {
            "payload_due": int(due), "payload_switched": self.switched, "payload_refused": self.refused,
            "payload_told_g": -1 if told is None else round(told.mass_kg * 1e3),
        }  # fmt: skip
