"""The robot `ur_driver` against the double of ur_robot_driver's ROS interface (own process, DDS): the contract, and
what the driver, the pendant and other people's nodes do beside it."""
import time

import numpy as np
import pytest

from steadyhand.checks_robot import check_robot
from steadyhand.protocols import ArmingPhase, Command, ProgramState
from steadyhand_firmware_bridge.ur_driver import UrDriverRobot
from steadyhand_firmware_bridge.ur_driver_link import TRAJECTORY_CONTROLLERS, UrDriverConfig, link_type
from tests.contract import robot_contract
from tests.support.ur_driver_double import Double

pytestmark = [pytest.mark.process, pytest.mark.ros]


class DriverBench(robot_contract.Bench):
    """Real time: a tick waits for the next period."""

    def __init__(self, **config):
        self.robot = UrDriverRobot(UrDriverConfig(**config), link_type())
        self.now_s = self._next_s = time.monotonic()
        self._still_ticks = 0

    def still(self):
        """For 0.1 s: the driver tells no target, and an arm that was cut off rings through moments of no speed."""
        self._still_ticks = self._still_ticks + 1 if super().still() else 0
        return self._still_ticks >= 12

    def tick(self):
        self._next_s = max(self._next_s + self.robot.period_s, time.monotonic())
        time.sleep(max(0.0, self._next_s - time.monotonic()))
        self.now_s = time.monotonic()


@pytest.fixture
def double():
    double = Double()
    yield double
    double.end()


@pytest.fixture
def bench(double):
    bench = DriverBench()
    yield bench
    bench.robot.close()


class TestUrDriver(robot_contract.RobotContract):
    pass


def failed(bench):
    bench.robot.begin_arming(robot_contract.TOKEN, bench.now_s)
    decided = lambda: bench.robot.arming().phase is not ArmingPhase.UNDER_WAY  # noqa: E731
    assert bench.run(8.0, lambda: bench.send(Command.HOLD), decided)
    assert bench.robot.arming().phase is ArmingPhase.FAILED
    return bench.robot.arming().detail


def test_check_robot_accepts_it(double):
    report = check_robot(UrDriverRobot(UrDriverConfig(), link_type()), time.monotonic, time.sleep, watch_s=2.0)
    assert report.samples > 120 and abs(report.period_s - 0.008) < 1e-3


def test_the_order_of_the_joints_is_the_drivers_own(bench, double):
    double.pendant("order 215043")
    bench.connect()
    bench.arm()
    bench.move(0.4)
    bench.run(0.3, lambda: bench.send(Command.SERVO, bench.q_sent))
    assert np.abs(bench.robot.feedback().q_rad - bench.q_sent).max() < 5e-3
    assert np.abs(np.array(double.pendant("state")["q_rad"]) - bench.q_sent).max() < 5e-3


@pytest.mark.parametrize("fault, reason", [("missing", "incomplete"), ("nan", "not_finite"), ("repeated", "repeated")])
def test_joint_states_that_are_wrong_are_named_and_never_fresh(bench, double, fault, reason):
    bench.connect()
    double.pendant(f"fault {fault}")
    assert bench.run(3.0, until=lambda: "robot_unreachable" in bench.robot.troubles())
    assert reason in bench.robot.troubles()["robot_unreachable"]
    assert bench.now_s - bench.robot.feedback().stamp_s > 0.4


def test_joint_states_that_stop_are_stale_while_the_rest_goes_on(bench, double):
    bench.connect()
    double.pendant("quiet on")
    assert bench.run(3.0, until=lambda: "no joint state on /joint_states" in str(bench.robot.troubles()))
    double.pendant("quiet off")
    assert bench.run(3.0, until=lambda: not bench.robot.troubles())


def test_joint_states_that_are_held_up_count_as_old_as_they_are(bench, double):
    bench.connect()
    bench.run(0.5)
    double.pendant("late 0.2")
    aged = lambda: bench.now_s - bench.robot.feedback().stamp_s > 0.15  # noqa: E731
    assert bench.run(2.0, until=aged)
    received = bench.robot.feedback().controller_stamp_s
    bench.run(1.0)
    assert bench.robot.feedback().controller_stamp_s > received + 0.5 and aged()


