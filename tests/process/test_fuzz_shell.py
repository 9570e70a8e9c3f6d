"""Hostile messages, requests and goals for the running ROS shell over DDS, its guard armed: a small run of `fuzz`."""
from collections import deque
from types import SimpleNamespace

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.process]


def test_nothing_crashes_and_nothing_moves(tmp_path, monkeypatch):
    from benchmarks._fuzz_ros import ShellTarget

    monkeypatch.setenv("STEADYHAND_OUT", str(tmp_path))
    target = ShellTarget(7)
    try:
        outcome = target.run(2000)
    finally:
        target.close()
    kept = [p.read_text()[:300] for p in tmp_path.glob("**/fuzz-failures/*.json")]
    assert outcome["crashes"] == 0 and outcome["motions"] == 0, kept
    assert outcome["messages"] > 1900 and outcome["mutations"] > 1000 and outcome["packages watched"] > 100
    assert outcome["proofs"] == 4  # before and after each half, a valid command moved the target at the port
    assert outcome["stop without effect"] == 0 and outcome["violations"] == 0, kept
    reasons = {"foreign_token", "not_finite", "position", "malformed"}
    assert all(outcome[f"refused {reason}"] for reason in reasons), dict(outcome)
    assert not any(n for name, n in outcome.items() if name.startswith("tracebacks")), dict(outcome)


def test_a_hostile_command_that_is_accepted_counts_however_late_its_verdict_comes(monkeypatch):
    from benchmarks._fuzz_guard import Outcome
    from benchmarks._fuzz_ros import ShellTarget

    # h2 is accepted in time, h3 when nobody awaits it any more
    said = [SimpleNamespace(trace_id=f"h{k} ", accepted=k > 1, reason="") for k in range(4)]
    target = ShellTarget.__new__(ShellTarget)
    target.outcome, target.shells, target.answers = Outcome(), SimpleNamespace(verdicts=deque(said)), {}
    target.awaited = {f"h{k}": (0.0, "joint_chunk") for k in range(3)}
    monkeypatch.setattr(target, "keep", lambda *_: None)
    target.take_answers()
    assert target.outcome["motions"] == 2 and target.outcome["refused by verdict"] == 2 and not target.awaited
