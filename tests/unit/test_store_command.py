"""The store's command: what it says of a store, what it moves, and that a refusal is told, not thrown."""
import json

import pytest

from policies.training.store.__main__ import main
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.samples import SampleStore
from policies.training.store.segments import paths
from tests.unit.test_store_episode import episode
from tests.unit.test_store_interventions import teleoperated, written
from tests.unit.test_store_samples import SCHEMA, batch


def test_summary_of_either_store(tmp_path, capsys):
    with DemonstrationStore(tmp_path / "shown") as store:
        store.extend([episode(1), episode(2, success=False)])
    with SampleStore(tmp_path / "samples", SCHEMA) as store:
        store.append(batch(5))
    assert main(["summary", str(tmp_path / "shown")]) == main(["summary", str(tmp_path / "samples")]) == 0
    shown, taken = (json.loads(part) for part in capsys.readouterr().out.replace("}\n{", "}\0{").split("\0"))
    assert shown["all"]["episodes"] == 2 and shown["all"]["successes"] == 1
    assert taken["samples"] == 5 and taken["batches"] == 1


def test_a_refusal_is_told(tmp_path, capsys):
    assert main(["summary", str(tmp_path)]) == 1
    assert "no store" in capsys.readouterr().err


def test_survey_says_what_is_wrong(tmp_path, capsys):
    with DemonstrationStore(tmp_path) as store:
        store.append(episode(1))
    assert main(["survey", str(tmp_path)]) == 0 and "1 records intact, 0 gone" in capsys.readouterr().out
    path = paths(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["survey", str(tmp_path)]) == 1 and "acknowledged and are gone" in capsys.readouterr().out


def test_interventions_go_into_a_store(tmp_path, capsys):
    (tmp_path / "recordings").mkdir()
    written(tmp_path / "recordings" / "one.jsonl", teleoperated())
    command = ["interventions", str(tmp_path / "store"), str(tmp_path / "recordings"), "--formulation", "joint_delta"]
    assert main(command) == 0 and "1 episodes, 1 of them new" in capsys.readouterr().out
    assert main(command) == 0
    said = capsys.readouterr().out
    assert "1 episodes, 0 of them new" in said and "refused: one.jsonl, pick" in said


def test_out_and_in_again(tmp_path, capsys):
    pytest.importorskip("pyarrow", reason="the training extra")
    with DemonstrationStore(tmp_path / "a") as store:
        store.extend([episode(1), episode(2, success=False)])
        before = store.hash()
    assert main(["export", str(tmp_path / "a"), str(tmp_path / "set"), "--robot-type", "ur5"]) == 0
    assert main(["import", str(tmp_path / "b"), str(tmp_path / "set")]) == 0
    with DemonstrationStore(tmp_path / "b") as store:
        assert store.hash() == before
    assert main(["export", str(tmp_path / "a"), str(tmp_path / "good"), "--version", "v2.1", "--successes"]) == 0
    assert main(["export", str(tmp_path / "a"), str(tmp_path / "good")]) == 1
    assert "is there already" in capsys.readouterr().err