@pytest.mark.parametrize("name", TRAJECTORY_CONTROLLERS[1:])
def test_whichever_trajectory_controller_runs_gives_way(name):
    double, bench = Double("--trajectory-controller", name), DriverBench()
    try:
        bench.connect()
        bench.arm()
        active = double.pendant("state")["active"]
        assert "forward_position_controller" in active and name not in active
        bench.robot.stop_program(bench.now_s)
        assert bench.run(2.0, until=lambda: not bench.robot.feedback().program_running)
        assert "forward_position_controller" not in double.pendant("state")["active"]
    finally:
        bench.robot.close()
        double.end()


@pytest.mark.parametrize("name", TRAJECTORY_CONTROLLERS[::2])
def test_somebodys_trajectory_forbids_arming_and_is_ended_by_a_stop(name):
    double, bench = Double("--trajectory-controller", name), DriverBench()
    user = TrajectoryUser(name)
    try:
        bench.connect()
        user.send(lambda: bench.run(0.016))
        assert f"{name}/follow_joint_trajectory executes somebody's trajectory" in failed(bench)
        bench.robot.stop_program(bench.now_s)
        user.ended(lambda: bench.run(0.016))
        assert bench.run(2.0, until=lambda: not bench.robot.feedback().program_running)
        assert bench.run(2.0, until=bench.still)
    finally:
        user.close()
        bench.robot.close()
        double.end()


def test_a_driver_that_dies_is_named_and_found_again(bench, double):
    bench.connect()
    bench.arm()
    bench.move(0.3)
    double.end()
    refused = []
    assert bench.run(3.0, lambda: refused.append(not bench.send(Command.SERVO, bench.q_sent)),
                     until=lambda: "robot_unreachable" in bench.robot.troubles())
    again = Double()
    try:
        assert bench.run(20.0, until=lambda: not bench.robot.troubles())
        assert bench.robot.feedback().program_state not in (ProgramState.READY, ProgramState.SERVOING)
        for _ in range(4):  # services are discovered one by one, and an arming waits 5 s for them
            bench.robot.begin_arming(robot_contract.TOKEN, bench.now_s)
            decided = lambda: bench.robot.arming().phase is not ArmingPhase.UNDER_WAY  # noqa: E731
            assert bench.run(8.0, lambda: bench.send(Command.HOLD), decided)
            if bench.robot.arming().phase is ArmingPhase.READY:
                break
        assert bench.robot.arming().phase is ArmingPhase.READY, bench.robot.arming()
    finally:
        again.end()


def test_a_program_stopped_at_the_pendant_does_not_run(bench, double):
    bench.connect()
    bench.arm()
    bench.move(0.3)
    double.pendant("stop")
    hold = lambda: bench.send(Command.SERVO, bench.q_sent)  # noqa: E731
    assert bench.run(1.0, hold, until=lambda: not bench.robot.feedback().program_running)
    assert bench.run(2.0, until=bench.still)


def test_after_a_protective_stop_nobodys_play_resumes_the_old_motion(bench, double):
    bench.connect()
    bench.arm()
    bench.move(0.4)
    double.pendant("protective_stop")
    stopped = lambda: bench.robot.feedback().safety_mode == 3  # noqa: E731
    assert bench.run(1.0, lambda: bench.send(Command.SERVO, bench.q_sent), stopped)
    bench.robot.stop_program(bench.now_s)  # as the guard does in that cycle
    assert bench.run(2.0, until=lambda: not bench.robot.feedback().program_running)
    assert bench.run(2.0, until=bench.still)
    at = np.array(double.pendant("state")["q_rad"])
    double.pendant("unlock")
    double.pendant("play")
    bench.run(0.5)
    assert np.abs(np.array(double.pendant("state")["q_rad"]) - at).max() < 2e-3
    bench.arm()
    assert np.abs(bench.robot.feedback().q_rad - at).max() < 2e-3


def test_no_arming_under_a_protective_stop(bench, double):
    bench.connect()
    double.pendant("protective_stop")
    assert bench.run(1.0, until=lambda: bench.robot.feedback().safety_mode == 3)
    assert "safety mode 3" in failed(bench)
    assert double.pendant("state")["commands"] == 0


def test_a_slider_that_is_turned_down_is_told_while_armed(bench, double):
    bench.connect()
    bench.arm()
    bench.move(0.3)
    double.pendant("slider 0.3")
    hold = lambda: bench.send(Command.SERVO, bench.q_sent)  # noqa: E731
    assert bench.run(1.0, hold, until=lambda: "speed scaling 30%" in bench.robot.troubles().get("robot_speed", ""))


