"""What the benchmarks share: names and options, results that survive a kill, processes that do not start."""
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import __main__ as command
from benchmarks import _kept, common, rtde_stream
from benchmarks._kept import Kept


@pytest.fixture
def ran(monkeypatch):
    """What was run, with which options."""
    found = []

    def module(name):
        add = lambda parser: parser.add_argument("--n", type=int, default=1)  # noqa: E731
        return SimpleNamespace(__doc__="", add_arguments=add, run=lambda a: found.append((name.split(".")[1], a.n)))

    monkeypatch.setattr(command.importlib, "import_module", module)
    return found


def test_without_a_name_all_but_the_long_ones(ran):
    assert command.main([]) == 0
    assert {name for name, _ in ran} == set(command.NAMES) - command.LONG and command.LONG < set(command.NAMES)


def test_options_go_to_a_single_name(ran):
    assert command.main(["mtbf", "--n", "3"]) == 0 and command.main(["dst", "fuzz"]) == 0
    assert ran == [("mtbf", 3), ("dst", 1), ("fuzz", 1)]


@pytest.mark.parametrize("argv", [["nothing"], ["mtbf", "nothing"], ["--n", "3"], ["mtbf", "dst", "--n", "3"]], ids=str)
def test_wrong_use_runs_nothing(ran, capsys, argv):
    assert command.main(argv) == 2 and ran == []
    assert "known are" in capsys.readouterr().err


def test_help_runs_nothing(ran, capsys):
    assert command.main(["--help"]) == 0 and ran == []
    assert "mtbf" in capsys.readouterr().out


@pytest.mark.parametrize("cut", [1, 2, 8, 20])
def test_a_line_that_was_cut_off_costs_itself_only(tmp_path, cut):
    path = tmp_path / "log.jsonl"
    for k in range(3):
        _kept.append(path, {"k": k, "outcome": {"inner": 1}})
    path.write_bytes(path.read_bytes()[:-cut])
    kept = [0, 1, 2] if cut == 1 else [0, 1]
    assert [r["k"] for r in _kept.read(path)] == kept
    _kept.append(path, {"k": 7})
    assert [r["k"] for r in _kept.read(path)] == [*kept, 7]


def test_a_run_goes_on_with_its_own_results_only(monkeypatch, tmp_path):
    monkeypatch.setenv("STEADYHAND_OUT", str(tmp_path))
    Kept("x", "one", False).add({"k": 1})
    Kept("x", "one", False).add({"k": 2})
    assert [r["k"] for r in Kept("x", "one", False).lines] == [1, 2]
    assert Kept("x", "other", False).lines == [] and Kept("x", "one", False).lines == []
    Kept("x", "one", False).add({"k": 3})
    assert Kept("x", "one", True).lines == []


@pytest.mark.parametrize(("code", "said"), [
    ("input()", "nothing within"), ("print('no port')", "no port"), ("", "and ended"),
])
def test_a_process_that_does_not_start_is_said_and_ended(code, said):
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with subprocess.Popen([sys.executable, "-c", code], **pipes) as process:
        with pytest.raises(RuntimeError, match=said):
            common.await_ready(process, 0.3 if "input" in code else 20.0)
        assert process.poll() is not None


def test_a_process_that_is_ready(tmp_path):
    with subprocess.Popen([sys.executable, "-c", "print('x ready: y')"], stdout=subprocess.PIPE, text=True) as process:
        common.await_ready(process, 20.0)


# -- rtde_stream --


def states(stamps, delays):
    return {"stamps_s": np.array(stamps), "received_s": np.array(stamps) + 100.0 + np.array(delays)}


def test_rtde_stream_counts_missed_cycles_and_deviations_from_the_controllers_clock():
    stamps = np.delete(np.arange(1000) * 0.008, [500, 700, 701])
    delays = np.zeros(len(stamps))
    delays[800] = 0.002  # late, and the next one in time: two deviations of 2 ms
    line = rtde_stream.judge(states(stamps, delays), 125)
    assert (line["n"], line["missed"]) == (len(stamps) - 1 - int(len(stamps) * rtde_stream.SETTLING), 3)
    assert sum(n for k, n in line["bins"].items() if int(k) > 10) == 2


def test_rtde_stream_pools_its_blocks():
    def line(side, hz, bins):
        return {"side": side, "hz": hz, "missed": 1, "n": sum(bins.values()), "streamed_s": 1800.0, "bins": bins}

    lines = [
        line("ours", 125, {"0": 999}), line("ours", 125, {"0": 1000, "99": 1}), line("bare", 125, {"3": 1}),
        line("ours", 500, {"7": 1}),
    ]  # fmt: skip
    metrics = rtde_stream.summary(lines)
    assert (metrics["hours"], metrics["missed_per_hour_125"], metrics["hz125_max_ms"]) == (1.0, 2.0, 1.0)
    assert metrics["hz125_p999_ms"] == 0.01 and metrics["bare_hz125_p999_ms"] == 0.04
    assert metrics["hz500_p999_ms"] == 0.08


def test_rtde_stream_refuses_a_stream_that_did_not_start():
    with pytest.raises(RuntimeError, match="0 states at 125 Hz"):
        rtde_stream.judge(states([], []), 125)
