"""teleop_node as a process, with guard_node, the lifecycle manager and a guard on the fake robot."""
import json

import numpy as np
import pytest

from steadyhand import kinematics, ur5
from steadyhand.intervention import demonstration
from steadyhand_firmware_bridge import operator
from tests.support.graph import Graph, command, node
from tests.support.jog_stream import Stream, joints, pad, twist

pytestmark = [pytest.mark.ros, pytest.mark.process]


@pytest.fixture
def graph(tmp_path):
    config = tmp_path / "guard.yaml"
    config.write_text("inputs: {}\nshell_timeout_s: 1.0\ncommand_timeout_s: 0.5\n")
    specs = [
        command("guard", f"steadyhand-guard --robot fake --config {config}"),
        node("guard_node"),
        node("teleop_node"),
        node("lifecycle_manager_node", node_names="[guard_node, teleop_node]"),
    ]
    with Graph(specs, tmp_path / "log") as graph:
        graph.until(graph.session.ready.is_set, 30, "active nodes")
        yield graph


def height(graph):
    return float(kinematics.pose_base_link_tool(np.array(graph.watcher.state.q_rad))[2, 3])


def at_rest(graph):
    s = graph.watcher.state
    return s.at_rest and max(map(abs, s.qd_commanded_rad_s)) < 1e-3


def test_twist_joint_and_gamepad_jog_and_silence_stops(graph):
    folder = graph.slot.out_dir / "interventions"
    earlier = set(folder.glob("*.jsonl"))  # of other tests in this slot
    stream = Stream(graph)
    graph.until(lambda: graph.watcher.state is not None, 5, "a state")
    stream.say("twist", twist())
    assert operator.rearm("manual").ok
    graph.watcher.monitor.allow_motion(True)
    begun = height(graph)

    stream.say("twist", twist(0.05))
    graph.until(lambda: height(graph) > begun + 0.03, 10, "the tool to rise")
    stream.say("twist", twist())
    graph.until(lambda: at_rest(graph), 5, "rest when let go")
    assert graph.watcher.state.mode == "ARMED_MANUAL"

    wrist = ur5.JOINT_NAMES[5]
    before = graph.watcher.state.q_rad[5]
    stream.say("joint", joints(wrist, -0.3))
    graph.until(lambda: graph.watcher.state.q_rad[5] < before - 0.1, 10, "wrist 3 to turn")
    stream.say("joint", joints(wrist, 0.0))
    graph.until(lambda: at_rest(graph), 5, "rest")

    before = height(graph)
    stream.say("joy", pad(-1.0, held=False))
    graph.until(lambda: at_rest(graph), 5, "rest without the dead-man")
    assert abs(height(graph) - before) < 1e-3
    stream.say("joy", pad(-1.0, held=True))
    graph.until(lambda: height(graph) < before - 0.03, 10, "the tool to sink")
    stream.say("", None)  # the pad is unplugged under motion
    state = graph.until(lambda: graph.watcher.state.mode == "STOPPED" and graph.watcher.state, 3, "the stop")
    assert state.causes[0].startswith("command_source_silent")
    graph.until(lambda: at_rest(graph), 3, "rest")

    def ended():
        return next((p for p in set(folder.glob("*.jsonl")) - earlier if '"end"' in p.read_text()), None)

    file = graph.until(ended, 5, "the recording")
    records = [json.loads(line) for line in file.read_text().splitlines()]
    demo = demonstration(records)
    assert demo.complete and records[0]["by"] == "teleop_node" and demo.label == "manual"
    kinds = {r["command"]["kind"] for r in records if r["kind"] == "step" and r["command"]}
    assert kinds == {"twist", "joint"}
    file.unlink()


def test_bad_commands_move_nothing_and_the_stop_button_stops(graph):
    stream = Stream(graph)
    graph.until(lambda: graph.watcher.state is not None, 5, "a state")
    assert operator.rearm("manual").ok
    before = np.array(graph.watcher.state.q_rad)
    for kind, fill in (
        ("twist", twist(0.1, frame="camera")), ("twist", twist(float("nan"))), ("joint", joints("elbow", 0.5)),
        ("joint", joints(ur5.JOINT_NAMES[0], float("inf"))), ("joy", lambda m: setattr(m, "axes", [1.0])),
    ):  # fmt: skip
        stream.say(kind, fill)
        seen = graph.watcher.state.seq
        graph.until(lambda: graph.watcher.state.seq > seen + 40, 5, "a while")
    assert graph.watcher.state.mode == "ARMED_MANUAL"
    assert np.abs(np.array(graph.watcher.state.q_rad) - before).max() < 1e-4
    stream.say("joy", pad(0.0, held=True, stop=True))
    state = graph.until(lambda: graph.watcher.state.mode == "STOPPED" and graph.watcher.state, 3, "the stop")
    assert state.causes[0].startswith("stop_requested: topic: gamepad")


def test_a_stop_press_counts_however_late_it_is_stamped(graph):
    stream = Stream(graph)
    graph.until(lambda: graph.watcher.state is not None, 5, "a state")
    assert operator.rearm("manual").ok

    def late(stop):
        def fill(m):
            pad(-1.0, held=True, stop=stop)(m)
            m.header.stamp.sec -= 3600

        return fill

    before = height(graph)
    stream.say("joy", late(stop=False))
    seen = graph.watcher.state.seq
    graph.until(lambda: graph.watcher.state.seq > seen + 40, 5, "a while")
    assert graph.watcher.state.mode == "ARMED_MANUAL" and abs(height(graph) - before) < 1e-3
    stream.say("joy", late(stop=True))
    state = graph.until(lambda: graph.watcher.state.mode == "STOPPED" and graph.watcher.state, 3, "the stop")
    assert state.causes[0].startswith("stop_requested: topic: gamepad")
