"""guard_node and the lifecycle manager as real processes, on a guard with the fake robot."""
import os
import signal
import threading

import numpy as np
import pytest

from steadyhand import ur5
from steadyhand_firmware_bridge import operator
from tests.support.graph import Graph, command, node

pytestmark = [pytest.mark.ros, pytest.mark.process]


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shell")
    config = folder / "guard.yaml"
    config.write_text("inputs: {}\n")
    specs = [
        command("guard", f"steadyhand-guard --robot fake --config {config}"),
        node("guard_node"),
        node("lifecycle_manager_node", node_names="[guard_node]"),
    ]
    with Graph(specs, folder / "log") as graph:
        graph.until(graph.session.ready.is_set, 20, "active nodes")
        yield graph


@pytest.fixture
def graph(running):
    """The running graph, stopped and at rest before and after each test; nobody sends any more afterwards."""
    running.commanders = []
    yield running
    for commander in running.commanders:
        commander.sending = False
    operator.stop("test")
    rest(running, 5, "rest")
    running.watcher.monitor.allow_motion(False)


class Commander:
    """Sends a slow sweep of one joint as a policy would: a chunk at 20 Hz that answers the newest state."""

    def __init__(self, session, speed_rad_s=0.3):
        from steadyhand_interfaces.msg import JointChunk, SafetyState, Verdict

        from steadyhand_ros import qos

        self.chunk_type, self.speed = JointChunk, speed_rad_s
        self.state, self.verdicts, self.sending, self.count = None, [], False, 0
        self.lock = threading.Lock()
        self.pub = session.node.create_publisher(JointChunk, "joint_chunk", qos.COMMAND)
        session.node.create_subscription(SafetyState, "safety_state", self.on_state, qos.NEWEST)
        session.node.create_subscription(Verdict, "chunk_verdict", self.verdicts.append, qos.COMMAND)
        session.node.create_timer(0.05, self.send)

    def on_state(self, state):
        self.state = state

    def refused(self):
        return len([v for v in list(self.verdicts) if not v.accepted])

    def send(self, **changes):
        if not (self.sending and self.state):
            return
        s = self.state
        self.count += 1
        ahead = np.zeros((8, 6))
        ahead[:, 0] = self.speed * 0.05 * np.arange(1, 9)
        q = (np.array(s.q_commanded) + ahead).ravel().tolist()
        fields = dict(
            token=s.token, seq=s.seq, guard_stamp=s.guard_stamp, trace_id=f"t{self.count}", source="policy",
            joint_names=list(ur5.JOINT_NAMES), period=0.05, q=q,
        )
        self.pub.publish(self.chunk_type(**(fields | changes)))


def rest(graph, timeout_s, what):
    """The first state that is stopped and at rest."""
    def stopped():
        state = graph.watcher.state
        return state if state is not None and state.mode == "STOPPED" and state.at_rest else None

    return graph.until(stopped, timeout_s, what)


def moving(graph):
    state = graph.watcher.state
    return state is not None and max(abs(v) for v in state.qd_commanded_rad_s) > 0.2


def arm_and_move(graph):
    rest(graph, 5, "rest")
    commander = Commander(graph.session)
    graph.commanders.append(commander)
    graph.until(lambda: commander.state is not None, 5, "safety_state")
    reply = operator.rearm("auto")
    assert reply.ok, reply
    graph.watcher.monitor.allow_motion(True)
    commander.sending = True
    graph.until(lambda: moving(graph), 10, "motion")
    return commander


def test_topic_stop_and_service_stop_end_at_rest_and_stay(graph):
    from std_msgs.msg import String
    from std_srvs.srv import Trigger

    commander = arm_and_move(graph)
    stop = graph.session.node.create_publisher(String, "operator_stop", 5)
    graph.until(lambda: stop.get_subscription_count() > 0, 5, "subscription")
    stop.publish(String(data="test"))
    state = rest(graph, 3, "rest")
    assert any("topic" in cause or "stop_requested" in cause for cause in state.causes), state.causes
    refused = commander.refused()
    graph.until(lambda: commander.refused() > refused + 3, 3, "refusals while stopped")
    assert graph.watcher.state.q_commanded_rad == state.q_commanded_rad

    assert operator.rearm("auto").ok
    graph.until(lambda: moving(graph), 5, "motion after re-arming")
    client = graph.session.node.create_client(Trigger, "stop")
    assert client.wait_for_service(timeout_sec=5)
    client.call_async(Trigger.Request())
    rest(graph, 3, "rest after the service")
    assert graph.watcher.monitor.violations == []


