"""The VDA 5050 bridge keeps the contract of all bridges, through a real broker, in both versions."""
import time

import pytest

from steadyhand.agv import Waypoint
from steadyhand.vda5050.codec import VERSIONS
from tests.contract import agv_contract
from tests.support.broker import Broker
from tests.support.vda_rig import Rig

pytestmark = [pytest.mark.process, pytest.mark.broker]


class VdaBench(agv_contract.Bench):
    start, goal = Waypoint("n0", 0.0, 0.0, map_id="hall"), Waypoint("n1", 1.5, 0.0, map_id="hall")

    def __init__(self, rig):
        self.rig, self.agv, self.now_s = rig, rig.agv, rig.now_s

    def tick(self):
        end_s = time.monotonic() + self.agv.period_s
        while time.monotonic() < end_s:
            self.rig.tick()
        self.now_s = self.rig.now_s


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    made = Broker(tmp_path_factory.mktemp("broker")).start()
    yield made
    made.kill()


@pytest.fixture(params=VERSIONS)
def bench(broker, request):
    rig = Rig(broker, request.param)
    yield VdaBench(rig)
    rig.close()
    rig.vehicle.client.disconnect()


class TestVda5050(agv_contract.AgvContract):
    pass
