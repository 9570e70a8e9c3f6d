"""The task stands still while the guard is about to switch the payload: before it lifts, and before it retreats."""
import dataclasses

import pytest

from steadyhand_sim.kinematic_cell import KinematicCell, scatter

WAIT_S = 0.8  # longer than either phase takes by itself, shorter than its deadline


class Switching(KinematicCell):
    """Says that the payload is due for WAIT_S from the moment a phase begins."""

    phase = ""

    def state(self):
        now = self.phases[-1] if self.phases else ""
        if now != self.phase:
            self.phase, self.since_s = now, self.now_s
        due = now == self.waits_in and self.now_s - self.since_s < WAIT_S
        return dataclasses.replace(super().state(), payload_due=due)


@pytest.mark.parametrize("phase, after", [("grasp", "lift"), ("release", "retreat")])
def test_what_comes_after_waits_for_the_payload(phase, after):
    cell = Switching(scatter(1, 3), seed=3)
    cell.waits_in, begun = phase, {}
    cell.warm_up()
    cell.goal()
    result = cell.run(60.0, each=lambda c: begun.setdefault(c.phases[-1] if c.phases else "", c.now_s))
    assert result is not None and result.placed == 1, cell.phases
    assert begun[after] - begun[phase] >= WAIT_S
