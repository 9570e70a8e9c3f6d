"""The emulated controller's ports: framing, recipes, ownership, dashboard, hostile clients."""
import struct

import numpy as np
import pytest

from steadyhand.errors import ProtocolError, RobotError
from steadyhand_firmware_bridge.rtde import RtdeClient, RtdeConfig
from steadyhand_sim.ur_controller.controller import ControllerConfig
from steadyhand_sim.ur_controller.dashboard_commands import NOT_ALLOWED, TOO_EARLY
from steadyhand_sim.ur_controller.modes import RuntimeState, SafetyMode
from steadyhand_sim.ur_controller.net import MAX_CLIENTS, MAX_OUTGOING, Net
from steadyhand_sim.ur_controller.script_server import MAX_PROGRAM, ScriptFramer
from tests.ur_bench import HOST, Bench, closed_by_peer, receive

SETPOINT = ("input_int_register_24", "input_int_register_25", *(f"input_double_register_{i}" for i in range(24, 30)))
GRIPPER = ("standard_digital_output_mask", "standard_digital_output")


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.close()


def client(bench, outputs=("timestamp", "actual_q"), inputs=None, hz=125.0):
    return RtdeClient(RtdeConfig(HOST, outputs, inputs or {}, hz, port=bench.server.rtde_port))


def ask(bench, peer, kind, payload=b""):
    """One raw RTDE request; type and payload of the answer."""
    peer.sendall(struct.pack(">HB", 3 + len(payload), ord(kind)) + payload)
    size, got = struct.unpack(">HB", receive(bench, peer, 3))
    return chr(got), receive(bench, peer, size - 3)


def test_handshake_by_hand(bench):
    peer = bench.socket_to(bench.server.rtde_port)
    assert ask(bench, peer, "V", struct.pack(">H", 3)) == ("V", b"\x00")
    assert ask(bench, peer, "V", struct.pack(">H", 2)) == ("V", b"\x01")
    assert ask(bench, peer, "v") == ("v", struct.pack(">4I", 3, 15, 8, 106339))
    assert ask(bench, peer, "S") == ("S", b"\x00")  # nothing to send yet
    assert ask(bench, peer, "O", struct.pack(">d", 125.0) + b"timestamp,nonsense") == ("O", b"\x00DOUBLE,NOT_FOUND")
    assert ask(bench, peer, "O", struct.pack(">d", 125.0) + b"timestamp,actual_q") == ("O", b"\x01DOUBLE,VECTOR6D")
    assert ask(bench, peer, "I", b"input_int_register_24") == ("I", b"\x01INT32")
    assert ask(bench, peer, "I", b"input_int_register_25,actual_q") == ("I", b"\x00INT32,NOT_FOUND")
    assert ask(bench, peer, "S") == ("S", b"\x01")
    bench.cycle()
    assert receive(bench, peer, 3 + 1 + 7 * 8)[2:4] == b"U\x01"
    assert ask(bench, peer, "P") == ("P", b"\x01")


def test_version_1_has_no_recipe_ids(bench):
    peer = bench.socket_to(bench.server.rtde_port)
    assert ask(bench, peer, "O", b"timestamp") == ("O", b"DOUBLE")
    ask(bench, peer, "S")
    bench.cycle()
    assert struct.unpack(">HBd", receive(bench, peer, 11)) == (11, ord("U"), pytest.approx(0.008))


@pytest.mark.parametrize(("hz", "wanted"), [(125.0, 100), (62.5, 50), (25.0, 20), (40.0, 32), (500.0, 100)])
def test_any_rate_up_to_the_control_rate(bench, hz, wanted):
    rtde = client(bench, hz=hz)
    bench.connect_client(rtde)
    bench.cycle(100)
    last = bench.controller.time_s
    bench.pump_until(lambda: (s := rtde.poll(0.0)) and s.values["timestamp"] > last - 125.0 / hz * 0.008 - 1e-9)
    assert rtde.counters.received == pytest.approx(wanted, abs=1)


def test_a_recipe_is_applied_whole(bench):
    rtde = client(bench, ("timestamp", *SETPOINT), {"setpoint": SETPOINT})
    bench.connect_client(rtde)
    assert rtde.send("setpoint", [7, -5, *np.arange(6) * 0.5])
    bench.pump_until(lambda: bench.controller.inputs.ints[24] == 7)
    assert bench.controller.inputs.ints[25] == -5
    assert bench.controller.inputs.doubles[24:30] == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]


def test_an_input_belongs_to_its_first_client(bench):
    first, second = client(bench, inputs={"g": GRIPPER}), client(bench, inputs={"g": GRIPPER})
    bench.connect_client(first)
    with pytest.raises(RobotError, match="standard_digital_output_mask: IN_USE"):
        bench.connect_client(second)
    first.close()
    bench.pump_until(lambda: not bench.server.rtde.owners)
    bench.connect_client(second)
    assert second.send("g", [3, 2])
    bench.pump_until(lambda: bench.controller.digital_outputs == 2)


