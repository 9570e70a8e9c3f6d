"""`steadyhand policy`: what an operator sees and decides, on a repository of real models."""
import json
from dataclasses import replace

import pytest

from steadyhand.errors import ConfigError, ContractError
from steadyhand.slot import current_slot
from steadyhand_cli import main as command
from steadyhand_policies.release_file import ReleaseFile
from tests.support import onnx_models as onnx

MODEL = "pick_place"


@pytest.fixture
def models(tmp_path, monkeypatch):
    monkeypatch.setenv("STEADYHAND_OUT", str(tmp_path / "out"))
    return onnx.repository_with(tmp_path / "models", 1, 2)


@pytest.fixture
def say(models, capsys):
    """Runs a verb; its exit code and what it printed."""
    def run(*words):
        code = command.main(["policy", "--repository", str(models), *words])
        said = capsys.readouterr()
        return code, said.out + said.err
    return run


def state():
    return ReleaseFile(current_slot().out_dir / "policy", MODEL).read()


def test_a_release_from_its_beginning_to_its_end(say):
    assert "nothing was decided yet: the agent serves version 2" in say("status")[1]
    assert say("release", "2")[0] == 0 and state().candidate.number == 2 and state().stable.number == 1
    code, said = say("status")
    assert code == 0 and "stage 1 of 3: one episode in 100" in said and "next look at 3 of the candidate's" in said
    assert "next look at 24" in said
    assert say("promote")[0] == 0 and state().stage == 1
    assert "under way" in say("release", "2")[1]
    assert say("promote", "--all")[0] == 0 and state().stable.number == 2
    assert say("rollback", "--why", "drops parts")[0] == 0
    assert state().stable.number == 1 and "drops parts" in say("status")[1]
    code, said = say("rollback")
    assert code == 2 and "nothing to roll back to" in said


def test_list_says_what_each_version_does_and_what_is_wrong(say, models):
    say("release", "2")
    code, said = say("list")
    assert code == 0 and "stable" in said and "candidate" in said
    onnx.edit(models / MODEL / "2" / "contract.json", lambda raw: raw.update(step_m=0.05))
    code, said = say("list")
    assert code == 1 and "refused" in said and "step_m" in " ".join(said.split())


def test_check_names_what_is_wrong(say, models):
    code, said = say("check", "1")
    assert code == 0 and "observations answered as the contract says" in said and "CPUExecutionProvider" in said
    onnx.edit(models / MODEL / "1" / "contract.json", lambda raw: raw["joint_names"].reverse())
    code, said = say("check", "1")
    assert code == 1 and "refused: pick_place version 1: joint_names[0]" in said
    code, said = say("check", "9")
    assert code == 1 and "9" in said and "missing" in said


def test_install_takes_what_is_sound_and_nothing_else(say, models, tmp_path):
    onnx.write_version(tmp_path / "trained", *onnx.weights_of(3))
    code, said = say("install", str(tmp_path / "trained"))
    assert code == 0 and said.splitlines()[-1] == "version 3" and "stable 2" in said
    assert (models / MODEL / "3" / "model.onnx").exists()
    weights, bias = onnx.weights_of(4)
    onnx.write_version(tmp_path / "constant", 0 * weights, bias)
    code, said = say("install", str(tmp_path / "constant"))
    assert code == 2 and "constant" in said and not (models / MODEL / "4").exists()
    onnx.write_version(tmp_path / "other", *onnx.weights_of(5), change=lambda c: replace(c, model="stacking"))
    code, said = say("install", str(tmp_path / "other"))
    assert code == 2 and "config.pbtxt name" in said and not (models / MODEL / "4").exists()
    config = models / MODEL / "config.pbtxt"
    config.write_text(config.read_text().replace(f'"{MODEL}"', '"stacking"'))
    code, said = say("install", str(tmp_path / "other"))
    assert code == 2 and "the repository's folder is 'pick_place'" in said and not (models / MODEL / "4").exists()


def test_what_is_installed_does_not_serve_before_it_is_released(say, tmp_path):
    """Not by a restart of the agent either, which takes the newest when nothing was decided."""
    onnx.write_version(tmp_path / "trained", *onnx.weights_of(3))
    assert state() is None and say("install", str(tmp_path / "trained"))[0] == 0
    assert state().stable.number == 2 and state().candidate is None
    say("serve", "1")
    assert say("install", str(tmp_path / "trained"))[1].strip() == "version 4" and state().stable.number == 1


@pytest.mark.parametrize("change, field", [
    (lambda raw: raw["training"].update(commit="a" * 40 + "-dirty"), "training.commit"),
    (lambda raw: raw["score"].update(n=10, successes=10, wilson_low=0.7225, wilson_high=1.0), "score.n"),
])
def test_what_nobody_can_vouch_for_is_not_released(say, models, change, field):
    onnx.edit(models / MODEL / "2" / "contract.json", change)
    code, said = say("release", "2")
    assert code == 2 and field in said and state() is None
    assert "not fit for a release" in say("check", "2")[1]


def test_a_shadow_runs_beside_and_one_that_serves_cannot(say):
    assert say("shadow", "1")[0] == 0
    assert state().shadow.number == 1 and state().stable.number == 2
    assert "shadow: version 1" in say("status")[1]
    code, said = say("shadow", "2")
    assert code == 2 and "serves" in said
    assert say("shadow", "off")[0] == 0 and state().shadow is None
    code, said = say("shadow", "one")
    assert code == 2 and "'one'" in said


def test_serve_decides_anew_also_over_a_damaged_state(say):
    say("release", "2")
    path = current_slot().out_dir / "policy" / f"{MODEL}.release.json"
    path.write_text(json.dumps({"format": 1}))
    code, said = say("status")
    assert code == 2 and "missing or unknown fields" in said and "steadyhand policy serve" in said
    assert say("serve", "2")[0] == 0
    assert state().stable.number == 2 and state().candidate is None


def test_a_state_of_another_model_or_too_long_is_refused(tmp_path):
    file = ReleaseFile(tmp_path, MODEL)
    with pytest.raises((ConfigError, ContractError)):
        file.path.parent.mkdir(exist_ok=True)
        file.path.write_bytes(b" " * 1_000_001)
        file.read()
