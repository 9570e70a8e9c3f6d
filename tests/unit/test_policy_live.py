"""Releases, roll-backs and shadows of real models in this process: between episodes, never within one, no pause."""
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from steadyhand.errors import ContractError, PolicyError
from steadyhand_policies import release as releases
from steadyhand_policies.fallback import ObservationRefused
from steadyhand_policies.live import LivePolicy
from steadyhand_policies.member import opener
from steadyhand_policies.probe import observations
from steadyhand_policies.release import Outcome, Release, ReleaseConfig, Share, Stage, Version
from steadyhand_policies.release_file import ReleaseFile
from tests.support import onnx_models as onnx

LIMIT_S = 20.0  # of every wait
MODEL = "pick_place"
EVERY_SECOND = ReleaseConfig((Stage(2, 0.2), Stage(1, 0.1)))


def until(condition, what):
    end_s = time.monotonic() + LIMIT_S
    while time.monotonic() < end_s:
        if value := condition():
            return value
        time.sleep(0.005)
    raise AssertionError(f"not within {LIMIT_S} s: {what}")


class Rig:
    """A copy of the repository, a release's file, and the live policy on them."""

    def __init__(self, folder, made):
        models, self.versions, self.golden = made
        self.repository = Path(shutil.copytree(models, folder / "models"))
        self.folder = folder / "policy"
        self.file = ReleaseFile(self.folder, MODEL)  # the operator's end; the policy has its own
        self.said, self.disagreements, self.live = [], [], None
        self._open = opener(self.repository, MODEL)

    def open(self, config=EVERY_SECOND, first=1) -> LivePolicy:
        self.live = LivePolicy(
            MODEL, self._open, first, ReleaseFile(self.folder, MODEL), config, self.said.append,
            self.disagreements.append,
        ).open()
        return self.live

    def decide(self, change) -> Release:
        return self.file.update(lambda found: change(found or Release(MODEL, self.versions[1])))

    def begin(self, number=2) -> Release:
        return self.decide(lambda r: releases.begin(r, self.versions[number], "r"))

    def ask(self, observation_id="o", pin=None):
        contract = self.live.pin.member.contract  # the versions share the observation of the canary
        return self.live.infer(np.float32(contract.canary.observation), observation_id, LIMIT_S, pin)

    def serves(self) -> int:
        """Whose answer an inference gives, by its content."""
        answer = self.ask().actions
        return next(number for number, golden in self.golden.items() if np.abs(answer - golden).max() < 1e-3)

    def told(self, words) -> str:
        """The line with these words, once it was said."""
        return until(lambda: next((line for line in self.said if words in line), ""), words)

    def candidates_turn(self):
        """Episodes until one is the candidate's; its pin."""
        for _ in range(4):
            if (pin := self.live.begin_episode()).share is Share.CANDIDATE:
                return pin
        raise AssertionError("never the candidate's turn")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Three versions: their repository, and what each is and answers."""
    models = onnx.repository_with(tmp_path_factory.mktemp("models"), 1, 2, 3)
    versions, golden = {}, {}
    for number in (1, 2, 3):
        member = opener(models, MODEL)(number)
        versions[number], golden[number] = member.version, np.array(member.contract.canary.actions)
        member.close()
    return models, versions, golden


@pytest.fixture
def rig(tmp_path, made):
    rig = Rig(tmp_path, made)
    yield rig
    if rig.live is not None:
        rig.live.close()


def test_without_a_decision_the_configured_version_serves_and_nothing_is_written(rig):
    rig.open(first=0)
    assert rig.live.release().stable == rig.versions[3] and rig.serves() == 3
    rig.live.begin_episode()
    rig.live.end_episode(Outcome.SUCCESS)
    assert not rig.file.path.exists()


def test_a_call_is_answered_by_the_version_of_the_episode_that_it_was_asked_in(rig):
    """A request that waits in the worker's queue while the next episode begins."""
    rig.begin(2)
    rig.open()
    pin = rig.candidates_turn()
    while rig.live.begin_episode().share is Share.CANDIDATE:
        pass
    assert rig.serves() == 1
    assert np.abs(rig.ask("late", pin).actions - rig.golden[2]).max() < 1e-3


def test_a_release_begins_while_the_policy_serves_and_an_episode_keeps_its_version(rig):
    rig.open()
    pin = rig.live.begin_episode()
    rig.begin(2)
    until(lambda: rig.live.release().candidate, "the release is followed")
    assert rig.serves() == 1 and rig.live.pin is pin  # the episode under way goes on as it began
    seen = set()
    for _ in range(4):
        pin = rig.live.begin_episode()
        number = rig.serves()
        assert number == pin.version.number == (2 if pin.share is Share.CANDIDATE else 1)
        seen.add(number)
    assert seen == {1, 2}


