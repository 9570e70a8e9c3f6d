"""The primary port: parsers against the emulated controller's packages and against nonsense; whose program runs."""
import dataclasses
import math
import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from steadyhand import ur5
from steadyhand.errors import ProtocolError, RobotError
from steadyhand.protocols import ProgramState
from steadyhand_firmware_bridge import commissioning_primary, primary
from steadyhand_firmware_bridge.fake import FakeRobot
from steadyhand_firmware_bridge.primary import KeyEvent, Packages, PrimaryClient, ScriptError, TcpOffset
from steadyhand_firmware_bridge.programs import FIRST_HEARTBEAT_S, STARTED, STOPPED, UNNAMED_S, Programs
from steadyhand_sim.ur_controller import primary as emulated
from steadyhand_sim.ur_controller.config import ControllerConfig
from steadyhand_sim.ur_controller.controller import URController
from steadyhand_sim.ur_controller.kinematic_plant import KinematicPlant


@pytest.fixture(scope="module")
def controller():
    return URController(KinematicPlant(), ControllerConfig.cb3())


def items(data, parse=primary.messages):
    return [item for kind, body in Packages().feed(data) for item in parse(kind, body)]


def test_program_messages_are_read(controller):
    data = emulated.version_message(controller) + emulated.key_message(controller, STARTED, "wave")
    data += emulated.state_package(controller) + emulated.runtime_exception(controller, 12, "no\x00hidden\n")
    assert items(data) == [KeyEvent(STARTED, "wave"), ScriptError(12, 0, "no")]


def test_the_bytes_of_a_real_compile_error_are_read():
    """As UR's client library expects it of a controller: line 2, column 3, this text."""
    text = b"compile_error_name_not_found:calldoesntexist:"
    body = struct.pack(">QbBii", 1234, -1, 10, 2, 3) + text
    data = struct.pack(">IB", 5 + len(body), 20) + body
    (error,) = items(data)
    assert str(error) == "line 2, column 3: compile_error_name_not_found:calldoesntexist:"


def test_configuration_and_tcp_are_read(controller):
    configured = {type(i): i for i in items(emulated.state_package(controller), primary.configuration)}
    c, tcp = configured[primary.Configured], configured[TcpOffset]
    assert np.allclose(c.q_min_rad, ur5.Q_MIN_RAD) and np.allclose(c.q_max_rad, ur5.Q_MAX_RAD)
    assert np.allclose(c.dh.a_m, ur5.DH_A_M) and np.allclose(c.dh.d_m, ur5.DH_D_M) and np.allclose(c.dh.alpha_rad, ur5.DH_ALPHA_RAD)
    assert np.allclose(c.qd_max_rad_s, 3.34) and np.allclose(tcp.pose, (0, 0, ur5.TOOL_LENGTH_M, 0, 0, 0))


def test_a_stream_may_come_in_any_pieces(controller):
    data = emulated.state_package(controller) + emulated.key_message(controller, STOPPED, "x" * 40)
    packages, found = Packages(), []
    for k in range(0, len(data), 7):
        found += packages.feed(data[k : k + 7])
    assert [kind for kind, _ in found] == [16, 20]


@pytest.mark.parametrize("data", [
    struct.pack(">IB", 0, 20), struct.pack(">IB", 4, 20), struct.pack(">IB", 1 << 17, 16), b"\xff" * 8,
])
def test_a_length_that_cannot_be_is_refused(data):
    with pytest.raises(ProtocolError, match="package of"):
        Packages().feed(data)


@given(st.sampled_from([16, 20, 7]), st.binary(max_size=200))
def test_no_body_crashes_the_parsers(kind, body):
    for parse in (primary.messages, primary.configuration):
        try:
            parse(kind, body)
        except ProtocolError:
            pass


def test_truncated_and_not_finite_content_is_refused(controller):
    ((_, body),) = Packages().feed(emulated.state_package(controller))
    for cut in (3, 20, 60, 200, len(body) - 1):
        with pytest.raises(ProtocolError):
            primary.configuration(16, body[:cut])
    bad = struct.pack(">IB12d", 101, primary.CARTESIAN_INFO, *([math.nan] * 12))
    with pytest.raises(ProtocolError, match="finite"):
        primary.configuration(16, bad)
    key = struct.pack(">QBBiiB", 0, 0, primary.KEY, 0, 0, 200) + b"short"
    with pytest.raises(ProtocolError, match="title"):
        primary.messages(20, key)


def test_a_hostile_peer_costs_the_connection_and_is_counted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = PrimaryClient("127.0.0.1", listener.getsockname()[1])
        client.poll(0.0)
        peer, _ = listener.accept()
        peer.sendall(b"\x00" * 64)
        for k in range(200):
            client.poll(0.001 * k)
            if client.fileno() < 0:
                break
            threading.Event().wait(0.005)
        peer.close()
    assert client.counters["primary_malformed"] == 1 and not client.events
    client.close()


def test_the_arms_measures_are_kept_and_an_unreadable_state_costs_only_them(controller):
    state = emulated.state_package(controller)
    head, body = state[:5], state[5:]
    key = emulated.key_message(controller, "PROGRAM_XXX_STARTED", "wave")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = PrimaryClient("127.0.0.1", listener.getsockname()[1])
        client.poll(0.0)
        peer, _ = listener.accept()

        def polled(done):
            for k in range(400):
                client.poll(0.001 * k)
                if done():
                    return True
                threading.Event().wait(0.005)
            return False

        peer.sendall(head + b"\xff" * len(body) + key)
        assert polled(lambda: client.events) and client.configured is None and client.fileno() >= 0
        assert client.counters == {"primary_unreadable": 1}
        peer.sendall(state)
        assert polled(lambda: client.configured is not None)
        assert client.configured.dh.d_m == tuple(ur5.DH_D_M)
        peer.close()
        assert polled(lambda: client.fileno() < 0)
        assert client.configured is None  # another connection may be another robot
    client.close()


