"""The real ur_rtde receive and I/O clients as outside witnesses of the emulated controller's ports."""
import time

import numpy as np
import pytest

from steadyhand import cell
from steadyhand_firmware_bridge.dashboard import DashboardClient
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from tests.support.emulated_controller import Controller, wait_for

pytestmark = pytest.mark.process


@pytest.fixture(scope="module", params=["cb3", "e-series"])
def generation(request):
    return request.param


@pytest.fixture(scope="module")
def robot(generation):
    with Controller(*(["--e-series"] if generation == "e-series" else [])) as process:
        yield process


@pytest.fixture
def receive(robot):
    rtde_receive = pytest.importorskip("rtde_receive")
    client = rtde_receive.RTDEReceiveInterface(robot.host)
    yield client
    client.disconnect()


def test_the_witness_reads_what_the_arm_does(receive):
    assert receive.isConnected()
    assert receive.getActualQ() == pytest.approx(cell.HOME_Q_RAD, abs=1e-3)
    assert receive.getActualTCPPose()[:3] == pytest.approx([-0.34, -0.20, 0.34], abs=1e-3)  # `base`: half a turn away
    assert receive.getRobotMode() == 7
    assert receive.getSafetyMode() == 1
    assert receive.getRuntimeState() == 1
    assert receive.getJointMode() == [253] * 6


def test_states_come_once_a_cycle(receive, generation):
    """By the controller's own clock: each stamp is whole cycles after the last. How punctual is a benchmark's business."""
    stamps = []

    def seen():
        stamp = receive.getTimestamp()
        if not stamps or stamp != stamps[-1]:
            stamps.append(stamp)
        return len(stamps) > 100

    wait_for(seen, 10.0)
    period_s = 0.002 if generation == "e-series" else 0.008
    steps = np.diff(stamps) / period_s
    assert steps.min() > 0.9
    assert np.abs(steps - np.round(steps)).max() < 1e-3


def test_io_client_and_ours_share_the_controller(robot, receive):
    rtde_io = pytest.importorskip("rtde_io")
    io = rtde_io.RTDEIOInterface(robot.host)
    try:
        width_v = receive.getStandardAnalogInput0()
        assert io.setStandardDigitalOut(0, True)
        wait_for(lambda: receive.getActualDigitalOutputBits() & 1)
        wait_for(lambda: receive.getStandardAnalogInput0() < width_v - 0.1)  # the gripper closes
        assert io.setSpeedSlider(0.5)
        wait_for(lambda: receive.getTargetSpeedFraction() == 0.5)
        names = tuple(f"input_double_register_{i}" for i in range(24, 30))
        ours = RtdeClient(RtdeConfig(robot.host, ("timestamp", "actual_q", *names), {"q": names}))
        ours.connect(5.0)
        assert ours.send("q", [0.5] * 6)

        def written():
            sample = ours.poll(time.monotonic())
            return sample if sample and sample.values["input_double_register_29"] == 0.5 else None

        assert wait_for(written).values["actual_q"] == pytest.approx(receive.getActualQ(), abs=1e-3)
        ours.close()
    finally:
        io.setSpeedSlider(1.0)
        io.setStandardDigitalOut(0, False)
        io.disconnect()


def test_a_protective_stop_as_the_witness_sees_it(robot, receive):
    robot.pendant("protective_stop")
    wait_for(receive.isProtectiveStopped)
    assert receive.getSafetyMode() == 3
    dashboard = DashboardClient(robot.host, timeout_s=5.0)
    assert dashboard.call("safetymode") == "Safetymode: PROTECTIVE_STOP"
    assert dashboard.call("unlock protective stop").startswith("Cannot unlock protective stop until 5s")
    wait_for(lambda: dashboard.call("unlock protective stop") == "Protective stop releasing", 8.0)
    wait_for(lambda: not receive.isProtectiveStopped())
    dashboard.close()


def test_an_emergency_stop_as_the_witness_sees_it(robot, receive):
    robot.pendant("emergency_stop")
    wait_for(receive.isEmergencyStopped)
    wait_for(lambda: receive.getRobotMode() == 3)
    robot.pendant("release_emergency_stop")
    robot.pendant("brake_release")
    wait_for(lambda: receive.getRobotMode() == 7)
    assert not receive.isEmergencyStopped()