def test_unknown_field_names_itself(bench):
    with pytest.raises(RobotError, match="actual_quux: NOT_FOUND"):
        bench.connect_client(client(bench, ("timestamp", "actual_quux")))


HOSTILE = {
    "size below the header": struct.pack(">HB", 2, 86),
    "size zero": bytes(3),
    "unknown type": struct.pack(">HB", 3, 1),
    "oversized": struct.pack(">HB", 65535, ord("U")),
    "data without a recipe": struct.pack(">HBB", 4, ord("U"), 9),
    "empty data": struct.pack(">HB", 3, ord("U")),
    "outputs without a frequency": struct.pack(">HBH", 5, ord("V"), 2) + struct.pack(">HB", 6, ord("O")) + b"abc",
    "http": b"GET / HTTP/1.1\r\nHost: robot\r\n\r\n",
    "flood of requests": struct.pack(">HB", 3, ord("v")) * 1000,
    "too many names": struct.pack(">HB", 3 + 3000, ord("I")) + b"a," * 1500,
    "NaN": struct.pack(">HB", 24 + 3, ord("I")) + b"input_double_register_30"
    + struct.pack(">HBBd", 12, ord("U"), 1, float("nan")),
    "short data": struct.pack(">HB", 24 + 3, ord("I")) + b"input_double_register_30"
    + struct.pack(">HBBI", 8, ord("U"), 1, 0),
}  # fmt: skip


