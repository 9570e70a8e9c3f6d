"""A node's life as a process: released on cleanup, ended by a lost thread, and honest about who is silent."""
import subprocess
import sys

import pytest
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState

from steadyhand import guard_protocol
from steadyhand_cli.injection import children
from steadyhand_policies.repository import DEFAULT_REPOSITORY
from steadyhand_ros import conversions, qos
from steadyhand_ros.launch_runner import child_environment
from tests.support.graph import Graph, command, node

pytestmark = [pytest.mark.ros, pytest.mark.process]
BROKEN_NODE = """
import sys
from steadyhand_ros.background import Background
from steadyhand_ros.node import SteadyhandNode, run

def work(stopping):
    raise RuntimeError("the thread fell over")

class BrokenNode(SteadyhandNode):
    def __init__(self):
        super().__init__("broken_node")
        if sys.argv[1] == "thread":
            Background("work", work)

    def build(self):
        self.create_timer(1.0, lambda: None)
        raise KeyError("build fell over")

sys.exit(run(BrokenNode))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(BROKEN_NODE)
    return path


def change(graph, name, transition):
    """Ask for a transition; the node's state afterwards."""
    create = graph.session.node.create_client
    graph.ask(create(ChangeState, f"{name}/change_state"), ChangeState.Request(transition=Transition(id=transition)))
    return graph.ask(create(GetState, f"{name}/get_state"), GetState.Request()).current_state.label


def test_a_node_that_lost_a_thread_ends(script):
    done = subprocess.run(
        [sys.executable, script, "thread"], env=children.environment(child_environment()), capture_output=True,
        text=True, timeout=30,
    )
    assert done.returncode == 1 and "the thread fell over" in done.stderr


def test_an_error_nobody_thought_of_is_logged_and_the_node_lives(script, tmp_path):
    with Graph([command("broken", f"{sys.executable} {script} build")], tmp_path / "log") as graph:
        for _ in range(2):
            assert change(graph, "broken_node", Transition.TRANSITION_CONFIGURE) == "unconfigured"
        text = (tmp_path / "log" / "broken.log").read_text()
        assert text.count("cannot configure: KeyError: 'build fell over'") >= 2 and "Traceback" in text
        assert graph.supervisor.running[0].starts == 1


def test_cleanup_takes_everything_out_of_the_graph(tmp_path):
    agent = node("agent_node", model_repository=DEFAULT_REPOSITORY, use_triton="false")
    with Graph([node("guard_node"), agent], tmp_path / "log") as graph:
        me = graph.session.node
        seen = (
            lambda: me.count_subscribers("joint_chunk"), lambda: me.count_publishers("joint_chunk"),
            lambda: me.count_services("execute_task/_action/send_goal"),
        )
        for _ in range(2):
            for name in ("guard_node", "agent_node"):
                assert change(graph, name, Transition.TRANSITION_CONFIGURE) == "inactive"
            graph.until(lambda: [count() for count in seen] == [1, 1, 1], 10, "one of each")
            for name in ("guard_node", "agent_node"):
                assert change(graph, name, Transition.TRANSITION_CLEANUP) == "unconfigured"
            graph.until(lambda: [count() for count in seen] == [0, 0, 0], 10, "none of them")


def test_the_agent_says_that_the_guard_is_silent(tmp_path):
    from builtin_interfaces.msg import Time
    from steadyhand_interfaces.msg import SafetyState, StateEstimate

    said = {}
    state = guard_protocol.State(
        stamp_s=1.0, seq=1, token=1, mode="STOPPED", q_rad=[0.0] * 6, qd_rad_s=[0.0] * 6, q_commanded_rad=[0.0] * 6,
        qd_commanded_rad_s=[0.0] * 6, gripper_width_m=0.0, gripper_commanded_m=0.0, at_rest=True, causes=[],
        robot_mode=7, safety_mode=1, trace_id="", plan_left_s=0.0, counters={}, scheduler="",
    )
    agent = node("agent_node", model_repository=DEFAULT_REPOSITORY, use_triton="false")
    with Graph([agent], tmp_path / "log") as graph:
        me = graph.session.node
        me.create_subscription(
            DiagnosticArray, "/diagnostics", lambda m: said.update({s.name: s.message for s in m.status}), qos.EVENTS
        )
        states = me.create_publisher(SafetyState, "safety_state", qos.NEWEST)
        estimates = me.create_publisher(StateEstimate, "state_estimate", qos.NEWEST)
        assert change(graph, "agent_node", Transition.TRANSITION_CONFIGURE) == "inactive"
        assert change(graph, "agent_node", Transition.TRANSITION_ACTIVATE) == "active"
        me.create_timer(0.05, lambda: estimates.publish(StateEstimate(mode=StateEstimate.NOMINAL)))
        timer = me.create_timer(0.05, lambda: states.publish(conversions.safety_state_msg(state, Time())))
        graph.until(lambda: said.get("/agent_node") == "ready", 20, "the agent to be well")
        timer.cancel()
        graph.until(lambda: said["/agent_node"] == "guard: no state from guard_node", 20, "the guard to be missed")
