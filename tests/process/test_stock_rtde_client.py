"""Outside witness: the control script that the stock `ur_rtde` client uploads, interpreted, not imitated.

The real client (in a process of its own: its constructor holds the GIL) connects to the emulated controller's ports;
what it uploads is caught on the way to the interpreter. No copy of that script is kept in the project.
"""
import json
import subprocess
import sys
import time

import pytest

from steadyhand.slot import current_slot
from steadyhand_sim.ur_controller.controller import ControllerConfig, URController, urscript_program
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant
from steadyhand_sim.ur_controller.realtime import ControllerServer
from steadyhand_sim.urscript import Machine, State
from steadyhand_sim.urscript.calls import called_names

pytest.importorskip("rtde_control")
pytestmark = pytest.mark.process

CLIENT = """
import json, sys, time, rtde_control
c = rtde_control.RTDEControlInterface(sys.argv[1])
q0 = [0.6, -1.4, 1.5, -1.6, -1.5, 0.2]
result = {"movej": c.moveJ(q0, 1.0, 1.4)}
result["fk"] = c.getForwardKinematics()
result["servoj"] = True
for k in range(120):
    result["servoj"] &= c.servoJ([q0[0] + 0.001 * min(k, 59), *q0[1:]], 0.5, 0.5, 0.008, 0.1, 300)
    time.sleep(0.008)
result["servo_stop"] = c.servoStop(10.0)
result["movej_async"] = c.moveJ(q0, 0.2, 1.4, True)
time.sleep(0.1)
c.stopJ(4.0)
result["running"] = c.isProgramRunning()
c.stopScript()
c.disconnect()
print(json.dumps(result), flush=True)
"""


class Session:
    """One run of the client against one emulated controller; the uploaded text and what happened."""

    def __init__(self, config):
        self.sources = []

        def factory(source, *rest):
            self.sources.append(source)
            return urscript_program(source, *rest)

        self.controller = URController(KinematicPlant(), config, factory)
        host = current_slot().robot_host
        server = ControllerServer(self.controller, host)
        self.client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, host], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        self.q_max = [-9.0] * 6
        deadline_s = time.monotonic() + 60.0
        try:
            server.run(lambda: self.client.poll() is not None or time.monotonic() > deadline_s, self.watch)
            self.client.kill()
            self.output = self.client.communicate(timeout=10)[0].decode()
        finally:
            self.client.kill()
            server.close()
        self.result = json.loads(self.output.splitlines()[-1]) if self.client.returncode == 0 else {}

    def watch(self):
        self.q_max = [max(a, b) for a, b in zip(self.q_max, self.controller.target.q_rad.tolist())]


@pytest.fixture(scope="module", params=["cb3", "e_series"])
def session(request):
    return Session(getattr(ControllerConfig, request.param)())


def log_of(session):
    return [text for _, text in session.controller.messages][-20:]


def test_the_client_moves_servoes_and_stops(session):
    assert session.client.returncode == 0, (session.output, log_of(session))
    wanted = {"movej": True, "servoj": True, "servo_stop": True, "movej_async": True, "running": True}
    assert {k: session.result[k] for k in wanted} == wanted, log_of(session)
    assert session.q_max[0] == pytest.approx(0.6 + 0.059, abs=0.003)  # servoJ carried joint 0 there
    assert session.controller.counters["program_errors"] == 0, log_of(session)
    assert session.controller.counters["programs_refused"] == 0


# What the script can call and the emulated controller does not offer: refused when called, with its line.
NOT_EMULATED = {"enable_external_ft_sensor", "end_teach_mode", "force_mode", "servoc", "teach_mode"}
NOT_EMULATED_E_SERIES = NOT_EMULATED | {
    "end_freedrive_mode", "freedrive_mode", "ft_rtde_input_enable", "get_freedrive_status",
    "get_target_payload_inertia", "get_target_waypoint", "tool_contact",
}  # fmt: skip


def test_the_whole_script_is_parsed_and_calls_only_listed_functions(session):
    source = session.sources[0]
    assert len(source.splitlines()) > 1000
    offered = set(session.controller.builtins.table()) | Machine.language_names()
    wanted = NOT_EMULATED_E_SERIES if session.controller.config.is_e_series else NOT_EMULATED
    assert called_names(source) - offered == wanted


def test_what_it_cannot_run_is_refused_with_its_line_when_called(session):
    machine = Machine(session.sources[0], session.controller.builtins.table())
    session.controller.inputs.ints[0] = 6  # force_mode, run by a thread of the script
    machine.tick()
    lines = session.sources[0].splitlines()
    line = next(n for n, text in enumerate(lines, 1) if text.strip().startswith("force_mode("))
    assert machine.state is State.FAILED
    assert (machine.error.line, machine.error.reason) == (line, "unknown function force_mode")
