"""Commissioning: what stands between a robot and its use, each by name. Over the ports of the emulated controller."""
import json
import socket
import threading

import numpy as np
import pytest

from steadyhand_cli import commission as command
from steadyhand_cli.main import main
from steadyhand_firmware_bridge import commissioning
from steadyhand_firmware_bridge.commissioning import NOTE, OK, UNKNOWN, WRONG, Check, Report, commission, dry_run


def by_name(report):
    return {check.name: check for check in report.checks}


def versioned(text):
    checks = []
    e_series = commissioning._version(text, checks)
    return e_series, checks[0]


@pytest.mark.parametrize(
    ("text", "e_series", "verdict"),
    [
        ("URSoftware 3.15.8.106339 (Jun 20 2022)", False, OK),
        ("3.14.1.1 (Jan 1 2020)", False, OK),
        ("URSoftware 5.11.6.110120 (Oct 15 2021)", True, OK),
        ("URSoftware 3.5.1.10000 (Jan 1 2018)", False, WRONG),
        ("URSoftware 5.4.0.1 (Jan 1 2019)", True, WRONG),
        ("URSoftware 10.7.0.1 (Jan 1 2025)", True, WRONG),
        ("PolyScope", False, WRONG),
        ("", False, WRONG),
    ],
)
def test_firmware(text, e_series, verdict):
    assert versioned(text)[1].verdict == verdict and versioned(text)[0] is e_series


@pytest.mark.parametrize(
    ("answer", "verdict", "found"),
    [("No program loaded", OK, "No program loaded"), ("Loaded program: /programs/wave.urp", NOTE, "/programs/wave.urp"),
     ("", OK, ""), ("could not understand", OK, "could not understand")],
)  # fmt: skip
def test_what_a_play_at_the_pendant_would_start_is_named(answer, verdict, found):
    checks = []
    commissioning._loaded(answer, checks)
    assert [(c.verdict, c.found) for c in checks] == [(verdict, found)]
    assert ("play at the pendant" in checks[0].remedy) is (verdict == NOTE)


def test_a_host_that_does_not_resolve_is_named():
    check = by_name(commission("no-such-robot.invalid", {}))["address"]
    assert check.verdict == WRONG and "no-such-robot.invalid" in check.found and "does not resolve" in check.found


def test_nobody_there_is_named():
    free = socket.create_server(("127.0.0.77", 0))
    free.close()
    report = commission("127.0.0.77", {}, 0.3)
    assert not report.ok and "29999" in by_name(report)["dashboard"].found


def test_a_half_open_port_is_named_and_ends():
    """Accepts, and never says a word."""
    with socket.create_server(("127.0.0.77", 29999)) as silent:
        held = []
        taker = threading.Thread(target=lambda: held.append(silent.accept()))
        taker.start()
        check = by_name(commission("127.0.0.77", {}, 0.3))["dashboard"]
        taker.join(5.0)
        held[0][0].close()
    assert check.verdict == WRONG and "no answer within 0.3 s" in check.found


def test_without_the_operators_word_nothing_is_even_connected():
    assert dry_run("127.0.0.77", lambda: False).verdict == UNKNOWN


def test_the_report_says_what_was_found_and_what_to_do():
    checks = (Check("model", WRONG, "UR10|e\nx", "use a UR5"), Check("TCP", OK, "there"))
    report = Report("robot", checks, {"mounting": "floor"})
    assert not report.ok and "\n| model | wrong | UR10\\|e x | use a UR5 |\n" in report.markdown("now")
    assert json.loads(json.dumps(report.as_dict()))["checks"][1]["found"] == "there"


@pytest.mark.parametrize(("stamps_s", "rate"), [((), None), ((1.0,), None), ((1.0, 1.0), None), ((1.0, 1.5, 2.0), 2.0)])
def test_a_controller_whose_time_stands_still_has_no_rate(stamps_s, rate):
    assert commissioning._rate([{"timestamp": s} for s in stamps_s]) == rate


