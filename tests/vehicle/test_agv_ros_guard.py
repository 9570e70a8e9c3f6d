"""`steadyhand-agv-guard --bridge ros` as a process, its link process, a double of the base: what each death does."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from steadyhand.guard_protocol import AgvState, Drive, Heartbeat, Twist, Verdict
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import SHELL_HEARTBEAT, GuardClient
from tests.support import foreign_messages
from tests.support.agv_base_double import BaseDouble
from tests.support.emulated_controller import wait_for
from tests.support.first_line import first_line
from tests.support.guard_rig import _die_with_parent

pytestmark = [pytest.mark.process, pytest.mark.ros]
LIMIT_S = 30.0
# From one message to the next a ramp of 0.5 m/s^2 loses 0.02 m/s at most, however late the process; a few may be lost
# on the way. Without it the 0.4 m/s go at once.
RAMPED_M_S = 0.15
# Others may hold both cores for a second: the limits of these tests are those of a stop that must come, not how soon.
CONFIG = """
vehicle:
  {{drive: {drive}, load: pallet, guard_silence_s: 2.0, feedback_timeout_s: 2.0, expire_s: 0.5, arming_s: 20.0,
   loads: {{pallet: {{accel_m_s2: 0.5, decel_m_s2: 0.5, stop_m_s2: 0.5}}}}}}
guard: {{shell_timeout_s: 5.0, command_age_s: 5.0}}
"""
GUARD = "steadyhand_firmware_bridge.guard.agv_main"


def children(pid):
    return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def gone(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


class Rig:
    def __init__(self, folder, drive="cmd_vel", *base):
        self.folder, self.drive, self.link_pids = folder / "guard", drive, []
        try:
            self.base = BaseDouble(*(["--nav2"] * (drive == "nav2")), *base)
            config = folder / "agv_ros.yaml"
            config.write_text(CONFIG.format(drive=drive))
            self.guard = subprocess.Popen(
                [sys.executable, "-m", GUARD, "--bridge", "ros", "--config", str(config), "--weaker-limits",
                 "--socket-dir", str(self.folder)],
                stdout=subprocess.PIPE, text=True, env=foreign_messages.environment(), preexec_fn=_die_with_parent,
            )  # fmt: skip
            assert "ready" in first_line(self.guard)
            self.client = GuardClient("commander", commander=True, folder=self.folder)
            self.client.connect()
            self.verdicts, self.vx, self._sent_s = [], 0.0, 0.0
        except BaseException:
            self.close()
            raise

    def until(self, wanted, seconds=LIMIT_S):
        """Commands `vx` meanwhile, as a commander does."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.verdicts += [m for m in self.client.poll() if isinstance(m, Verdict)]
            state = self.client.state
            if isinstance(state, AgvState):
                if time.monotonic() - self._sent_s > 0.05:
                    self._sent_s = time.monotonic()
                    self.client.send(Heartbeat(SHELL_HEARTBEAT, True))
                    if self.vx:
                        self.client.send(Twist(state.token, state.stamp_s, "t", self.vx, 0.0, 0.0))
                if wanted(state):
                    return state
            time.sleep(0.005)
        raise AssertionError(f"not within {seconds} s: {self.client.state} {self.verdicts[-3:]}")

    def arm(self):
        """Ask until nothing forbids it any more."""
        end_s = time.monotonic() + LIMIT_S
        while not (reply := operator.rearm("auto", folder=self.folder)).ok:
            assert time.monotonic() < end_s, reply
            self.client.poll()
            time.sleep(0.1)
        return self.until(lambda s: s.mode == "ARMED_AUTO")

    def driving(self):
        self.arm()
        self.link_pids += children(self.guard.pid)
        if self.drive == "nav2":
            s = self.client.state
            self.client.send(Drive(s.token, s.stamp_s, "t", "task", ["a", "b"], [[0.0, 0.0], [20.0, 0.0]]))
        else:
            self.vx = 0.4
        self.until(lambda s: s.twist_m_s_rad_s[0] > 0.3)
        return self.base.pendant("forget")

    def stopped(self, cause):
        """Disarmed by this cause, and at rest."""
        state = self.until(lambda s: s.mode != "ARMED_AUTO")
        self.vx = 0.0
        assert any(c.startswith(cause) for c in state.causes), state.causes
        return wait_for(self.at_rest, LIMIT_S)

    def at_rest(self):
        state = self.base.pendant("state")
        return state if state["v"] == 0.0 == state["omega"] else None

    def close(self):
        for name, end in (("client", "close"), ("base", "end"), ("guard", "kill")):
            part = getattr(self, name, None)
            if part is not None:
                getattr(part, end)()
        if hasattr(self, "guard"):
            self.guard.wait(5)
            self.guard.stdout.close()
            wait_for(lambda: all(map(gone, self.link_pids)), LIMIT_S)


