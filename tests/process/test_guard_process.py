"""A real guard process against an emulated controller process: stops, deaths, refusals. Figures: `benchmarks/`."""
import os
import signal
import socket
import time

import pytest

from steadyhand.errors import RobotError
from steadyhand.guard_protocol import Heartbeat, Stop, encode
from steadyhand.protocols import ProgramState
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from steadyhand_firmware_bridge.guard import main as guard_main
from tests.support.emulated_controller import Controller, host
from tests.support.guard_rig import PATIENT, Observer, Rig, target_speed

pytestmark = pytest.mark.process
HEARTBEAT_CYCLES = 5  # 40 ms at 125 Hz


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def set_moving(rig):
    rig.arm()
    rig.move(0.8)
    samples = rig.observer.watch(1.0, lambda v: target_speed(v) > 0.2)
    assert target_speed(samples[-1]) > 0.2, (rig.client.state.causes, rig.verdicts[-1:])
    return rig


@pytest.fixture
def moving(rig):
    return set_moving(rig)


def assert_no_cycle_was_late(state):
    """Asked only of the real-time scheduler: under another one a busy machine holds the guard up, whoever floods it."""
    assert state.counters["late_cycles"] == 0 or state.scheduler != "SCHED_FIFO", state.counters


def comes_to_rest(rig, seconds=3.0):
    """The controller's own target stands still; its last sample."""
    last = rig.observer.watch(seconds, lambda v: target_speed(v) < 1e-4)[-1]
    assert target_speed(last) < 1e-4
    return last


def test_a_stop_brakes_comes_to_rest_and_latches(moving):
    operator.stop("panel", "test", moving.folder)
    moving.until(lambda s: s.mode == "STOPPED", 1.0)
    state = moving.until(lambda s: s.at_rest, 3.0)
    assert state.causes == ["stop_requested: panel: test"] and state.counters["stop:panel"] == 1
    comes_to_rest(moving)
    halted = moving.observer.watch(1.0, lambda v: v["output_int_register_24"] == ProgramState.HALTED)[-1]
    assert halted["output_int_register_24"] == ProgramState.HALTED
    assert moving.verdict(moving.chunk()).reason == "not_armed"
    before = state.token
    reply = moving.arm()
    assert reply.snapshot["source"] == "policy" and moving.client.state.token != before
    moving.move(0.5)
    assert moving.verdicts[-1].accepted


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_a_dead_or_frozen_guard_is_stopped_by_the_controller_program(moving, number):
    os.kill(moving.guard.pid, number)
    last = comes_to_rest(moving)
    ended = moving.observer.watch(1.0, lambda v: v["runtime_state"] == 1)[-1]
    assert last["output_int_register_24"] == ProgramState.STOPPED_HEARTBEAT and ended["runtime_state"] == 1
    assert last["output_int_register_27"] == HEARTBEAT_CYCLES
    if number == signal.SIGSTOP:
        os.kill(moving.guard.pid, signal.SIGCONT)
        state = moving.until(lambda s: s.mode == "STOPPED" and s.at_rest, 3.0)
        assert any(c.startswith("loop_late") for c in state.causes)
        assert target_speed(moving.observer.watch(0.3)[-1]) == 0.0


def test_after_a_restart_the_old_token_moves_nothing(moving):
    old = moving.chunk()
    moving.kill(moving.guard)
    comes_to_rest(moving)
    moving.start()
    moving.until(lambda s: s.at_rest, 5.0)
    assert moving.client.state.token != old.token and moving.client.state.mode == "STOPPED"
    assert moving.verdict(moving.chunk(token=old.token)).reason == "not_armed"
    moving.arm()
    assert moving.client.state.token != old.token
    assert moving.verdict(moving.chunk(token=old.token)).reason == "foreign_token"


def test_expired_foreign_and_disordered_chunks_are_refused_and_counted(tmp_path):
    # The arm stands, so that no silence stops it, and an honest chunk may be old: no answer here has to be in time.
    rig = Rig(tmp_path, config=PATIENT | {"chunk_age_s": 10.0})
    try:
        rig.arm()
        assert rig.verdict(rig.chunk(step_rad=0.0)).accepted
        changes = {
            "foreign_token": lambda s: dict(token=1),
            "expired": lambda s: dict(state_stamp_s=s.stamp_s - 20.0),
            "out_of_order": lambda s: dict(state_seq=0),
            "wrong_observation": lambda s: dict(state_stamp_s=s.stamp_s - 0.001),
        }
        for reason, change in changes.items():
            verdict = rig.verdict(rig.chunk(**change(rig.client.state)))
            assert (verdict.accepted, verdict.reason) == (False, reason), verdict
        counters = rig.until(lambda s: "refused:wrong_observation" in s.counters, 1.0).counters
        assert [counters[f"refused:{reason}"] for reason in changes] == [1] * len(changes)
    finally:
        rig.close()


def test_a_second_commander_is_refused_but_may_watch(moving):
    second = GuardClient("second", commander=True, folder=moving.folder)
    with pytest.raises(RobotError, match="second commander: 'commander' commands already"):
        second.connect()
    moving.move(0.3)
    assert moving.verdicts[-1].accepted


