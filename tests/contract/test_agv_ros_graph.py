"""The ROS bridge keeps the contract of all bridges over real DDS: link process, a double of the base, one of Nav2."""
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


class TestCmdVelOverDds(agv_contract.AgvContract):
    pass


class TestNav2OverDds:
    """Those parts of the contract that Nav2 itself has a part in; the rest is in virtual time."""

    @pytest.fixture
    def drive(self):
        return "nav2"

    test_drives_and_stops_and_stays_stopped = agv_contract.AgvContract.test_drives_and_stops_and_stays_stopped
    test_can_be_armed_again = agv_contract.AgvContract.test_can_be_armed_again
    test_hold_rests_and_resume_goes_on = agv_contract.AgvContract.test_hold_rests_and_resume_goes_on
    test_an_order_driven_vehicle_arrives = agv_contract.AgvContract.test_an_order_driven_vehicle_arrives
