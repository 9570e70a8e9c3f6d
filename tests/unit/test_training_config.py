"""A training run's YAML: what is unknown, mistyped, out of range or contradictory is refused by its full name."""
from copy import copy
from dataclasses import fields, replace
from pathlib import Path

import pytest
import yaml

import policies.training
from policies.training.config import TRAINING_SEEDS_FROM, RunConfig, identity
from policies.training.schema import parse, read
from steadyhand.errors import ConfigError

CONFIGS = sorted((Path(policies.training.__file__).parent / "configs").glob("*.yaml"))
GOOD = """
name: a_run
seed: 1
environment: {id: Some/Env-v0, formulation: joint_delta}
demonstrations: {episodes: 5, first_seed: 0}
evaluation: {episodes: 10, first_seed: 900000000}
validation: {episodes: 10, first_seed: 800000000}
ppo: {steps: 10000}
"""


def changed(path: str, value) -> str:
    raw = yaml.safe_load(GOOD)
    *parents, last = path.split(".")
    at = raw
    for name in parents:
        at = at.setdefault(name, {})
    at[last] = value
    return yaml.safe_dump(raw)


def refusal(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(RunConfig, text, "run.yaml")
    return str(caught.value)


def test_a_good_one_is_read():
    config = parse(RunConfig, GOOD)
    assert config.ppo.steps == 10000 and config.environment.keywords() == {"formulation": "joint_delta"}
    assert config.ppo.passes == 6 and config.network.hidden == (128, 128)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("ppo.epochs", 6, "run.yaml: ppo.epochs: unknown key; known are steps,"),
        ("ppo.learning_rate", "1e-4", "ppo.learning_rate: '1e-4' is text, expected a number; YAML reads"),
        ("ppo.learning_rate", 1, "ppo.learning_rate: 1.0, expected 1e-07 to 0.1"),
        ("ppo.steps", 1.5, "ppo.steps: 1.5 is a number, expected a whole number"),
        ("ppo.steps", True, "ppo.steps: True is true or false, expected a whole number"),
        ("ppo.gamma", float("nan"), "ppo.gamma: nan, expected a finite number"),
        ("ppo", [1], "ppo: [1] is a list, expected a mapping"),
        ("network.hidden", [128, 2], "network.hidden[1]: 2, expected 4 to 1024"),
        ("network.hidden", 128, "network.hidden: 128 is a whole number, expected a list"),
        ("environment.formulation", "joint", "environment.formulation: 'joint', expected one of cartesian_delta, "),
        ("environment.noise", 1, "environment.noise: 1 is a whole number, expected true or false"),
        ("exploration.std_end", 0.5, "exploration: std_end: 0.5, expected at most std_start=0.2"),
        ("ppo.batch", 4096, "ppo: batch: 4096 of 2 x 1024 steps; give at most half of them"),
        ("validation.first_seed", 900000005, "validation.first_seed: 900000005 lies among the seeds of evaluation"),
        ("evaluation.first_seed", 120000, "evaluation.first_seed: 120000 lies among the seeds of demonstrations"),
        ("validation", None, "validation: missing; fine-tuning needs it"),
        ("randomisation", {"factors": {"gain": [2.0, 1.0]}, "ranges": {}}, "factors.gain: 2.0 to 1.0 is empty"),
        ("randomisation", {"factors": {"gain": [1.0]}, "ranges": {}}, "factors.gain: 1 entries, expected 2"),
        ("randomisation", {"factors": {"a": [1, 2]}, "ranges": {"a": [0, 1]}}, "factors.a and ranges.a: give one"),
        ("name", "../x", "name: '../x', expected letters"),
    ],
)
def test_what_is_wrong_is_named(path, value, said):
    assert said in refusal(changed(path, value))


def test_what_is_missing_is_named():
    assert "demonstrations.episodes: missing" in refusal(GOOD.replace("episodes: 5, ", ""))
    assert "seed: missing" in refusal(GOOD.replace("seed: 1\n", "", 1))


def test_a_key_given_twice_is_refused():
    assert "key 'seed' is given twice" in refusal(GOOD + "seed: 2\n")


def test_what_is_no_mapping_is_refused():
    assert "the file: None is nothing" in refusal("")
    assert "not YAML" in refusal("a: [")


def test_identity_is_of_what_decides_the_result():
    one = parse(RunConfig, GOOD)
    assert identity(one) == identity(parse(RunConfig, changed("workers.count", 8)))
    for field in fields(RunConfig):
        if field.name != "workers":
            assert identity(one) != identity(without_checks(one, field.name)), field.name


def without_checks(config: RunConfig, name: str) -> RunConfig:
    """The same with another value of a field, whatever it is."""
    other = copy(config)
    object.__setattr__(other, name, "another")
    return other


def test_no_judged_scene_is_among_those_that_training_draws():
    config = parse(RunConfig, GOOD)
    with pytest.raises(ConfigError, match="evaluation.first_seed: its seeds reach beyond"):
        replace(config, evaluation=replace(config.evaluation, first_seed=TRAINING_SEEDS_FROM - 5))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda p: p.stem)
def test_committed_configurations_are_good(path):
    assert read(RunConfig, path).name == path.stem


def test_there_are_committed_configurations():
    assert len(CONFIGS) >= 5
