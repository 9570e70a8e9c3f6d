"""Recorded interventions become episodes: skills, hindsight targets, both formulations; the rest is refused by name."""
import json
import re

import numpy as np
import pytest

from policies.training.store import interventions
from policies.training.store.demonstrations import DemonstrationStore
from policies.training.store.encodings import LEAD_SCALE, STEP_Q_RAD
from policies.training.store.interventions import from_folder, from_records, read_recording
from steadyhand import cell, kinematics, policy_io, ur5
from steadyhand.intervention import BadRecording, Recorder
from steadyhand.trace import encode
from steadyhand.types import Estimate, EstimateMode, Mode, ObjectEstimate, RobotState, Skill

CYCLE_S = 0.008
CUBE_M = np.array([0.50, -0.05, 0.02])
TAKEOVER = ("stop_requested: takeover: by ann",)
OPEN_M, CUBE_WIDTH_M = 0.062, 0.040


def teleoperated(lift_m=0.12, speed=1.0, place=True, causes=TAKEOVER, tilt_rad=0.0, objects=True, token=7):
    """Lines of a recording: down to the cube, close, up, across, open, up. The measured arm lags by two cycles."""
    above, at, up = CUBE_M + [0, 0, 0.08], CUBE_M, CUBE_M + [0, 0, lift_m]
    legs = [(above, at, False), (at, at, True), (at, up, True)]
    if place:
        side = up + [0.05, 0.10, 0.0]
        down = side - [0, 0, lift_m - 0.05]
        legs += [(up, side, True), (side, down, True), (down, down, False), (down, down + [0, 0, 0.16], False)]
    path, closed = [], []
    for start, stop, shut in legs:
        cycles = max(int(80 / speed), int(np.linalg.norm(stop - start) / (0.10 * speed) / CYCLE_S))
        share = (1 - np.cos(np.linspace(0, np.pi, cycles))) / 2
        path += [start + s * (stop - start) for s in share]
        closed += [shut] * cycles
    q, nearest = [], cell.HOME_Q_RAD
    for point in path:
        pose = kinematics.tool_down(*point, 0.1)
        if tilt_rad:
            c, s = np.cos(tilt_rad), np.sin(tilt_rad)
            turn = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
            pose[:3, :3] = turn @ pose[:3, :3]
        nearest = kinematics.ik_near(pose, nearest)
        q.append(nearest)
    q = np.array(q)
    qd = np.gradient(q, CYCLE_S, axis=0)
    estimate = Estimate(0.0, EstimateMode.NOMINAL, "", "frame-1", 0.01, (
        ObjectEstimate(3, CUBE_M + [0.30, 0, 0], 0.0, 1.0, 0.001, 0.0),
        ObjectEstimate(4, CUBE_M + [0.004, 0.002, 0], 0.12, 1.0, 0.001, 0.0),
    ))  # fmt: skip
    recorder, records, held = Recorder(), [], False
    started = RobotState(0.0, 0, token, Mode.STOPPED, q[0], qd[0] * 0, q[0], qd[0] * 0, OPEN_M, OPEN_M, True, causes)
    records += recorder.step(started)
    for k, shut in enumerate(closed):
        m = max(0, k - 2)
        held = shut and sum(closed[:k]) > 20
        state = RobotState(
            CYCLE_S * (k + 1), k + 1, token, Mode.ARMED_MANUAL, q[m], qd[m], q[k], qd[k],
            CUBE_WIDTH_M if held else OPEN_M, 0.0 if shut else OPEN_M, False, (),
        )  # fmt: skip
        records += recorder.step(state, None, estimate if objects else None)
    end = RobotState(CYCLE_S * (len(q) + 1), 0, token, Mode.STOPPED, q[-1], qd[-1] * 0, q[-1], qd[-1] * 0, OPEN_M,
                     OPEN_M, True, ("disarmed: operator",))  # fmt: skip
    return [json.loads(encode(r)) for r in [*records, *recorder.step(end)]]


@pytest.fixture(scope="module")
def lines():
    return teleoperated()


def test_a_pick_and_a_place_are_told_apart_by_the_fingers(lines):
    _, _, rows = interventions._rows(lines)
    pick, place, rest = interventions.stretches(rows)
    assert (pick.skill, pick.success, pick.start) == (Skill.PICK, True, 0)
    assert (place.skill, place.success, place.start) == (Skill.PLACE, True, pick.stop - 1)
    assert rows.closed[pick.event] and not rows.closed[pick.event - 1]
    assert not rows.closed[place.event] and rows.closed[place.event - 1]
    assert rest.event is None and not rest.success


