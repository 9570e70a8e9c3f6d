"""The simulator's judge at the controller: what a program may obey, and what it may not."""
import numpy as np
import pytest

from steadyhand_cli.dst.controller_checker import ControllerChecker
from steadyhand_cli.dst.program import Inputs

DT_S, TOKEN = 0.008, 77
HOLD, SERVO, HALT = 0, 1, 2


class Line:
    """Cycles of a controller whose program servoes at 0.5 rad/s; `cycle` changes what one of them sees."""

    def __init__(self):
        self.found, self.k, self.heartbeat, self.q = [], 0, 100, np.zeros(6)
        self.checker = ControllerChecker(lambda invariant, stamp_s, detail: self.found.append(detail))
        self.cycle(goal=None)
        self.cycle()

    def cycle(self, beats=1, arrived=True, token=TOKEN, command=SERVO, obeys=TOKEN, goal="next", speed_rad_s=0.5):
        self.k, self.heartbeat = self.k + 1, self.heartbeat + beats
        if isinstance(goal, str):
            self.q = self.q + 0.5 * DT_S * beats
            goal = self.q
        inputs = Inputs(self.heartbeat, token, command, self.k, self.q)
        goal = goal if obeys is not None else None
        self.checker.tick(DT_S * self.k, arrived, inputs, obeys, goal, np.zeros(6), speed_rad_s)


def test_a_good_line_is_silent_also_when_it_stutters():
    line = Line()
    for beats in (1, 1, 0, 2, 0, 0, 0, 4, 5, 1):
        line.cycle(beats, arrived=beats > 0)
    assert line.found == []


@pytest.mark.parametrize("said, change", [
    ("obeys token 78", {"token": 78}), ("after command 2", {"command": HALT}), ("after command 255", {"command": 255}),
    ("step of nan", {"goal": np.full(6, np.nan)}), ("step of 0.0360", {"goal": np.full(6, 0.04)}),
    ("although 6 heartbeats", {"beats": 6}), ("although -3 heartbeats", {"beats": -3}),
])  # fmt: skip
def test_each_thing_that_ends_a_program_and_did_not(said, change):
    line = Line()
    line.cycle(**change)
    assert said in line.found[0]


def test_a_first_set_point_far_from_the_target_and_one_without_a_heartbeat():
    line = Line()
    line.cycle(goal=None)
    line.cycle(goal=np.full(6, 0.02))
    assert "step of 0.0200 rad, limit 0.0100" in line.found[0]
    line = Line()
    line.cycle(beats=0, goal=line.q + 1e-3)
    assert "limit 0.0000" in line.found[0]


def test_silence_is_told_after_five_cycles_and_once():
    line = Line()
    for _ in range(4):
        line.cycle(beats=0, arrived=False)
    assert line.found == []
    for _ in range(4):
        line.cycle(beats=0, arrived=False)
    assert line.found == ["the program obeys 40 ms after the last heartbeat"]


def test_after_its_end_the_target_comes_to_rest_and_a_new_program_begins_anew():
    line = Line()
    for _ in range(59):
        line.cycle(obeys=None)
    line.cycle(obeys=None, speed_rad_s=0.0)
    line.cycle(goal=None)
    assert line.found == []
    for _ in range(60):
        line.cycle(obeys=None)
    assert line.found == ["the controller's target still moves 0.48 s after its program ended"]


def test_after_a_block_the_next_cycle_is_judged_against_its_end():
    line = Line()
    line.checker.block(5000, np.full(6, 2.0))
    line.heartbeat, line.q = 5000, np.full(6, 2.0)
    line.cycle()
    assert line.found == []
    line.cycle(beats=7)
    assert "although 7 heartbeats" in line.found[0]
