"""The functions of URScript that touch the controller: motion, registers, I/O, set-up, kinematics.

Names, parameters and defaults as in the script manual (CB-Series 3.15). Blocking ones return a `Wait`, which the
interpreter polls once a cycle. A wrong argument raises ValueError: the program fails with that line. What the language
itself brings (sync, sleep, textmsg, mathematics) lives in the interpreter.
"""
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from steadyhand import ur5
from steadyhand.errors import KinematicsError
from steadyhand_sim.ur_controller import frames
from steadyhand_sim.ur_controller.builtins_io import IoBuiltins, three
from steadyhand_sim.ur_controller.builtins_tool import ESeriesToolBuiltins, ToolBuiltins
from steadyhand_sim.ur_controller.motion import Brake, JointMove, Motion, Servo, Setpoint, Speed, as_joints
from steadyhand_sim.ur_controller.motion_blend import Blended, LinearServo, follow_on, require_blend
from steadyhand_sim.ur_controller.motion_linear import LinearMove, LinearSpeed, stop_linear
from steadyhand_sim.urscript import Pose, Wait

if TYPE_CHECKING:
    from steadyhand_sim.ur_controller.controller import URController


class MotionBuiltins:
    """movej, movel, movep, servoj, servoc, speedj, speedl, stopj, stopl."""

    def __init__(self, controller: URController):
        self._c = controller

    def _until_done(self, motion: Motion) -> Wait:
        self._c.command(motion)
        return Wait(lambda: not self._c.commanded(motion))

    def _move(self, make: Callable[[Setpoint], JointMove | LinearMove]) -> Wait:
        """Start a move, over the corner of the one under way if that may be left now; wait until it may be left."""
        c = self._c
        before, now = c.motion, c.target
        try:
            corner = follow_on(now, before, c.tcp)
        except KinematicsError as error:
            raise ValueError(f"no inverse kinematics solution at the corner: {error}") from error
        motion: Motion = make(now if corner is None else Setpoint.at_rest(corner))
        if corner is not None:
            motion = Blended(before, now, motion, corner)
        c.command(motion)
        blends = motion.blend_m > 0.0
        return Wait(lambda: not c.commanded(motion) or (blends and motion is c.motion and motion.may_blend(
            c.target, c.tcp)))

    def _for(self, time_s: float, also: Callable[[], bool] = lambda: False) -> Wait:
        """Wait for a whole number of cycles, at least one."""
        last = self._c.cycle + max(1, round(time_s / self._c.config.steptime_s))
        return Wait(lambda: self._c.cycle >= last or also())

    def _joints(self, q: Any) -> np.ndarray:
        """A list of joints as it is, a pose through the inverse."""
        if isinstance(q, Pose):
            return _inverse(np.array(q), self._c.target.q_rad, self._c.tcp)
        return as_joints("q", q)

    def _pose(self, pose: Any) -> np.ndarray:
        """A pose as it is, a list of joints through forward kinematics."""
        return np.array(pose if isinstance(pose, Pose) else frames.forward(as_joints("pose", pose), self._c.tcp))

    def movej(self, q: Any, a: float = 1.4, v: float = 1.05, t: float = 0.0, r: float = 0.0) -> Wait:
        """Linear in joint space; to rest at the goal, or past it within `r`."""
        goal, blend = self._joints(q), require_blend(r)
        return self._move(lambda start: JointMove(start, goal, a, v, float(t), blend))

    def movel(self, pose: Any, a: float = 1.2, v: float = 0.25, t: float = 0.0, r: float = 0.0) -> Wait:
        """Linear in tool space; to rest at the goal, or past it within `r`."""
        goal, blend = self._pose(pose), require_blend(r)
        return self._move(lambda start: LinearMove(start, goal, a, v, float(t), self._c.tcp, blend))

    def movep(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0.0) -> Wait:
        """Process move: as movel; the corners are not held to constant tool speed here."""
        return self.movel(pose, a, v, 0.0, r)

    def servoc(self, pose: Any, a: float = 1.2, v: float = 0.25, r: float = 0.0) -> Wait:
        """Follow a pose in tool space from now on; returns in the next cycle."""
        goal, motion = self._pose(pose), self._c.motion
        if isinstance(motion, LinearServo):
            motion.update(goal, a, v, r)
        else:
            self._c.command(LinearServo(goal, a, v, r, self._c.tcp))
        return self._for(0.0)

    def servoj(
        self, q: Any, a: float = 0, v: float = 0, t: float = 0.002, lookahead_time: float = 0.1, gain: float = 300
    ) -> Wait:
        """Follow `q` from now on; returns after `t`. `a` and `v` are not used, as the manual says."""
        goal = as_joints("q", q)
        motion = self._c.motion
        if isinstance(motion, Servo):
            motion.update(goal, lookahead_time, gain)
        else:
            self._c.command(Servo(goal, lookahead_time, gain))
        return self._for(float(t))

    def speedj(self, qd: Any, a: float = 1.4, t: float = 0.0) -> Wait:
        """Go to a joint velocity and keep it. Returns after `t`, or when the velocity is reached if `t` is 0."""
        motion = self._c.command(Speed(qd, a))
        return self._for(float(t)) if t > 0.0 else self._for(1e9, lambda: motion.reached)

    def speedl(self, xd: Any, a: float = 1.2, t: float = 0.0, aRot: float = 0.0) -> Wait:  # noqa: N803 (the manual's)
        """Go to a tool velocity and keep it."""
        motion = self._c.command(LinearSpeed(xd, a, self._c.tcp))
        return self._for(float(t)) if t > 0.0 else self._for(1e9, lambda: motion.reached)

    def stopj(self, a: float = 2.0) -> Wait:
        """All joints to rest, linearly, the leading axis at `a`."""
        return self._until_done(Brake(self._c.target, a))

    def stopl(self, a: float = 20.0, aRot: float = 0.0) -> Wait:  # noqa: N803
        """Tool to rest at `a`."""
        return self._until_done(stop_linear(self._c.target, a, self._c.tcp))