def test_no_arming_with_the_slider_down(bench, double):
    double.pendant("slider 0.5")
    bench.connect()
    assert "speed scaling 50%" in failed(bench)


def test_without_headless_mode_the_remedy_is_said_and_play_works():
    double, bench = Double("--pendant-mode"), DriverBench()
    urcap = DriverBench(restart="play")
    try:
        bench.connect()
        assert "--driver-restart play" in failed(bench)
        bench.robot.close()
        urcap.connect()
        urcap.arm()
    finally:
        urcap.robot.close()
        bench.robot.close()
        double.end()


def test_another_arm_behind_the_driver_is_never_armed():
    double, bench = Double("--arm", "ur5e"), DriverBench()
    try:
        bench.connect()
        assert bench.run(5.0, until=lambda: bench.robot._link.status.description)
        assert "the arm behind this controller is no UR5" in failed(bench)
        assert double.pendant("state")["commands"] == 0
    finally:
        bench.robot.close()
        double.end()


def test_without_the_dashboard_client_nothing_is_armed():
    double, bench = Double("--no-dashboard"), DriverBench()
    try:
        bench.connect()
        assert "dashboard_client/stop is not there" in failed(bench)
    finally:
        bench.robot.close()
        double.end()


def test_an_analog_input_that_measures_current_is_named_and_its_return_too(bench, double):
    bench.connect()
    double.pendant("domain 0")
    assert bench.run(2.0, until=lambda: "set it to voltage" in bench.robot.troubles().get("robot_unreachable", ""))
    double.pendant("domain 1")
    assert bench.run(2.0, until=lambda: not bench.robot.troubles())


def test_another_publisher_of_set_points_is_named(bench, double):
    bench.connect()
    user = TrajectoryUser(TRAJECTORY_CONTROLLERS[0])
    try:
        user.publish_set_points()
        assert bench.run(3.0, until=lambda: "robot_shared" in bench.robot.troubles())
    finally:
        user.close()
    assert bench.run(5.0, until=lambda: not bench.robot.troubles())


def test_a_call_that_was_dropped_is_not_asked_again(bench, double):
    bench.connect()
    kept, dropped = (bench.robot._link.call("list") for _ in range(2))
    dropped.drop()
    for call in (kept, dropped):
        call.tend(time.monotonic() + 1.0)
    assert (len(kept._futures), len(dropped._futures)) == (2, 1) and not dropped.ok


class TrajectoryUser:
    """Somebody else on the same driver, such as MoveIt."""

    def __init__(self, controller):
        import rclpy
        from control_msgs.action import FollowJointTrajectory
        from rclpy.action import ActionClient
        from rclpy.executors import SingleThreadedExecutor

        self.context = rclpy.Context()
        rclpy.init(args=[], context=self.context)
        self.node = rclpy.create_node("somebody", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.goal_type = FollowJointTrajectory.Goal
        self.client = ActionClient(self.node, FollowJointTrajectory, f"/{controller}/follow_joint_trajectory")

    def _until(self, done, meanwhile, limit_s=10.0):
        end_s = time.monotonic() + limit_s
        while not done():
            assert time.monotonic() < end_s
            self.executor.spin_once(timeout_sec=0.01)
            meanwhile()

    def send(self, meanwhile):
        """A goal of a minute, accepted."""
        from builtin_interfaces.msg import Duration
        from steadyhand import cell, ur5
        from trajectory_msgs.msg import JointTrajectoryPoint

        self._until(self.client.server_is_ready, meanwhile)
        goal = self.goal_type()
        goal.trajectory.joint_names = list(ur5.JOINT_NAMES)
        positions = (np.array(cell.HOME_Q_RAD) + 0.3).tolist()
        goal.trajectory.points = [JointTrajectoryPoint(positions=positions, time_from_start=Duration(sec=60))]
        sent = self.client.send_goal_async(goal)
        self._until(sent.done, meanwhile)
        assert sent.result().accepted
        self.result = sent.result().get_result_async()
        self._until(lambda: True, meanwhile)

    def ended(self, meanwhile):
        self._until(self.result.done, meanwhile)
        from action_msgs.msg import GoalStatus

        assert self.result.result().status in (GoalStatus.STATUS_CANCELED, GoalStatus.STATUS_ABORTED)

    def publish_set_points(self):
        from std_msgs.msg import Float64MultiArray

        self.node.create_publisher(Float64MultiArray, "/forward_position_controller/commands", 1)

    def close(self):
        import rclpy

        self.executor.shutdown()
        self.client.destroy()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
