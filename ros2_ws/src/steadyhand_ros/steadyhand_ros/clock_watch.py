"""Sees that the machine's clock was set, and wakes the waits of rclpy that would last by as much longer.

rclpy's wheels wait on condition variables of the clock that can be set (`pthread_cond_timedwait`), whatever clock a timer
has: set back by 5 s, timers under the EventsExecutor are silent for 5 s (rclpy issue 1490; measured with 9.1.2). A timer
that is reset makes its executor wait anew. A clock set forward ends waits early, and they begin again by themselves. Can
go when the wheels wait by the steady clock.
"""
from __future__ import annotations

import threading
import time
from collections.abc import Callable

from rclpy.executors import Executor
from rclpy.impl.implementation_singleton import rclpy_implementation as _rclpy
from rclpy.node import Node

LOOK_S = 0.05
MOVED_S = 0.01  # more than slewing moves a clock between two looks (0.5 ms/s)


class ClockSteps:
    """Whether the clock that can be set was set since the last look; both readings in seconds."""

    def __init__(self, wall_s: float, steady_s: float):
        self._offset_s = wall_s - steady_s
        self.seen = 0

    def look(self, wall_s: float, steady_s: float) -> float:
        """Seconds by which it was set (negative: back); 0 when it only went on."""
        step_s = (wall_s - steady_s) - self._offset_s
        self._offset_s += step_s
        if abs(step_s) < MOVED_S:
            return 0.0
        self.seen += 1
        return step_s


def wake(node: Node, executor: Executor) -> None:
    """Make everything that waits for a time wait anew."""
    for timer in list(node.timers):
        try:
            timer.reset()
        except _rclpy.InvalidHandle:  # destroyed meanwhile
            pass
    executor.wake()


def watch(node: Node, executor: Executor) -> Callable[[threading.Event], None]:
    """Work for a `Background`."""

    def work(stopping: threading.Event) -> None:
        steps = ClockSteps(time.time(), time.monotonic())
        while not stopping.wait(LOOK_S):
            step_s = steps.look(time.time(), time.monotonic())
            if step_s < 0.0:
                wake(node, executor)
            if step_s:
                node.get_logger().warning(f"the machine's clock was set by {step_s:+.3f} s")

    return work
