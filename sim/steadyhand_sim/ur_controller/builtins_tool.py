"""URScript's functions of the tool: force sensing, contact, freedrive, payload as a program sees it.

Force mode itself is not emulated: a program that calls it fails with that line.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from steadyhand.errors import KinematicsError
from steadyhand_sim.ur_controller.builtins_io import finite
from steadyhand_sim.ur_controller.motion import as_joints
from steadyhand_sim.urscript import Pose

if TYPE_CHECKING:
    from steadyhand_sim.ur_controller.controller import URController

_ALL_AXES = (1, 1, 1, 1, 1, 1)


class ToolBuiltins:
    """Of both generations. Public methods are the script functions of the same name."""

    def __init__(self, controller: URController):
        self._c = controller

    def zero_ftsensor(self) -> None:
        """The estimate has no bias to remove."""

    def end_force_mode(self) -> None:
        """There is never one to end; the stock control script calls it."""

    def force_mode_set_damping(self, damping: float) -> None:
        """Checked, without effect."""
        if not 0.0 <= damping <= 1.0:
            raise ValueError(f"damping {damping!r} is outside 0..1")

    def enable_external_ft_sensor(
        self, enable: bool, sensor_mass: float = 0.0, sensor_measuring_offset: Any = None, sensor_cog: Any = None
    ) -> None:
        """Take forces from the RTDE input external_force_torque. The sensor's own mass is not subtracted here."""
        finite("sensor_mass", sensor_mass)
        self._c.external_sensor = bool(enable)

    def teach_mode(self) -> None:
        """The arm can be moved by hand; the hand is not modelled, so it stands. A motion is an error meanwhile."""
        self._c.begin_freedrive()

    def end_teach_mode(self) -> None:
        """Back to holding."""
        self._c.freedrive = False

    def get_target_waypoint(self) -> Pose:
        """Goal of the motion under way (a pose in `base`), or where the tool is to stand."""
        try:
            return Pose(self._c.waypoint())
        except KinematicsError as error:
            raise ValueError(f"no inverse kinematics solution: {error}") from error

    def get_target_payload_inertia(self) -> list:
        """kg m2"""
        return list(self._c.payload_inertia)

    def set_target_payload(self, m: float, cog: Any, inertia: Any = None, transition_time: float = 0.0) -> None:
        """Payload, centre of gravity and inertia; without effect on the motion here."""
        self._c.set_payload(m, cog)
        if inertia is not None:
            self._c.payload_inertia = tuple(as_joints("inertia", inertia).tolist())


class ESeriesToolBuiltins(ToolBuiltins):
    """PolyScope 5 has these too (script manual, e-Series)."""

    def force_mode_set_gain_scaling(self, scaling: float) -> None:
        """Checked, without effect."""
        if not 0.0 <= scaling <= 2.0:
            raise ValueError(f"scaling {scaling!r} is outside 0..2")

    def ft_rtde_input_enable(
        self, enable: bool, sensor_mass: float = 0.0, sensor_measuring_offset: Any = None, sensor_cog: Any = None
    ) -> None:
        """The newer name of enable_external_ft_sensor."""
        self.enable_external_ft_sensor(enable, sensor_mass, sensor_measuring_offset, sensor_cog)

    def tool_contact(self, direction: Any = (0, 0, 0, 0, 0, 0)) -> int:
        """Control cycles since a contact began that presses against `direction`, in `base`; 0 without one."""
        return self._c.contact_steps(np.array(as_joints("direction", direction))[:3])

    def freedrive_mode(self, freeAxes: Any = _ALL_AXES, feature: Any = None) -> None:  # noqa: N803 (the manual's)
        """Freedrive; axes and feature are checked, the hand is not modelled."""
        as_joints("freeAxes", freeAxes)
        self._c.begin_freedrive()

    def end_freedrive_mode(self) -> None:
        """Back to holding."""
        self._c.freedrive = False

    def get_freedrive_status(self) -> int:
        """0: on (if asked for), away from singularities."""
        return 0
