"""The ROS bridge keeps the contract of all bridges over real DDS: link process, a double of the base, one of Nav2.

What is decided before anything goes out (refused commands) is held to the contract in virtual time: `test_agv_ros.py`.
"""
import time

import pytest

from steadyhand.agv import Waypoint
from steadyhand_firmware_bridge.agv_ros.agv import RosAgv
from steadyhand_firmware_bridge.agv_ros.config import LoadLimits, RosVehicleConfig
from steadyhand_firmware_bridge.agv_ros.link_process import LinkProcess
from tests.contract import agv_contract
from tests.support import foreign_messages
from tests.support.agv_base_double import BaseDouble

pytestmark = [pytest.mark.process, pytest.mark.ros]

CONTRACT = agv_contract.AgvContract
LOADS = {"empty": LoadLimits(accel_m_s2=0.8, decel_m_s2=0.8, stop_m_s2=1.0, omega_stop_rad_s2=3.0)}
# Others may hold both cores for a second: these limits are those of a stop that must come, not of how soon.
PATIENT = {"guard_silence_s": 2.0, "feedback_timeout_s": 2.0, "expire_s": 0.5, "arming_s": 20.0}


class GraphBench(agv_contract.Bench):
    """Real time: a tick waits for the next period."""

    start, goal = Waypoint("n0", 0.0, 0.0), Waypoint("n1", 1.5, 0.0)

    def __init__(self, base, **changes):
        self.base, self.links = base, []
        config = RosVehicleConfig(**{"loads": LOADS, "load": "empty", **PATIENT, **changes})
        self.agv, self.now_s = RosAgv(config, self._open), time.monotonic()

    def _open(self, config):
        self.links.append(LinkProcess(config))
        return self.links[-1]

    def tick(self):
        time.sleep(self.agv.period_s)  # the bench's clock
        self.now_s = time.monotonic()

    def connect(self):
        self.agv.open(self.now_s)
        well = lambda: self.agv.feedback() is not None and not self.agv.troubles(self.now_s)  # noqa: E731
        assert self.run(30.0, until=well), self.agv.troubles(self.now_s)

    def close(self):
        self.agv.close()
        for link in self.links:
            link.process.kill()
            link.process.wait(5)
        self.base.end()


@pytest.fixture
def environment(monkeypatch):
    """Of the link processes."""
    for name, value in foreign_messages.environment().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def drive():
    return "cmd_vel"


@pytest.fixture
def bench(drive, environment):
    bench = GraphBench(BaseDouble(*(["--nav2"] * (drive == "nav2"))), drive=drive)
    yield bench
    bench.close()


class TestCmdVelOverDds:
    test_connecting_moves_and_arms_nothing = CONTRACT.test_connecting_moves_and_arms_nothing
    test_arming_moves_nothing = CONTRACT.test_arming_moves_nothing
    test_drives_and_stops_and_stays_stopped = CONTRACT.test_drives_and_stops_and_stays_stopped
    test_can_be_armed_again = CONTRACT.test_can_be_armed_again
    test_stop_ends_an_arming = CONTRACT.test_stop_ends_an_arming_and_does_no_harm_to_one_that_stands
    test_hold_rests_and_resume_goes_on = CONTRACT.test_hold_rests_and_resume_goes_on
    test_silence_is_stopped = CONTRACT.test_silence_is_stopped_by_a_velocity_driven_vehicle


def test_a_base_that_takes_twist_is_driven_by_twist(environment):
    bench = GraphBench(BaseDouble("--type", "Twist"), cmd_vel_type="Twist")
    try:
        bench.connect()
        bench.arm()
        bench.drive(0.3)
        bench.agv.stop(bench.now_s)
        assert bench.run(5.0, until=bench.still)
    finally:
        bench.close()


class TestNav2OverDds:
    @pytest.fixture
    def drive(self):
        return "nav2"

    test_drives_and_stops_and_stays_stopped = CONTRACT.test_drives_and_stops_and_stays_stopped
    test_hold_rests_and_resume_goes_on = CONTRACT.test_hold_rests_and_resume_goes_on
    test_an_order_driven_vehicle_arrives = CONTRACT.test_an_order_driven_vehicle_arrives

    def test_one_that_does_not_cancel_is_braked_through_the_mux_and_not_called_at_rest(self, bench):
        bench.connect()
        bench.arm()
        bench.drive(0.2)
        bench.base.pendant("ignore_cancel on")
        bench.agv.stop(bench.now_s)
        assert bench.run(5.0, until=lambda: bench.speed() < agv_contract.REST_M_S)
        bench.run(1.0)
        assert bench.agv.feedback().driving and bench.base.pendant("state")["goal"]
        bench.base.pendant("ignore_cancel off")
        assert bench.run(5.0, until=bench.still)

    def test_somebody_elses_goal_is_named_and_a_stop_cancels_it(self, bench):
        bench.connect()
        user = NavigationUser()
        try:
            user.send(lambda: bench.run(bench.agv.period_s))
            named = "goal of somebody else"
            assert bench.run(10.0, until=lambda: named in str(bench.agv.troubles(bench.now_s).get("agv_foreign")))
            bench.agv.stop(bench.now_s)
            assert bench.run(10.0, until=lambda: not bench.agv.troubles(bench.now_s))
            assert not bench.base.pendant("state")["goal"] and bench.run(5.0, until=bench.still)
        finally:
            user.close()


class NavigationUser:
    """Somebody else on the same Nav2, such as a person at its panel."""

    def __init__(self):
        import rclpy
        from nav2_msgs.action import NavigateToPose
        from rclpy.action import ActionClient
        from rclpy.executors import SingleThreadedExecutor

        self.context, self.goal_type = rclpy.Context(), NavigateToPose.Goal
        rclpy.init(args=[], context=self.context)
        self.node = rclpy.create_node("panel", context=self.context)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)
        self.client = ActionClient(self.node, NavigateToPose, "/navigate_to_pose")

    def send(self, meanwhile):
        """A goal far away, accepted."""
        goal = self.goal_type()
        goal.pose.pose.position.x = 20.0
        end_s, sent = time.monotonic() + 20.0, None
        while sent is None or not sent.done():
            assert time.monotonic() < end_s
            if sent is None and self.client.server_is_ready():
                sent = self.client.send_goal_async(goal)
            self.executor.spin_once(timeout_sec=0.01)
            meanwhile()
        assert sent.result().accepted

    def close(self):
        import rclpy

        self.executor.shutdown()
        self.client.destroy()
        self.node.destroy_node()
        rclpy.shutdown(context=self.context)
