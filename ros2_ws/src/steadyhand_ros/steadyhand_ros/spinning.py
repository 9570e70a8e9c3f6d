"""What has arrived is taken by whoever owns the loop, in its own thread and within a bound: no callback at another time."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

SPINS_MAX = 40  # callbacks of one look; what is left is taken in the next


class BoundedSpin:
    """Looks at an executor without waiting. It cannot tell whether a look ran something, so counted callbacks say so."""

    def __init__(self, executor: Any):
        self._executor, self._ran = executor, 0

    def counted(self, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """The callback to hand to ROS."""

        def run(message: Any) -> None:
            self._ran += 1
            take(message)

        return run

    def spin(self) -> None:
        """Until two looks in a row found nothing that is counted, within the bound."""
        idle = 0
        for _ in range(SPINS_MAX):
            before = self._ran
            self._executor.spin_once(timeout_sec=0)
            idle = 0 if self._ran != before else idle + 1
            if idle == 2:
                return
