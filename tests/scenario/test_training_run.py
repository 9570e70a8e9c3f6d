"""A training from its YAML on a small analytic environment: it learns, it is deterministic, a kill changes nothing, a
collapse is caught, a fall on the clean set is undone, its score needs its observations. Needs the training extra."""
import csv
import json
import multiprocessing
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("stable_baselines3")

import torch  # noqa: E402

from policies.training import evaluate  # noqa: E402
from policies.training import run as runs  # noqa: E402
from policies.training.bc import Pairs, clone  # noqa: E402
from policies.training.config import CloningConfig, EvaluationConfig, RunConfig  # noqa: E402
from policies.training.network import ActorNetwork, initial_actor  # noqa: E402
from policies.training.ppo.learner import Learner  # noqa: E402
from policies.training.ppo.loop import FineTuning  # noqa: E402
from policies.training.rollout.actor import Actor  # noqa: E402
from policies.training.schema import parse  # noqa: E402
from steadyhand.errors import ConfigError, SteadyhandError  # noqa: E402
from tests.support import reach, reach_run  # noqa: E402

pytestmark = pytest.mark.train

TEXT = f"""
name: reach
seed: 1
environment: {{id: "{reach.ID}"}}
demonstrations: {{episodes: 6, first_seed: 0, disturbance: {{noise: 0.1}}, expert: "tests.support.reach:expert"}}
network: {{hidden: [32, 32]}}
cloning: {{epochs: 60, batch: 16, learning_rate: 3.0e-3, curve: [2]}}
ppo: {{steps: 6144, environments: 2, fragment_steps: 256, batch: 128, passes: 6, learning_rate: 1.0e-3,
       warm_up_steps: 1024, target_kl: 0.05}}
validation: {{every_updates: 4, episodes: 40, first_seed: 600000000}}
evaluation: {{episodes: 100, first_seed: 900000000}}
workers: {{transport: serial}}
"""


def config(**changes) -> RunConfig:
    return replace(parse(RunConfig, TEXT), **changes)


