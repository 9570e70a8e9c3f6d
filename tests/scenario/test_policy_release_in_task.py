"""A release while the agent clears a tray: its own records begin and end the episodes that the release counts."""
import time

import pytest

pytest.importorskip("rclpy")

from steadyhand_policies import release as releases  # noqa: E402
from steadyhand_policies.live import LivePolicy  # noqa: E402
from steadyhand_policies.member import opener  # noqa: E402
from steadyhand_policies.release import Release, ReleaseConfig, Stage, Version  # noqa: E402
from steadyhand_policies.release_file import ReleaseFile  # noqa: E402
from steadyhand_ros.policy_worker import EpisodeKeeper  # noqa: E402
from tests.scenario.fake_cell import FakeCell, scatter, scripted_policy  # noqa: E402
from tests.support import onnx_models as onnx  # noqa: E402

MODEL, CUBES = "pick_place", 2


def test_every_attempt_is_one_episode_of_one_version_and_counts_where_it_belongs(tmp_path):
    """The motion is scripted; each call is answered by the live policy too, whose versions are looked at."""
    models = onnx.repository_with(tmp_path / "models", None, None)
    onnx.edit(models / MODEL / "2" / "contract.json", lambda raw: raw["training"].update(seed=99))
    open_version, file = opener(models, MODEL), ReleaseFile(tmp_path, MODEL)
    versions = {}
    for number in (1, 2):
        member = open_version(number)
        versions[number] = member.version
        member.close()
    file.update(lambda found: releases.begin(Release(MODEL, versions[1]), versions[2], "r"))
    config = ReleaseConfig((Stage(2, 0.2), Stage(1, 0.1)))
    live = LivePolicy(MODEL, open_version, 1, ReleaseFile(tmp_path, MODEL), config).open()
    keeper, served = EpisodeKeeper(live), {}

    def policy(observation):
        live.infer(observation, "o", 5.0)
        served.setdefault(live.pin.episode, set()).add(live.pin.version.number)
        return scripted_policy(observation)

    try:
        cell = FakeCell(scatter(CUBES, 0), 0, policy=policy)
        cell.warm_up()
        said, seen = [], len(cell.decisions)
        cell.goal()
        while not cell.results and cell.now_s < 200.0:
            cell.step()
            for decision in cell.decisions[seen:]:
                said += keeper.take(decision.records, cell.now_s)
            seen = len(cell.decisions)
        end_s = time.monotonic() + 20.0
        while live.release().episodes < 2 * CUBES and time.monotonic() < end_s:
            time.sleep(0.01)
        release = file.read()
    finally:
        live.close()
    assert cell.results and cell.results[0].placed == CUBES, (cell.now_s, cell.results, cell.phases[-5:])
    assert keeper.counts == {"success": 2 * CUBES, "failure": 0, "void": 0}
    assert release.candidate_counts.successes == release.stable_counts.successes == CUBES
    assert set(map(len, served.values())) == {1} and {1, 2} == set.union(*served.values())
    begun = [r.fields for r in said if r.kind == "episode"]
    assert [f["skill"] for f in begun] == ["pick", "place"] * CUBES
    assert {(f["share"], f["version"]) for f in begun} == {("stable", 1), ("candidate", 2)}
    assert all(Version(f["version"], f["contract"]) == versions[f["version"]] for f in begun)
