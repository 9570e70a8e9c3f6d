"""The shell: real time, real sockets. One thread; the only place of this package that reads a clock.

Cycles start at absolute deadlines. Between them the sockets are served. After a stall the cycles missed are dropped,
not caught up in a burst: controller time then lags wall time, as it would if the real controller overran.
"""
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from steadyhand.errors import ConfigError
from steadyhand_sim.robotiq import server as robotiq_server
from steadyhand_sim.robotiq.device import RobotiqDevice
from steadyhand_sim.ur_controller import dashboard_server, rtde_server, script_server
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.dashboard_commands import Dashboard
from steadyhand_sim.ur_controller.modes import RobotMode
from steadyhand_sim.ur_controller.net import Connection, Net
from steadyhand_sim.ur_controller.primary import Announcer


@dataclass(frozen=True)
class Ports:
    """Where to listen. The clients' ports are fixed in practice; 0 takes a free one (tests)."""

    rtde: int = rtde_server.PORT
    dashboard: int = dashboard_server.PORT
    script: tuple[int, ...] = script_server.PORTS
    robotiq: int = robotiq_server.PORT


GRIPPERS = ("io", "robotiq", "robotiq-inactive")  # wired to the outputs; with a URCap, activated or not yet
TOOL_POWERED = frozenset((RobotMode.POWER_ON, RobotMode.IDLE, RobotMode.BACKDRIVE, RobotMode.RUNNING))


class ControllerServer:
    """A controller with its ports open on one address. Raises RobotError when a port cannot be opened.

    `gripper` is one of GRIPPERS; a Robotiq drives the plant's own fingers in place of the outputs.
    """

    def __init__(self, controller: URController, host: str, ports: Ports = Ports(), gripper: str = "io"):
        self.controller, self.host = controller, host
        self.net = Net()
        self.overruns = 0  # cycles that began more than one period late
        self.dropped_cycles = 0
        self.rtde = rtde_server.RtdeServer(controller)
        self.robotiq = _robotiq(controller, gripper)
        dashboard = Dashboard(controller)
        try:
            self.rtde_port = self.net.listen(host, ports.rtde, self.rtde.accept)
            self.dashboard_port = self.net.listen(
                host, ports.dashboard, lambda c: dashboard_server.DashboardSession(dashboard, c)
            )
            self.script_ports = tuple(
                self.net.listen(host, port, self._script_session) for port in ports.script
            )
            # the primary port comes first, then the secondary: both tell, a third (real-time) does not here
            self.announcer = Announcer(controller, lambda: self.net.connections, self.script_ports[:2])
            if self.robotiq is not None:
                self.robotiq_port = self.net.listen(
                    host, ports.robotiq, lambda c: robotiq_server.RobotiqSession(self.robotiq, c)
                )
        except BaseException:
            self.net.close()
            raise

    def _script_session(self, connection: Connection) -> script_server.ScriptSession:
        self.announcer.welcome(connection)
        return script_server.ScriptSession(self.controller, connection)

    def cycle(self) -> None:
        """One control cycle and its state packages."""
        self.step()
        self.rtde.publish()

    def step(self) -> None:
        """The controller and what hangs on its wrist."""
        self.controller.step()
        self.announcer.cycle()
        if self.robotiq is not None:
            self.robotiq.step(self.controller.config.steptime_s)

    def run(
        self,
        until: Callable[[], bool] = lambda: False,
        each_cycle: Callable[[], None] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Serve until `until()` holds, asked once a cycle. `each_cycle` runs after the packages went out."""
        period_s = self.controller.config.steptime_s
        next_s = monotonic()
        while not until() and not self.controller.shut_down:
            self.cycle()
            if each_cycle is not None:
                each_cycle()
            next_s += period_s
            late_s = monotonic() - next_s
            if late_s > period_s:
                missed = int(late_s / period_s)
                self.overruns += 1
                self.dropped_cycles += missed
                next_s += missed * period_s
            self.net.service(0.0)  # once in any case: an overload must not starve the sockets
            while (left_s := next_s - monotonic()) > 0.0:
                self.net.service(left_s)

    def close(self) -> None:
        """Close all ports and connections."""
        self.net.close()


def _robotiq(controller: URController, gripper: str) -> RobotiqDevice | None:
    if gripper not in GRIPPERS:
        raise ConfigError(f"gripper {gripper!r}: give one of {', '.join(GRIPPERS)}")
    if gripper == "io":
        return None
    controller.plant.gripper_by_outputs = False
    return RobotiqDevice(controller.plant, lambda: controller.robot_mode in TOOL_POWERED, gripper == "robotiq")


def serve(controller: URController, host: str, until: Callable[[], bool] = lambda: False) -> ControllerServer:
    """Open the ports on `host`, run at the controller's rate until `until()`; the closed server, for its counts."""
    server = ControllerServer(controller, host)
    try:
        server.run(until)
    finally:
        server.close()
    return server
