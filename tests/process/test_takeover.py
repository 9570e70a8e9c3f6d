"""A person in the whole running graph: takeover under motion, hand-back, single-step, the way home, release.

Continuity is judged from both ends: the set-points that the guard says it commanded, and those that came in at the
controller. What an operator does is done by the commands that an operator has.
"""
import os
import signal

import numpy as np
import pytest
from std_srvs.srv import SetBool, Trigger
from steadyhand_interfaces.action import ExecuteTask
from steadyhand_interfaces.msg import StateEstimate

from steadyhand import cell, kinematics, policy_io, ur5
from steadyhand.intervention import demonstration
from steadyhand.limits import UR5_LIMITS
from steadyhand_cli.injection import onset
from steadyhand_firmware_bridge import operator
from steadyhand_ros import qos
from tests.support import takeover_graph as tg
from tests.support.jog_stream import Stream, joints, pad, twist
from tests.support.state_log import DT_S, StateLog, continuous, stretches

pytestmark = [pytest.mark.ros, pytest.mark.sim, pytest.mark.process]
Code = ExecuteTask.Result
CUBES = 2
OPEN_M = 0.05
TAKEOVER = "stop_requested: takeover"
STEP_RAD_S = float(UR5_LIMITS.qdd_max_rad_s2.max()) * DT_S  # what one cycle may change of a speed


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    with tg.launch(tmp_path_factory.mktemp("graph"), cubes=str(CUBES), seed="11") as graph:
        graph.tray = graph.score.state()["position_m"]
        yield graph


@pytest.fixture
def graph(running):
    """A full tray, empty fingers, every process at work, and at the end no broken invariant."""
    operator.disarm()  # whatever a test before left behind
    running.until(lambda: running.watcher.state.at_rest, 10.0, "rest")
    if running.watcher.state.gripper_commanded_m < OPEN_M:
        assert tg.answer(running, "release", "--yes")[0] == 0
    for index, (x, y, _) in enumerate(running.tray):
        running.score.fault("move_cube", index=index, x_m=x, y_m=y)
    running.score.fault("camera_ok")
    running.watcher.monitor.violations.clear()
    running.until(lambda: len(running.supervisor.pids()) == len(running.supervisor.running), 10.0, "every process")
    running.until(running.session.ready.is_set, 30.0, "active nodes")
    yield running
    assert running.watcher.monitor.violations == []


def tool(q_rad):
    return kinematics.pose_base_link_tool(np.asarray(q_rad))[..., :3, 3]


def height(state):
    return float(tool(state.q_commanded_rad)[2])


def ended_once(graph, goal, cause):
    """The goal that was taken away: one result, stopped for this, at rest."""
    graph.until(goal.done.is_set, 5.0, "the result")
    assert goal.result.code == Code.STOPPED and goal.result.at_rest and cause in goal.result.message
    graph.until(lambda: tg.results_of(graph, goal), 5.0, "the agent's log")
    assert tg.results_of(graph, goal) == ["STOPPED"]


def smooth(states):
    """Greatest speed, and acceleration over its limit, of the unbroken stretches."""
    found = [continuous(part) for part in stretches(states) if len(part) > 2]
    return max(f[0] for f in found), max(f[1] for f in found)


def never_stepped(graph, log):
    """Since the log began the commanded motion has no step, at the guard and at the controller's port."""
    graph.until(lambda: log.states[-1].stamp_s >= graph.watcher.state.stamp_s - DT_S, 5.0, "the log")
    fastest, acceleration = smooth(log.states)
    assert fastest > 0.1 and acceleration <= 1.01
    fastest, acceleration, change = tg.at_port(graph, log.states[0].stamp_s)
    assert fastest > 0.1 and acceleration <= 1.01 and change <= STEP_RAD_S


def took_over(log):
    """The states of the manual arming: after a stop under the takeover's name, from measured rest."""
    modes = [s.mode for a, s in zip([None, *log.states], log.states) if a is None or a.mode != s.mode]
    assert modes[:3] == ["ARMED_AUTO", "STOPPED", "ARMED_MANUAL"], modes
    armed = next(k for k, s in enumerate(log.states) if s.mode == "ARMED_MANUAL")
    assert log.states[armed - 1].at_rest
    return [s for s in log.states[armed:] if s.mode == "ARMED_MANUAL"]


