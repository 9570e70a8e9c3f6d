"""The guard's bridge (`VdaAgv`) guides the simulated vehicle through a real broker: both ends are what runs in the hall."""
import os
import signal
import time

import pytest

from steadyhand.agv import DriveTo, TaskState, Waypoint
from steadyhand.protocols import ArmingPhase
from steadyhand.vda5050 import codec
from steadyhand.vda5050.header import Identity
from steadyhand_firmware_bridge.vda5050.agv import VdaAgv
from steadyhand_firmware_bridge.vda5050.config import BrokerConfig, MasterConfig
from tests.vehicle.test_sim_agv import Sim
from tests.support.broker import Broker

pytestmark = [pytest.mark.broker, pytest.mark.process]
ROUTE = tuple(Waypoint(f"w{i}", -5.0 + 1.2 * i, 0.0, map_id="hall") for i in range(4))


class Guided:
    def __init__(self, folder, version):
        self.broker = Broker(folder).start()
        self.sim = Sim(folder, self.broker, "--protocol", version)
        broker = BrokerConfig(self.broker.host, self.broker.port, retry_s=0.1, retry_max_s=0.4)
        self.agv = VdaAgv(MasterConfig(Identity("steadyhand", "agv", version)), broker)
        self.agv.open(time.monotonic())

    def until(self, wanted, seconds=40.0):
        end_s = time.monotonic() + seconds
        while True:
            time.sleep(self.agv.period_s / 4)
            self.agv.poll(time.monotonic())
            if wanted():
                return
            assert time.monotonic() < end_s, (self.agv.troubles(time.monotonic()), self.agv.feedback(), self.sim.truth())

    def arm(self):
        self.until(lambda: self.agv.feedback() is not None and not self.agv.troubles(time.monotonic()))
        self.agv.begin_arming(1, time.monotonic())
        self.until(lambda: self.agv.arming().phase is ArmingPhase.READY)

    def task(self):
        return self.agv.feedback().task_state

    def close(self):
        self.agv.close()
        self.sim.end()
        self.broker.kill()


@pytest.fixture(params=codec.VERSIONS)
def guided(tmp_path, request):
    made = Guided(tmp_path, request.param)
    yield made
    made.close()


def test_it_is_guided_node_by_node_and_arrives(guided):
    guided.arm()
    assert guided.agv.go(DriveTo("task", ROUTE), time.monotonic()) == ""
    guided.until(lambda: guided.task() is TaskState.ARRIVED)
    assert abs(guided.sim.truth()["pose"][0] - ROUTE[-1].x_m) < 0.05
    assert guided.sim.truth()["counters"]["order_updated"] == 2 and guided.agv.feedback().last_waypoint == "w3"


def test_stop_comes_to_rest_and_the_button_is_a_trouble(guided):
    guided.arm()
    guided.agv.go(DriveTo("task", ROUTE), time.monotonic())
    guided.until(lambda: guided.agv.feedback().driving)
    guided.agv.stop(time.monotonic())
    guided.until(lambda: guided.task() is TaskState.STOPPED and not guided.agv.feedback().driving)
    assert guided.sim.truth()["twist"] == [0.0, 0.0] and guided.sim.truth()["nodes_left"] == 0
    guided.sim.ask(do="e_stop")
    guided.until(lambda: any(name.startswith("robot_safety") for name in guided.agv.troubles(time.monotonic())))


def test_a_dead_vehicle_is_a_trouble(guided):
    guided.arm()
    os.kill(guided.sim.ready["pid"], signal.SIGKILL)
    guided.until(lambda: guided.agv.troubles(time.monotonic()), 10.0)
