"""A guard whose gripper is a Robotiq: real guard with its worker, emulated controller with the URCap's socket."""
import math
import os
import signal
import time

import pytest

from steadyhand.guard_protocol import Gripper
from steadyhand_firmware_bridge import operator
from tests.support.emulated_controller import wait_for
from tests.support.guard_rig import PATIENT, Rig

pytestmark = pytest.mark.process
CONFIG = PATIENT | {
    "feedback_timeout_s": 1.0, "gripper": "robotiq", "robotiq": {"command_age_s": 1.0, "state_timeout_s": 2.0},
}  # fmt: skip


@pytest.fixture
def start(tmp_path):
    rigs = []

    def rig(gripper="robotiq", **robotiq):
        config = CONFIG | {"robotiq": CONFIG["robotiq"] | robotiq}
        rigs.append(Rig(tmp_path, config=config, robot=("--gripper", gripper)))
        return rigs[-1]

    yield rig
    for made in rigs:
        made.close()


def well(rig):
    rig.until(lambda s: not any(c.startswith("gripper") for c in s.causes) and s.at_rest, 15.0)
    return rig


def armed_again(rig):
    """After a stop, whose cause stays shown until then."""
    wait_for(lambda: operator.rearm("auto", folder=rig.folder).ok, 15.0)
    rig.until(lambda s: s.mode == "ARMED_AUTO" and not math.isnan(s.gripper_width_m), 5.0)


def grip(rig, width_m):
    rig.count += 1
    return rig.verdict(Gripper(rig.client.state.token, width_m, f"g{rig.count}"))


def counted(rig, name):
    return rig.client.state.counters.get(f"gripper:{name}", 0)


def worker_of(rig):
    """Process ids of the worker and of its supervisor, which is the guard's only child."""
    children = lambda pid: open(f"/proc/{pid}/task/{pid}/children").read().split()  # noqa: E731
    (supervisor,) = children(rig.guard.pid)
    (worker,) = wait_for(lambda: children(supervisor))
    return int(worker), int(supervisor)


def test_it_grips_what_is_there_and_connecting_or_stopping_writes_nothing(start):
    rig = well(start())
    rig.controller.pendant("object 0.04")
    assert rig.controller.pendant("state")["gripper_writes"] == 0  # connecting writes nothing
    rig.arm()
    rig.until(lambda s: abs(s.gripper_width_m - 0.085) < 0.001 and s.gripper_commanded_m > 0.08, 5.0)
    assert grip(rig, 0.0).accepted
    rig.until(lambda s: abs(s.gripper_width_m - 0.04) < 0.001 and s.gripper_commanded_m < 0.001, 10.0)
    before = rig.controller.pendant("state")
    assert before["gripper_writes"] == 1 and before["digital_outputs"] == 0
    operator.stop("test", folder=rig.folder)
    rig.until(lambda s: s.mode == "STOPPED" and s.at_rest, 5.0)
    assert grip(rig, 0.085).reason == "not_armed"
    rig.kill(rig.guard)  # nor does the end of the guard, whichever way
    wait_for(lambda: rig.guard.poll() is not None)
    after = rig.controller.pendant("state")
    assert after["gripper_writes"] == 1 and abs(after["gripper_width_m"] - 0.04) < 0.001


def test_a_command_that_waits_for_a_slow_gripper_is_not_written_after_a_stop(start):
    rig = well(start())
    rig.arm()
    worker, supervisor = worker_of(rig)
    os.kill(worker, signal.SIGSTOP)  # the queue is not read: as while the gripper is slow to answer
    try:
        assert grip(rig, 0.0).accepted
        operator.stop("test", folder=rig.folder)
        rig.until(lambda s: s.mode == "STOPPED", 5.0)
    finally:
        os.kill(worker, signal.SIGCONT)
    rig.until(lambda s: counted(rig, "dropped_by_stop") + counted(rig, "expired") == 1, 10.0)
    assert rig.controller.pendant("state")["gripper_writes"] == 0


def test_activation_is_an_operators_act(start):
    rig = start("robotiq-inactive")
    state = rig.until(lambda s: any("gripper-activate" in c for c in s.causes), 15.0)
    assert math.isnan(state.gripper_width_m)
    reply = operator.rearm("auto", folder=rig.folder)
    assert not reply.ok and any("gripper-activate" in c for c in reply.causes)
    assert rig.controller.pendant("state")["gripper_writes"] == 0
    reply = operator.robot_act("gripper-activate", 30.0, rig.folder)
    assert reply.ok, reply
    well(rig)
    rig.arm()


def test_a_lost_gripper_stops_auto_and_is_named(start):
    """A fault of the gripper, then the death of the worker: neither needs a restart of anything else."""
    rig = well(start())
    rig.arm()
    rig.controller.pendant("gripper_fault 14")
    state = rig.until(lambda s: s.mode == "STOPPED" and s.at_rest, 10.0)
    assert any(c.startswith("gripper: fault 14: overcurrent") for c in state.causes), state.causes
    rig.controller.pendant("gripper_fault 0")
    wait_for(lambda: operator.robot_act("gripper-activate", 30.0, rig.folder).ok, 10.0)  # refused while it stops
    armed_again(rig)
    worker, _ = worker_of(rig)
    cycles = rig.client.state.counters["cycles"]
    os.kill(worker, signal.SIGKILL)
    rig.until(lambda s: counted(rig, "restarts") == 1, 15.0)  # the supervisor's, not the guard's doing
    assert rig.client.state.counters["cycles"] > cycles
    rig.until(lambda s: not math.isnan(s.gripper_width_m), 15.0)


def test_a_frozen_worker_is_named_and_the_queue_is_bounded(start):
    rig = well(start(state_timeout_s=0.5))
    rig.arm()
    worker, _ = worker_of(rig)
    os.kill(worker, signal.SIGSTOP)
    try:
        full = [v for v in (grip(rig, 0.0) for _ in range(20)) if not v.accepted]
        assert full and full[0].reason in ("flood", "not_armed")
        rig.until(lambda s: any(c.startswith("gripper: no state") for c in s.causes), 10.0)
    finally:
        os.kill(worker, signal.SIGCONT)
    armed_again(rig)


def test_the_worker_ends_with_the_guard(start):
    rig = well(start())
    pids = worker_of(rig)
    rig.guard.send_signal(signal.SIGTERM)
    assert rig.guard.wait(20) == 0
    end_s = time.monotonic() + 10.0
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < end_s
        time.sleep(0.01)
