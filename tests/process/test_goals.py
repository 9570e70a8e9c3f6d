"""Goals that cannot be done get one typed answer each; cancelling at any moment ends in one result at rest."""
import time

import numpy as np
import pytest
from steadyhand_interfaces.action import ExecuteTask

from steadyhand_cli.invariants import REST_QD_RAD_S, STILL_RAD
from steadyhand_cli.launch import launch_path
from steadyhand_firmware_bridge import operator
from steadyhand_ros.launch_runner import read_launch
from steadyhand_sim.score_client import ScoreClient
from tests.support.graph import Graph

pytestmark = [pytest.mark.ros, pytest.mark.sim, pytest.mark.process]
Code = ExecuteTask.Result


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    specs = read_launch(launch_path("ur5"), {"cubes": "2", "seed": "11", "triton": "false"})
    with Graph(specs, tmp_path_factory.mktemp("log")) as graph:
        graph.until(graph.session.ready.is_set, 45, "active nodes")
        yield graph


@pytest.fixture
def armed(graph):
    if graph.watcher.state.mode != "ARMED_AUTO":
        graph.until(lambda: operator.rearm("auto").ok, 20, "arming")
    graph.until(lambda: graph.watcher.state.mode == "ARMED_AUTO", 3, "armed state")
    graph.watcher.monitor.allow_motion(True)
    # the agent hears of the arming through two processes; until then it answers NOT_ARMED before it reads the task
    graph.until(lambda: finished(graph, graph.session.send_goal("")).code == Code.UNKNOWN_TASK, 5, "the agent to know")
    return graph


def finished(graph, goal, timeout_s=10):
    graph.until(goal.done.is_set, timeout_s, "a result")
    return goal.result


def test_unknown_task(armed):
    result = finished(armed, armed.session.send_goal("make_coffee"))
    assert result.code == Code.UNKNOWN_TASK and "make_coffee" in result.message and "clear_tray" in result.message


def test_cancel_right_away(armed):
    goal = armed.session.send_goal("clear_tray")
    assert armed.session.cancel(goal)
    result = finished(armed, goal)
    assert result.code == Code.CANCELLED and result.at_rest


def test_cancel_in_motion_and_a_second_goal_is_busy(armed):
    goal = armed.session.send_goal("clear_tray")
    armed.until(lambda: max(abs(v) for v in armed.watcher.state.qd_commanded_rad_s) > 0.2, 10, "motion")
    assert finished(armed, armed.session.send_goal("clear_tray")).code == Code.BUSY
    assert armed.session.cancel(goal)
    result = finished(armed, goal)
    ended_s = time.monotonic()  # the guard stamps its states by the same clock
    assert result.code == Code.CANCELLED and result.at_rest
    ended = armed.watcher.wait(lambda s: s.stamp_s > ended_s, 3)
    assert ended is not None and max(abs(v) for v in ended.qd_commanded_rad_s) < REST_QD_RAD_S

    def moved(state):  # the last set-points of the braking may still differ in the seventh decimal
        return np.abs(np.array(state.q_commanded_rad) - ended.q_commanded_rad).max() > STILL_RAD

    later = armed.watcher.wait(lambda s: moved(s) or s.seq > ended.seq + 50, 3)
    assert later is not None and not moved(later)
    assert armed.watcher.monitor.violations == []


def test_not_armed(graph):
    operator.stop("test")
    graph.until(lambda: graph.watcher.state.mode == "STOPPED", 3, "the stop")
    graph.until(lambda: finished(graph, graph.session.send_goal("clear_tray")).code == Code.NOT_ARMED, 5, "NOT_ARMED")


def test_empty_tray_and_unreachable_object(armed):
    truth = ScoreClient()
    for index in range(2):  # far outside the tray and the camera's view
        truth.fault("move_cube", index=index, x_m=-0.6, y_m=-0.6 + 0.2 * index)
    result = finished(armed, armed.session.send_goal("clear_tray"), 30)
    assert result.code == Code.EMPTY_TRAY, result.message
    assert truth.score()["in_box"] == 0
    truth.close()
