"""What a policy did in the running graph becomes episodes; a call without a reply or a refused chunk ends a stretch."""
import json

import numpy as np
import pytest

from policies.training.store.traces import from_files, from_records
from steadyhand import policy_io

CHUNK = np.zeros((policy_io.HORIZON, policy_io.ACTION_DIM)).tolist()


def call(k, start_s=10.0, reply=True):
    """A policy call every 50 ms, answered 12 ms later; its observation and action tell its number."""
    actions = [[k / 100, *row[1:]] for row in CHUNK[:1]] + CHUNK[1:]
    records = [{"kind": "request", "stamp_s": start_s + 0.05 * k, "observation_id": f"f/{k}",
                "observation": [float(k)] * policy_io.OBSERVATION_DIM}]  # fmt: skip
    if reply:
        stamp_s = start_s + 0.05 * k + 0.012
        records.append({"kind": "reply", "stamp_s": stamp_s, "observation_id": f"f/{k}", "actions": actions})
    return records


def phase(name):
    return {"kind": "phase", "stamp_s": 0.0, "phase": name}


def calls(first, last):
    return [r for k in range(first, last) for r in call(k)]


TRACE = [
    {"kind": "goal", "stamp_s": 9.0}, phase("observe"), phase("above"), phase("pick"), *calls(0, 20), phase("grasp"),
    phase("lift"), phase("place"), *calls(60, 75), phase("release"), phase("retreat"), phase("observe"),
    {"kind": "result", "stamp_s": 20.0},
]  # fmt: skip


def test_each_skill_of_a_goal_is_an_episode():
    found = from_records(TRACE, "trace-1")
    said = [(e.task, e.success, len(e)) for e in found.episodes]
    assert found.refused == [] and said == [("pick", True, 20), ("place", True, 15)]
    pick, place = found.episodes
    assert pick.source == "policy" and pick.origin == "trace-1, pick 0" and pick.reward[-1] == 1.0
    assert np.allclose(pick.observation[:, 0], np.arange(20)) and np.allclose(pick.action[:, 0], np.arange(20) / 100)
    assert place.stamp_s[0] == pytest.approx(13.0)


@pytest.mark.parametrize("after, success", [
    (["grasp", "lift", "place"], True), (["grasp", "back_off", "above"], False), (["back_off"], False), ([], False),
])  # fmt: skip
def test_a_pick_succeeded_when_it_went_on_to_place(after, success):
    found = from_records([phase("pick"), *calls(0, 12), *map(phase, after)], "t")
    assert [e.success for e in found.episodes if e.task == "pick"] == [success]


@pytest.mark.parametrize("records, said", [
    ([*calls(0, 8), *call(8, reply=False), *calls(9, 20)], "no usable reply to f/8"),
    ([*calls(0, 12), {"kind": "verdict", "accepted": False, "trace_id": "c9"}, *calls(12, 20)], "refused chunk c9"),
    (calls(0, 5), "5 frames, 10 at least"),
    ([*calls(0, 8), *calls(10, 20)], "stamp_s: 2 missing after frame 7"),
    ([*calls(0, 12), {**call(12)[0], "observation": [1.0]}, call(12)[1]], "frames of unexpected content"),
    ([*calls(0, 12), call(12)[0], {**call(12)[1], "actions": []}], "frames of unexpected content"),
])  # fmt: skip
def test_what_the_policy_did_not_lead_to_is_refused(records, said):
    found = from_records([phase("pick"), *records, phase("grasp"), phase("lift"), phase("home")], "t")
    assert found.episodes == [] and len(found.refused) == 1 and said in found.refused[0]


def test_a_stop_ends_what_was_under_way():
    found = from_records([phase("pick"), *calls(0, 12), {"kind": "stop"}, *calls(12, 30)], "t")
    assert [(len(e), e.success) for e in found.episodes] == [(12, False)]


def test_segments_of_one_trace_are_read_as_one(tmp_path):
    lines = [json.dumps(r) for r in TRACE]
    paths = [tmp_path / "agent-0001.jsonl", tmp_path / "agent-0002.jsonl"]
    for path, part in zip(paths, (lines[:15], lines[15:])):
        path.write_text("\n".join(part) + "\n")
    assert [len(e) for e in from_files(paths).episodes] == [20, 15]
    paths[0].write_text("nothing\n" + paths[0].read_text())
    assert "agent-0001.jsonl: line 1" in from_files(paths).refused[0]
