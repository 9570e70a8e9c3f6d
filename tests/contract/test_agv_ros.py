"""The ROS bridge keeps the contract of all bridges, both sides of it in virtual time, velocity and Nav2."""
import pytest

from steadyhand.agv import Waypoint
from tests.contract import agv_contract
from tests.support.agv_ros_rig import World, config


class WorldBench(agv_contract.Bench):
    start, goal = Waypoint("n0", 0.0, 0.0), Waypoint("n1", 2.0, 0.0)

    def __init__(self, world):
        self.world, self.agv, self.now_s = world, world.agv, world.now_s

    def tick(self):
        self.world.tick(guard=False)
        self.now_s = self.world.now_s


@pytest.fixture(params=["cmd_vel", "nav2"])
def bench(request):
    return WorldBench(World(config(drive=request.param)))


class TestRosAgv(agv_contract.AgvContract):
    pass
