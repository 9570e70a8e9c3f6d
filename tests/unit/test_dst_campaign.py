"""Sums of a campaign: hours by version of the simulator, seeds that failed, a log that says the same again."""
import argparse
import contextlib
from collections import Counter

import pytest

from benchmarks import dst
from steadyhand_cli.dst.campaign import Totals
from steadyhand_cli.dst.checker import Violation
from steadyhand_cli.dst.episode import Outcome


def outcome(seed, ok=True, robot_s=100.0):
    violations = () if ok else (Violation("I9", 1.0, "so"),)
    return Outcome(seed, violations, robot_s, 300.0, 250.0, Counter({"guard killed": 2}), 1, 3, 4)


@pytest.fixture
def totals():
    made = Totals(version="code", simulator="first")
    made.add(outcome(7), 1.0)
    made.simulator = "second"
    made.add(outcome(8, ok=False, robot_s=50.0), 2.0)
    return made


def test_hours_are_kept_by_the_simulator_that_judged_them(totals):
    assert totals.simulators == {"first": 100.0, "second": 50.0} and totals.failed == [8]
    assert (totals.violations, totals.next_seed, totals.kinds["guard killed"]) == (1, 9, 4)


def test_a_log_says_the_same_again(totals, tmp_path):
    totals.save(tmp_path / "log.json")
    again = Totals.load(tmp_path / "log.json")
    assert again == totals
    again.add(outcome(9), 1.0)
    assert again.simulators["second"] == 150.0


def test_a_seed_that_failed_is_played_again_and_other_versions_hours_stay_out(totals, tmp_path, monkeypatch):
    monkeypatch.setattr(dst, "log_of", lambda worker: tmp_path / f"log.{worker}.json")
    monkeypatch.setattr(dst, "versions", lambda: ("code", "second"))
    monkeypatch.setattr(dst.multiprocessing, "get_context", lambda _: NoPool)
    totals.save(dst.log_of(0))
    Totals(version="other", robot_s=9e9).save(dst.log_of(1))
    written, played = {}, []
    monkeypatch.setattr(dst.common, "write", lambda name, n, load, scheduler, metrics: written.update(metrics))
    for holds, violations in ((True, 0), (False, 1)):
        monkeypatch.setattr(dst.episode, "run", lambda seed, holds=holds: played.append(seed) or outcome(seed, holds))
        dst.run(dst_arguments())
        assert (written["violations"], written["mended_in_the_simulator"]) == (violations, 1 - violations)
        assert written["robot_hours"] == round(150 / 3600, 3) and played == [8] * len(played)
    assert written["hours_by_simulator"] == {"first": round(100 / 3600, 3), "second": round(50 / 3600, 3)}


class NoPool:
    """A pool that has nothing to do: no minutes."""

    @staticmethod
    def Pool(workers):
        return contextlib.nullcontext(type("Idle", (), {"starmap": staticmethod(lambda *_: None)}))


def dst_arguments():
    parser = argparse.ArgumentParser()
    dst.add_arguments(parser)
    return parser.parse_args(["--no-hunt"])