@pytest.fixture
def rig(tmp_path, request):
    made = Rig(tmp_path, *getattr(request, "param", ()))
    yield made
    made.close()


def test_an_operators_stop_brakes_as_the_load_allows_and_the_guard_holds_no_ros(rig):
    rig.driving()
    operator.stop("panel", folder=rig.folder)
    state = rig.stopped("stop_requested: panel")
    assert state["largest_drop"] < RAMPED_M_S
    rig.until(lambda s: s.mode == "STOPPED" and s.at_rest)
    before = rig.base.pendant("state")["commands"]
    wait_for(lambda: rig.base.pendant("state")["commands"] > before + 5)  # zero is held
    assert rig.at_rest()
    maps = Path(f"/proc/{rig.guard.pid}/maps").read_text()
    assert "librcl" not in maps and "rclpy" not in maps
    rig.driving()
    rig.vx = 0.0
    rig.guard.send_signal(signal.SIGTERM)
    assert rig.guard.wait(15) == 0 and wait_for(rig.at_rest)


@pytest.mark.parametrize("rig", [("cmd_vel",), ("nav2",)], indirect=True)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_guard_that_dies_or_freezes_is_braked_for_by_the_link_process(rig, how):
    rig.driving()
    os.kill(rig.guard.pid, how)
    state = wait_for(rig.at_rest, LIMIT_S)
    assert state["largest_drop"] < RAMPED_M_S and not state["goal"]
    if how == signal.SIGKILL:
        wait_for(lambda: all(map(gone, rig.link_pids)), LIMIT_S)
        assert rig.at_rest()
    else:
        os.kill(rig.guard.pid, signal.SIGCONT)
        rig.vx = 0.0
        rig.until(lambda s: s.mode == "STOPPED" and s.at_rest)


def test_a_link_process_that_dies_is_named_and_started_anew_and_the_base_stops_by_itself(rig):
    rig.driving()
    (old,) = rig.link_pids
    os.kill(old, signal.SIGKILL)
    rig.stopped("robot_unreachable: the link process has gone")
    (new,) = wait_for(lambda: [c for c in children(rig.guard.pid) if c != old], LIMIT_S)
    rig.link_pids.append(new)
    rig.until(lambda s: s.mode == "STOPPED" and s.at_rest)
    assert rig.at_rest() and rig.guard.poll() is None


def test_a_base_that_ends_is_named_and_found_again(rig):
    rig.driving()
    rig.base.quit()
    state = rig.until(lambda s: s.mode != "ARMED_AUTO")
    assert any(c.startswith(("feedback_lost:odom_stale", "robot_unreachable")) for c in state.causes)
    rig.vx, rig.base = 0.0, BaseDouble()
    rig.driving()


FAULTS = {
    "fault nan": "feedback_lost:odom_not_finite", "clock -1.0": "feedback_lost:odom_back_in_time",
    "fault child_frame": "feedback_lost:odom_frame: /odom: child_frame_id='base_footprint', wanted 'base_link'",
    "jump 2.0": "feedback_lost:odom_jump", "quiet on": "feedback_lost:odom_stale",
}  # fmt: skip


def test_odometry_that_is_wrong_disarms_by_name_and_arming_waits_until_it_is_well(rig):
    for act, cause in FAULTS.items():
        rig.driving()
        rig.base.pendant(act)
        rig.stopped(cause)
        rig.base.pendant("fault")
        rig.base.pendant("quiet off")


def test_a_second_publisher_stops_is_named_and_forbids(rig):
    rig.driving()
    rig.base.pendant("joystick")
    rig.stopped("agv_foreign: /somebody also publishes to /cmd_vel")
    reply = operator.rearm("auto", folder=rig.folder)
    assert not reply.ok and any("/somebody" in c for c in reply.causes)


@pytest.mark.parametrize("rig", [("cmd_vel", "--type", "Twist")], indirect=True)
def test_the_wrong_type_of_cmd_vel_is_named(rig):
    says = "/base_double takes /cmd_vel as geometry_msgs/msg/Twist, we send geometry_msgs/msg/TwistStamped"
    rig.until(lambda s: any(says in c for c in s.causes))
    reply = operator.rearm("auto", folder=rig.folder)
    assert not reply.ok and any("set vehicle.cmd_vel_type: Twist" in c for c in reply.causes)


def test_without_nav2_msgs_it_says_what_to_install(tmp_path):
    config = tmp_path / "agv_ros.yaml"
    config.write_text(CONFIG.format(drive="nav2"))
    path = os.pathsep.join(p for p in sys.path if p and "foreign_messages" not in p)
    done = subprocess.run(
        [sys.executable, "-m", GUARD, "--bridge", "ros", "--config", str(config), "--socket-dir", str(tmp_path / "s")],
        capture_output=True, text=True, timeout=LIMIT_S, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 1 and "'nav2_msgs' is missing: install ros-$ROS_DISTRO-nav2-msgs" in done.stderr