def test_a_roll_back_is_in_force_from_the_next_episode_on(rig):
    rig.begin(2)
    rig.open()
    pin = rig.candidates_turn()
    rig.decide(lambda r: releases.roll_back(r, "test"))
    until(lambda: rig.live.release().candidate is None, "the roll-back is followed")
    assert rig.serves() == 2  # to its end
    rig.live.end_episode(Outcome.SUCCESS)
    assert rig.live.begin_episode().version == rig.versions[1] and rig.serves() == 1
    assert rig.ask("late", pin).observation_id == "late"  # a call that was under way is still answered


def test_episodes_move_the_release_and_what_they_say_is_kept(rig):
    rig.begin(2)
    rig.open()
    for _ in range(400):
        if rig.live.release().candidate is None:
            break
        before = rig.live.release()
        rig.live.begin_episode()
        rig.live.end_episode(Outcome.SUCCESS)
        until(lambda: rig.live.release() != before, "the episode is recorded")
    assert rig.live.release().stable == rig.versions[2] == rig.file.read().stable
    rig.told("not worse by 0.2")
    rig.told("stable version now")
    assert rig.live.begin_episode().version == rig.versions[2]


def test_a_bad_candidate_is_taken_back_by_its_episodes(rig):
    rig.begin(2)
    rig.open()
    while rig.live.release().candidate is not None:
        before = rig.live.release()
        pin = rig.live.begin_episode()
        rig.live.end_episode(Outcome.SUCCESS if pin.share is Share.STABLE else Outcome.FAILURE)
        until(lambda: rig.live.release() != before, "the episode is recorded")
    assert rig.live.release().stable == rig.versions[1]
    rig.told("rolled back: worse")


def test_an_episode_of_another_release_counts_no_more(rig):
    rig.begin(2)
    rig.open()
    old = rig.candidates_turn()
    rig.decide(lambda r: releases.begin(releases.roll_back(r, "test"), rig.versions[3], "another"))
    until(lambda: rig.live.release().candidate == rig.versions[3], "the other release is followed")
    rig.live.end_episode(Outcome.FAILURE, old)
    rig.live.begin_episode()
    rig.live.end_episode(Outcome.SUCCESS)
    until(lambda: rig.live.release().episodes == 1, "one episode is recorded")
    release = rig.live.release()
    assert release.candidate_counts.failures == release.stable_counts.failures == 0


def test_a_candidate_that_breaks_its_contract_is_taken_back_at_once(rig):
    """Its session is exchanged after it was opened: a model that is damaged while it serves."""
    rig.begin(2)
    rig.open()
    pin = rig.candidates_turn()
    engine = pin.member.local._engine
    whole = engine._session

    class Damaged:
        def run(self, *arguments):
            return [np.full_like(whole.run(*arguments)[0], np.nan)]

    engine._session = Damaged()
    with pytest.raises(PolicyError, match="nan"):
        rig.ask()
    until(lambda: rig.live.release().candidate is None, "taken back")
    assert "nan" in rig.told("broke its contract")
    with pytest.raises(PolicyError):
        rig.ask()  # still the same episode: no other version steps in
    assert rig.live.begin_episode().version == rig.versions[1] and rig.serves() == 1


def test_a_bad_observation_is_the_callers_fault(rig):
    rig.begin(2)
    rig.open()
    rig.candidates_turn()
    with pytest.raises(ObservationRefused):
        rig.live.infer(np.full(14, np.nan, np.float32), "o", LIMIT_S)
    rig.live.end_episode(Outcome.SUCCESS)
    until(lambda: rig.live.release().candidate_counts.n == 1, "recorded")


@pytest.mark.parametrize("damage", ["model", "contract", "gone"])
def test_a_candidate_that_cannot_be_opened_is_dropped_and_the_stable_one_serves(rig, damage):
    folder = rig.repository / MODEL / "2"
    if damage == "model":
        (folder / "model.onnx").write_bytes(b"damaged")
    elif damage == "contract":
        onnx.edit(folder / "contract.json", lambda raw: raw["training"].update(seed=99))  # sealed anew: another content
    else:
        (folder / "contract.json").unlink()
    rig.begin(2)
    rig.open()
    assert rig.live.release().candidate is None and rig.serves() == 1
    assert "version 2" in rig.said[0]
    assert rig.file.read().candidate is None


