"""The in-process AGV of both kinds keeps the contract of all bridges."""
import pytest

from steadyhand.agv import AgvKind
from steadyhand_firmware_bridge.fake_agv import FakeAgv
from tests.contract import agv_contract


class FakeBench(agv_contract.Bench):
    def __init__(self, kind):
        self.agv, self.now_s = FakeAgv(kind), 10.0

    def tick(self):
        self.now_s += self.agv.period_s


@pytest.fixture(params=list(AgvKind), ids=lambda kind: kind.value)
def bench(request):
    return FakeBench(request.param)


class TestFakeAgv(agv_contract.AgvContract):
    pass