class Memory:
    """Samples of a run that nobody kills."""

    def __init__(self, batches=()):
        self.batches = list(batches)

    def append(self, columns):
        self.batches.append(columns)

    def read(self):
        return list(self.batches)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A whole run: folder and result."""
    folder = tmp_path_factory.mktemp("reach")
    return folder, runs.run(config(), folder)


def rows(folder) -> list[dict]:
    with (folder / "ppo.csv").open(newline="") as file:
        return list(csv.DictReader(file))


# -- it learns ---------------------------------------------------------------------------------------------------------
def test_fine_tuning_improves_on_the_clone(done):
    folder, result = done
    before, after = (result[k]["deterministic"] for k in ("cloned", "tuned"))
    assert after["n"] == 100 and after["success"] >= before["success"] + 0.05, (before, after)
    assert result["ppo"]["outcome"] == "done" and result["ppo"]["updates"] == 12
    assert json.loads((folder / "result.json").read_text()) == result


def test_the_critic_warms_up_while_the_actor_is_frozen(done):
    found = rows(done[0])
    assert [float(r["kl"]) for r in found[:2]] == [0.0, 0.0] and float(found[2]["kl"]) > 0
    assert {r["passes"] for r in found[:2]} == {"6"}


def test_the_learning_curve_is_a_table_and_a_picture(done):
    folder, _ = done
    found = rows(folder)
    assert [int(r["update"]) for r in found] == list(range(12))
    assert found[3]["validation"] and not found[4]["validation"] and found[-1]["validation"]
    assert float(found[0]["std"]) == pytest.approx(0.2, abs=1e-3) and float(found[-1]["std"]) <= 0.1001
    for name in ("ppo.png", "cloning_6.png", "cloning_2.png"):
        assert (folder / name).stat().st_size > 1000


def test_the_committed_files_re_evaluate_the_figure(done, tmp_path, monkeypatch):
    folder, result = done
    monkeypatch.setattr(runs, "KEPT", tmp_path)
    kept = runs.keep(folder, config())
    actor = Actor.load(kept / "best.npz")
    assert (kept / "best.npz").stat().st_size < 100_000
    with runs.open_run_pool(config()) as pool:
        again = evaluate.held_out(actor, config().evaluation, pool)
    assert again["deterministic"] == result["tuned"]["deterministic"]
    assert actor.about["run"] == "reach" and actor.about["demonstrations"] == 6


def test_a_score_needs_its_observations(done):
    folder, _ = done
    with runs.open_run_pool(config()) as pool:
        found = evaluate.tampered(Actor.load(folder / "best.npz"), EvaluationConfig(900_000_000, 60), pool)
    for name in ("shuffled", "mirrored", "noisy", "frozen", "delayed"):
        assert found[name]["success"] < found["clean"]["success"] and found[name]["p"] < 0.01, (name, found)


# -- it is deterministic, and a kill changes nothing -------------------------------------------------------------------
def test_same_seed_same_weights_wherever_it_runs(done, tmp_path):
    other = config(workers=replace(config().workers, transport="processes", count=2))
    runs.run(other, tmp_path)
    assert Actor.load(tmp_path / "best.npz").sha256() == Actor.load(done[0] / "best.npz").sha256()
    for mine, theirs in zip(rows(tmp_path), rows(done[0]), strict=True):
        assert {k: v for k, v in mine.items() if k != "steps_per_s"} == {
            k: v for k, v in theirs.items() if k != "steps_per_s"
        }


def test_another_seed_other_weights(done, tmp_path):
    asked = iter([False, True])
    runs.run(config(seed=2), tmp_path, lambda: next(asked))
    for name in ("cloned_6.npz", "best.npz"):
        assert Actor.load(tmp_path / name).sha256() != Actor.load(done[0] / name).sha256()
    assert rows(tmp_path)[0]["reward"] != rows(done[0])[0]["reward"]


def test_a_run_told_to_stop_goes_on_exactly(done, tmp_path):
    asked = iter([False] * 5 + [True])
    assert runs.run(config(), tmp_path, lambda: next(asked)) is None
    assert len(rows(tmp_path)) == 5
    again = runs.run(config(), tmp_path)
    assert again | {"commit": ""} == done[1] | {"commit": ""}  # somebody may edit a file meanwhile
    assert Actor.load(tmp_path / "best.npz").sha256() == Actor.load(done[0] / "best.npz").sha256()


def test_a_run_killed_at_any_moment_goes_on_exactly(done, tmp_path):
    """SIGKILL in the middle of things, five times; the samples that were acknowledged are used, not taken again."""
    context, rng, kills = multiprocessing.get_context("forkserver"), np.random.default_rng(0), 0
    context.set_forkserver_preload(["policies.training.run", "tests.support.reach_run"])
    while True:
        process = context.Process(target=reach_run.train, args=(TEXT, tmp_path))
        process.start()
        process.join(rng.uniform(0.05, 0.6) if kills < 5 else 100)
        if process.exitcode is not None:
            break
        process.kill()
        process.join(10)
        kills += 1
    assert process.exitcode == 0 and kills >= 3
    assert Actor.load(tmp_path / "best.npz").sha256() == Actor.load(done[0] / "best.npz").sha256()
    assert json.loads((tmp_path / "result.json").read_text())["tuned"] == done[1]["tuned"]
    assert [int(r["update"]) for r in rows(tmp_path)] == list(range(12))


def test_another_configuration_does_not_go_on(done):
    with pytest.raises(ConfigError, match="holds a run of another configuration"):
        runs.run(config(seed=5), done[0])


def test_samples_that_do_not_fit_the_state_are_refused(done, tmp_path):
    c = config()
    actor = Actor.load(done[0] / "cloned_6.npz")
    with runs.open_run_pool(c) as pool:
        tuning = FineTuning(c, actor, pool, Memory(), tmp_path)
        tuning.run(stop=lambda: tuning.state.updates >= 2)
        batches = tuning._samples.batches
    for wrong, said in ((batches[:1], "are missing before update 2"), (batches + [batches[-1] | {
        "iteration": batches[-1]["iteration"] + 9}], "samples of update 10, but the state is that of 2")):
        with runs.open_run_pool(c) as pool, pytest.raises(SteadyhandError, match=said):
            FineTuning(c, actor, pool, Memory(wrong), tmp_path).run()


# -- alarms ------------------------------------------------------------------------------------------------------------
def tuned(changes: dict, tmp_path, actor, patience=2, rollbacks_max=3, every_updates=4, **alarm) -> FineTuning:
    c = config()
    c = replace(c, ppo=replace(c.ppo, warm_up_steps=0, **changes), alarms=replace(c.alarms, patience=patience, **alarm),
                validation=replace(c.validation, rollbacks_max=rollbacks_max, every_updates=every_updates))
    with runs.open_run_pool(c) as pool:
        tuning = FineTuning(c, actor, pool, Memory(), tmp_path)
        tuning.run()
    return tuning


def test_an_induced_entropy_collapse_is_caught(done, tmp_path):
    """A reward for certainty in place of one for entropy: the deviation collapses, the alarm stands, it rolls back."""
    actor = Actor.load(done[0] / "cloned_6.npz")
    wild = {"entropy_coefficient": -1.0, "learning_rate": 5e-3, "passes": 20, "target_kl": 10.0}
    tuning = tuned(wild, tmp_path, actor, kl_max=1e3, spread_min=0.0, rollbacks_max=0, every_updates=99)
    found = rows(tmp_path)
    first = next(i for i, r in enumerate(found) if "entropy" in r["alarms"])
    assert found[first + 1]["rolled_back"] == "entropy"
    assert tuning.state.outcome == "given up after 1 roll-backs, the last for entropy"
    assert float(found[first]["std"]) < 0.1  # it had collapsed
    restored = Actor.load(tmp_path / "best.npz")
    assert restored.action_std.min() > 0.05  # what comes out had not


def test_without_a_cause_there_is_no_alarm(done):
    assert not any(r["alarms"] or r["rolled_back"] for r in rows(done[0]))


def test_a_fall_on_the_clean_set_is_undone(done, tmp_path):
    """Learning far too fast: the clean set falls, and what comes out is the best that was."""
    actor = Actor.load(done[0] / "best.npz")
    tuning = tuned({"learning_rate": 5e-2, "target_kl": 10.0, "passes": 20}, tmp_path, actor, patience=99)
    found = rows(tmp_path)
    assert any(r["rolled_back"] == "validation" for r in found), [(r["validation"], r["kl"]) for r in found]
    best = np.mean(tuning.state.best_success)
    assert best >= max(float(r["validation"]) for r in found if r["validation"])
    after = next(r for i, r in enumerate(found) if found[i - 1]["rolled_back"] and i)
    assert float(after["rate"]) == pytest.approx(2.5e-2)


def test_the_early_stop_bounds_the_divergence(done, tmp_path):
    actor = Actor.load(done[0] / "cloned_6.npz")
    wild = tuned({"learning_rate": 1e-2, "target_kl": 10.0, "steps": 2048}, tmp_path / "a", actor, patience=99)
    tame = tuned({"learning_rate": 1e-2, "target_kl": 0.01, "steps": 2048}, tmp_path / "b", actor, patience=99)
    kl = [max(float(r["kl"]) for r in rows(t._folder)) for t in (wild, tame)]
    assert kl[1] < 0.5 * kl[0]
    assert min(int(r["passes"]) for r in rows(tame._folder)) < 6


# -- parts -------------------------------------------------------------------------------------------------------------
def small_actor(seed=0) -> Actor:
    return initial_actor(np.zeros(6), np.ones(6), 10.0, (16, 16), 0.2, -np.ones(2), np.ones(2), seed)


def test_network_actor_and_learner_are_one_policy():
    rng, actor = np.random.default_rng(0), small_actor()
    wide = replace(actor, weights=tuple(3 * w for w in actor.weights))
    observation = rng.standard_normal((50, 6)).astype(np.float32)
    with torch.no_grad():
        by_network = ActorNetwork(wide)(torch.as_tensor(observation)).numpy()
    learner = Learner(config().ppo, wide, 1)
    np.testing.assert_allclose(by_network, [wide.act(o) for o in observation], atol=1e-5)
    np.testing.assert_allclose(by_network, [learner.actor().act(o) for o in observation], atol=1e-5)
    by_policy = learner._distribution(torch.as_tensor(observation)[None])[0].numpy()
    np.testing.assert_allclose(by_policy, [wide.raw(o) for o in observation], atol=1e-5)
    np.testing.assert_allclose(learner.actor().action_std, wide.action_std, rtol=1e-6)


def test_a_clone_learns_what_it_is_shown_and_is_reproducible():
    rng = np.random.default_rng(0)
    observations = tuple(rng.standard_normal((40, 6)).astype(np.float32) for _ in range(6))
    wanted = rng.standard_normal((6, 2)).astype(np.float32) * 0.2
    pairs = Pairs(observations, tuple(o @ wanted for o in observations))
    losses = []
    settings = CloningConfig(epochs=60, batch=32, learning_rate=3e-3)
    actor = clone(small_actor(), pairs, settings, 1, losses.append)
    assert losses[-1]["validation_loss"] < 0.1 * losses[0]["validation_loss"]
    assert clone(small_actor(), pairs, settings, 1).sha256() == actor.sha256()


@pytest.mark.parametrize(("broken", "said"), [
    (lambda o, a: (o[:-1], a), "episode 1 has 9 observations and 10 actions"),
    (lambda o, a: (np.where(o > 9, np.nan, o * np.nan), a), "episode 1 is not finite"),
])
def test_broken_demonstrations_teach_nothing(broken, said):
    o, a = np.zeros((10, 6), np.float32), np.zeros((10, 2), np.float32)
    other = broken(o, a)
    with pytest.raises(ConfigError, match=said):
        Pairs((o, other[0]), (a, other[1]))


def test_more_demonstrations_than_there_are_is_an_error():
    with pytest.raises(ConfigError, match="9 episodes of 1 demonstrated"):
        Pairs((np.zeros((2, 6), np.float32),), (np.zeros((2, 2), np.float32),)).first(9)


def test_a_wrong_file_is_refused_by_the_command(tmp_path, capsys):
    path = tmp_path / "reach.yaml"
    path.write_text(TEXT.replace("passes: 6", "passes: six"))
    assert runs.main([str(path)]) == 2
    assert "ppo.passes: 'six' is text, expected a whole number" in capsys.readouterr().err
