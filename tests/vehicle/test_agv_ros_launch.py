"""launch/cell.launch.xml with agv_bridge:=ros: the vehicle's guard as launched, before the double of a base on DDS."""
import os
import signal
import time

import pytest

from steadyhand.guard_protocol import AgvState, Heartbeat, Twist
from steadyhand.slot import current_slot
from steadyhand_cli import main
from steadyhand_cli.launch import launch_path
from steadyhand_firmware_bridge import operator
from steadyhand_firmware_bridge.client import SHELL_HEARTBEAT, GuardClient
from steadyhand_ros.launch_runner import child_environment, command_of, read_launch
from steadyhand_ros.process_supervisor import ProcessSupervisor
from tests.support.agv_base_double import BaseDouble

pytestmark = [pytest.mark.process, pytest.mark.ros]
LIMIT_S = 30.0
CONFIG = """
vehicle:
  {drive: cmd_vel, load: box, guard_silence_s: 2.0, feedback_timeout_s: 2.0, expire_s: 0.5, arming_s: 20.0,
   loads: {box: {accel_m_s2: 0.5, decel_m_s2: 0.5, stop_m_s2: 0.5}}}
guard: {shell_timeout_s: 5.0, command_age_s: 5.0}
"""


class Cell:
    """Of the cell's launch file, the process that the vehicle needs; and its commander."""

    def __init__(self, folder):
        config = folder / "agv_ros.yaml"
        config.write_text(CONFIG)
        given = {"sim": "false", "agv_bridge": "ros", "agv_config": str(config), "agv_guard_options": "--weaker-limits"}
        specs = [spec for spec in read_launch(launch_path("cell"), given) if spec.name == "agv_guard"]
        environment = child_environment()
        self.folder, self.said = current_slot().socket_dir / "agv", []
        self.supervisor = ProcessSupervisor(
            specs, lambda spec: command_of(spec, environment), environment, folder / "log", self.said.append
        )
        self.log, self.client, self.vx, self._sent_s = folder / "log", None, 0.0, 0.0
        self.base = BaseDouble()
        self.supervisor.start()

    def connect(self):
        def connected():
            client = GuardClient("commander", commander=True, folder=self.folder)
            client.connect()
            self.client = client
            return True

        self.until(connected)

    def until(self, wanted):
        """Command `vx` meanwhile, as a commander does; `wanted` may also raise SteadyhandError."""
        end_s, why = time.monotonic() + LIMIT_S, ""
        while time.monotonic() < end_s:
            self.supervisor.poll(time.monotonic())
            if self.client is not None and self.client.connected:
                self.client.poll()
                state = self.client.state
                if isinstance(state, AgvState) and time.monotonic() - self._sent_s > 0.05:
                    self._sent_s = time.monotonic()
                    self.client.send(Heartbeat(SHELL_HEARTBEAT, True))
                    if self.vx:
                        self.client.send(Twist(state.token, state.stamp_s, "t", self.vx, 0.0, 0.0))
            try:
                if value := wanted():
                    return value
            except Exception as error:  # of a guard that is not there yet
                why = repr(error)
            time.sleep(0.005)
        logs = "\n".join(path.read_text()[-1500:] for path in self.log.glob("*.log"))
        raise AssertionError(f"{why} {self.client and self.client.state} {self.said}\n{logs}")

    def drive(self):
        self.until(lambda: operator.rearm("auto", folder=self.folder).ok)
        self.vx = 0.4
        self.until(lambda: self.base.pendant("state")["v"] > 0.3)

    def stands(self):
        return self.base.pendant("state")["v"] == 0.0

    def close(self):
        self.supervisor.stop()
        if self.client is not None:
            self.client.close()
        self.base.end()


@pytest.fixture
def cell(tmp_path):
    made = Cell(tmp_path)
    try:
        made.connect()
        yield made
    finally:
        made.close()


def test_it_drives_pauses_stops_and_comes_back_unarmed_when_its_guard_is_killed(cell, capsys):
    cell.drive()
    cell.vx = 0.0
    assert operator.vehicle_act("pause", folder=cell.folder).ok
    cell.until(lambda: cell.stands() and cell.client.state.at_rest and cell.client.state.paused)
    assert main.main(["agv", "factsheet"]) == 1 and "has no factsheet to ask for" in capsys.readouterr().out
    assert operator.vehicle_act("resume", folder=cell.folder).ok
    cell.vx = 0.4
    cell.until(lambda: cell.base.pendant("state")["v"] > 0.3)
    operator.stop("panel", folder=cell.folder)
    cell.until(lambda: cell.client.state.mode == "STOPPED" and cell.client.state.at_rest and cell.stands())
    cell.vx = 0.0
    cell.drive()
    before = cell.supervisor.pids()["agv_guard"]
    os.kill(before, signal.SIGKILL)
    cell.until(cell.stands)  # by the link process
    cell.vx = 0.0
    cell.until(lambda: cell.supervisor.pids().get("agv_guard") not in (None, before))
    cell.connect()
    cell.until(lambda: isinstance(cell.client.state, AgvState) and cell.client.state.at_rest)
    assert cell.client.state.mode == "STOPPED" and cell.stands()
