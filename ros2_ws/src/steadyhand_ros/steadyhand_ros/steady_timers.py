"""Timers that go on when the machine's clock is set."""
from __future__ import annotations

from rclpy.clock import Clock, ClockType
from rclpy.timer import Timer


class SteadyTimers:
    """To stand before a node class. `rclpy` times by the node's clock unless told otherwise, which follows the machine's:
    set back by 5 s, every timer of the graph, heartbeats and all, would be silent for 5 s (see `clock_watch` too)."""

    def create_timer(self, timer_period_sec, callback, callback_group=None, clock=None, autostart=True) -> Timer:
        """As `rclpy.node.Node.create_timer`, by the steady clock unless another one is given."""
        clock = clock or Clock(clock_type=ClockType.STEADY_TIME)
        return super().create_timer(timer_period_sec, callback, callback_group, clock, autostart)
