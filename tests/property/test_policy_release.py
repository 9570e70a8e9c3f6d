"""The staged release: who serves, what the tests may claim, how it moves, and that no state on the disk is believed."""
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from steadyhand.errors import ConfigError, ContractError
from steadyhand_policies import comparison, release as releases, release_codec
from steadyhand_policies.release import Counts, Looks, Outcome, Release, ReleaseConfig, Share, Stage, Version
from steadyhand_policies.release_file import ReleaseFile

STABLE, CANDIDATE, OTHER = (Version(n, str(n) * 64) for n in (1, 2, 3))
CONFIG = ReleaseConfig()


def begun(release_id="r") -> Release:
    return releases.begin(Release("pick_place", STABLE), CANDIDATE, release_id)


def run(release, episodes, candidate_rate, stable_rate, rng, config=CONFIG, until=lambda r: r.candidate is None):
    """Episodes as the agent has them, until the release is over; the state."""
    for _ in range(episodes):
        if until(release):
            break
        share = releases.share_of(release, release.episodes, config)
        rate = candidate_rate if share is Share.CANDIDATE else stable_rate
        outcome = Outcome.SUCCESS if rng.random() < rate else Outcome.FAILURE
        release = releases.record(release, share, outcome, config)
    return release


# -- who serves --------------------------------------------------------------------------------------------------------
@given(st.integers(0, 2**64 - 1).map(hex), st.integers(0, 2), st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_each_block_of_episodes_has_exactly_one_of_the_candidates(release_id, stage, block):
    release = Release("m", STABLE, CANDIDATE, release_id=release_id, stage=stage)
    every = CONFIG.stages[stage].every
    shares = [releases.share_of(release, block * every + k) for k in range(every)]
    assert shares.count(Share.CANDIDATE) == 1
    assert shares == [releases.share_of(release, block * every + k) for k in range(every)]


def test_places_in_the_block_are_spread_evenly():
    release = Release("m", STABLE, CANDIDATE, release_id="r", stage=1)
    places = [k % 10 for k in range(20_000) if releases.share_of(release, k) is Share.CANDIDATE]
    assert stats.chisquare(np.bincount(places, minlength=10)).pvalue > 1e-4


def test_without_a_candidate_the_stable_one_serves():
    release = Release("m", STABLE, shadow=OTHER)
    assert {releases.share_of(release, k) for k in range(300)} == {Share.STABLE}
    assert releases.version_of(release, Share.CANDIDATE) == STABLE


# -- the tests ---------------------------------------------------------------------------------------------------------
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 300), st.integers(0, 300))
@settings(max_examples=60, deadline=None)
def test_worse_is_fishers_exact_test(good, bad, stable_good, stable_bad):
    table = [[good, bad], [stable_good, stable_bad]]
    expected = stats.fisher_exact(table, alternative="less").pvalue if good + bad and stable_good + stable_bad else 1.0
    found = comparison.p_worse(good, good + bad, stable_good, stable_good + stable_bad)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("stable", [0.6, 0.9, 0.99])
@pytest.mark.parametrize("n, stable_n, margin", [(30, 60, 0.2), (60, 400, 0.1)])
def test_not_worse_errs_as_rarely_as_it_says(stable, n, stable_n, margin):
    """Every outcome summed, at the border of the null hypothesis: the probability of p below alpha is below alpha."""
    alpha, beta = 0.01, 0.001
    c = stats.binom.pmf(np.arange(n + 1), n, stable - margin)
    s = stats.binom.pmf(np.arange(stable_n + 1), stable_n, stable)
    error = sum(
        weight * c[[comparison.p_not_worse(x, n, k, stable_n, margin, beta) < alpha for x in range(n + 1)]].sum()
        for k, weight in enumerate(s) if weight > 1e-9
    )
    assert error < alpha


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 200), st.integers(0, 200), st.floats(0.01, 0.5))
@settings(max_examples=60, deadline=None)
def test_more_successes_never_speak_against_the_candidate(n, x, stable_n, k, margin):
    x, k = min(x, n - 1), min(k, stable_n)
    assert comparison.p_worse(x, n, k, stable_n) <= comparison.p_worse(x + 1, n, k, stable_n) + 1e-12
    more, less = (comparison.p_not_worse(v, n, k, stable_n, margin, 1e-3) for v in (x + 1, x))
    assert more <= less + 1e-12


