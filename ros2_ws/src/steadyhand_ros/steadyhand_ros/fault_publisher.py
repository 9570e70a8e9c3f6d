"""Publishes faults of the table; the same fault at most twice a second, so that a flood of causes is no flood here."""
from __future__ import annotations

from collections.abc import Iterable

from steadyhand_interfaces import msg

from steadyhand import faults
from steadyhand.types import Fault
from steadyhand_ros import conversions, qos

REPEAT_S = 0.5


class FaultPublisher:
    """One per node; `suppressed` counts what was not repeated."""

    def __init__(self, node):
        self._node = node
        self._publisher = node.create_publisher(msg.Fault, "faults", qos.EVENTS)
        self._last_s: dict[str, float] = {}
        self.suppressed = 0

    def publish(self, found: Iterable[Fault], now_s: float) -> None:
        """Publish each fault unless the same name went out within REPEAT_S."""
        for fault in found:
            if now_s - self._last_s.get(fault.name, -REPEAT_S) < REPEAT_S:
                self.suppressed += 1
                continue
            self._last_s[fault.name] = now_s
            stamp = self._node.get_clock().now().to_msg()
            self._publisher.publish(conversions.fault_msg(fault, int(faults.level(fault.name)), stamp))
