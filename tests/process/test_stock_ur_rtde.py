"""Outside witness: the stock `ur_rtde` control client, unchanged. Its script is interpreted, not imitated.

Its moves run against an emulated controller of either generation. The script itself is caught on the way to the
interpreter of a second one in this process; no copy of it is kept in the project.
"""
import subprocess
import sys
import time

import numpy as np
import pytest

from steadyhand.slot import current_slot
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController, urscript_program
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.realtime import ControllerServer
from steadyhand_sim.urscript import Machine, State
from steadyhand_sim.urscript.calls import called_names
from tests.support.emulated_controller import Controller, wait_for

pytest.importorskip("rtde_control")
pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=["cb3", "e_series"])
def generation(request):
    return request.param


# --- the script, caught at its upload; first, since both controllers want the same ports ---


class Upload:
    """The controller in this process that the client uploads to; the client holds the GIL, so it runs in another."""

    CLIENT = """
import sys, rtde_control
c = rtde_control.RTDEControlInterface(sys.argv[1])
assert c.isProgramRunning()
c.stopScript()
c.disconnect()
"""

    def __init__(self, config):
        self.sources = []

        def factory(source, *rest):
            self.sources.append(source)
            return urscript_program(source, *rest)

        self.controller = URController(KinematicPlant(), config, factory)
        host = current_slot().robot_host
        server = ControllerServer(self.controller, host)
        client = subprocess.Popen(
            [sys.executable, "-c", self.CLIENT, host], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        deadline_s = time.monotonic() + 60.0
        try:
            server.run(lambda: client.poll() is not None or time.monotonic() > deadline_s)
        finally:
            client.kill()
            output = client.communicate(timeout=10)[0].decode()
            server.close()
        assert client.returncode == 0, (output, self.controller.messages[-20:])


@pytest.fixture(scope="module")
def upload(generation):
    return Upload(getattr(ControllerConfig, generation)())


# What the script can call and the emulated controller does not offer: refused when called, with its line.
NOT_EMULATED = {"force_mode"}


def test_the_whole_script_is_parsed_and_calls_only_listed_functions(upload):
    source = upload.sources[0]
    assert len(source.splitlines()) > 1000
    offered = set(upload.controller.builtins.table()) | Machine.language_names()
    assert called_names(source) - offered == NOT_EMULATED


def test_what_it_cannot_run_is_refused_with_its_line_when_called(upload):
    machine = Machine(upload.sources[0], upload.controller.builtins.table())
    upload.controller.inputs.ints[0] = 6  # force_mode, run by a thread of the script
    machine.tick()
    lines = upload.sources[0].splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith("force_mode("))
    assert machine.state is State.FAILED
    assert (machine.error.line, machine.error.reason) == (line, "unknown function force_mode")


# --- its moves ---


@pytest.fixture(scope="module")
def robot(generation):
    with Controller(*(["--e-series"] if generation == "e_series" else [])) as process:
        yield process


@pytest.fixture(scope="module")
def receive(robot):
    rtde_receive = pytest.importorskip("rtde_receive")
    client = rtde_receive.RTDEReceiveInterface(robot.host)
    yield client
    client.disconnect()


@pytest.fixture(scope="module")
def control(robot, receive):
    rtde_control = pytest.importorskip("rtde_control")
    client = rtde_control.RTDEControlInterface(robot.host)
    yield client
    client.stopScript()
    client.disconnect()


def at_rest(receive):
    return max(abs(v) for v in receive.getActualQd()) < 0.01


def test_its_script_runs(robot, control):
    assert control.isConnected()
    assert control.isProgramRunning()
    state = robot.pendant("state")
    assert state["program"] == "rtde_control"
    assert state["counters"]["program_errors"] == 0
    assert any("RTDE Control Script Loaded" in m for m in state["messages"])


