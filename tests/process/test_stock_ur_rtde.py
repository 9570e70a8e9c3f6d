"""The stock ur_rtde control client, unchanged: the script it uploads is interpreted, not imitated."""
import numpy as np
import pytest

from tests.process.ur_process import ControllerProcess, wait_for

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def robot():
    with ControllerProcess() as process:
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


def test_servo_j_and_its_stop(control, receive):
    q0 = np.array(receive.getActualQ())
    for k in range(125):
        period = control.initPeriod()
        q = q0.copy()
        q[0] += 0.1 * np.sin(2 * np.pi * k / 125)
        assert control.servoJ(q.tolist(), 0.5, 0.5, 0.008, 0.05, 1000)
        control.waitPeriod(period)
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