def test_a_commander_that_goes_stops_the_arm(moving):
    moving.client.close()
    comes_to_rest(moving)
    watcher = GuardClient("watcher", folder=moving.folder)
    watcher.connect()
    state = watcher.wait(lambda m: hasattr(m, "causes") and hasattr(m, "mode"), 2.0)
    watcher.close()
    assert state.mode == "STOPPED" and state.causes[0].startswith("shell_lost")


def test_a_commander_that_freezes_stops_the_arm(tmp_path):
    rig = Rig(tmp_path, config={})
    try:
        rig.arm()
        rig.client.send(rig.chunk())
        rig.observer.watch(1.0)  # it does nothing else meanwhile
        state = rig.until(lambda s: s.mode == "STOPPED", 1.0)
        assert state.causes[0].startswith("shell_lost")
    finally:
        rig.close()


def test_a_flood_neither_stops_the_loop_nor_delays_a_stop(moving):
    flood = GuardClient("flood", folder=moving.folder)
    flood.connect()
    for _ in range(20):
        while flood.send(Heartbeat("x", True)):  # until its buffer is full
            pass
        moving.move(0.05)
    flood.close()
    assert moving.client.state.mode == "ARMED_AUTO", moving.client.state.causes
    assert_no_cycle_was_late(moving.client.state)
    operator.stop("panel", folder=moving.folder)
    moving.until(lambda s: s.mode == "STOPPED", 1.0)


def test_a_flood_of_stops_is_a_stop(moving):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(str(moving.folder / "stop.sock"))
        sock.settimeout(1.0)
        for _ in range(3000):
            sock.send(encode(Stop("mad")))
    state = moving.until(lambda s: s.at_rest and s.mode == "STOPPED" and s.counters["stop:mad"] == 3000, 5.0)
    assert_no_cycle_was_late(state)


def test_a_protective_stop_is_withdrawn_from_and_releasing_moves_nothing(moving):
    moving.controller.pendant("protective_stop")
    state = moving.until(lambda s: s.mode == "STOPPED", 1.0)
    assert any(c.startswith("robot_safety") for c in state.causes)
    moving.until(lambda s: s.at_rest, 3.0)
    assert not operator.rearm("auto", folder=moving.folder).ok
    ended = moving.observer.watch(2.0, lambda v: v["runtime_state"] == 1)[-1]
    assert ended["runtime_state"] == 1  # stopped at detection: there is nothing to resume at the pendant
    end_s = time.monotonic() + 10.0
    while not moving.controller.pendant("unlock_protective_stop")["result"]:  # not before 5 s have passed
        assert time.monotonic() < end_s
        moving.observer.watch(0.1)
    samples = moving.observer.watch(0.5)
    assert max(map(target_speed, samples)) == 0.0 and moving.client.state.mode == "STOPPED"
    moving.until(lambda s: s.safety_mode == 1 and s.at_rest, 3.0)
    moving.arm()


def test_a_program_paused_at_the_pendant_is_ended(moving):
    moving.controller.pendant("pause_program")
    state = moving.until(lambda s: s.mode == "STOPPED", 1.0)
    assert state.causes[0].startswith(("program_lost", "feedback_lost"))
    assert moving.observer.watch(2.0, lambda v: v["runtime_state"] == 1)[-1]["runtime_state"] == 1
    moving.controller.pendant("play_program")
    assert max(map(target_speed, moving.observer.watch(0.5))) < 1e-4


def test_the_guard_survives_its_controller_and_stays_disarmed(moving):
    moving.observer.close()
    moving.controller.end()
    moving.until(lambda s: s.mode != "ARMED_AUTO" and any("robot_unreachable" in c for c in s.causes), 5.0)
    moving.until(lambda s: s.mode == "REST_UNKNOWN", 4.0)
    moving.controller = Controller()
    moving.observer = Observer()
    moving.until(lambda s: s.at_rest and s.mode == "STOPPED", 8.0)
    assert max(map(target_speed, moving.observer.watch(0.3))) == 0.0
    moving.arm()


def test_terminated_while_moving_it_ends_at_rest(moving):
    moving.guard.send_signal(signal.SIGTERM)
    end_s = time.monotonic() + 5.0
    while moving.guard.poll() is None and time.monotonic() < end_s:
        moving.poll()
        time.sleep(0.005)
    assert moving.guard.poll() == 0
    last = comes_to_rest(moving, 1.0)
    assert last["output_int_register_24"] == ProgramState.HALTED
    assert not (moving.folder / "rearm.token").exists()


def test_a_second_guard_in_the_slot_says_so(rig, capsys):
    assert guard_main.main(["--robot", "fake", "--sched", "other", "--socket-dir", str(rig.folder)]) == 1
    assert "another guard runs" in capsys.readouterr().err
    rig.arm()


def test_an_unreachable_robot_is_said_and_not_fatal(tmp_path):
    rig = Rig(tmp_path, controller=False)
    try:
        state = rig.until(lambda s: any("robot_unreachable" in c for c in s.causes), 3.0)
        assert host() in " ".join(state.causes)
        assert not operator.rearm("auto", folder=rig.folder).ok
    finally:
        rig.close()
