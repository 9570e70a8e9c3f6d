"""Doing what a row of the table says, and undoing it: generators, so that the caller keeps everything else going.

`perform(graph, act)` does the act at once; the generator it returns is advanced by the caller until it ends, which is
when the fault is over. Its first value is the time of the act: just before the signal, packet or command leaves. Closed
before its end, it leaves no process frozen and no load running.
"""
from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Iterator

import numpy as np

from steadyhand import kinematics
from steadyhand.errors import RobotError
from steadyhand_cli.injection.running import RunningGraph
from steadyhand_cli.injection.table import Act, AtRobot, Cable, Flood, Freeze, Load, Operator, Signal
from steadyhand_firmware_bridge import operator

SHORT_S = 0.04  # a freeze shorter than this is not left to the caller's turns
FROZEN_LINK_S = 1.0
MOVED_M = 0.045
AWAY_M = (-0.6, -0.6)


class Operators:
    """What must be there before some acts: the operator's link, publisher and client, a flooder that stands by."""

    def __init__(self, graph: RunningGraph):
        from std_msgs.msg import String
        from std_srvs.srv import Trigger

        from steadyhand_ros import qos

        node = graph.session.node
        self._string, self._trigger = String, Trigger
        self.topic = node.create_publisher(String, "operator_stop", qos.COMMAND)
        self.service = node.create_client(Trigger, "stop")
        self.link: subprocess.Popen | None = None
        self.flooder: subprocess.Popen | None = None
        self.goal = None  # the one that runs

    def prepare(self, graph: RunningGraph, act: Act) -> None:
        """Before the phase: an operator takes control, a subscriber is found, a flooder stands by."""
        if isinstance(act, Flood):
            words = (act.where, str(act.rate_hz), str(act.seconds), "wait")
            self.flooder = graph.helper("-u", "-m", "steadyhand_cli.injection.flood", *words)
            if not select.select([self.flooder.stdout], [], [], 15.0)[0]:
                raise RobotError(f"the flood of {act.where} did not come up within 15 s")
        if not isinstance(act, Operator):
            return
        if act.how.startswith("link"):
            self.link = graph.helper("-u", "-m", "steadyhand_cli.main", "link", "--name", "ann")
            if not select.select([self.link.stdout], [], [], 10.0)[0]:
                raise RobotError("the operator link did not come up within 10 s")
        elif act.how == "topic":
            graph.until(lambda: self.topic.get_subscription_count() > 0, 10.0, "a subscriber of operator_stop")
        elif act.how == "service":
            graph.until(self.service.service_is_ready, 10.0, "the service stop")

    def act(self, graph: RunningGraph, how: str) -> None:
        """One act of an operator."""
        if how == "topic":
            self.topic.publish(self._string(data="injected"))
        elif how == "service":
            self.service.call_async(self._trigger.Request())
        elif how == "stop_channel":
            operator.stop("operator", "injected")
        elif how == "disarm":
            operator.disarm()
        elif how == "cancel":
            graph.session.cancel(self.goal)
        else:
            number = {"link_killed": signal.SIGKILL, "link_frozen": signal.SIGSTOP, "link_ended": signal.SIGTERM}[how]
            self.link.send_signal(number)

    def flood(self) -> None:
        """Let the flooder begin."""
        self.flooder.stdin.write("\n")
        self.flooder.stdin.flush()

    def release(self) -> None:
        """No link and no flood outlives its cell."""
        for child in (self.link, self.flooder):
            if child is not None and child.poll() is None:
                child.kill()
                child.wait(5.0)
        self.link = self.flooder = None


def perform(graph: RunningGraph, act: Act, operators: Operators) -> Iterator[float]:
    """See the module's docstring."""
    match act:
        case Signal(process, number, group):
            pid = graph.pid(process)
            yield from _once(lambda: _send(pid, number, group))
        case Freeze():
            yield from _freeze(graph, act)
        case Cable():
            if act.cut:
                yield from _once(lambda: graph.link.cut(act.ports))
            else:
                yield from _once(lambda: graph.link.trouble(act.way, act.ports, **act.trouble))
                yield from _for(act.seconds)
                graph.link.heal()
        case AtRobot():
            yield from _at_robot(graph, act)
        case Operator("link_frozen"):
            try:
                yield from _once(lambda: operators.act(graph, "link_frozen"))
                yield from _for(FROZEN_LINK_S)
            finally:
                operators.link.send_signal(signal.SIGCONT)  # while it is silent nobody can arm
        case Operator(how):
            yield from _once(lambda: operators.act(graph, how))
        case Flood():
            yield from _once(operators.flood)
            yield from _for(act.seconds)
        case Load(seconds):
            children = [graph.helper("-c", "while True: pass") for _ in range(os.cpu_count() or 1)]
            try:
                yield from _once(lambda: None)
                yield from _for(seconds)
            finally:
                for child in children:
                    child.kill()
                    child.wait(5.0)


def _once(do) -> Iterator[float]:
    at_s = time.monotonic()
    do()
    yield at_s


def _for(seconds: float) -> Iterator[float]:
    until_s = time.monotonic() + seconds
    while (now_s := time.monotonic()) < until_s:
        yield now_s


def _send(pid: int, number: int, group: bool) -> None:
    try:
        (os.killpg if group else os.kill)(pid, number)
    except ProcessLookupError:
        pass  # it has ended meanwhile


def _freeze(graph: RunningGraph, act: Freeze) -> Iterator[float]:
    pid, end_s = graph.pid(act.process), time.monotonic() + act.total_s
    while True:
        at_s = time.monotonic()
        _send(pid, signal.SIGSTOP, act.group)
        if act.seconds < SHORT_S:
            time.sleep(act.seconds)
            _send(pid, signal.SIGCONT, act.group)
            yield at_s
        else:
            try:
                yield at_s
                yield from _for(act.seconds)
            finally:
                _send(pid, signal.SIGCONT, act.group)
        if time.monotonic() >= end_s:
            return
        yield from _for(act.every_s - act.seconds)


def _at_robot(graph: RunningGraph, act: AtRobot) -> Iterator[float]:
    parameters = dict(act.parameters)
    if act.target:
        parameters |= _cube(graph.score.state(), act.target)
    yield from _once(lambda: graph.score.fault(act.fault, **parameters))
    if act.undo:
        yield from _for(act.seconds)
    for name in act.undo:
        graph.score.fault(name, **act.undo_parameters)
        yield from _for(0.6)  # power and brakes take their time


def _cube(truth: dict, target: str) -> dict[str, float]:
    """Where the cube nearest to the tool goes."""
    positions = np.array(truth["position_m"])
    tool = kinematics.pose_base_link_tool(np.array(truth["q_rad"]))[:3, 3]
    index = int(np.argmin(np.linalg.norm(positions - tool, axis=1)))
    x, y = (positions[index, 0], positions[index, 1] + MOVED_M) if target == "moved" else AWAY_M
    return {"index": float(index), "x_m": float(x), "y_m": float(y)}