def is_demonstration(records, manual):
    """A whole takeover whose steps are states that the guard published, and whose actions add up to the tool's way."""
    demo = demonstration(records)
    assert demo.complete and demo.label == "takeover" and records[-1]["dropped"] == 0
    assert records[0]["from_mode"] == "ARMED_AUTO" and any("takeover" in c for c in records[0]["causes"])
    published = {round(s.stamp_s, 6): s.q_commanded_rad for s in manual}
    steps = zip(demo.stamp_s, demo.q_commanded_rad)
    assert all(np.allclose(published[round(stamp_s, 6)], q_rad, atol=1e-5) for stamp_s, q_rad in steps)
    way = tool(demo.q_commanded_rad[-1]) - tool(demo.q_commanded_rad[0])
    assert np.allclose(demo.actions[:, :3].sum(axis=0) * policy_io.STEP_M, way, atol=1e-6)
    assert np.linalg.norm(tool(manual[-1].q_commanded_rad) - tool(manual[0].q_commanded_rad) - way) < 5e-3
    given = [r["command"] for r in records if r["kind"] == "step" and r["command"]]
    return {command["kind"] for command in given if any(command["values"])}


def meet(graph, take_over):
    """Take a task over whose arm moves: (its goal, what `take_over` gave, a log since before). Begun anew when the arm
    stood by the time that the command had started, or a busy machine had stopped it before."""
    for _ in range(6):
        goal = tg.start(graph)
        log = StateLog(graph.slot.socket_dir)
        operator_ = take_over()
        graph.until(lambda: graph.watcher.state.mode == "ARMED_MANUAL", 20.0, "the takeover")
        graph.until(goal.done.is_set, 5.0, "the result")
        stopped = next((s for s in log.states if any(c.startswith(TAKEOVER) for c in s.causes)), None)
        if TAKEOVER in goal.result.message and stopped is not None and tg.speed(stopped) > 0.1:
            return goal, operator_, log
        log.close()
        operator.disarm()
    raise AssertionError(goal.result.message)


def seen_objects(graph, count=10):
    """Wait for so many estimates with objects in them: a busy machine draws few images."""
    found = []
    heard = graph.session.node.create_subscription(
        StateEstimate, "state_estimate", lambda m: found.extend([m] * bool(m.objects)), qos.NEWEST
    )
    graph.until(lambda: len(found) >= count, 20.0, "estimates with objects")
    graph.session.node.destroy_subscription(heard)


def test_a_takeover_by_keyboard_in_the_middle_of_a_task_and_back(graph):
    goal, keyboard, log = meet(graph, lambda: tg.Keyboard(graph))
    with log:
        ended_once(graph, goal, TAKEOVER)
        again = graph.session.send_goal("clear_tray")
        graph.until(again.done.is_set, 5.0, "a result")
        assert again.result.code == Code.NOT_ARMED  # the task does not come back by itself

        before = height(graph.watcher.state)
        keyboard.hold(b"q", lambda s: height(s) > before + 0.03)
        wrist = graph.watcher.state.q_commanded_rad[5]
        keyboard.press(b"6")
        keyboard.hold(b"+", lambda s: s.q_commanded_rad[5] > wrist + 0.1)
        assert graph.watcher.state.mode == "ARMED_MANUAL"
        token = graph.watcher.state.token
        seen_objects(graph)

        estimator = graph.pid("estimator_node")
        os.kill(estimator, signal.SIGSTOP)  # nothing has been seen since the person's last motion
        try:
            keyboard.press(b"x")
            assert keyboard.end() == 0
            graph.until(lambda: graph.watcher.state.mode == "STOPPED" and graph.watcher.state.at_rest, 5.0, "rest")
            assert any(c.startswith("input:estimator: not heard of since a person moved") for c in tg.refused())
        finally:
            os.kill(estimator, signal.SIGCONT)
        graph.arm()
        armed = graph.watcher.state
        assert armed.mode == "ARMED_AUTO" and armed.token != token
        assert np.abs(np.subtract(armed.q_commanded_rad, armed.q_rad)).max() < 0.02
        never_stepped(graph, log)
        manual = took_over(log)
        assert is_demonstration(tg.recording(graph, token, by_node=False), manual) == {"twist", "joint"}
        seen = tg.recording(graph, token, by_node=True)  # the node saw the same, and what the camera showed
        assert demonstration(seen).label == "takeover" and any(r["objects"] for r in seen if r["kind"] == "step")
    result = tg.finish(graph)
    assert result.code == Code.OK and graph.score.score()["in_box"] == CUBES


