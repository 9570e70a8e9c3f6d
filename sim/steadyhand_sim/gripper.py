"""Parallel gripper: two prismatic fingers, geared together, closed by force. Friction alone holds the object."""
from __future__ import annotations

import math

from steadyhand import cell
from steadyhand.errors import ConfigError

FINGER_SPEED_M_S = 0.075  # per finger: 150 mm/s closing speed, as two-finger grippers of this size reach
NAMED_WIDTHS_M = {"open": cell.GRIPPER_OPEN_M, "pregrasp": cell.GRIPPER_PREGRASP_M, "close": 0.0}


class Gripper:
    """The gripper of one loaded robot."""

    def __init__(self, bullet, robot: int, joints: list[int], force_n: float) -> None:
        self._p, self._robot, self.joints, self._force_n = bullet, robot, joints, force_n
        for joint in joints:
            bullet.resetJointState(robot, joint, cell.GRIPPER_OPEN_M / 2)
        # Gear: both fingers move alike, so that the object is centred and cannot push one finger back alone.
        gear = bullet.createConstraint(
            robot, joints[0], robot, joints[1], bullet.JOINT_GEAR, [1, 0, 0], [0, 0, 0], [0, 0, 0]
        )
        bullet.changeConstraint(gear, gearRatio=-1, erp=0.5, maxForce=1000)
        self.command("open")

    def command(self, command: str | float, speed_m_s: float = 2 * FINGER_SPEED_M_S, force_n: float = 0.0) -> None:
        """A width (m, 0 to cell.GRIPPER_OPEN_M) or one of NAMED_WIDTHS_M; raises ConfigError otherwise.

        `speed_m_s` is that of the opening, `force_n` 0 means the force it was loaded with.
        """
        width = NAMED_WIDTHS_M.get(command) if isinstance(command, str) else float(command)
        if width is None or not math.isfinite(width) or not 0.0 <= width <= cell.GRIPPER_OPEN_M:
            raise ConfigError(
                f"gripper command {command!r}: give open, pregrasp, close or 0 to {cell.GRIPPER_OPEN_M} m"
            )
        self.commanded_m = width
        for joint in self.joints:
            self._p.setJointMotorControl2(
                self._robot, joint, self._p.POSITION_CONTROL, targetPosition=width / 2, force=force_n or self._force_n,
                maxVelocity=speed_m_s / 2,
            )

    def width_m(self) -> float:
        """Measured opening between the pads."""
        return sum(state[0] for state in self._p.getJointStates(self._robot, self.joints))