def test_a_killed_shell_stops_the_arm_and_comes_back_disarmed(graph):
    commander = arm_and_move(graph)
    guard_pid, shell_pid = graph.pid("guard"), graph.pid("guard_node")
    os.kill(shell_pid, signal.SIGKILL)
    rest(graph, 3, "rest")
    graph.until(lambda: not graph.session.ready.is_set(), 5, "the manager to notice")
    graph.until(graph.session.ready.is_set, 15, "the shell to come back")
    assert graph.pid("guard") == guard_pid and graph.pid("guard_node") != shell_pid
    refusals = len(commander.verdicts)
    graph.until(lambda: len(commander.verdicts) > refusals, 5, "verdicts through the new shell")
    assert graph.watcher.state.mode == "STOPPED"
    assert operator.rearm("auto").ok
    graph.until(lambda: moving(graph), 5, "motion after re-arming")


def test_rearm_service_needs_the_credential(graph):
    from steadyhand_interfaces.srv import Rearm

    rest(graph, 5, "rest")
    client = graph.session.node.create_client(Rearm, "rearm")
    refused = graph.ask(client, Rearm.Request(mode="auto", credential="guess"))
    assert not refused.success and refused.causes == ["credential refused"]
    assert graph.watcher.state.mode == "STOPPED"
    future = client.call_async(Rearm.Request(mode="auto", credential=operator.credential()))
    graph.until(future.done, 10, "an answer")
    assert future.result().success, future.result()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"token": 1}, "foreign_token"),
        ({"q": [float("nan")] * 48}, "not_finite"),
        ({"joint_names": list(ur5.JOINT_NAMES[::-1])}, "joint_order"),
        ({"guard_stamp": 0.0}, "expired"),
        ({"q": [0.0] * 47}, "malformed"),
    ],
)
def test_bad_chunks_are_refused_by_name(graph, changes, reason):
    commander = arm_and_move(graph)
    commander.verdicts.clear()
    commander.send(trace_id="bad", **changes)

    def judged():
        """The verdict on a bad chunk; one that a good chunk has superseded before it was judged is sent again."""
        for verdict in [v for v in list(commander.verdicts) if v.trace_id == "bad"]:
            commander.verdicts.remove(verdict)
            if verdict.reason != "flood":
                return verdict
            commander.send(trace_id="bad", **changes)
        return None

    verdict = graph.until(judged, 5, "a verdict")
    assert (verdict.accepted, verdict.reason) == (False, reason), verdict.detail


def test_what_is_too_long_for_the_guard_is_counted_and_the_shell_lives(graph):
    from diagnostic_msgs.msg import DiagnosticArray
    from steadyhand_interfaces.msg import GripperCommand, InputHeartbeat, Verdict
    from steadyhand_interfaces.srv import Rearm

    from steadyhand_ros import qos

    node, pid, long, malformed, verdicts = graph.session.node, graph.pid("guard_node"), "x" * 100_000, [], []
    node.create_subscription(Verdict, "chunk_verdict", verdicts.append, qos.COMMAND)

    def hear(message):
        for status in message.status:
            if status.name == "/guard_node":
                malformed.extend(int(v.value) for v in status.values if v.key == "malformed")

    node.create_subscription(DiagnosticArray, "/diagnostics", hear, qos.EVENTS)
    graph.until(lambda: malformed, 5, "diagnostics")
    before = malformed[-1]
    for kind, topic, depth, fields in (
        (InputHeartbeat, "input_heartbeat", qos.EVENTS, {"name": long[:5000]}),  # a packet takes that, no guard does
        (GripperCommand, "gripper_command", qos.COMMAND, {"trace_id": long}),
    ):
        pub = node.create_publisher(kind, topic, depth)
        graph.until(lambda p=pub: p.get_subscription_count() > 0, 5, "subscription")
        pub.publish(kind(**fields))
    answer = graph.ask(node.create_client(Rearm, "rearm"), Rearm.Request(mode="auto", credential=long))
    assert not answer.success and "bytes" in answer.message
    graph.until(lambda: malformed[-1] >= before + 3, 5, "three more malformed messages")
    graph.until(lambda: verdicts, 5, "a verdict on the order of the gripper")
    assert [(v.trace_id, v.accepted, v.reason) for v in verdicts] == [(long[:200], False, "malformed")]
    assert graph.pid("guard_node") == pid


def test_a_sender_that_lets_go_of_the_connection_does_not_end_the_link():
    """The link's thread looks whether it is connected, then waits: in between a callback may have closed it."""
    import rclpy

    from steadyhand_firmware_bridge.client import GuardClient
    from steadyhand_ros.guard_node import GuardNode

    stopping = threading.Event()

    class LetGo(GuardClient):
        connected = True

        def fileno(self):
            stopping.set()
            return -1

    rclpy.init(args=[], domain_id=int(os.environ["ROS_DOMAIN_ID"]))
    try:
        shell = GuardNode()
        shell.build()
        shell._client = LetGo("guard_node")
        shell._serve(stopping)
        shell.destroy_node()
    finally:
        rclpy.try_shutdown()
    assert stopping.is_set()
