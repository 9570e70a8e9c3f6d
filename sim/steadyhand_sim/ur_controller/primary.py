"""What the controller says on its primary (30001) and secondary (30002) ports: state packages ten times a second, and on
the primary one messages about programs. No socket here.

Source: Universal Robots, "Remote Control Via TCP/IP" (client interfaces) and Universal_Robots_Client_Library
`src/primary` (layout of configuration data, version, key and runtime exception messages). The texts of errors are those
of this project's interpreter, but for `compile_error_name_not_found` and `syntax_error_on_line`.
"""
from __future__ import annotations

import struct
from collections.abc import Callable

from steadyhand import ur5
from steadyhand_sim.ur_controller.config import KINEMATICS
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.modes import EMERGENCY, RobotMode, RuntimeState, SafetyMode
from steadyhand_sim.ur_controller.net import Connection

PRIMARY, SECONDARY = 30001, 30002
STATE_HZ = 10.0
ROBOT_STATE, ROBOT_MESSAGE = 16, 20
MODE_DATA, CARTESIAN_INFO, CONFIGURATION_DATA = 0, 4, 6
VERSION, KEY, RUNTIME_EXCEPTION = 3, 7, 10
JOINT_ACCELERATION_RAD_S2 = 40.0
DEFAULTS = (1.05, 1.4, 0.25, 1.2, 0.5)  # joint speed and acceleration, tool speed and acceleration, equivalent radius


def _packed(kind: int, body: bytes) -> bytes:
    return struct.pack(">IB", 5 + len(body), kind) + body


def _message(controller: URController, kind: int, body: bytes) -> bytes:
    head = struct.pack(">QBB", int(controller.time_s * 1e6), 255, kind)
    return _packed(ROBOT_MESSAGE, head + body)


def version_message(controller: URController) -> bytes:
    """The first words on a connection."""
    name, (major, minor, bugfix, build) = b"URControl", controller.config.version
    body = struct.pack(">B", len(name)) + name + struct.pack(">BBii", major, minor, bugfix, build) + b"emulated"
    return _message(controller, VERSION, body)


def key_message(controller: URController, title: str, text: str) -> bytes:
    """`PROGRAM_XXX_STARTED` and `PROGRAM_XXX_STOPPED`, with the program's name."""
    body = struct.pack(">iiB", 0, 0, len(title)) + title.encode() + text.encode()
    return _message(controller, KEY, body)


def runtime_exception(controller: URController, line: int, text: str) -> bytes:
    """A program that was refused or died; columns are not known here."""
    return _message(controller, RUNTIME_EXCEPTION, struct.pack(">ii", line, 0) + text.encode())


def state_package(controller: URController) -> bytes:
    """Mode, TCP and configuration; the other sub-packages are not emulated."""
    c = controller
    powered = c.robot_mode in (RobotMode.IDLE, RobotMode.BACKDRIVE, RobotMode.RUNNING)
    mode = struct.pack(
        ">Q7BBBdddB", int(c.time_s * 1e6), True, True, powered, c.safety_mode in EMERGENCY,
        c.safety_mode is SafetyMode.PROTECTIVE_STOP, c.runtime_state is RuntimeState.PLAYING,
        c.runtime_state is RuntimeState.PAUSED, max(0, int(c.robot_mode)), 0, c.speed_slider, c.speed_scaling, 1.0, 0,
    )  # fmt: skip
    cartesian = struct.pack(">12d", *c.tool.actual_pose.tolist(), *c.tcp.tolist())
    limits = [v for pair in zip(ur5.Q_MIN_RAD.tolist(), ur5.Q_MAX_RAD.tolist()) for v in pair]
    motion = [c.config.joint_speed_limit_rad_s, JOINT_ACCELERATION_RAD_S2] * ur5.DOF
    a_m, d_m = KINEMATICS[c.config.kinematics]
    dh = [*a_m, *d_m, *ur5.DH_ALPHA_RAD, *([0.0] * ur5.DOF)]
    robot_type = {"UR5": 1, "UR10": 2, "UR3": 3}.get(c.config.model, 0)
    configuration = struct.pack(">53d4i", *limits, *motion, *DEFAULTS, *dh, 0, 0, robot_type, 0)
    parts = ((MODE_DATA, mode), (CARTESIAN_INFO, cartesian), (CONFIGURATION_DATA, configuration))
    return _packed(ROBOT_STATE, b"".join(_packed(kind, body) for kind, body in parts))


class Announcer:
    """Sends to the clients of both ports. One that does not read gets nothing more until it has."""

    def __init__(self, controller: URController, connections: Callable[[], list[Connection]], ports: tuple[int, ...]):
        self._c, self._connections, self._ports = controller, connections, ports
        self._every = max(1, round(controller.config.control_hz / STATE_HZ))
        controller.on_program_event = self._program_event

    def welcome(self, connection: Connection) -> None:
        """A client has come."""
        if connection.port in self._ports:
            connection.send(version_message(self._c) + state_package(self._c))

    def cycle(self) -> None:
        """Once a control cycle."""
        if self._c.cycle % self._every == 0:
            self._send(lambda: state_package(self._c), self._ports)

    def _program_event(self, kind: str, line: int, text: str) -> None:
        if kind == "error":
            self._send(lambda: runtime_exception(self._c, line, text), self._ports[:1])
        else:
            self._send(lambda: key_message(self._c, f"PROGRAM_XXX_{kind.upper()}", text), self._ports[:1])

    def _send(self, package: Callable[[], bytes], ports: tuple[int, ...]) -> None:
        listeners = [c for c in self._connections() if c.port in ports]
        if not listeners:
            return
        data = package()
        for connection in listeners:
            if connection.behind:
                connection.drop()
            else:
                connection.send(data)