def test_a_takeover_by_gamepad_through_the_node_and_back(graph):
    stream = Stream(graph)
    stream.say("joy", pad(0.0, held=False))
    goal, (code, said), log = meet(graph, lambda: tg.answer(graph, "takeover", "--node"))
    with log:
        assert code == 0 and "ARMED_MANUAL" in said
        ended_once(graph, goal, TAKEOVER)
        before = height(graph.watcher.state)
        stream.say("joy", pad(1.0, held=True))
        graph.until(lambda: height(graph.watcher.state) > before + 0.03, 15.0, "the tool to rise")
        stream.say("twist", twist(-0.05))
        graph.until(lambda: height(graph.watcher.state) < before + 0.02, 15.0, "the tool to sink")
        wrist = graph.watcher.state.q_commanded_rad[5]
        stream.say("joint", joints(ur5.JOINT_NAMES[5], -0.3))
        graph.until(lambda: graph.watcher.state.q_commanded_rad[5] < wrist - 0.1, 15.0, "wrist 3 to turn")
        stream.say("joint", joints(ur5.JOINT_NAMES[5], 0.0))
        graph.until(lambda: tg.stands(graph.watcher.state), 5.0, "rest")
        assert graph.watcher.state.mode == "ARMED_MANUAL"
        token = graph.watcher.state.token

        graph.session.faults.clear()
        graph.score.fault("camera_blank")
        lost = lambda: any(f.name == "perception_lost" and f.active for f in graph.session.faults)  # noqa: E731
        graph.until(lost, 10.0, "the estimator to see nothing")
        assert tg.answer(graph, "stop")[0] == 0
        stream.say("", None)
        assert any(c.startswith("input:estimator") for c in tg.refused())
        assert tg.answer(graph, "rearm")[0] == 1  # by the command too
        graph.score.fault("camera_ok")
        graph.arm()
        never_stepped(graph, log)
        records = tg.recording(graph, token, by_node=True)
        assert is_demonstration(records, took_over(log)) == {"twist", "joint"}
    result = tg.finish(graph)
    assert result.code == Code.OK and graph.score.score()["in_box"] == CUBES


def waits(goal):
    return goal.feedback is not None and goal.feedback.detail.startswith("waiting for the operator before")


def test_single_step_waits_for_a_word_before_each_step(graph):
    graph.session.call(SetBool, "single_step", SetBool.Request(data=True), 5.0)
    try:
        goal, phases = tg.start(graph, lambda goal, state: waits(goal)), []
        while tg.phase(goal) != "lift":
            assert len(phases) < 12 and not goal.done.is_set(), (phases, goal.result)
            phases.append(tg.phase(goal))
            graph.until(lambda: tg.stands(graph.watcher.state), 10.0, "rest before a step")
            seen = graph.watcher.state
            graph.until(lambda: graph.watcher.state.seq > seen.seq + 60 or not waits(goal), 10.0, "a while")
            assert waits(goal) and tg.phase(goal) == phases[-1] and graph.watcher.state.mode == "ARMED_AUTO"
            assert np.abs(np.subtract(graph.watcher.state.q_commanded_rad, seen.q_commanded_rad)).max() < 1e-3
            assert graph.session.call(Trigger, "next_step", Trigger.Request(), 5.0).success
            reached = lambda: goal.done.is_set() or waits(goal) and tg.phase(goal) != phases[-1]  # noqa: E731
            graph.until(reached, 30.0, "the next step")
        assert phases[-2:] == ["pick", "grasp"]
    finally:
        code, said = tg.answer(graph, "step", "off")
    assert code == 0 and "off" in said
    graph.until(lambda: not waits(goal), 5.0, "the task to go on by itself")
    graph.until(lambda: goal.done.is_set() or waits(goal), 120.0, "the result")
    assert goal.done.is_set() and goal.result.code == Code.OK and tg.results_of(graph, goal) == ["OK"]
    assert graph.score.score()["in_box"] == CUBES


def test_after_a_stop_release_and_home_then_the_task_is_done(graph):
    goal = tg.start(graph, lambda goal, state: tg.phase(goal) == "lift" and tg.speed(state) > 0.02)
    operator.stop("panel")  # at once: a command needs a moment to start
    ended_once(graph, goal, "stop_requested: panel")
    assert graph.score.score()["in_box"] == 0
    before = graph.watcher.state
    code, said = tg.answer(graph, "release", "--yes")
    assert code == 0 and said.startswith("an object is held") and "released" in said
    graph.until(lambda: graph.watcher.state.mode == "STOPPED" and graph.watcher.state.at_rest, 5.0, "rest")
    after = graph.watcher.state
    assert np.abs(np.subtract(after.q_commanded_rad, before.q_commanded_rad)).max() < 5e-3  # the arm did not move
    assert after.gripper_width_m > OPEN_M

    begun_s = after.stamp_s
    with StateLog(graph.slot.socket_dir) as log:
        graph.watcher.monitor.allow_motion(True)
        code, said = tg.answer(graph, "home")
        assert code == 0 and "home, disarmed" in said
        assert np.abs(np.subtract(graph.watcher.state.q_rad, cell.HOME_Q_RAD)).max() < 0.02
        fastest, acceleration = smooth(log.states)
    assert 0.1 < fastest < 0.4 and acceleration <= 1.01
    assert onset.greatest_rise(tool([s.q_commanded_rad for s in log.states])[:, 2]) > 0.1  # lifted
    assert graph.watcher.state.mode == "STOPPED" and tg.at_port(graph, begun_s)[0] < 0.4
    result = tg.finish(graph)
    assert result.code == Code.OK and graph.score.score()["in_box"] == CUBES
