"""Episodes from what people did with the arm: `out/interventions/*.jsonl` (docs/operating.md).

A recording is cut into skills by what the fingers did: a pick ends when a grasp is verified and lifted, a place when
the fingers have let go and the tool has retreated (`steadyhand.skills`, the runtime's own rule). The target of a skill
is known afterwards: the object that the fingers closed on, or the place where they opened (hindsight, Andrychowicz et
al. 2017). A stretch without such an event teaches nothing and is refused, as is one with a missing step, a tilted tool
or a motion faster than the policy can ask for: each with its reason. Standing still before the first motion is left
out.

A takeover by keyboard is recorded twice (`token`): the recording that has the objects is taken.
"""
from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from policies.training.store.encodings import ENCODINGS, ArmRows
from policies.training.store.episode import GRID_TOLERANCE, UNSEEDED, BadEpisode, Episode
from steadyhand import kinematics, policy_io, skills, ur5
from steadyhand.errors import SteadyhandError
from steadyhand.intervention import BadRecording, demonstration
from steadyhand.policy_io import Target
from steadyhand.types import Skill

STEPS_MIN = 10  # half a second
TILT_MAX_RAD = 0.1  # the policy has no action for the tool's tilt
SAME_OBJECT_M = 0.03  # an object this far from where the fingers closed is the one that they closed on
MOVING_RAD_S = 1e-3
SAME_BEGIN_S = 1.0
SOURCES = {"takeover": "intervention", "after_fault": "intervention", "recover": "teleoperation",
           "manual": "teleoperation"}  # fmt: skip
ENV_IDS = {Skill.PICK: "Steadyhand/UR5Grasp-v0", Skill.PLACE: "Steadyhand/UR5PickPlace-v0"}


@dataclass
class Found:
    """What recordings gave: episodes, and what was refused with its reason."""

    episodes: list[Episode] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Stretch:
    """Rows [start, stop) of one skill. `event`: the row at which the fingers closed or opened, None if they did not."""

    skill: Skill
    start: int
    stop: int
    event: int | None
    success: bool


def from_folder(folder: Path, formulation: str = "cartesian_delta", skill: Skill = Skill.PICK) -> Found:
    """Episodes of one skill of all recordings in a folder, in the order of their names."""
    found, recordings = Found(), []
    for path in sorted(Path(folder).glob("*.jsonl")):
        try:
            recordings.append((path.name, read_recording(path)))
        except BadRecording as error:
            found.refused.append(f"{path.name}: {error}")
    for name, records in _without_twins(recordings, found):
        part = from_records(records, name, formulation, skill)
        found.episodes += part.episodes
        found.refused += part.refused
    return found


def read_recording(path: Path) -> list[dict]:
    """Decoded lines. Raises BadRecording for a line that is none; the last one may be cut off."""
    lines, records = path.read_bytes().splitlines(), []
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            if number == len(lines):
                break
            raise BadRecording(f"line {number}: {error}") from error
        if not isinstance(record, dict):
            raise BadRecording(f"line {number}: no record")
        records.append(record)
    return records


def from_records(
    records: Sequence[Mapping], origin: str, formulation: str = "cartesian_delta", skill: Skill = Skill.PICK
) -> Found:
    """Episodes of one skill of one recording."""
    found = Found()
    try:
        begin, steps, rows = _rows(records)
    except SteadyhandError as error:
        found.refused.append(f"{origin}: {error}")
        return found
    for stretch in stretches(rows):
        if stretch.skill is not skill:
            continue
        where = f"{origin}, {stretch.skill.value} in steps {stretch.start} to {stretch.stop - 1}"
        try:
            found.episodes.append(_episode(begin, steps, rows, stretch, where, formulation))
        except SteadyhandError as error:
            found.refused.append(f"{where}: {error}")
    return found


def stretches(rows: ArmRows) -> Iterator[Stretch]:
    """Cut rows into skills; a missing step ends a stretch without success."""
    closed, tool_z_m = rows.closed, kinematics.pose_base_link_tool(rows.q_commanded_rad)[:, 2, 3]
    gaps = np.diff(rows.stamp_s, prepend=rows.stamp_s[0]) > (1 + GRID_TOLERANCE) * policy_io.PERIOD_S
    holds = bool(closed[0]) and skills.grasp_verified(float(rows.width_m[0]), True)
    skill, start, event = Skill.PLACE if holds else Skill.PICK, 0, None
    for k in range(1, len(closed)):
        if gaps[k]:
            yield Stretch(skill, start, k, event, False)
            start, event = k, None
        if closed[k] != closed[k - 1] and closed[k] == (skill is Skill.PICK):
            event = k
        width_m, z_m = float(rows.width_m[k]), float(tool_z_m[k])
        if skill is Skill.PICK:
            done = event is not None and skills.pick_done(width_m, bool(closed[k]), z_m, float(tool_z_m[event]))
        else:
            done = event is not None and skills.place_done(width_m, bool(closed[k]), z_m)
        if done:
            yield Stretch(skill, start, k + 1, event, True)
            skill, start, event = Skill.PLACE if skill is Skill.PICK else Skill.PICK, k, None
    yield Stretch(skill, start, len(closed), event, False)