# --- what is configured ---


def test_a_ur5_is_found_good_and_each_deviation_is_named(controller):
    told = items(emulated.state_package(controller), primary.configuration)
    assert {f.name: f.good for f in commissioning_primary.judge(told)} == {
        "kinematics configured": True, "joint limits configured": True, "joint speeds configured": True,
        "TCP configured": True,
    }
    configured = next(i for i in told if isinstance(i, primary.Configured))
    replace = dataclasses.replace

    def verdict(item, name):
        return next(f for f in commissioning_primary.judge([item]) if f.name == name)

    longer = verdict(replace(configured, dh=replace(configured.dh, a_m=(0.0, -0.612, -0.5723, 0.0, 0.0, 0.0))), "kinematics configured")
    assert longer.good is False and "no UR5" in longer.remedy
    narrow = verdict(replace(configured, q_max_rad=(1.0,) * 6), "joint limits configured")
    assert narrow.good is None and "elbow_joint" in narrow.remedy
    slow = verdict(replace(configured, qd_max_rad_s=(1.0,) * 6), "joint speeds configured")
    assert slow.good is None and "wrist_3_joint" in slow.remedy
    for pose in ((0, 0, 0, 0, 0, 0), (0, 0, ur5.TOOL_LENGTH_M, 0.1, 0, 0)):
        assert verdict(TcpOffset(tuple(map(float, pose))), "TCP configured").good is False


def test_each_number_of_the_configuration_data_has_its_place():
    """Limits in pairs, speed and acceleration in pairs, five defaults, then DH: a, d, alpha, theta."""
    part = struct.pack(">IB53d4i", 5 + 53 * 8 + 16, primary.CONFIGURATION_DATA, *map(float, range(53)), 0, 0, 1, 0)
    (c,) = primary.configuration(primary.ROBOT_STATE, part)
    assert [c.q_min_rad, c.q_max_rad] == [tuple(range(0, 12, 2)), tuple(range(1, 12, 2))]
    assert c.qd_max_rad_s == tuple(range(12, 24, 2))
    dh = (c.dh.a_m, c.dh.d_m, c.dh.alpha_rad, c.dh.theta_rad)
    assert dh == tuple(tuple(range(n, n + 6)) for n in (29, 35, 41, 47))


def test_a_port_that_says_nothing_or_nonsense_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(RobotError, match="no configuration within"):
            commissioning_primary.read("127.0.0.1", 0.1, listener.getsockname()[1])
    with pytest.raises(RobotError, match="port 1"):
        commissioning_primary.read("127.0.0.1", 0.1, 1)


# --- whose program runs ---

TOKEN = 77


def feedback(running, state=ProgramState.NONE, token=TOKEN):
    robot = FakeRobot()
    robot.open(0.0)
    robot.service(0.0)
    return dataclasses.replace(robot.feedback(), program_running=running, program_state=int(state), program_token=token)


def after(programs, seconds, *sample):
    for k in range(round(seconds / 0.05) + 1):
        programs.update(feedback(*sample), TOKEN, 0.05 * k)
    return programs.troubles(False)


def test_a_program_that_somebody_started_is_named_at_once():
    programs = Programs()
    programs.told([KeyEvent(STARTED, "wave")])
    assert "'wave'" in after(programs, 0.0, True, ProgramState.HALTED)["foreign_program"]
    assert programs.troubles(True) == {}  # then it is `program_lost`
    programs.told([KeyEvent(STOPPED, "wave")])
    assert after(programs, 0.0, False) == {}


def test_without_messages_it_is_noticed_by_its_running():
    assert after(Programs(), UNNAMED_S - 0.1, True, ProgramState.HALTED) == {}
    assert "a program runs" in after(Programs(), UNNAMED_S + 0.1, True, ProgramState.HALTED)["foreign_program"]
    assert after(Programs(), 9.0, True, ProgramState.SERVOING, TOKEN + 1)["foreign_program"]  # of another guard


@pytest.mark.parametrize("state", list(ProgramState))
def test_our_own_is_not_foreign_while_it_ends(state):
    programs = Programs()
    programs.told([KeyEvent(STARTED, "steadyhand")])
    assert after(programs, 5.0, True, state) == {}


def test_anothers_guard_program_is_foreign_in_spite_of_its_name():
    programs = Programs()
    programs.told([KeyEvent(STARTED, "steadyhand")])
    assert after(programs, FIRST_HEARTBEAT_S - 0.1, True, ProgramState.READY, 1) == {}
    assert "foreign_program" in after(programs, FIRST_HEARTBEAT_S + 0.1, True, ProgramState.READY, 1)


def test_a_script_error_is_said_until_the_next_arming():
    programs = Programs()
    programs.told([ScriptError(3, 7, "syntax_error_on_line:3:end:")])
    assert programs.troubles(True) == {"script_error": "line 3, column 7: syntax_error_on_line:3:end:"}
    programs.begin_arming()
    assert programs.troubles(True) == {}