def ready(**changes):
    return {"robot_mode": 7, "safety_mode": 1, "runtime_state": 1} | changes


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""), ({"robot_mode": 5}, "robot mode 5"), ({"safety_mode": 3}, "safety mode 3"),
        ({"runtime_state": 4}, "paused"),
    ],
)
def test_what_changed_before_the_operators_yes_forbids_the_dry_run(changes, said):
    why = commissioning._unready(ready(**changes))
    assert said in why and bool(why) is bool(said)


class Stream:
    """The states of a dry run, one a look; then the connection ends."""

    reason = "closed by the controller"

    def __init__(self, *states):
        self.left = list(states)

    def fileno(self):
        return 1 if self.left else -1

    def take(self, _seconds):
        return [self.left.pop(0)] if self.left else []


def state(runtime, *moved, speed=0.02):
    q, qd = np.array([0.0] * (6 - len(moved)) + list(moved)), np.array([0.0] * 5 + [speed])
    return {"runtime_state": runtime, "actual_q": q, "target_qd": qd, "timestamp": 0.0}


@pytest.mark.parametrize(
    ("states", "verdict", "said"),
    [
        ([state(1, 0.0), state(2, 0.03), state(2, 0.05), state(1, 0.001)], OK, "turned by 0.050 rad and back"),
        ([state(2, 0.03), state(2, 0.05), state(1, 0.05)], WRONG, "0.050 rad from its start"),
        ([state(2, 0.05), state(2, 0.09), state(1, 0.0)], WRONG, "0.090 rad"),
        ([state(2, -0.09), state(2, 0.05), state(1, 0.0)], WRONG, "-0.090 rad"),
        ([state(2, 0.02, 0.05), state(1, 0.0)], WRONG, "0.020, 0.050 rad"),
        ([state(2, float("nan")), state(1, 0.0)], WRONG, "nan"),
        ([state(2, 0.03)], WRONG, "closed by the controller"),
        ([state(2, 0.01), state(2, 0.02, speed=-0.26), state(1, 0.0)], WRONG, "0.260 rad/s, 10 % are 0.026"),
        ([state(2, 0.01, speed=float("nan")), state(1, 0.0)], WRONG, "nan rad/s"),
    ],
)
def test_a_dry_run_is_good_only_there_and_back_by_one_joint(monkeypatch, states, verdict, said):
    monkeypatch.setattr(commissioning, "_samples", Stream.take)
    check = commissioning._watched(Stream(*states), np.zeros(6), 5.0)
    assert check.verdict == verdict and said in check.found


def test_the_limit_of_a_dry_run_is_the_controllers_time(monkeypatch):
    """One that runs slower than ours, as a simulated one on a busy machine, is given the time; a stuck one is not."""
    monkeypatch.setattr(commissioning, "_samples", Stream.take)
    states = [state(2, 0.001) | {"timestamp": float(k)} for k in range(9)]
    check = commissioning._watched(Stream(*states), np.zeros(6), 5.0)
    assert check.verdict == WRONG and "not done within 5 s (moved 0.001 rad)" in check.found and "closed" not in check.found


def test_the_command_keeps_both_reports_and_fails(tmp_path, capsys):
    code = main(["commission", "ur5", "--robot-ip", "no-such-robot.invalid", "--out", str(tmp_path), "--mounting", "wall"])
    assert code == 1 and "NOT ready" in capsys.readouterr().out
    kept = {path.suffix for path in tmp_path.iterdir()}
    assert kept == {".md", ".json"}
    document = json.loads(next(tmp_path.glob("*.json")).read_text())
    assert document["declared"]["mounting"] == "wall" and not document["ok"]


@pytest.mark.parametrize(("answer", "wanted"), [("y\n", True), ("yes\n", True), ("\n", False), ("", False), ("no\n", False)])
def test_only_a_typed_yes_is_a_word(monkeypatch, answer, wanted):
    import io

    monkeypatch.setattr(command.sys, "stdin", io.StringIO(answer))
    assert command._confirmed() is wanted
