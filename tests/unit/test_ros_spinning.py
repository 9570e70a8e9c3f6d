"""The bounded spin of the link processes: everything that has come, and never more than its bound."""
from collections import deque

from steadyhand_ros.spinning import SPINS_MAX, BoundedSpin


class Executor:
    """Runs what is queued, one a look; None is a look that finds nothing."""

    def __init__(self):
        self.queue, self.looks = deque(), 0

    def spin_once(self, timeout_sec):
        assert timeout_sec == 0
        self.looks += 1
        if self.queue and (run := self.queue.popleft()) is not None:
            run()


def test_it_takes_what_has_come_and_ends_after_two_looks_that_found_nothing():
    executor, taken = Executor(), []
    spin = BoundedSpin(executor)
    take = spin.counted(taken.append)
    executor.queue.extend([lambda: take(1), None, lambda: take(2), None, None, lambda: take(3)])
    spin.spin()
    assert taken == [1, 2] and executor.looks == 5
    spin.spin()
    assert taken == [1, 2, 3] and executor.looks == 8


def test_a_flood_is_taken_in_portions():
    executor, taken = Executor(), []
    spin = BoundedSpin(executor)
    executor.queue.extend([lambda: spin.counted(taken.append)(0)] * 3 * SPINS_MAX)
    spin.spin()
    assert len(taken) == executor.looks == SPINS_MAX


def test_what_is_not_counted_keeps_nobody_looking():
    executor = Executor()
    executor.queue.extend([lambda: None] * 100)
    BoundedSpin(executor).spin()
    assert executor.looks == 2
