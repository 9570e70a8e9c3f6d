"""The guard's loop in this process, with real sockets: what must happen even when every cycle takes too long."""
import gc
import time

import pytest

from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.guard.config import GuardConfig
from steadyhand_firmware_bridge.guard.core import Guard
from steadyhand_firmware_bridge.guard.loop import Loop
from steadyhand_firmware_bridge.guard.server import Server


@pytest.fixture
def server(tmp_path):
    server = Server(tmp_path / "slot")
    server.open()
    yield server
    server.close()
    gc.enable()  # the loop runs without
    gc.unfreeze()


class Slow(FakeRobot):
    """Each cycle takes longer than the period; acts by the number of the cycle."""

    def __init__(self, acts):
        super().__init__()
        self.acts, self.cycles = acts, 0

    def service(self, now_s):
        super().service(now_s)
        self.cycles += 1
        self.acts.get(self.cycles, lambda: None)()
        time.sleep(1.1 * self.period_s)


def test_a_stop_is_taken_though_no_cycle_leaves_time_for_the_sockets(server):
    loop = Loop(server, 0.008)
    robot = Slow({
        3: lambda: operator.stop("panel", "", server.folder),
        6: lambda: setattr(loop, "ending", True),
    })  # fmt: skip
    guard = Guard(robot, GuardConfig(), server.credential, lambda: 1, server.send, time.monotonic())
    loop.run(guard)
    assert robot.cycles < 20 and guard.counters()["stop:panel"] == 1