def test_a_stable_version_whose_content_was_changed_is_not_served(rig):
    rig.begin(2)
    onnx.edit(rig.repository / MODEL / "1" / "contract.json", lambda raw: raw["training"].update(seed=99))
    with pytest.raises(ContractError, match="sha256 of version 1.*steadyhand policy serve 1"):
        rig.open()


def test_a_damaged_state_is_refused_at_the_start_and_ignored_while_serving(rig):
    rig.begin(2)
    rig.open()
    rig.file.path.write_text("{")
    until(lambda: "JSON" in rig.live.trouble, "it is said")
    assert rig.live.release().candidate == rig.versions[2] and rig.serves() == rig.live.pin.version.number
    rig.live.close()
    with pytest.raises(ContractError, match="release: not JSON"):
        rig.open()


def test_a_shadow_is_compared_and_never_answers(rig):
    rig.decide(lambda r: releases.with_shadow(r, rig.versions[3]))
    rig.open()
    expected = np.abs(rig.golden[1] - rig.golden[3]).max(axis=0)
    for k in range(20):
        assert rig.serves() == 1
        until(lambda: len(rig.disagreements) > k, "compared")
    found = rig.live.shadow_statistics()
    assert found.version == 3 and found.compared == 20 and found.refused == 0
    np.testing.assert_allclose(found.largest, expected, atol=1e-3)
    assert {d.observation_id for d in rig.disagreements} == {"o"}
    rig.decide(lambda r: releases.with_shadow(r, None))
    until(lambda: rig.live.shadow_statistics() is None, "the shadow is gone")


def test_a_shadow_that_hangs_delays_nobody_and_one_that_fails_is_counted(rig):
    rig.decide(lambda r: releases.with_shadow(r, rig.versions[3]))
    rig.open()
    held, shadow = threading.Event(), rig.live._plan.shadow

    class Slow:
        def infer(self, *arguments):
            held.wait(LIMIT_S)
            raise PolicyError("broken")

    shadow._policy = Slow()
    for k in range(10):
        rig.ask(f"o{k}")
    held.set()
    until(lambda: rig.live.shadow_statistics().refused >= 1, "counted")
    found = rig.live.shadow_statistics()
    assert found.overtaken >= 8 and found.last_error == "broken" and found.compared == 0


def test_a_member_that_no_plan_names_is_closed_when_nobody_is_pinned_to_it(rig, monkeypatch):
    monkeypatch.setattr("steadyhand_policies.live.RETIRED_S", 0.0)
    rig.begin(2)
    rig.open()
    pin = rig.candidates_turn()
    rig.decide(lambda r: releases.roll_back(r, "test"))
    until(lambda: rig.live.release().candidate is None, "followed")
    time.sleep(0.5)
    assert pin.member.local.contract is not None and rig.serves() == 2
    rig.live.begin_episode()
    until(lambda: pin.member.local.contract is None, "closed")


def test_calls_from_one_thread_while_another_decides_are_all_answered_by_one_version_an_episode(rig):
    """A release, a promotion and a roll-back every few milliseconds; an episode of ten calls each."""
    rig.open()
    inputs = observations(rig.live.pin.member.contract, 10)
    reference = {}
    for number in (1, 2):
        member = rig._open(number)
        reference[number] = [member.policy.infer(o, "o", LIMIT_S).actions for o in inputs]
        member.close()
    stop = threading.Event()

    def decide():
        while not stop.is_set():
            rig.begin(2)
            time.sleep(0.03)
            rig.decide(lambda r: releases.roll_back(r, "test") if r.candidate else r)
            time.sleep(0.03)

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        served = set()
        end_s = time.monotonic() + 2.0
        while time.monotonic() < end_s:
            number = rig.live.begin_episode().version.number
            served.add(number)
            for k, observation in enumerate(inputs):
                answer = rig.live.infer(observation, f"o{k}", LIMIT_S).actions
                np.testing.assert_allclose(answer, reference[number][k], atol=1e-5)
    finally:
        stop.set()
        thread.join()
    assert served == {1, 2}


def test_two_writers_of_the_state_lose_nothing(tmp_path):
    file = ReleaseFile(tmp_path, MODEL)
    file.update(lambda r: releases.begin(Release(MODEL, Version(1, "a" * 64)), Version(2, "b" * 64), "r"))

    def count(share):
        for _ in range(40):
            ReleaseFile(tmp_path, MODEL).update(lambda r: releases.record(r, share, Outcome.VOID))

    threads = [threading.Thread(target=count, args=(share,)) for share in Share]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = file.read()
    assert found.episodes == 80 and found.candidate_counts.voids == found.stable_counts.voids == 40