class StateBuiltins:
    """What a program can ask about the arm, and its set-up."""

    def __init__(self, controller: URController):
        self._c = controller

    def get_actual_joint_positions(self) -> list:
        """rad"""
        return self._c.measured.q_rad.tolist()

    def get_target_joint_positions(self) -> list:
        """rad"""
        return self._c.target.q_rad.tolist()

    def get_actual_joint_speeds(self) -> list:
        """rad/s"""
        return self._c.measured.qd_rad_s.tolist()

    def get_target_joint_speeds(self) -> list:
        """rad/s"""
        return self._c.target.qd_rad_s.tolist()

    def get_actual_joint_positions_history(self, steps: int = 0) -> list:
        """rad, `steps` cycles ago."""
        return self._c.q_history(int(steps))

    def get_actual_tcp_pose(self) -> Pose:
        """In `base`."""
        return Pose(self._c.tool.actual_pose)

    def get_target_tcp_pose(self) -> Pose:
        """In `base`."""
        return Pose(self._c.tool.target_pose)

    def get_actual_tcp_speed(self) -> list:
        """Twist in `base`."""
        return self._c.tool.actual_speed.tolist()

    def get_target_tcp_speed(self) -> list:
        """Twist in `base`."""
        return self._c.tool.target_speed.tolist()

    def get_actual_tool_flange_pose(self) -> Pose:
        """In `base`."""
        return Pose(frames.forward(self._c.measured.q_rad, np.zeros(6)))

    def get_tcp_force(self) -> list:
        """N, N m, in `base`."""
        return self._c.tcp_force_n.tolist()

    def get_joint_torques(self) -> list:
        """Not modelled: zeros."""
        return [0.0] * 6

    def get_controller_temp(self) -> float:
        """Not modelled: constant."""
        return 30.0

    def is_steady(self) -> bool:
        """Target at rest and measured speed below 1 mrad/s."""
        return not self._c.target.moving and bool(np.abs(self._c.measured.qd_rad_s).max() < 1e-3)

    def is_within_safety_limits(self, pose: Any) -> bool:
        """Whether the pose can be reached, or the joints are in range; safety planes are not modelled."""
        if isinstance(pose, Pose):
            return self.get_inverse_kin_has_solution(pose)
        q = as_joints("q", pose)
        return bool(((q >= ur5.Q_MIN_RAD) & (q <= ur5.Q_MAX_RAD)).all())

    def get_forward_kin(self, q: Any = None, tcp: Any = None) -> Pose:
        """Of the given or the present joints."""
        joints = self._c.measured.q_rad if q is None else as_joints("q", q)
        return Pose(frames.forward(joints, self._c.tcp if tcp is None else as_joints("tcp", tcp)))

    def get_inverse_kin(
        self,
        x: Any,
        qnear: Any = None,
        maxPositionError: float = 1e-10,  # noqa: N803
        maxOrientationError: float = 1e-10,  # noqa: N803
        tcp: Any = None,
    ) -> list:
        """On the branch of `qnear`, or of the present joints."""
        return _inverse(*self._inverse_arguments(x, qnear, tcp)).tolist()

    def get_inverse_kin_has_solution(
        self,
        x: Any,
        qnear: Any = None,
        maxPositionError: float = 1e-10,  # noqa: N803
        maxOrientationError: float = 1e-10,  # noqa: N803
        tcp: Any = None,
    ) -> bool:
        """Whether get_inverse_kin would answer."""
        arguments = self._inverse_arguments(x, qnear, tcp)
        try:
            frames.inverse(*arguments)
        except KinematicsError:
            return False
        return True

    def _inverse_arguments(self, x: Any, qnear: Any, tcp: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        near = self._c.measured.q_rad if qnear is None else as_joints("qnear", qnear)
        return as_joints("x", x), near, self._c.tcp if tcp is None else as_joints("tcp", tcp)

    def set_tcp(self, pose: Any) -> None:
        """TCP in the flange."""
        self._c.set_tcp(as_joints("pose", pose))

    def get_tcp_offset(self) -> Pose:
        """TCP in the flange."""
        return Pose(self._c.tcp)

    def set_payload(self, m: float, cog: Any = None) -> None:
        """kg; shown to clients, without effect on the motion here."""
        self._c.set_payload(m, cog)

    def set_payload_mass(self, m: float) -> None:
        """kg"""
        self.set_payload(m)

    def set_payload_cog(self, CoG: Any) -> None:  # noqa: N803
        """m, in the flange."""
        self._c.payload_cog_m = three("CoG", CoG)

    def get_target_payload(self) -> float:
        """kg"""
        return self._c.payload_kg

    def get_target_payload_cog(self) -> list:
        """m"""
        return list(self._c.payload_cog_m)

    def set_gravity(self, d: Any) -> None:
        """m/s2, kept and without effect."""
        self._c.gravity_m_s2 = three("d", d)

    def protective_stop(self) -> None:
        """Ask for a protective stop."""
        self._c.protective_stop("requested by the program")

    def powerdown(self) -> None:
        """Power off (the real one shuts the controller down too)."""
        self._c.power_off()

    def rtde_set_watchdog(self, variable_name: str, min_frequency: float, action: str = "pause") -> None:
        """Act when the input was not updated for 1/min_frequency seconds."""
        self._c.set_watchdog(variable_name, float(min_frequency), action)


class Builtins:
    """The whole table, and the part that a secondary program may use (nothing that takes time or moves)."""

    def __init__(self, controller: URController):
        self._motion = _public(MotionBuiltins(controller))
        self._rest = _public(StateBuiltins(controller)) | _public(IoBuiltins(controller))
        tool = ESeriesToolBuiltins if controller.config.is_e_series else ToolBuiltins
        self._rest |= _public(tool(controller))

    def table(self) -> dict[str, Callable[..., Any]]:
        """Name -> function, for a main program."""
        return self._motion | self._rest

    def secondary_table(self) -> dict[str, Callable[..., Any]]:
        """Name -> function, for a secondary program."""
        return dict(self._rest)


def _public(owner: object) -> dict[str, Callable[..., Any]]:
    return {name: getattr(owner, name) for name in dir(owner) if not name.startswith("_")}


def _inverse(pose: np.ndarray, q_near_rad: np.ndarray, tcp: np.ndarray) -> np.ndarray:
    """Inverse kinematics; without a solution the program fails, as on the robot."""
    try:
        return frames.inverse(pose, q_near_rad, tcp)
    except KinematicsError as error:
        raise ValueError(f"no inverse kinematics solution: {error}") from error
