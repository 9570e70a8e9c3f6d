"""The link process as the guard's side sees it: a child at the other end of a socket pair. Never blocks.

The child is in a session of its own and outlives the guard for as long as it takes to brake the vehicle: its life is
bound to the socket, not to signals.
"""
from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from steadyhand.errors import ConfigError, ProtocolError
from steadyhand_firmware_bridge.agv_ros import wire
from steadyhand_firmware_bridge.agv_ros.config import RosVehicleConfig

COMMAND = (sys.executable, "-m", "steadyhand_ros.agv_link")
MOST = 200  # messages taken at once; what is left is taken at the next look
END_LIMIT_S = 3.0  # for a process that brakes
PACKAGES = ("rclpy", "steadyhand_ros", "geometry_msgs", "nav_msgs", "action_msgs")


class Link(Protocol):
    """What `RosAgv` needs of it."""

    def send(self, message: Any) -> bool:
        """False when it was not taken."""

    def receive(self) -> list[Any]:
        """What has come, oldest first."""

    def dead(self) -> str:
        """Why it has ended; empty while it lives."""

    def readable(self) -> Sequence[Any]:
        """Sockets to wait for."""

    def kill(self) -> None:
        """End one that hangs; what it drove stops by the base's own time-out."""

    def drop(self) -> None:
        """Let go at once: it brakes and ends."""

    def close(self) -> None:
        """Let go, and wait until it has ended, within a limit."""


OpenLink = Callable[[RosVehicleConfig], Link]


class LinkProcess:
    """`Link` over a process that it starts. Raises OSError when it cannot be started."""

    def __init__(self, config: RosVehicleConfig, command: Sequence[str] = COMMAND):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.setblocking(False)
            arguments = ["--fd", str(theirs.fileno()), "--vehicle", json.dumps(config.plain())]
            try:
                self.process = subprocess.Popen(
                    [*command, *arguments], pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, start_new_session=True,
                )  # fmt: skip
            except OSError:
                ours.close()
                raise
        self._socket, self._why = ours, ""
        self.malformed = 0

    def send(self, message: Any) -> bool:
        """Into the socket's buffer; one that is full is that of a process which does not read."""
        if self._why:
            return False
        try:
            self._socket.send(wire.encode(message))
        except BlockingIOError:
            return False
        except OSError as error:
            self._why = f"{error.strerror}"
            return False
        return True

    def receive(self) -> list[Any]:
        """What has come, within a bound."""
        found: list[Any] = []
        while not self._why and len(found) < MOST:
            try:
                packet = self._socket.recv(65536)
            except BlockingIOError:
                break
            except OSError as error:
                self._why = f"{error.strerror}"
                break
            if not packet:
                self._why = "it ended"
                break
            try:
                found.append(wire.decode(packet))
            except ProtocolError:
                self.malformed += 1
        return found

    def dead(self) -> str:
        """Why it has ended."""
        code = self.process.poll()
        return f"{self._why}, exit code {code}" if self._why and code is not None else self._why

    def readable(self) -> Sequence[Any]:
        """Its socket."""
        return [] if self._why else [self._socket]

    def kill(self) -> None:
        """End one that hangs."""
        self.process.kill()
        self._why = self._why or "killed, it hung"

    def drop(self) -> None:
        """Let go at once."""
        self._why = self._why or "closed"
        self._socket.close()
        self.process.poll()

    def close(self) -> None:
        """It is waited for while it brakes, and then left to itself, which is to end."""
        self.drop()
        try:
            self.process.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            pass


def check_packages(config: RosVehicleConfig) -> None:
    """Raise ConfigError for a Python package that the link process would miss. Imports nothing."""
    for name in (*PACKAGES, *(["nav2_msgs"] * config.nav2)):
        if importlib.util.find_spec(name) is None:
            package = name.replace("_", "-")
            raise ConfigError(
                f"--bridge ros: Python package {name!r} is missing: install ros-$ROS_DISTRO-{package}, source the "
                "setup.bash of that ROS, and run the guard in its Python"
            )
