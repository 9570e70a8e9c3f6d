"""Two robots on one machine and in one ROS domain: what is said to one reaches the other through the stop domain only."""
import pytest
from action_msgs.msg import GoalStatusArray
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from std_msgs.msg import String
from std_srvs.srv import Trigger
from steadyhand_interfaces.srv import Rearm

from steadyhand.slot import current_slot
from steadyhand_firmware_bridge import operator
from steadyhand_ros import qos
from tests.support.two_robots import LIMIT_S, TwoRobots

pytestmark = [pytest.mark.ros, pytest.mark.process]
STATUS = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL)


def rearm(robots, robot):
    """By an operator's word over ROS, until nothing forbids it any more."""
    before = robot.armings

    def done():
        secret = operator.credential(robot.slot.socket_dir)
        robot.session.call(Rearm, "rearm", Rearm.Request(mode="auto", credential=secret), LIMIT_S)
        return robot.armings > before

    robots.until(done, f"{robot.name} armed")


def test_a_stop_a_goal_and_a_rearming_reach_their_own_robot_only(tmp_path):
    with TwoRobots(tmp_path) as robots:
        left, right = robots.left, robots.right
        names = {name for name, _ in left.session.node.get_topic_names_and_types()}
        assert {"/left/safety_state", "/right/safety_state"} <= names  # one domain: only the names part them
        assert not {"/safety_state", "/joint_chunk", "/operator_stop", "/state_estimate", "/system_ready"} & names

        # a stop, by each way that there is
        publisher = left.session.node.create_publisher(String, "operator_stop", qos.COMMAND)
        for source, stop in (
            ("guard_node", lambda: left.session.call(Trigger, "stop", Trigger.Request(), LIMIT_S)),
            ("panel", lambda: operator.stop("panel", folder=left.slot.socket_dir)),
            ("topic", lambda: publisher.publish(String(data="topic"))),
        ):
            rearm(robots, left)
            before = sum(left.stops.values())

            def heard(stop=stop, before=before):
                stop()  # again until it was heard: a publisher may not have found its subscriber yet
                return sum(left.stops.values()) > before and left.state.mode == "STOPPED"

            robots.until(heard, f"a stop by {source}")
            robots.later(right)
            assert right.stops == {} and not any(c.startswith("peer") for c in right.causes), right.state

        # a re-arming: the other robot stays as it is, and does not take this one's credential
        armings = right.armings
        rearm(robots, left)
        robots.later(right)
        assert right.state.mode == "STOPPED" and right.armings == armings
        secret = operator.credential(left.slot.socket_dir)
        refused = right.session.call(Rearm, "rearm", Rearm.Request(mode="auto", credential=secret), LIMIT_S)
        assert not refused.success and "credential refused" in str(refused)
        rearm(robots, right)

        # a goal
        seen = {robot.name: [] for robot in robots.both}
        for robot in robots.both:
            robot.session.node.create_subscription(
                GoalStatusArray, "execute_task/_action/status", seen[robot.name].append, STATUS
            )

        def goals(name):
            return max((len(m.status_list) for m in seen[name]), default=0)

        for robot, others in ((left, 0), (right, 1)):
            goal = robot.session.send_goal("make_coffee", timeout_s=LIMIT_S)
            robots.until(goal.done.is_set, f"{robot.name}'s answer")
            assert goal.result is not None
            robots.until(lambda robot=robot: goals(robot.name) == 1, f"the status of {robot.name}'s goal")
            robots.later(right)
            assert goals("right" if robot is left else "left") == others


def test_in_one_stop_domain_a_stop_reaches_both_and_nothing_else_does(tmp_path):
    here = current_slot().index
    guards = {
        "left": {"peers": {"right": f"slot:{(here + 1) % 40}"}, "peer_timeout_s": 1.0},
        "right": {"peers": {"left": f"slot:{here}"}, "peer_timeout_s": 1.0},
    }  # fmt: skip
    with TwoRobots(tmp_path, **guards) as robots:
        left, right = robots.left, robots.right
        rearm(robots, left)
        rearm(robots, right)
        operator.stop("panel", folder=left.slot.socket_dir)
        robots.until(lambda: left.state.mode == right.state.mode == "STOPPED", "both stopped")
        robots.until(lambda: any("left stopped (stop_requested)" in c for c in right.causes), "the peer's stop as a cause")
        assert left.stops == {"stop:panel": 1} and right.stops == {}
        armings = right.armings
        rearm(robots, left)
        robots.later(right)
        assert right.state.mode == "STOPPED" and right.armings == armings  # one word is for one robot