@given(st.floats(1e-6, 0.05))
@settings(max_examples=20, deadline=None)
def test_all_looks_together_spend_no_more_than_alpha(alpha):
    assert sum(comparison.alpha_of_look(k, alpha) for k in range(1, 2000)) < alpha


@given(st.integers(1, 500))
def test_looks_come_at_growing_counts(first):
    at, taken = 0, []
    for _ in range(12):
        at = comparison.next_look(at, first)
        taken.append(at)
    assert taken[0] == first and all(b > a for a, b in zip(taken, taken[1:])) and taken[-1] >= 1.3**11 * first - 12


@pytest.mark.parametrize("margin, n", [(0.20, 24), (0.10, 50), (0.05, 102)])
def test_how_many_episodes_without_failure_a_stage_takes(margin, n):
    """The documentation's numbers."""
    assert comparison.not_worse_first(margin, 0.01) == n


# -- how it moves ------------------------------------------------------------------------------------------------------
def test_a_candidate_without_failures_goes_through_all_stages():
    release, counts, stages = begun(), [], []
    while release.candidate is not None:
        share = releases.share_of(release, release.episodes)
        before = release
        release = releases.record(release, share, Outcome.SUCCESS)
        if release.stage != before.stage or release.candidate is None:
            counts.append(before.candidate_counts.n + 1)
            stages.append(before.stage)
    assert stages == [0, 1, 2] and counts == [24, 50, 102]
    assert (release.stable, release.previous) == (CANDIDATE, STABLE)
    assert releases.roll_back(release, "changed my mind").stable == STABLE


def test_a_useless_candidate_is_taken_back_after_three_episodes():
    release = begun()
    while release.candidate is not None:
        share = releases.share_of(release, release.episodes)
        release = releases.record(release, share, Outcome.SUCCESS if share is Share.STABLE else Outcome.FAILURE)
    assert release.stable == STABLE and "worse, p = " in release.history[-1]
    assert "candidate 0 of 3" in release.history[-1]


def test_the_last_stage_is_compared_with_the_stable_episodes_before_it():
    release = begun()
    while release.stage < 2:
        release = releases.record(release, releases.share_of(release, release.episodes), Outcome.SUCCESS)
    stable_n = release.stable_counts.n
    assert stable_n > 400 and release.candidate_counts == Counts()
    for _ in range(5):
        assert releases.share_of(release, release.episodes) is Share.CANDIDATE
        release = releases.record(release, Share.CANDIDATE, Outcome.FAILURE)
        if release.candidate is None:
            break
    assert release.stable == STABLE


def test_as_good_is_rarely_taken_back_and_worse_rarely_advances():
    """60 releases each, at a stage of one in two so that they are short; the bound is alpha plus three deviations."""
    config = ReleaseConfig((Stage(2, 0.15), Stage(1, 0.05)))
    bound = 0.01 * 60 + 3 * np.sqrt(0.01 * 60)
    taken_back = advanced = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        over = lambda r: r.candidate is None or r.stage > 0  # noqa: E731
        taken_back += run(begun(f"a{seed}"), 300, 0.9, 0.9, rng, config, over).candidate is None
        advanced += run(begun(f"b{seed}"), 300, 0.75, 0.9, rng, config, over).stage > 0
    assert taken_back <= bound and advanced <= bound


def test_episodes_that_are_nobodys_merit_decide_nothing():
    release = begun()
    for _ in range(500):
        release = releases.record(release, Share.CANDIDATE, Outcome.VOID)
    assert release.candidate == CANDIDATE and release.stage == 0 and release.candidate_counts.voids == 500