def test_a_pick_becomes_an_episode_towards_the_object_that_was_grasped(lines):
    found = from_records(lines, "takeover.jsonl")
    (episode,), _ = found.episodes, found.refused
    assert (episode.env_id, episode.source, episode.success) == ("Steadyhand/UR5Grasp-v0", "intervention", True)
    assert episode.observation_names == policy_io.OBSERVATION_NAMES and episode.joint_names == ur5.JOINT_NAMES
    column = dict(zip(episode.observation_names, episode.observation.T))
    target_m = CUBE_M + [0.004, 0.002, 0]
    _, _, rows = interventions._rows(lines)
    start = int(np.flatnonzero(rows.stamp_s == episode.stamp_s[0])[0])
    tool_m = kinematics.pose_base_link_tool(rows.q_commanded_rad[start : start + len(episode)])[:, :3, 3]
    for axis, name in enumerate("xyz"):
        assert np.allclose(column[f"target_minus_tool_{name}"], target_m[axis] - tool_m[:, axis], atol=1e-4)
    assert set(column["skill_pick"]) == {1.0} and column["gripper_commanded_closed"][[0, -1]].tolist() == [0.0, 1.0]
    assert episode.reward.sum() == episode.reward[-1] == 1.0


@pytest.mark.parametrize("formulation", ["cartesian_delta", "joint_delta"])
def test_the_actions_lead_along_the_commanded_motion(lines, formulation):
    (episode,) = from_records(lines, "x", formulation).episodes
    _, _, rows = interventions._rows(lines)
    start = int(np.flatnonzero(rows.stamp_s == episode.stamp_s[0])[0])
    q = rows.q_commanded_rad[start : start + len(episode) + 1]
    if formulation == "joint_delta":
        followed = q[0] + np.cumsum(episode.action[:, :6] * STEP_Q_RAD, axis=0)
        assert np.abs(followed - q[1:]).max() < 1e-5
        column = dict(zip(episode.observation_names, episode.observation.T))
        lead = LEAD_SCALE * (rows.q_commanded_rad - rows.q_rad)[start : start + len(episode)]
        assert np.allclose(column["command_minus_q_elbow"], lead[:, 2], atol=1e-5)
        assert np.allclose(column["target_sin_4_yaw"], np.sin(4 * 0.12)) and np.allclose(column["target_x"], 0.504)
    else:
        followed = policy_io.tool_waypoints(episode.action, kinematics.pose_base_link_tool(q[0]))
        assert np.abs(followed - kinematics.pose_base_link_tool(q[1:])).max() < 1e-3
    votes = episode.action[:, -1]
    assert set(votes) == {-1.0, 1.0} and (np.diff(votes) >= 0).all()


def test_without_objects_the_target_is_where_the_fingers_closed():
    (episode,) = from_records(teleoperated(place=False, objects=False), "x").episodes
    column = dict(zip(episode.observation_names, episode.observation.T))
    closing = int(np.flatnonzero(column["gripper_commanded_closed"])[0])
    assert abs(column["target_minus_tool_x"][closing]) < 1e-3 and abs(column["target_minus_tool_z"][closing]) < 5e-3


def test_a_place_aims_at_where_the_fingers_opened(lines):
    (episode,) = from_records(lines, "x", skill=Skill.PLACE).episodes
    assert (episode.env_id, episode.success) == ("Steadyhand/UR5PickPlace-v0", True)
    column = dict(zip(episode.observation_names, episode.observation.T))
    opening = int(np.flatnonzero(column["gripper_commanded_closed"] == 0)[0])
    assert abs(column["target_minus_tool_y"][opening]) < 5e-3 and set(column["skill_place"]) == {1.0}


def test_a_grasp_that_was_not_lifted_is_a_failed_one():
    found = from_records(teleoperated(lift_m=0.04, place=False), "x")
    assert [e.success for e in found.episodes] == [False] and found.episodes[0].reward.sum() == 0


def test_standing_still_at_first_is_left_out(lines):
    _, steps, _ = interventions._rows(lines)
    still = [{**steps[0], "stamp_s": steps[0]["stamp_s"] - 0.05 * k, "qd_commanded_rad_s": [0.0] * 6}
             for k in range(40, 0, -1)]  # fmt: skip
    (longer,) = from_records([lines[0], *still, *lines[1:]], "x").episodes
    (plain,) = from_records(lines, "x").episodes
    assert 0 <= len(longer) - len(plain) <= 2


