"""Episodes from what a policy did in the running graph: the agent's trace (`out/trace/*.jsonl`, docs/operations.md).

A frame is a policy call that was answered: the observation of its `request`, the first step of its `reply`. A skill's
frames are those between two changes of phase. A pick succeeded when what it began was lifted (the trace goes on to
`place`), a place when the fingers let go in the box (on to `retreat`); the executor closes, lifts and opens, so that is
not in the frames, and the vote of the last one is what it granted. A call without a usable reply, or a chunk that the
gate refused, ends a stretch: what follows is not what the policy led to.
"""
from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from policies.training.store.episode import UNSEEDED, BadEpisode, Episode
from policies.training.store.interventions import STEPS_MIN, Found, read_recording
from steadyhand import policy_io, ur5
from steadyhand.errors import SteadyhandError
from steadyhand.phases import POLICY_PHASES, Phase

ENV_ID = "Steadyhand/UR5PickPlace-v0"
REACHED = {Phase.PICK: (Phase.GRASP, Phase.LIFT, Phase.PLACE), Phase.PLACE: (Phase.RELEASE, Phase.RETREAT)}


@dataclass
class _Run:
    """One stretch of a policy phase."""

    phase: Phase
    frames: list[tuple[float, object, object]] = field(default_factory=list)  # stamp, observation, action
    after: list[Phase] = field(default_factory=list)  # the phases that followed
    broken: str = ""

    def success(self) -> bool:
        """Whether the phases that followed are those of a skill that worked."""
        wanted = REACHED[self.phase]
        return not self.broken and tuple(self.after[: len(wanted)]) == wanted


def from_files(paths: Sequence[Path]) -> Found:
    """Episodes of the segments of one trace, in their order."""
    records: list[Mapping] = []
    found = Found()
    for path in paths:
        try:
            records += read_recording(Path(path))
        except SteadyhandError as error:
            found.refused.append(f"{Path(path).name}: {error}")
            return found
    part = from_records(records, Path(paths[0]).name if paths else "")
    return Found(part.episodes, found.refused + part.refused)


def from_records(records: Iterable[Mapping], origin: str) -> Found:
    """Episodes of one trace."""
    found = Found()
    for number, run in enumerate(_runs(records)):
        where = f"{origin}, {run.phase.value} {number}"
        try:
            found.episodes.append(_episode(run, where))
        except SteadyhandError as error:
            found.refused.append(f"{where}: {error}")
    return found


def _runs(records: Iterable[Mapping]) -> Iterator[_Run]:
    """Stretches, each once the phases that follow it are known."""
    waiting: list[_Run] = []
    run: _Run | None = None
    asked: Mapping | None = None
    for record in records:
        kind = record.get("kind")
        if kind in ("goal", "result", "stop"):
            yield from waiting
            waiting, run, asked = [], None, None
        elif kind == "phase":
            phase = _phase(record)
            for earlier in waiting:
                earlier.after.append(phase)
            while waiting and len(waiting[0].after) >= len(REACHED[waiting[0].phase]):
                yield waiting.pop(0)
            asked, run = None, None
            if phase in POLICY_PHASES:
                run = _Run(phase)
                waiting.append(run)
        elif run is None or run.broken:
            continue
        elif kind == "request":
            if asked is not None:
                run.broken = f"no usable reply to {asked.get('observation_id')}"
            asked = record
        elif kind == "reply" and asked is not None and record.get("observation_id") == asked.get("observation_id"):
            run.frames.append((asked.get("stamp_s"), asked.get("observation"), record.get("actions")))
            asked = None
        elif kind == "verdict" and record.get("accepted") is False:
            run.broken = f"the gate refused chunk {record.get('trace_id')}"
    yield from waiting


def _phase(record: Mapping) -> Phase:
    try:
        return Phase(record.get("phase"))
    except ValueError:
        return Phase.DONE  # of a newer program: ends whatever was under way


def _episode(run: _Run, origin: str) -> Episode:
    if run.broken:
        raise BadEpisode("action", run.broken)
    if len(run.frames) < STEPS_MIN:
        raise BadEpisode("stamp_s", f"{len(run.frames)} frames, {STEPS_MIN} at least")
    try:
        stamp_s = np.array([stamp for stamp, _, _ in run.frames], dtype=np.float64)
        observation = np.array([seen for _, seen, _ in run.frames], dtype=np.float32)
        action = np.array([actions[0] for _, _, actions in run.frames], dtype=np.float32)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadEpisode("observation", f"frames of unexpected content: {error}") from error
    reward = np.zeros(len(stamp_s), dtype=np.float32)
    reward[-1] = float(run.success())
    episode = Episode(
        ENV_ID, "policy", UNSEEDED, run.success(), 1.0 / policy_io.PERIOD_S, policy_io.OBSERVATION_NAMES,
        policy_io.ACTION_NAMES, ur5.JOINT_NAMES, stamp_s, observation, action, reward, task=run.phase.value,
        origin=origin,
    )  # fmt: skip
    episode.validate()
    return episode