@pytest.mark.parametrize("packet", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_client_is_closed_and_disturbs_nobody(bench, packet):
    good = client(bench)
    bench.connect_client(good)
    peer = bench.socket_to(bench.server.rtde_port)
    peer.sendall(packet)
    assert closed_by_peer(bench, peer)
    assert bench.server.net.counters["protocol_errors"] == 1
    assert bench.controller.inputs.doubles == [0.0] * 48
    bench.cycle()
    assert bench.pump_until(lambda: good.poll(0.0))


def test_a_truncated_package_waits_without_effect(bench):
    peer = bench.socket_to(bench.server.rtde_port)
    peer.sendall(struct.pack(">HB", 5, ord("V")))
    bench.cycle(5)
    peer.sendall(struct.pack(">H", 2))
    assert receive(bench, peer, 4) == struct.pack(">HBB", 4, ord("V"), 1)


def test_a_client_that_does_not_read_loses_packages_and_nothing_else(bench):
    lazy, good = client(bench, tuple(f"output_double_register_{i}" for i in range(48))), client(bench)
    bench.connect_client(lazy)
    bench.connect_client(good)
    for _ in range(20000):
        bench.server.rtde.publish()
        good.poll(0.0)
        if bench.server.net.counters["dropped_packages"]:
            break
        bench.server.net.service(0.0)
    assert bench.server.net.counters["dropped_packages"] > 0
    assert good.running


def test_answers_to_a_client_that_does_not_read_are_bounded(bench):
    bench.socket_to(bench.server.dashboard_port)
    bench.pump_until(lambda: bench.server.net.connections)
    (connection,) = bench.server.net.connections
    assert not all(connection.send(bytes(65536)) for _ in range(200))
    assert bench.server.net.counters["dropped_packages"] == 1 and len(connection._outgoing) <= MAX_OUTGOING


def test_clients_of_a_port_are_bounded(bench):
    counters, peers = bench.server.net.counters, []
    for n in range(MAX_CLIENTS + 1):
        peers.append(bench.socket_to(bench.server.rtde_port))
        bench.pump_until(lambda: counters["accepted"] + counters["refused"] > n)
    assert (counters["accepted"], counters["refused"]) == (MAX_CLIENTS, 1)
    peers[0].close()
    bench.pump_until(lambda: len(bench.server.net.connections) < MAX_CLIENTS)
    bench.connect_client(client(bench))


def test_port_taken_is_a_clear_error(bench):
    with pytest.raises(RobotError, match=f"{bench.server.rtde_port} of {HOST} is taken"):
        Net().listen(HOST, bench.server.rtde_port, lambda c: None)
    with pytest.raises(RobotError, match="203.0.113.1 cannot be opened"):  # an address for documentation: never ours
        Net().listen("203.0.113.1", 0, lambda c: None)


def test_program_from_the_script_port(bench):
    bench.upload("def p():\n  movej([0.3, -1.8, 1.6, -1.4, -1.5, -1.3])\nend\n")
    assert bench.controller.runtime_state is RuntimeState.PLAYING
    bench.run_until(lambda: bench.controller.runtime_state is RuntimeState.STOPPED)
    assert bench.controller.target.q_rad[0] == pytest.approx(0.3)


def test_framing_of_programs():
    framer = ScriptFramer()
    text = "# header\ndef p():\n  if True:\n    x = 1 # end\n  end\nend\nstopj(2)\nsec s():\nend\n"
    programs = [p for i in range(len(text)) for p in framer.feed(text[i : i + 1].encode())]
    first = "# header\ndef p():\n  if True:\n    x = 1 # end\n  end\nend\n"
    assert programs == [first, "stopj(2)\n", "sec s():\nend\n"]


def test_a_switch_is_framed_with_its_cases():
    cases = "    case 1:\n      x = 1\n    end\n    default:\n      x = 2\n    end\n"
    text = f"def p():\n  switch 1:\n{cases}  end\n  halt\nend\n"
    assert ScriptFramer().feed(text.encode()) == [text]


def test_a_client_that_is_gone_before_its_answer_leaves_no_claim(bench):
    """The answer to its first request fails; the claim that follows in the same bytes would never be given back."""
    peer = bench.socket_to(bench.server.rtde_port)
    bench.pump_until(lambda: bench.server.net.connections)
    (connection,) = bench.server.net.connections

    def lost(data):
        connection.close()
        return False

    connection.send = lost
    claim = b"input_int_register_24"
    peer.sendall(struct.pack(">HB", 3, ord("v")) + struct.pack(">HB", 3 + len(claim), ord("I")) + claim)
    bench.pump_until(lambda: not connection.open)
    assert bench.server.rtde.owners == {}


def test_a_program_without_end_is_bounded():
    framer = ScriptFramer()
    with pytest.raises(ProtocolError, match="more than"):
        for _ in range(MAX_PROGRAM // 10):
            framer.feed(b"def p():\n" + b" x = 1\n" * 100)


def dashboard(bench, *lines):
    peer = bench.socket_to(bench.server.dashboard_port)
    peer.sendall("".join(line + "\n" for line in lines).encode())
    answers = b""
    while answers.count(b"\n") < len(lines) + 1:
        answers += receive(bench, peer, 1)
    peer.close()
    return answers.decode().splitlines()[1:]


def test_dashboard_cb3(bench):
    bench.controller.start_program("def prog():\n  while True:\n    sync()\n  end\nend\n")
    assert dashboard(bench, "PolyscopeVersion", "robotmode", "safetymode", "programState", "running") == [
        "URSoftware 3.15.8.106339 (Jun 20 2022)", "Robotmode: RUNNING", "Safetymode: NORMAL", "PLAYING prog",
        "Program running: true",
    ]  # fmt: skip
    bench.controller.protective_stop()
    bench.cycle(5)
    assert dashboard(bench, "unlock protective stop") == [TOO_EARLY]
    bench.cycle(625)  # 5 s
    assert dashboard(bench, "safetymode", "programState", "play", "unlock protective stop", "stop", "programState") == [
        "Safetymode: PROTECTIVE_STOP", "PAUSED prog", "Failed to execute: play", "Protective stop releasing", "Stopped",
        "STOPPED prog",
    ]  # fmt: skip
    assert dashboard(bench, "make coffee") == ["could not understand: 'make coffee'"]


def test_dashboard_e_series_in_local_control():
    bench = Bench(ControllerConfig.e_series())
    try:
        assert dashboard(bench, "PolyscopeVersion")[0].startswith("URSoftware 5.")
        bench.controller.set_remote_control(False)
        assert dashboard(bench, "is in remote control", "stop") == ["false", NOT_ALLOWED]
        bench.upload("def p():\n  sync()\nend\n")
        assert bench.controller.counters["programs_refused"] == 1
    finally:
        bench.close()


def test_dashboard_power_cycle(bench):
    assert dashboard(bench, "power off", "robotmode") == ["Powering off", "Robotmode: POWER_OFF"]
    assert dashboard(bench, "brake release") == ["Brake releasing"]
    bench.run_until(lambda: dashboard(bench, "robotmode") == ["Robotmode: RUNNING"], 300)
    assert bench.controller.safety_mode is SafetyMode.NORMAL


def test_dashboard_line_without_end_is_bounded(bench):
    peer = bench.socket_to(bench.server.dashboard_port)
    peer.sendall(b"x" * 5000)
    assert closed_by_peer(bench, peer)
    assert bench.server.net.counters["protocol_errors"] == 1


def test_dashboard_quit(bench):
    peer = bench.socket_to(bench.server.dashboard_port)
    peer.sendall(b"quit\n")
    assert b"Disconnected\n" in receive(bench, peer, 58)


def test_a_stall_drops_cycles_instead_of_a_burst():
    """The shell with a clock of our own: after 100 ms without time for it, no two cycles come back to back."""
    bench = Bench()
    now = [0.0]
    starts = []
    bench.server.net.service = lambda timeout_s: None  # it would wait in real time

    def monotonic():
        now[0] += 0.0005
        return now[0]

    def each_cycle():
        starts.append(now[0])
        if len(starts) == 10:
            now[0] += 0.1

    try:
        bench.server.run(lambda: len(starts) >= 30, each_cycle, monotonic)
    finally:
        bench.close()
    assert bench.server.overruns == 1
    assert bench.server.dropped_cycles == 11  # 100 ms are 12.5 cycles; the next one is not yet late by a whole one
    assert (np.diff(starts) < 0.0075).sum() == 1  # back on the old grid with one short gap, no burst
