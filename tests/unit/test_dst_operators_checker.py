"""Operators in command and in control, as the simulation's checker judges the guard's part."""
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from steadyhand.guard_protocol import Arm, Heartbeat, Link, Reply
from steadyhand_cli.dst.operators_checker import OperatorsChecker

PERIOD_S = 0.008
ARMED = Reply("r", True, "armed: ARMED_MANUAL")


@dataclass(eq=False)
class Connection:
    commander: bool


@pytest.fixture
def seen():
    seen = SimpleNamespace(reports=[], stops=[], shell=Connection(True), person=Connection(False))
    seen.checker = OperatorsChecker(lambda *what: seen.reports.append(what), lambda *why: seen.stops.append(why))
    return seen


def test_an_operator_that_armed_to_command_commands_alone(seen):
    seen.checker.message(1.0, seen.person, Arm("manual", "c", "r", command=True))
    assert seen.checker.commands(seen.shell) and not seen.checker.commands(seen.person)
    seen.checker.armed(1.1, seen.person, ARMED)
    assert seen.checker.commands(seen.person) and not seen.checker.commands(seen.shell)


def test_one_that_did_not_ask_for_command_has_none(seen):
    seen.checker.message(1.0, seen.person, Arm("manual", "c", "r"))
    seen.checker.armed(1.1, seen.person, ARMED)
    assert seen.checker.commands(seen.shell)


def test_silence_in_command_while_moving_is_reported_after_100_ms(seen):
    seen.checker.message(1.0, seen.person, Arm("manual", "c", "r", command=True))
    seen.checker.armed(1.0, seen.person, ARMED)
    seen.checker.message(1.05, seen.person, Heartbeat("shell", True))
    seen.checker.while_armed(1.15, True, PERIOD_S)
    seen.checker.while_armed(1.17, False, PERIOD_S)
    assert not seen.reports
    seen.checker.while_armed(1.17, True, PERIOD_S)
    assert [what[0] for what in seen.reports] == ["I5"]


def test_silence_and_loss_in_control_count_and_an_orderly_end_does_not(seen):
    seen.checker.message(1.0, seen.person, Link("p", True))
    assert not seen.checker.silent(1.5, 0.0) and seen.checker.silent(1.51, 0.0)
    seen.checker.message(1.6, seen.person, Link("p", False))
    assert not seen.checker.silent(9.0, 0.0)
    seen.checker.gone(9.0, seen.person)
    assert not seen.stops
    seen.checker.message(9.1, seen.person, Link("p", True))
    seen.checker.gone(9.2, seen.person)
    assert len(seen.stops) == 1


def in_command(seen):
    seen.checker.message(1.0, seen.person, Arm("manual", "c", "r", command=True))
    seen.checker.armed(1.1, seen.person, ARMED)


def test_the_end_of_the_connection_in_command_must_stop(seen):
    in_command(seen)
    seen.checker.gone(2.0, seen.shell)
    assert not seen.stops
    seen.checker.gone(2.1, seen.person)
    assert [why for _, why in seen.stops] == ["the connection of the operator in command ended"]


def test_an_arming_gives_command_to_its_own_connection_and_once(seen):
    seen.checker.message(1.0, seen.person, Arm("manual", "c", "r", command=True))
    seen.checker.armed(1.1, Connection(False), ARMED)  # somebody else's request of the same name
    assert seen.checker.commands(seen.shell)
    in_command(seen)
    seen.checker.manual = None  # stopped
    seen.checker.armed(3.0, seen.person, ARMED)  # not asked for anew
    assert seen.checker.commands(seen.shell)


def test_a_new_guard_knows_no_operator(seen):
    in_command(seen)
    seen.checker.message(1.2, seen.person, Link("p", True))
    seen.checker.reset()
    assert seen.checker.commands(seen.shell) and not seen.checker.silent(9.0, 0.0)
    seen.checker.gone(9.0, seen.person)
    assert not seen.stops