def _episode(
    begin: Mapping, steps: Sequence[Mapping], rows: ArmRows, stretch: Stretch, origin: str, formulation: str
) -> Episode:
    if stretch.event is None:
        raise BadEpisode("action", "the fingers neither closed nor opened for it: nothing says what was aimed at")
    start = _first_motion(rows, stretch)
    if stretch.stop - start < STEPS_MIN:
        raise BadEpisode("stamp_s", f"{stretch.stop - start} steps, {STEPS_MIN} at least")
    part = rows.part(start, stretch.stop)
    shown = demonstration([begin, *steps[start : stretch.stop]])
    if shown.tilt_rad > TILT_MAX_RAD:
        raise BadEpisode("action", f"the tool tilts by {shown.tilt_rad:.2f} rad, {TILT_MAX_RAD} at most")
    encoding, target = ENCODINGS[formulation], _target(steps, rows, stretch)
    action = encoding.act(part, shown).astype(np.float32)
    fastest = np.unravel_index(np.abs(action).argmax(), action.shape)
    if not abs(action[fastest]) <= 1.0 + 1e-6:
        name = encoding.action_names[fastest[1]]
        raise BadEpisode("action", f"{name} = {action[fastest]:.2f} at step {fastest[0]}: a policy's is within +-1")
    reward = np.zeros(len(action), dtype=np.float32)
    reward[-1] = float(stretch.success)
    label = str(begin.get("label", ""))
    episode = Episode(
        ENV_IDS[stretch.skill], SOURCES.get(label, "teleoperation"), UNSEEDED, stretch.success,
        1.0 / policy_io.PERIOD_S, encoding.observation_names, encoding.action_names, ur5.JOINT_NAMES,
        part.stamp_s[:-1].copy(), encoding.observe(part, target)[:-1].astype(np.float32), action, reward,
        task=stretch.skill.value, origin=origin,
    )  # fmt: skip
    episode.validate()
    return episode


def _first_motion(rows: ArmRows, stretch: Stretch) -> int:
    moving = np.abs(rows.qd_commanded_rad_s[stretch.start : stretch.stop]).max(axis=1) > MOVING_RAD_S
    first = int(moving.argmax()) if moving.any() else 0
    return min(stretch.start + max(0, first - 1), stretch.event)


def _target(steps: Sequence[Mapping], rows: ArmRows, stretch: Stretch) -> Target:
    """What was aimed at, as far as it is known afterwards."""
    pose = kinematics.pose_base_link_tool(rows.q_commanded_rad[stretch.event])
    place_m = pose[:3, 3]
    if stretch.skill is Skill.PICK:
        for record in reversed(steps[stretch.start : stretch.event + 1]):
            try:
                objects = record.get("objects", ())
                seen = [(np.array(o["position_m"], dtype=float), float(o["yaw_rad"])) for o in objects]
                near = [(math.dist(p[:2], place_m[:2]), p, yaw_rad) for p, yaw_rad in seen if p.shape == (3,)]
            except (KeyError, TypeError, ValueError) as error:
                raise BadRecording(f"objects: {error}") from error
            distance_m, position_m, yaw_rad = min(near, key=lambda o: o[0], default=(math.inf, None, 0.0))
            if distance_m <= SAME_OBJECT_M:
                return Target(stretch.skill, position_m, yaw_rad)
    return Target(stretch.skill, place_m.copy(), policy_io.tool_yaw(pose))


def _rows(records: Sequence[Mapping]) -> tuple[Mapping, list[Mapping], ArmRows]:
    """The last intervention of a recording: begin, steps, rows. Raises BadRecording."""
    begins = [k for k, r in enumerate(records) if r.get("kind") == "begin"]
    if not begins:
        raise BadRecording("no begin")
    begin = records[begins[-1]]
    steps = [r for r in records[begins[-1] :] if r.get("kind") == "step"]
    demonstration([begin, *steps])  # the core's own checks
    period_s = begin.get("period_s")
    if period_s != policy_io.PERIOD_S:
        raise BadEpisode("rate_hz", f"recorded every {period_s} s, the policy acts every {policy_io.PERIOD_S} s")
    columns = {}
    for name, key, shape in (
        ("stamp_s", "stamp_s", ()), ("q_rad", "q_rad", (6,)), ("qd_rad_s", "qd_rad_s", (6,)),
        ("q_commanded_rad", "q_commanded_rad", (6,)), ("qd_commanded_rad_s", "qd_commanded_rad_s", (6,)),
        ("width_m", "gripper_width_m", ()), ("opening_m", "gripper_commanded_m", ()),
    ):  # fmt: skip
        try:
            values = np.array([r[key] for r in steps], dtype=float)
        except (KeyError, TypeError, ValueError) as error:
            raise BadRecording(f"{key}: {error}") from error
        if values.shape != (len(steps), *shape) or not np.isfinite(values).all():
            raise BadRecording(f"{key}: shape {values.shape}, or not finite")
        columns[name] = values
    return begin, steps, ArmRows(**columns)


def _without_twins(recordings: list[tuple[str, list[dict]]], found: Found) -> Iterator[tuple[str, list[dict]]]:
    """Of recordings of the same intervention the one that has most steps with objects."""
    groups: list[list[tuple[str, list[dict]]]] = []
    for named in recordings:
        twins = next((group for group in groups if _same(group[0][1], named[1])), None)
        if twins is None:
            groups.append([named])
        else:
            twins.append(named)
    for twins in groups:
        best = max(twins, key=lambda pair: sum(bool(r.get("objects")) for r in pair[1]))
        found.refused += [f"{name}: another recording of {best[0]}" for name, _ in twins if name != best[0]]
        yield best


def _same(one: list[dict], other: list[dict]) -> bool:
    """Whether two recordings are of one intervention: the guard's token, and its clock at the beginning."""
    begins = [next((r for r in records if r.get("kind") == "begin"), {}) for records in (one, other)]
    tokens, stamps_s = ([b.get(name) for b in begins] for name in ("token", "stamp_s"))
    if tokens[0] is None or tokens[0] != tokens[1] or not all(isinstance(s, (int, float)) for s in stamps_s):
        return False
    return abs(stamps_s[0] - stamps_s[1]) < SAME_BEGIN_S