def without(lines, k):
    steps = [i for i, r in enumerate(lines) if r["kind"] == "step"]
    return [r for i, r in enumerate(lines) if i != steps[k]]


def changed(lines, k, **fields):
    steps = [i for i, r in enumerate(lines) if r["kind"] == "step"]
    return [{**r, **fields} if i == steps[k] else r for i, r in enumerate(lines)]


@pytest.mark.parametrize("spoil, said", [
    (lambda r: r[1:], "no begin"),
    (lambda r: r[:2], "not a whole intervention"),
    (lambda r: [{**r[0], "period_s": 0.1}, *r[1:]], "rate_hz: recorded every 0.1 s"),
    (lambda r: changed(r, 4, qd_rad_s=["nan"] * 6), "qd_rad_s: shape .* or not finite"),
    (lambda r: changed(r, 4, q_rad=[0.0] * 5), "step of unexpected content"),
    (lambda r: changed(r, 4, gripper_width_m=None), "gripper_width_m"),
    (lambda r: [{**x, "objects": [{"id": 1}]} for x in r], "objects: "),
])  # fmt: skip
def test_what_is_no_recording_is_refused_by_its_field(spoil, said):
    found = from_records(spoil(teleoperated(place=False)), "a.jsonl")
    assert found.episodes == [] and len(found.refused) == 1
    assert found.refused[0].startswith("a.jsonl")
    assert re.search(said, found.refused[0])


def test_a_missing_step_costs_its_stretch_and_is_said(lines):
    found = from_records(without(lines, 3), "x")
    assert [e.success for e in found.episodes] == [True]
    assert "x, pick in steps 0 to 2: action: the fingers neither" in found.refused[0]


@pytest.mark.parametrize("how, said", [
    ({"tilt_rad": 0.3}, "the tool tilts by 0.30 rad"), ({"speed": 4.0}, "a policy's is within"),
])  # fmt: skip
def test_what_a_policy_cannot_do_is_refused(how, said):
    found = from_records(teleoperated(place=False, **how), "x")
    assert found.episodes == [] and said in found.refused[0]


def test_a_motion_that_grasps_nothing_teaches_nothing(lines):
    steps = [r for r in lines if r["kind"] == "step"][:15]
    found = from_records([lines[0], *steps, lines[-1]], "x")
    assert found.episodes == [] and "nothing says what was aimed at" in found.refused[0]


@pytest.mark.parametrize("causes, source", [
    (TAKEOVER, "intervention"), (("tracking: shoulder",), "intervention"), (("stop_requested: cli",), "teleoperation"),
])  # fmt: skip
def test_the_label_becomes_the_source(causes, source):
    (episode,) = from_records(teleoperated(place=False, causes=causes), "x").episodes
    assert episode.source == source


def written(path, lines):
    path.write_text("".join(json.dumps(r) + "\n" for r in lines))


def test_a_folder_becomes_a_store_and_twins_count_once(tmp_path):
    written(tmp_path / "a-takeover.jsonl", teleoperated(place=False, objects=False))
    written(tmp_path / "b-takeover.jsonl", teleoperated(place=False))
    written(tmp_path / "c-takeover.jsonl", teleoperated(place=False, token=8))
    (tmp_path / "d.jsonl").write_text('{"kind": "begin"}\nnothing\n{"kind": "end"}\n')
    cut_off = (tmp_path / "c-takeover.jsonl").read_bytes()[:-30]
    (tmp_path / "e.jsonl").write_bytes(cut_off.replace(b'"token": 8', b'"token": 9'))
    found = from_folder(tmp_path)
    assert [e.origin.split(",")[0] for e in found.episodes] == ["b-takeover.jsonl", "c-takeover.jsonl", "e.jsonl"]
    said = "\n".join(found.refused)
    assert "a-takeover.jsonl: another recording of b-takeover.jsonl" in said and "d.jsonl: line 2" in said
    with DemonstrationStore(tmp_path / "store") as store:
        assert len(store.extend(found.episodes)) == 3


def test_only_the_last_line_may_be_cut_off(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"kind": "begin"}\n{"kind": "st')
    assert read_recording(path) == [{"kind": "begin"}]
    path.write_text('{"kind": "begin"}\n[1]\n')
    with pytest.raises(BadRecording, match="line 2: no record"):
        read_recording(path)
