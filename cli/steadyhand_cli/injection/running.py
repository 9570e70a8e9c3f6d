"""The whole graph as its launch file says, with a bad cable in front of its controller and a stranger at its port."""
from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from steadyhand.errors import ConfigError, RobotError
from steadyhand.slot import current_slot
from steadyhand_cli.injection import children
from steadyhand_cli.injection.link import Link
from steadyhand_cli.injection.observer import Observer
from steadyhand_cli.launch import launch_path
from steadyhand_cli.session import Session
from steadyhand_cli.watcher import GuardWatcher
from steadyhand_firmware_bridge import operator
from steadyhand_ros.launch_runner import child_environment, command_of, read_launch
from steadyhand_ros.launch_xml import ProcessSpec
from steadyhand_ros.process_supervisor import ProcessSupervisor
from steadyhand_sim.score_client import ScoreClient

TICK_S = 0.01


def through_the_cable(specs: list[ProcessSpec], robot_host: str, cable_host: str) -> list[ProcessSpec]:
    """The same processes; the guard reaches the robot at the cable's address. ConfigError when no guard names it."""
    old, new = f"--robot-ip {robot_host} ", f"--robot-ip {cable_host} "
    if not any(s.name == "guard" and old in s.command for s in specs):
        raise ConfigError(f"no process 'guard' with {old.strip()!r} in the launch file")
    return [replace(s, command=s.command.replace(old, new)) if s.name == "guard" else s for s in specs]


class RunningGraph:
    """Context manager. Everything of it ends with it; every wait has a limit and keeps the supervisor going."""

    def __init__(self, specs: list[ProcessSpec], folder: Path, cable: bool = True, ready_timeout_s: float = 60.0):
        """`cable`: the guard reaches its robot through a bad one; without, as the specs say."""
        self.slot, self.folder = current_slot(), folder
        self.environment = children.environment(child_environment(os.environ))
        self.cable_host = f"127.0.1.{self.slot.index + 1}"
        self.said: list[str] = []
        self.helpers: list[subprocess.Popen] = []
        self._ready_timeout_s = ready_timeout_s
        self._cable = cable
        if cable:
            specs = through_the_cable(specs, self.slot.robot_host, self.cable_host)
        self.supervisor = ProcessSupervisor(
            specs, lambda s: command_of(s, self.environment), self.environment, folder / "log", self.said.append
        )
        self.link: Link | None = None
        self.observer: Observer | None = None
        self.session: Session | None = None
        self.watcher: GuardWatcher | None = None
        self.score: ScoreClient | None = None

    @staticmethod
    def of_launch_file(folder: Path, **arguments: str) -> RunningGraph:
        """The graph of launch/ur5.launch.xml with these arguments."""
        return RunningGraph(read_launch(launch_path("ur5"), {"sim": "true", **arguments}), folder)

    def __enter__(self) -> RunningGraph:
        try:
            if self._cable:
                self.link = Link(self.cable_host, self.slot.robot_host)
            self.supervisor.start()
            self.observer = Observer(self.slot.robot_host, self.folder / "port.bin")
            self.session, self.watcher, self.score = Session(), GuardWatcher(), ScoreClient()
            self.until(self.session.ready.is_set, self._ready_timeout_s, "the nodes to become active")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *exc) -> None:
        for child in self.helpers:
            if child.poll() is None:
                child.kill()
            child.wait(5.0)
        self.supervisor.stop()
        for part in (self.score, self.watcher, self.observer, self.link):
            if part is not None:
                part.close()
        if self.session is not None:
            self.session.__exit__(*exc)

    def tick(self) -> None:
        """Restart what has died, then a short sleep."""
        self.supervisor.poll(time.monotonic())
        time.sleep(TICK_S)

    def until(self, condition: Callable[[], object], timeout_s: float, what: str):
        """The first true value of `condition()`; RobotError naming `what` when it does not come in time."""
        deadline = time.monotonic() + timeout_s
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise RobotError(f"waited {timeout_s:.0f} s for {what}; logs in {self.folder / 'log'}")
            self.tick()

    def wait(self, seconds: float) -> None:
        """Keep going for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.tick()

    def pid(self, name: str) -> int:
        """Process id; RobotError when it is not alive."""
        pids = self.supervisor.pids()
        if name not in pids:
            raise RobotError(f"process {name!r} is not alive")
        return pids[name]

    def helper(self, *command: str) -> subprocess.Popen:
        """A further process of this Python, which ends with the graph at the latest."""
        child = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self.environment
        )
        self.helpers = [c for c in self.helpers if c.poll() is None] + [child]
        return child

    def arm(self, timeout_s: float = 30.0, mode: str = "auto") -> None:
        """Re-arm as an operator does; what forbids it is waited for. RobotError naming the causes."""
        reasons: list[str] = []

        def armed() -> bool:
            try:
                reply = operator.rearm(mode, timeout_s=2.0)
            except RobotError as error:
                reasons[:] = [str(error)]
                return False
            reasons[:] = [reply.message, *reply.causes]
            return reply.ok or any(c.startswith("already armed") for c in reply.causes)

        deadline = time.monotonic() + timeout_s
        while not armed():
            if time.monotonic() > deadline:
                raise RobotError(f"cannot arm: {'; '.join(reasons)}")
            self.wait(0.2)
        self.until(lambda: self.watcher.state and self.watcher.state.mode.startswith("ARMED"), 2.0, "an armed state")
