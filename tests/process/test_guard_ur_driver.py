"""The guard's process on the robot `ur_driver`, on the double of ur_robot_driver: arm, follow, stop; its death."""
import os
import subprocess
import sys
import time

import numpy as np
import pytest

from steadyhand.guard_protocol import State
from steadyhand_firmware_bridge.client import GuardClient
from tests.support import guard_rig
from tests.support.emulated_controller import wait_for
from tests.support.first_line import first_line
from tests.support.ur_driver_double import Double

pytestmark = [pytest.mark.process, pytest.mark.ros]

LAG_S = 0.012  # set-point published to its position measured: 4 to 9 ms with the double
WITH_MESSAGES = (
    "import sys; from tests.support import foreign_messages; foreign_messages.use(); "
    "from steadyhand_firmware_bridge.guard.main import main; sys.exit(main())"
)


class Rig(guard_rig.Rig):
    """A guard on the double, and its commander."""

    def __init__(self, folder):
        self.double = Double()
        super().__init__(folder, controller=False, config=guard_rig.PATIENT | {"tracking_lag_s": LAG_S})
        self.until(lambda s: s.at_rest and s.safety_mode == 1, 10.0)

    def start(self, *extra):
        command = [sys.executable, "-c", WITH_MESSAGES, "--robot", "ur_driver", "--weaker-limits"]
        self.guard = subprocess.Popen(
            [*command, "--socket-dir", str(self.folder), "--config", str(self.config), *extra],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=guard_rig._die_with_parent,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
        )  # fmt: skip
        line = first_line(self.guard)
        assert "robot ur_driver" in line, self.guard.stderr.read()
        self.client = GuardClient("commander", commander=True, folder=self.folder)
        self.client.connect()
        assert self.client.wait(lambda m: isinstance(m, State), 5.0)

    def close(self):
        super().close()
        self.double.end()


@pytest.fixture
def rig(tmp_path):
    rig = Rig(tmp_path)
    yield rig
    rig.close()


def test_it_arms_follows_and_stops_and_is_armed_again(rig):
    rig.arm()
    start = rig.client.state.q_rad[0]
    rig.move(1.0)
    assert rig.client.state.mode == "ARMED_AUTO" and rig.client.state.q_rad[0] - start > 0.1, rig.client.state
    rig.until(lambda s: s.plan_left_s == 0.0, 3.0)
    rig.double.pendant("protective_stop")
    stopped = rig.until(lambda s: s.mode == "STOPPED", 2.0)
    assert any("protective_stop" in c for c in stopped.causes)
    wait_for(lambda: rig.double.pendant("state")["program"] == "stopped")
    rig.double.pendant("unlock")
    rig.until(lambda s: s.safety_mode == 1 and s.at_rest, 3.0)
    rig.arm()


def test_a_guard_that_is_killed_leaves_the_arm_at_its_last_set_point(rig):
    """Not a wish but the truth about this way of driving: nobody is left who would end the program."""
    rig.arm()
    rig.move(1.0)
    assert rig.client.state.mode == "ARMED_AUTO", rig.client.state.causes
    rig.guard.kill()
    rig.guard.wait(5)
    still = lambda: rig.double.pendant("state")["speed_rad_s"] < 1e-6  # noqa: E731
    wait_for(still, 1.0)
    at = rig.double.pendant("state")
    end_s = time.monotonic() + 0.5
    while time.monotonic() < end_s:
        now = rig.double.pendant("state")
        assert np.abs(np.array(now["target_rad"]) - at["target_rad"]).max() < 1e-6
    assert now["program"] == "running" and "forward_position_controller" in now["active"]


def test_a_guard_that_is_asked_to_end_ends_the_program_too(rig):
    rig.arm()
    rig.move(0.5)
    rig.guard.terminate()
    assert rig.guard.wait(20.0) == 0
    wait_for(lambda: rig.double.pendant("state")["program"] == "stopped")
    assert rig.double.pendant("state")["speed_rad_s"] < 1e-6


def test_without_the_drivers_messages_it_says_what_to_install(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "steadyhand_firmware_bridge.guard.main", "--robot", "ur_driver", "--socket-dir",
         str(tmp_path / "slot")],
        capture_output=True, text=True, timeout=30,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p and "foreign_messages" not in p)},
    )  # fmt: skip
    assert done.returncode == 1
    assert "is missing" in done.stderr and "ros-$ROS_DISTRO-ur-robot-driver" in done.stderr
