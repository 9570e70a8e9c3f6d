"""`steadyhand dst`: what it is asked is checked before anything runs, and a seed means that seed."""
import argparse

import pytest

from steadyhand.errors import ConfigError
from steadyhand_cli.dst import campaign, command


def parsed(*words):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser, "dst")
    return parser.parse_args(words)


@pytest.mark.parametrize("words, said", [
    ([], "give --seed N"), (["--seed", "1", "--defect", "rust"], "--defect 'rust'"), (["--hours", "-1"], "--hours -1"),
    (["--hours", "nan"], "--hours nan"), (["--minutes", "0"], "--minutes 0"), (["--minutes", "inf"], "--minutes inf"),
])  # fmt: skip
def test_what_cannot_be_done_is_refused_by_name(words, said):
    with pytest.raises(ConfigError, match=said):
        command.run(parsed(*words))


@pytest.mark.parametrize("words, first", [(["--seed", "0"], 0), ([], 1), (["--seed", "7"], 7)])
def test_a_campaign_begins_with_its_seed(words, first, monkeypatch):
    seeds = []
    monkeypatch.setattr(campaign, "episodes", lambda seed, *_: seeds.append(seed) or iter(()))
    assert command.run(parsed("--hours", "1", *words)) == 0
    assert seeds == [first]
