"""Arm and vehicle in one simulated world, as launch/cell.launch.xml runs them: all of it comes up; docking, loading,
leaving, stopping (without the ROS nodes)."""
import os
import signal

import numpy as np
import pytest

from steadyhand import cell
from steadyhand.errors import RobotError
from steadyhand.slot import current_slot
from steadyhand_cli import broker
from steadyhand_cli.cell_rig import CellRig
from steadyhand_cli.launch import launch_path
from steadyhand_cli.loading import BEHIND, LOW, OVER, pick
from steadyhand_cli.operate import read_state
from steadyhand_firmware_bridge import operator
from steadyhand_ros.launch_runner import read_launch
from steadyhand_sim import scene
from tests.support.graph import Graph

pytestmark = [
    pytest.mark.ros, pytest.mark.sim, pytest.mark.broker, pytest.mark.process,
    pytest.mark.skipif(broker.find() is None, reason="no mosquitto here: make setup fetches it where apt-get is"),
]  # fmt: skip
DOCK, EXIT = [-0.66, 0.0, np.pi / 2], [-0.66, 1.6, np.pi / 2]


def test_the_whole_cell_comes_up_in_its_namespace_and_knows_its_vehicle(tmp_path, monkeypatch):
    monkeypatch.setenv("STEADYHAND_NAMESPACE", "arm")
    at = f"{current_slot().robot_host}:{broker.PORT}"
    with Graph(read_launch(launch_path("cell"), {"cubes": "1", "triton": "false", "broker": at}), tmp_path) as graph:
        graph.until(graph.session.ready.is_set, 60, "the arm's nodes active")
        names = {name for name, _ in graph.session.node.get_topic_names_and_types()}
        assert "/arm/camera/image_raw" in names and "/arm/state_estimate" in names
        assert not {"/camera/image_raw", "/safety_state", "/joint_chunk"} & names
        vehicle = current_slot().socket_dir / "agv"

        def known():
            seen = read_state(folder=vehicle)
            return "peer" not in str([*seen.causes, *read_state().causes]) and seen.operating_mode == "AUTOMATIC"

        graph.until(known, 30, "two guards that hear each other, and a vehicle that is heard")
        goal = graph.session.send_goal("make_coffee", timeout_s=30)
        graph.until(goal.done.is_set, 30, "the agent's answer")
        assert goal.result is not None


@pytest.fixture
def rig(tmp_path):
    with CellRig(tmp_path, cubes="1", agv_pose=f"-0.66,-1.6,{np.pi / 2}") as made:
        made.armed()
        yield made


def test_the_vehicle_docks_is_loaded_by_the_arm_and_leaves_when_the_arm_is_clear(rig):
    rig.reach(BEHIND)
    thread = rig.under_way("dock", DOCK)
    verdict = rig.chunk(OVER)
    assert not verdict.accepted and "the vehicle moves" in verdict.detail, verdict
    rig.until(lambda: not thread.is_alive(), "the vehicle's arrival", 90)
    if isinstance(thread.outcome, RobotError):  # stopped on its way, by a busy machine
        rig.driven("dock", DOCK)
    docked = rig.vehicle()
    assert np.hypot(*np.subtract(docked["pose"][:2], DOCK[:2])) < 0.1 and docked["loaded"] == []

    state = rig.score.state()
    above, at = pick(state["position_m"][0], float(scene.cube_yaw(np.array(state["quaternion_xyzw"]))[0]))
    rig.reach(cell.HOME_Q_RAD)
    rig.grip(cell.GRIPPER_PREGRASP_M, lambda width: abs(width - cell.GRIPPER_PREGRASP_M) < 0.005)
    rig.reach(above)
    rig.reach(at)
    rig.grip(0.0, lambda width: abs(width - cell.CUBE_SIZE_M) < 0.004)
    rig.reach(above)
    rig.reach(cell.HOME_Q_RAD)
    for q in (BEHIND, OVER, LOW):
        rig.reach(q)
    with pytest.raises(AssertionError, match="interlock: arm: the arm is over the vehicle"):
        thread = rig.drive("out", EXIT)
        rig.until(lambda: not thread.is_alive(), "a refusal")
        raise AssertionError(str(thread.outcome))
    rig.grip(cell.GRIPPER_PREGRASP_M, lambda width: width > 0.055)
    rig.until(lambda: rig.vehicle()["loaded"] == [0], "the cube in the vehicle's tray")
    rig.reach(OVER)
    rig.reach(BEHIND)
    rig.driven("out", EXIT)
    away = rig.vehicle()
    assert away["pose"][1] > 1.4 and away["loaded"] == [0] and not away["touches_arm"]


def test_one_stop_stops_both_and_a_world_that_ends_is_started_anew_by_nobody_but_the_operator(rig):
    rig.until(lambda: rig.vehicle()["driven"], "the vehicle's computer")
    thread = rig.under_way("dock", DOCK)
    operator.stop("panel")  # at the arm's guard
    rig.until(lambda: rig.modes() == ("STOPPED", "STOPPED"), "both stopped")
    rig.until(lambda: abs(rig.vehicle()["twist"][0]) < 0.01 and not thread.is_alive(), "the vehicle at rest")
    assert isinstance(thread.outcome, RobotError)
    rig.armed()
    before = dict(rig.supervisor.pids())
    os.kill(before["sim"], signal.SIGKILL)
    rig.until(lambda: not any(mode.startswith("ARMED") for mode in rig.modes()), "neither armed")
    rig.until(lambda: rig.supervisor.pids().get("sim") not in (None, before["sim"]), "a new world")
    rig.score.close()
    rig.until(lambda: rig.vehicle()["driven"], "the vehicle's computer in the new world")
    assert rig.supervisor.pids()["sim_agv"] != before["sim_agv"] and "sim_agv ended with exit code 3" in str(rig.said)
    assert not any(mode.startswith("ARMED") for mode in rig.modes())
    for name in ("guard", "agv_guard", "broker"):
        assert rig.supervisor.pids()[name] == before[name]  # nobody else was started anew
    rig.armed()
