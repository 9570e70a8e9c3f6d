"""`steadyhand-agv-guard` as a process, a real mosquitto and the simulated vehicle, seen by operator and commander."""
import os
import signal
import subprocess
import sys
import time

import pytest

from steadyhand.guard_protocol import AgvState, Drive, Verdict
from steadyhand.vda5050.codec import VERSIONS
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import GuardClient
from tests.vehicle.test_sim_agv import Sim
from tests.support.broker import Broker
from tests.support.first_line import first_line
from tests.support.guard_rig import _die_with_parent

pytestmark = [pytest.mark.broker, pytest.mark.process]
LIMIT_S = 30.0
# Others may hold both cores for a second: the limits of these tests are those of a stop that must come, not how soon.
CONFIG = """
vehicle: {{manufacturer: steadyhand, serial_number: agv, version: "{version}", feedback_timeout_s: 5.0}}
broker: {{host: {host}, port: {port}, retry_s: 0.1, retry_max_s: 0.5}}
guard: {{shell_timeout_s: 5.0, command_age_s: 5.0}}
"""


class Rig:
    def __init__(self, folder, version):
        self.folder = folder / "guard"
        try:
            self.broker = Broker(folder).start()
            self.sim = Sim(folder, self.broker, "--protocol", version)
            config = folder / "agv.yaml"
            config.write_text(CONFIG.format(version=version, host=self.broker.host, port=self.broker.port))
            env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
            command = [sys.executable, "-m", "steadyhand_firmware_bridge.guard.agv_main", "--config", str(config)]
            self.guard = subprocess.Popen(
                [*command, "--weaker-limits", "--socket-dir", str(self.folder)], stdout=subprocess.PIPE, text=True, env=env,
                preexec_fn=_die_with_parent,
            )  # fmt: skip
            assert "ready" in first_line(self.guard)
            self.client = GuardClient("commander", commander=True, folder=self.folder)
            self.client.connect()
            self.verdicts = []
        except BaseException:
            self.close()
            raise

    def until(self, wanted, seconds=LIMIT_S):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.verdicts += [m for m in self.client.poll() if isinstance(m, Verdict)]
            if isinstance(self.client.state, AgvState) and wanted(self.client.state):
                return self.client.state
            time.sleep(0.005)
        raise AssertionError(f"not within {seconds} s: {self.client.state} {self.verdicts}")

    def arm(self):
        """Ask until nothing forbids it any more."""
        end_s = time.monotonic() + LIMIT_S
        while not (reply := operator.rearm("auto", folder=self.folder)).ok:
            assert time.monotonic() < end_s, reply
            self.client.poll()
            time.sleep(0.1)
        return self.until(lambda s: s.mode == "ARMED_AUTO")

    def drive(self):
        s = self.client.state
        poses, names = [s.pose_m_rad[:2], [-3.0, 0.0], [-1.5, 0.0]], ["here", "there", "yonder"]
        self.client.send(Drive(s.token, s.stamp_s, "t1", "task-1", names, poses, s.map_id))

    def driving(self):
        self.arm()
        self.drive()
        return self.until(lambda s: s.driving and s.twist_m_s_rad_s[0] > 0.05)

    def close(self):
        for name, end in (("client", "close"), ("sim", "end"), ("broker", "kill"), ("guard", "kill")):
            part = getattr(self, name, None)
            if part is not None:
                getattr(part, end)()
        if hasattr(self, "guard"):
            self.guard.wait(5)
            self.guard.stdout.close()


@pytest.fixture
def rig(tmp_path, request):
    made = Rig(tmp_path, getattr(request, "param", VERSIONS[0]))
    yield made
    made.close()


@pytest.mark.parametrize("rig", VERSIONS, indirect=True)
def test_it_drives_to_its_goal(rig):
    rig.driving()
    state = rig.until(lambda s: s.task_state == "arrived", 60.0)
    assert state.last_waypoint == "yonder" and rig.verdicts[0].accepted


def test_an_operators_stop_is_measured_rest_and_latched(rig):
    rig.driving()
    operator.stop("panel", folder=rig.folder)
    state = rig.until(lambda s: s.mode == "STOPPED" and s.at_rest)
    assert state.task_state == "stopped" and "stop_requested: panel" in state.causes
    rig.drive()
    rig.until(lambda s: rig.verdicts and rig.verdicts[-1].reason == "not_armed")
    assert not rig.client.state.driving
    rig.driving()  # armed anew, and off again


def test_the_vehicles_emergency_stop_is_obeyed_and_not_undone(rig):
    rig.driving()
    rig.sim.ask(do="e_stop")
    state = rig.until(lambda s: s.mode == "STOPPED" and s.at_rest)
    assert any(c.startswith("robot_safety:e_stop") for c in state.causes)
    reply = operator.rearm("auto", folder=rig.folder)
    assert not reply.ok and any("e_stop" in cause for cause in reply.causes)


def test_a_broker_that_dies_stops_the_guard_and_comes_back_to_a_stop(rig):
    rig.driving()
    rig.broker.kill()
    rig.until(lambda s: any(c.startswith("robot_unreachable") for c in s.causes))
    rig.broker.start()
    state = rig.until(lambda s: s.at_rest and s.paused and s.mode == "STOPPED")  # the stop reached it, late
    assert state.task_state == "stopped" and state.waypoints_left == 0
    rig.driving()  # nobody restarted anything


def test_a_dead_guard_leaves_the_vehicle_at_its_last_released_node(rig):
    rig.driving()
    os.kill(rig.guard.pid, signal.SIGKILL)
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        truth = rig.sim.truth()
        if abs(truth["pose"][0] + 3.0) < 0.3 and not truth["driving"]:
            return
        time.sleep(0.05)
    raise AssertionError(truth)


def test_it_ends_at_rest_when_it_is_asked_to(rig):
    rig.driving()
    rig.guard.send_signal(signal.SIGTERM)
    assert rig.guard.wait(15) == 0
    assert "ended" in rig.guard.stdout.read()