def test_move_j(control, receive):
    goal = np.array(receive.getActualQ()) + [0.2, -0.1, 0.1, -0.1, 0.1, 0.2]
    assert control.moveJ(goal.tolist(), 1.05, 1.4)
    wait_for(lambda: at_rest(receive))
    assert receive.getTargetQ() == pytest.approx(goal, abs=1e-6)
    assert receive.getActualQ() == pytest.approx(goal, abs=2e-3)


def test_move_l(control, receive):
    goal = np.array(receive.getActualTCPPose())
    goal[2] += 0.04
    assert control.moveL(goal.tolist(), 0.25, 1.2)
    wait_for(lambda: at_rest(receive))
    assert receive.getActualTCPPose()[:3] == pytest.approx(goal[:3], abs=1e-3)


def test_servo_j_and_its_stop(control, receive, generation):
    period_s = 0.008 if generation == "cb3" else 0.002
    steps = round(1.0 / period_s)
    q0, peak = np.array(receive.getActualQ()), -np.inf
    for k in range(steps):
        period = control.initPeriod()
        q = q0.copy()
        q[0] += 0.1 * np.sin(2 * np.pi * k / steps)
        assert control.servoJ(q.tolist(), 0.5, 0.5, period_s, 0.05, 1000)
        control.waitPeriod(period)
        peak = max(peak, receive.getActualQ()[0])
    assert peak == pytest.approx(q0[0] + 0.1, abs=0.02)
    assert not at_rest(receive)
    assert control.servoStop(10.0)
    wait_for(lambda: at_rest(receive))
    assert receive.getActualQ() == pytest.approx(q0, abs=0.05)


def test_stop_j_from_a_speed(control, receive):
    assert control.speedJ([0.4, 0, 0, 0, 0, 0], 2.0, 2.0)
    wait_for(lambda: receive.getActualQd()[0] > 0.35)
    control.stopJ(4.0)
    wait_for(lambda: at_rest(receive))
    assert receive.getTargetQd() == [0.0] * 6


def test_state_queries(control, receive):
    q = receive.getActualQ()
    pose = control.getForwardKinematics()
    assert pose[:3] == pytest.approx(receive.getActualTCPPose()[:3], abs=2e-3)
    assert control.getInverseKinematics(receive.getActualTCPPose()) == pytest.approx(q, abs=2e-3)
    assert control.isPoseWithinSafetyLimits(receive.getActualTCPPose())
    assert control.getTCPOffset()[2] == pytest.approx(0.135)
    assert control.setPayload(0.5, [0.0, 0.0, 0.05])
    wait_for(lambda: control.isSteady())


def test_asynchronous_move_and_its_stop(control, receive):
    goal = np.array(receive.getActualQ()) + [0.6, 0, 0, 0, 0, 0]
    assert control.moveJ(goal.tolist(), 0.5, 1.0, True)
    wait_for(lambda: receive.getActualQd()[0] > 0.3)
    control.stopJ(4.0)
    wait_for(lambda: at_rest(receive))
    assert receive.getActualQ()[0] < goal[0] - 0.1


def test_protective_stop_pauses_its_script_and_a_new_upload_recovers(robot, control, receive):
    assert control.speedJ([0.4, 0, 0, 0, 0, 0], 2.0, 2.0)
    wait_for(lambda: receive.getActualQd()[0] > 0.35)
    robot.pendant("protective_stop")
    wait_for(lambda: at_rest(receive))
    assert receive.isProtectiveStopped()
    assert not control.moveJ(receive.getActualQ(), 0.5, 0.5)
    robot.pendant("stop_program")
    robot.pendant("unlock_protective_stop")
    wait_for(lambda: not receive.isProtectiveStopped())
    assert control.reuploadScript()
    goal = np.array(receive.getActualQ()) - [0.1, 0, 0, 0, 0, 0]
    wait_for(control.isProgramRunning)
    assert control.moveJ(goal.tolist(), 1.0, 2.0)
    wait_for(lambda: at_rest(receive))
    assert receive.getActualQ() == pytest.approx(goal, abs=2e-3)


def test_none_of_its_programs_failed(robot, control):
    counters = robot.pendant("state")["counters"]
    assert counters["program_errors"] == counters["programs_refused"] == 0
