"""Guard parameters: what is shipped loads, what is wrong is refused by name."""
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from steadyhand.errors import ConfigError
from steadyhand.watchdog import InputWatchdog, RestDetector, SourceWatchdog
from steadyhand_firmware_bridge.guard import main as guard_main
from steadyhand_firmware_bridge.guard.config import GuardConfig, load
from steadyhand_firmware_bridge.guard.server import Server

ROOT = Path(__file__).parents[2]


def test_the_shipped_configuration_loads():
    assert load(ROOT / "config" / "guard_ur5.yaml").inputs


@pytest.mark.parametrize(
    "text, match",
    [
        ("command_timeout_s: 0", "command_timeout_s=0"),
        ("command_timeout_s: .nan", "command_timeout_s=nan"),
        ("command_timeout_s: yes", "command_timeout_s=True"),
        ("inputs: {camera: -1}", "inputs.camera=-1"),
        ("inputs: [camera]", "inputs="),
        ("nonsense: 1", "unknown parameter 'nonsense'"),
        ("[1, 2]", "expected a map"),
        ("a: [", "guard configuration"),
        ("streaming_sources: [1]", "streaming_sources"),
        ("streaming_sources: 5", "streaming_sources=5"),
        ("streaming_sources: policy", "streaming_sources='policy'"),
        ("streaming_sources: [polcy]", "streaming_sources.*'polcy'.*policy"),
        ("inputs: {5: 1.0}", "inputs"),
        ("moving_inputs: {camera: 0.1}", "moving_inputs.camera"),
        ("{inputs: {camera: 0.2}, moving_inputs: {camera: 0.3}}", "moving_inputs.camera=0.3"),
        ("{inputs: {camera: 0.2}, moving_inputs: {camera: .nan}}", "moving_inputs.camera=nan"),
        ("interlock: agv", "interlock='agv'"),
        ("interlock: [agv]", "interlock: 'agv' is none of the peers"),
        ("interlock: [[agv]]", r"interlock: \['agv'\] is none of the peers"),
        ("{peers: {agv: x}, interlock: [agv]}", "both or neither"),
        ("interlock_zone_m: [0, 0, 0, 1, 1, 1]", "both or neither"),
        ("{peers: {agv: x}, interlock: [agv], interlock_zone_m: [0, 0, 0, 1, 1]}", "interlock_zone_m"),
        ("{peers: {agv: x}, interlock: [agv], interlock_zone_m: [0, 0, 0, 1, 1, .nan]}", "interlock_zone_m"),
        ("{peers: {agv: x}, interlock: [agv], interlock_zone_m: [0, 0, 0, 1, yes, 1]}", "interlock_zone_m"),
        ("{peers: {agv: x}, interlock: [agv], interlock_zone_m: [0, 0, 1, 1, 1, 1]}", "each from below its to"),
    ],
)
def test_wrong_parameters_are_refused_by_name(tmp_path, text, match):
    path = tmp_path / "guard.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=match):
        load(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="absent.yaml"):
        load(tmp_path / "absent.yaml")


def test_an_empty_file_gives_the_defaults(tmp_path):
    (tmp_path / "guard.yaml").write_text("")
    assert load(tmp_path / "guard.yaml") == GuardConfig()


def test_main_says_what_is_wrong(tmp_path, capsys):
    assert guard_main.main(["--robot", "fake", "--config", str(tmp_path / "no.yaml")]) == 1
    assert "no.yaml" in capsys.readouterr().err


def test_main_refuses_a_name_that_does_not_resolve(tmp_path, monkeypatch, capsys):
    def nowhere(name):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "gethostbyname", nowhere)
    assert guard_main.main(["--robot-ip", "ur5.cell", "--socket-dir", str(tmp_path / "slot")]) == 1
    assert "--robot-ip 'ur5.cell': Name or service not known" in capsys.readouterr().err


def test_main_that_may_not_start_leaves_nothing_behind(tmp_path, monkeypatch, capsys):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refused)
    folder = tmp_path / "slot"
    assert guard_main.main(["--robot", "fake", "--sched", "fifo", "--socket-dir", str(folder)]) == 1
    assert "--sched fifo: Operation not permitted" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["guard.lock"]
    server = Server(folder)
    server.open()  # the slot is free
    server.close()


def test_the_defaults_and_what_is_shipped_keep_what_is_promised():
    shipped = (load(ROOT / "config" / name) for name in ("guard_ur5.yaml", "cell_guard_ur5.yaml"))
    assert [c.weakened() for c in (GuardConfig(), *shipped)] == [[], [], []]


def test_every_weaker_limit_is_named():
    config = GuardConfig(feedback_timeout_s=0.05, shell_timeout_s=0.032, inputs={"agent": 0.5, "camera": 0.6})
    assert config.weakened() == ["feedback_timeout_s=0.05 (promised: 0.04)", "inputs.camera=0.6 (promised: 0.5)"]
    for name, promised in (
        ("feedback_timeout_s", 0.04), ("command_timeout_s", 0.1), ("link_timeout_s", 0.5), ("shell_timeout_s", 0.032),
        ("chunk_age_s", 0.1), ("peer_timeout_s", 0.1), ("first_setpoint_tolerance_rad", 0.02),
        ("recover_speed_rad_s", 0.1),
    ):  # fmt: skip
        assert [GuardConfig(**{name: promised * k}).weakened() != [] for k in (1.0, 1.001)] == [False, True], name
    assert GuardConfig(streaming_sources=("manual",)).weakened() == [
        "streaming_sources=('manual',) (promised: policy too)"
    ]