def test_an_operator_may_advance_what_is_not_worse_and_no_other():
    release = releases.promote(begun())
    assert release.stage == 1
    done = releases.promote(begun(), all_the_way=True)
    assert done.stable == CANDIDATE and done.previous == STABLE
    bad = begun()
    for _ in range(2):
        bad = releases.record(bad, Share.CANDIDATE, Outcome.FAILURE)
    for _ in range(200):
        bad = releases.record(bad, Share.STABLE, Outcome.SUCCESS)
    with pytest.raises(ConfigError, match="is worse"):
        releases.promote(bad)


@pytest.mark.parametrize(
    "act, match",
    [
        (lambda: releases.begin(begun(), OTHER, "x"), "under way"),
        (lambda: releases.begin(Release("m", STABLE), STABLE, "x"), "stable one already"),
        (lambda: releases.promote(Release("m", STABLE)), "nothing to promote"),
        (lambda: releases.roll_back(Release("m", STABLE), "x"), "nothing to roll back to"),
        (lambda: releases.with_shadow(begun(), CANDIDATE), "serves"),
        (lambda: Version(0, "a" * 64), "version"),
        (lambda: Version(1, "a"), "sha256"),
        (lambda: ReleaseConfig((Stage(10, 0.1),)), "last with every = 1"),
        (lambda: ReleaseConfig((Stage(1, 0.1), Stage(1, 0.1))), "descending"),
        (lambda: ReleaseConfig(alpha=0.5), "alpha"),
        (lambda: Stage(0, 0.1), "every"),
        (lambda: Stage(1, 0.0), "margin"),
    ],
)
def test_wrong_use_is_refused_and_named(act, match):
    with pytest.raises(ConfigError, match=match):
        act()


# -- on the disk -------------------------------------------------------------------------------------------------------
versions = st.builds(Version, st.integers(1, 10**6), st.text("0123456789abcdef", min_size=64, max_size=64))
counts = st.builds(Counts, *[st.integers(0, 10**6)] * 3)
looks = st.builds(Looks, *[st.integers(0, 10**6)] * 2)
states = st.builds(
    Release, model=st.text(max_size=20), stable=versions, candidate=st.none(), shadow=st.none() | versions,
    previous=st.none() | versions, stage=st.integers(0, 2), episodes=st.integers(0, 10**6), candidate_counts=counts,
    stable_counts=counts, worse_looks=looks, not_worse_looks=looks,
    history=st.lists(st.text(max_size=50), max_size=5).map(tuple),
)


@given(states)
@settings(max_examples=50, deadline=None)
def test_a_state_comes_back_as_it_was_written(release):
    assert release_codec.parse(release_codec.dump(release)) == release


@given(states, st.data())
@settings(max_examples=100, deadline=None)
def test_a_damaged_state_is_refused_by_name(release, data):
    raw = json.loads(release_codec.dump(release))
    name = data.draw(st.sampled_from(sorted(raw)))
    raw[name] = data.draw(st.sampled_from([-1, 1.5, True, [], {}, "x" * 2000, [1], {"number": 1}]))
    if name in ("history",) and raw[name] == []:
        return
    with pytest.raises(ContractError, match="release"):
        release_codec.parse(json.dumps(raw))


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_whatever_lies_there_is_refused_or_a_state(content):
    with pytest.raises(ContractError):
        release_codec.parse(content)


def test_a_reader_never_sees_half_a_state(tmp_path):
    """Who has the file open while it is written reads what it was."""
    before, file = Release("m", STABLE), ReleaseFile(tmp_path, "m")
    file.replace(before)
    with file.path.open("rb") as reader:
        after = file.update(lambda found: releases.begin(found, CANDIDATE, "r"))
        assert release_codec.parse(reader.read()) == before
    assert file.read() == after != before and [p.name for p in tmp_path.glob("*.tmp")] == []
