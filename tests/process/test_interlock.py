"""Arm and vehicle that share a place (I13): two guards as two processes, one stop domain, one interlock."""
import signal

import pytest

from steadyhand_firmware_bridge import operator
from tests.support.interlocked import FAR_M, TURN_RAD, arm_moves, undisturbed

pytestmark = pytest.mark.process
BOTH = ("arm", "agv")


def other(pair, name):
    return pair.agv if name == "arm" else pair.arm


@undisturbed
def test_the_arm_does_not_reach_over_a_vehicle_that_moves_and_does_when_it_stands(pair):
    pair.driving()
    verdict = pair.refused_turn()
    assert not verdict.accepted and verdict.reason == "workspace" and "the vehicle moves" in verdict.detail
    assert pair.armings() == (True, True) and not arm_moves(pair.arm.state)  # refused, and nobody had to stop
    assert pair.verdict(pair.agv, pair.pause(True)).accepted
    pair.until(lambda: pair.stands() and not pair.agv.state.interlock, "the vehicle at rest")
    # it stands, but its task may go on at any moment: it still claims the place
    assert "the vehicle moves" in pair.refused_turn().detail
    operator.disarm(folder=pair.agv.folder)  # an orderly end of its task: no stop of the arm
    pair.until(lambda: pair.agv.state.task_state == "stopped" and pair.agv.state.at_rest, "the task's end")
    pair.until(lambda: pair.refused_turn().accepted, "the place clear")
    pair.until(lambda: arm_moves(pair.arm.state), "the arm under way")


@undisturbed
def test_the_vehicle_does_not_leave_under_an_arm_and_does_when_it_is_clear(pair):
    pair.turned()
    verdict = pair.verdict(pair.agv, pair.drive(FAR_M))
    assert not verdict.accepted and "interlock: arm: the arm is over the vehicle" in verdict.detail
    assert pair.armings() == (True, True) and pair.stands()
    pair.turned(-TURN_RAD)
    pair.until(lambda: not pair.agv.state.interlock, "the arm clear")
    pair.driving()


@undisturbed
def test_of_two_that_begin_at_once_at_most_one_moves(pair):
    turn, drive = pair.turn(), pair.drive(FAR_M)
    turned, driven = pair.verdict(pair.arm, turn), pair.verdict(pair.agv, drive)
    assert not (turned.accepted and driven.accepted), (turned, driven)
    assert pair.armings() == (True, True)


@pytest.mark.parametrize("name", BOTH)
@undisturbed
def test_a_stop_of_one_stops_both_and_each_is_armed_again_on_its_own(pair, name):
    pair.driving()
    stopped, rest = getattr(pair, name), other(pair, name)
    operator.stop("panel", folder=stopped.folder)
    pair.until(lambda: pair.armings() == (False, False) and pair.stands(), "both stopped")
    assert any(f"peer: {name} stopped" in cause for cause in rest.state.causes), rest.state.causes
    pair.rearm(stopped)
    assert stopped.state.mode == "ARMED_AUTO" and rest.state.mode == "STOPPED"  # one word is for one of them
    secret = operator.credential(stopped.folder)
    assert operator.credential(rest.folder) != secret
    reply = operator._ask("auto", secret, 5.0, rest.folder)
    assert not reply.ok and reply.causes == ["credential refused"]
    pair.rearm(rest)
    assert pair.armings() == (True, True) and pair.stands() and not arm_moves(pair.arm.state)  # nothing was resumed


@pytest.mark.parametrize("name", BOTH)
@undisturbed
def test_a_guard_that_dies_stops_the_other_until_both_are_armed_again(pair, name):
    dead, left = getattr(pair, name), other(pair, name)
    if name == "arm":
        pair.driving()
    else:
        pair.until(lambda: pair.refused_turn().accepted, "a turn")
    dead.kill()
    pair.until(lambda: left.state.mode == "STOPPED" and left.state.at_rest, "the other one stopped")
    assert any(cause.startswith(f"peer:{name}") for cause in left.state.causes), left.state.causes
    reply = operator.rearm("auto", folder=left.folder)
    assert not reply.ok and any("silent" in cause for cause in reply.causes)
    dead.start()
    pair.until(lambda: dead.state is not None, "a state of the new guard")
    assert pair.armings() == (False, False)  # coming back arms nobody
    pair.rearm(left)
    assert pair.armings() == ((False, True) if name == "arm" else (True, False))
    pair.rearm(dead)
    assert pair.armings() == (True, True)


@pytest.mark.parametrize("name", BOTH)
@undisturbed
def test_a_guard_that_hangs_stops_the_other_and_itself_when_it_goes_on(pair, name):
    hung, left = getattr(pair, name), other(pair, name)
    if name == "arm":
        pair.driving()
    hung.signal(signal.SIGSTOP)
    pair.until(lambda: left.state.mode == "STOPPED" and left.state.at_rest, "the other one stopped")
    assert any("silent" in cause for cause in left.state.causes), left.state.causes
    hung.signal(signal.SIGCONT)
    pair.until(lambda: pair.armings() == (False, False), "both stopped")
    pair.armed()
    assert pair.stands() and not arm_moves(pair.arm.state)