@pytest.mark.parametrize(
    "arguments, taken",
    [
        (["--robot", "fake"], True), (["--robot-ip", "127.0.0.9"], True), (["--robot-ip", "192.0.2.1"], False),
        (["--robot", "ur_driver"], False), (["--robot", "ur_driver", "--weaker-limits"], True),
        (["--robot-ip", "192.0.2.1", "--weaker-limits"], True),
    ],
)
def test_weaker_limits_are_for_an_emulated_controller(tmp_path, monkeypatch, capsys, arguments, taken):
    path = tmp_path / "guard.yaml"
    path.write_text("chunk_age_s: 2.0")

    def reached(*_):
        raise ConfigError("got as far as the robot")

    monkeypatch.setattr(guard_main, "_robot", reached)
    assert guard_main.main([*arguments, "--config", str(path), "--socket-dir", str(tmp_path / "slot")]) == 1
    said = capsys.readouterr().err
    assert "chunk_age_s=2.0 (promised: 0.1)" in said
    assert ("got as far as the robot" in said) == taken == ("or say --weaker-limits" not in said)


def test_tokens_fit_a_register_and_differ():
    tokens = {guard_main.fresh_token() for _ in range(1000)}
    assert len(tokens) == 1000 and min(tokens) > 0 and max(tokens) < 2**31


def test_input_watchdog():
    dog = InputWatchdog({"camera": 0.2})
    assert dog.holding(1.0, False) == {"input:camera": "never heard of"}
    dog.beat("camera", True, "", 1.0)
    dog.beat("other", True, "", 1.0)
    assert dog.holding(1.2, False) == {} and dog.unknown == 1
    assert "200 ms" in dog.holding(1.21, False)["input:camera"]
    dog.beat("camera", False, "frozen", 1.3)
    assert dog.holding(1.3, False) == {"input:camera": "frozen"}
    dog.beat("camera", True, "", 1.4)
    assert dog.holding(1.4, False) == {}


def test_an_input_may_be_held_to_a_tighter_limit_while_the_arm_moves():
    dog = InputWatchdog({"agent": 0.5}, {"agent": 0.075})
    dog.beat("agent", True, "", 1.0)
    assert dog.holding(1.075, True) == {} == dog.holding(1.4, False)
    assert dog.holding(1.076, True) == {"input:agent": "silent for more than 75 ms while moving"}


def test_trouble_of_an_input_is_seen_however_soon_a_good_beat_follows():
    dog = InputWatchdog({"camera": 0.2})
    dog.beat("camera", False, "frozen", 1.000)
    dog.beat("camera", True, "", 1.001)  # within one cycle of the guard
    assert dog.holding(1.008, False) == {"input:camera": "frozen"} and dog.holding(1.016, False) == {}


def test_trouble_that_comes_back_before_it_was_seen_to_end_stays():
    dog = InputWatchdog({"camera": 0.2})
    for ok in (False, True, False):  # within one cycle of the guard
        dog.beat("camera", ok, "frozen", 1.0)
    assert dog.holding(1.008, False) == {"input:camera": "frozen"} == dog.holding(1.016, False)


def test_input_watchdog_refuses_a_wrong_limit():
    with pytest.raises(ConfigError, match="inputs.camera"):
        InputWatchdog({"camera": float("inf")})


def rest_after(speeds, dt_s=0.008, gap_at=None):
    rest, now_s = RestDetector(0.04), 0.0
    for i, speed in enumerate(speeds):
        now_s += 0.1 if i == gap_at else dt_s
        rest.update(np.full(6, speed), now_s)
    return rest, now_s


def test_rest_needs_100_ms_of_fresh_slow_feedback():
    assert not rest_after([0.0] * 12)[0].at_rest(12 * 0.008)
    rest, now_s = rest_after([0.0] * 14)
    assert rest.at_rest(now_s) and not rest.at_rest(now_s + 0.05)


@pytest.mark.parametrize("speed", [0.01, -0.5, float("nan")])
def test_rest_is_lost_by_one_sample(speed):
    rest, now_s = rest_after([0.0] * 14 + [speed] + [0.0] * 10)
    assert not rest.at_rest(now_s)


def test_a_gap_in_feedback_begins_anew():
    rest, now_s = rest_after([0.0] * 20, gap_at=15)
    assert not rest.at_rest(now_s)


def test_repeated_feedback_is_no_new_measurement():
    rest = RestDetector(0.04)
    rest.update(np.zeros(6), 1.0)
    for _ in range(50):
        rest.update(np.zeros(6), 1.0)
    assert not rest.at_rest(1.03)


def test_source_watchdog():
    dog = SourceWatchdog(0.1, frozenset({"policy"}), 0.05)
    assert dog.silent(9.0, True) == ""
    dog.accepted("policy", 1.4, 0.2, 1.0)
    assert dog.silent(1.09, True) == "" and dog.silent(1.3, False) == ""
    assert "no chunk" in dog.silent(1.11, True) and "used up" in dog.silent(1.51, False)
    dog.accepted("planner", 3.0, 0.2, 1.0)
    assert dog.silent(3.09, True) == "" and "used up" in dog.silent(3.11, True)
    dog.accepted("planner", 3.0, 0.01, 1.0)
    assert dog.silent(9.0, False) == ""
    dog.accepted("planner", 3.0, 0.2, 1.0)
    dog.clear()
    assert dog.silent(9.0, True) == ""
