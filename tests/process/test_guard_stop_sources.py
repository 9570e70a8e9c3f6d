"""Stops by the robot, by an operator's link and by another guard: real processes, emulated controllers."""
import os
import signal
import time

import pytest

from steadyhand.guard_protocol import Link
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.support.emulated_controller import host
from tests.support.guard_rig import PATIENT, Rig, target_speed

pytestmark = pytest.mark.process


def set_moving(rig):
    rig.arm()
    rig.move(0.8)
    assert target_speed(rig.observer.watch(1.0, lambda v: target_speed(v) > 0.2)[-1]) > 0.2
    return rig


def stops(rig, cause, seconds=1.0):
    """The guard stops for `cause` (the beginning of its text), and the controller's target comes to rest."""
    state = rig.until(lambda s: s.mode == "STOPPED" and any(c.startswith(cause) for c in s.causes), seconds)
    assert target_speed(rig.observer.watch(3.0, lambda v: target_speed(v) < 1e-4)[-1]) < 1e-4
    rig.until(lambda s: s.at_rest, 3.0)
    return state


# act at the robot, cause, act that ends it (None: needs more than one)
CB3 = {
    "protective_stop": ("robot_safety:protective_stop", None),
    "safeguard_stop": ("robot_safety:safeguard_stop", "release_safeguard"),
    "emergency_stop": ("robot_safety:robot_emergency_stop", None),
    "power_off": ("robot_mode:power_off", None),
    "reduced_mode": ("robot_reduced", "normal_mode"),
    "press_freedrive": ("robot_mode:freedrive", "release_freedrive"),
}


@pytest.mark.parametrize("act", CB3)
def test_each_status_of_the_robot_stops_by_its_name(tmp_path, act):
    cause, undo = CB3[act]
    rig = Rig(tmp_path)
    try:
        set_moving(rig).controller.pendant(act)
        stops(rig, cause)
        reply = operator.rearm("auto", folder=rig.folder)
        assert not reply.ok
        if act != "power_off":
            assert any(c.startswith(cause) for c in reply.causes), reply
        if undo:
            rig.controller.pendant(undo)
            rig.until(lambda s: not any(c.startswith(cause) for c in s.causes[1:]) and s.at_rest, 3.0)
            assert max(map(target_speed, rig.observer.watch(0.3))) == 0.0  # ending the cause moves nothing
            time.sleep(0.1)
            rig.arm()
    finally:
        rig.close()


def test_local_control_of_an_e_series_stops(tmp_path):
    rig = Rig(tmp_path, robot=("--e-series",))
    try:
        set_moving(rig).controller.pendant("local_control")
        stops(rig, "robot_local", 2.0)
        assert not operator.rearm("auto", folder=rig.folder).ok
        rig.controller.pendant("remote_control_on")
        end_s = time.monotonic() + 3.0
        while not operator.rearm("auto", folder=rig.folder).ok:
            assert time.monotonic() < end_s
    finally:
        rig.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_operator_in_control_that_dies_or_freezes_stops_the_arm(tmp_path, number):
    rig = Rig(tmp_path)
    child = os.fork()
    if child == 0:  # the operator's process: beats ten times a second
        try:
            client = GuardClient("ann", states=False, folder=rig.folder)
            client.connect()
            while client.send(Link("ann", True)):
                time.sleep(0.1)
        finally:
            os._exit(0)
    try:
        set_moving(rig)
        os.kill(child, number)
        rig.move(0.8)
        stops(rig, "operator_link")
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        rig.close()


@pytest.fixture
def cell(tmp_path):
    """Two guards, each with its own emulated controller, in one stop domain."""
    rigs = []
    try:
        for name, other in (("left", "right"), ("right", "left")):
            folder = tmp_path / name
            folder.mkdir()
            config = PATIENT | {"name": name, "peers": {other: str(tmp_path / other / "slot")}}
            rigs.append(Rig(folder, config=config, at="" if name == "left" else host().replace("127.0.0.", "127.0.2.")))
        for rig in rigs:
            rig.until(lambda s: not any(c.startswith("peer") for c in s.causes), 3.0)
        yield rigs
    finally:
        for rig in rigs:
            rig.close()


def move_both(left, right):
    for rig in (left, right):
        rig.arm()
    for _ in range(8):
        left.move(0.06)
        right.move(0.06)
    assert left.client.state.mode == right.client.state.mode == "ARMED_AUTO"
    return left, right


def test_one_stop_stops_both_and_each_is_rearmed(cell):
    left, right = move_both(*cell)
    operator.stop("panel", "test", left.folder)
    stops(left, "stop_requested: panel")
    stops(right, "peer: left stopped (stop_requested)")
    left.arm()
    assert right.client.state.mode == "STOPPED"
    right.arm()
    left.until(lambda s: s.mode == "ARMED_AUTO", 1.0)  # the other's arming is no stop


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_or_frozen_guard_stops_its_peer(cell, number):
    left, right = move_both(*cell)
    os.kill(left.guard.pid, number)
    for _ in range(4):
        right.move(0.06)
    stops(right, "peer:left")
    assert not operator.rearm("auto", folder=right.folder).ok
    if number == signal.SIGSTOP:
        os.kill(left.guard.pid, signal.SIGCONT)
        left.until(lambda s: s.mode == "STOPPED", 2.0)


def test_the_safety_stop_of_one_robot_stops_the_other_until_it_is_cleared(cell):
    left, right = move_both(*cell)
    left.controller.pendant("safeguard_stop")
    stops(left, "robot_safety:safeguard_stop")
    stops(right, "peer")
    reply = operator.rearm("auto", folder=right.folder)
    assert not reply.ok and any("robot_safety:safeguard_stop" in c for c in reply.causes)
    left.controller.pendant("release_safeguard")
    right.until(lambda s: not any("its robot" in c for c in s.causes[1:]), 2.0)
    right.arm()
