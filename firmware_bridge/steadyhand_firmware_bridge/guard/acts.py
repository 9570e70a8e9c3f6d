"""Acts on the robot itself (power, brakes, unlocking) that an operator asked for: one at a time, answered at the end."""
from __future__ import annotations

from typing import Any

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Reply, RobotAct
from steadyhand.protocols import OperatorActs


class RobotActs:
    """Between the guard's clients and a robot that offers `OperatorActs`. Who may ask is the guard's decision."""

    def __init__(self, robot: Any):
        self._robot = robot if isinstance(robot, OperatorActs) else None
        self._asked: tuple[Any, str] | None = None
        self.busy = False

    def begin(self, client: Any, message: RobotAct, now_s: float) -> str:
        """Start the act; the refusal, empty when it is under way."""
        if self._robot is None:
            return "this robot offers no power or unlocking to ask for: do it at the robot"
        try:
            self._robot.begin_act(message.act, now_s)
        except RobotError as error:
            return str(error)
        self._asked, self.busy = (client, message.request_id), True
        return ""

    def ended(self) -> list[tuple[Any, Reply]]:
        """Answers to give now."""
        result = self._robot.act_result() if self.busy else None
        if result is None:
            return []
        asked, self._asked, self.busy = self._asked, None, False
        return [] if asked is None else [(asked[0], Reply(asked[1], result.ok, f"{result.act}: {result.detail}"))]

    def forget(self, client: Any) -> None:
        """A client has gone: its act goes on, nobody is told."""
        if self._asked is not None and self._asked[0] is client:
            self._asked = None
