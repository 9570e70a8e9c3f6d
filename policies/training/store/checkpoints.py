"""Checkpoints of a training and how it goes on after a kill.

    store, checkpoints = SampleStore(folder / "samples", schema), Checkpoints(folder / "checkpoints")
    resumption = resume(store, checkpoints)         # newest whole checkpoint, and every sample since
    ...                                             # rebuild the rollout from resumption.samples, then go on collecting
    checkpoints.save(step, store.samples, {"policy": ..., "optimiser": ..., "random": ...}, {"config": ...})

A checkpoint is one file that appears whole or not at all. It holds named parts (bytes; what is in them is up to the
trainer) with their SHA-256, and the number of samples that it has learned from. The order of a training step keeps the
two together: samples are acknowledged first, learned from second, the checkpoint is written third: so it never
refers to samples that are not there, and samples that no checkpoint covers are read back and learned from again.
"""
from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from policies.training.store.files import write_whole
from policies.training.store.frames import BadStore
from policies.training.store.samples import SampleStore

MAGIC = b"SHCKPT\x01\n"
FORMAT = 1
_HEAD = struct.Struct("<I32s")  # length and SHA-256 of the description


@dataclass(frozen=True)
class Checkpoint:
    """State of a training after `step` steps, which had learned from the first `samples` samples."""

    step: int
    samples: int
    parts: Mapping[str, bytes] = field(repr=False)
    about: Mapping[str, object]


@dataclass(frozen=True)
class Resumption:
    """What a training starts from. `checkpoint` is None at the very beginning; `samples` follow it, in order."""

    checkpoint: Checkpoint | None
    samples: Mapping[str, np.ndarray] = field(repr=False)
    passed_over: tuple[str, ...]  # newer checkpoints that are not whole, and why


class Checkpoints:
    """A folder of checkpoints; the newest `keep` of them stay."""

    def __init__(self, folder: Path, keep: int = 3):
        if keep < 1:
            raise ValueError(f"keep = {keep}: give 1 or more")
        self.folder, self.keep = Path(folder), keep
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(
        self, step: int, samples: int, parts: Mapping[str, bytes], about: Mapping[str, object] | None = None
    ) -> Path:
        """Write a checkpoint; it is durable when this returns. Older ones beyond `keep` go afterwards."""
        if step < 0 or samples < 0:
            raise ValueError(f"step = {step}, samples = {samples}: give 0 or more")
        description = json.dumps({
            "format": FORMAT, "step": step, "samples": samples, "about": dict(about or {}),
            "parts": [[name, len(content), hashlib.sha256(content).hexdigest()] for name, content in parts.items()],
        }).encode()  # fmt: skip
        path = self.folder / f"checkpoint-{step:012d}.ckpt"
        head = MAGIC + _HEAD.pack(len(description), hashlib.sha256(description).digest())
        for leftover in self.folder.glob("*.new"):  # of a kill; there is one writer
            leftover.unlink()
        write_whole(path, [head, description, *parts.values()])
        for old in self.paths()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def paths(self) -> list[Path]:
        """Checkpoints on disk, oldest first."""
        return sorted(self.folder.glob("checkpoint-*.ckpt"))

    def newest(self) -> tuple[Checkpoint | None, tuple[str, ...]]:
        """The newest whole checkpoint, and what is wrong with the newer ones."""
        passed_over = []
        for path in reversed(self.paths()):
            try:
                return load(path), tuple(passed_over)
            except BadStore as error:
                passed_over.append(str(error))
        return None, tuple(passed_over)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises BadStore when a bit of it is not as it was written."""
    content = path.read_bytes()
    start = len(MAGIC) + _HEAD.size
    if len(content) < start or not content.startswith(MAGIC):
        raise BadStore(f"{path.name}: no checkpoint, or cut short")
    length, digest = _HEAD.unpack_from(content, len(MAGIC))
    description = content[start : start + length]
    if len(description) != length or hashlib.sha256(description).digest() != digest:
        raise BadStore(f"{path.name}: its description is not as it was written")
    said = json.loads(description)
    if said["format"] > FORMAT:
        raise BadStore(f"{path.name}: format {said['format']} is newer than this program's {FORMAT}")
    parts, at = {}, start + length
    for name, size, sha256 in said["parts"]:
        parts[name] = content[at : at + size]
        at += size
        if hashlib.sha256(parts[name]).hexdigest() != sha256:
            raise BadStore(f"{path.name}: part {name!r} is not as it was written")
    return Checkpoint(said["step"], said["samples"], parts, said["about"])


def resume(store: SampleStore, checkpoints: Checkpoints) -> Resumption:
    """Where a training goes on. Raises BadStore when the checkpoint has learned from samples that are not there.

    An older checkpoint is not taken instead then: the samples had been acknowledged, so somebody has to look.
    """
    checkpoint, passed_over = checkpoints.newest()
    first = checkpoint.samples if checkpoint is not None else 0
    if first > store.samples:
        raise BadStore(f"checkpoint of step {checkpoint.step} has learned from {first} samples, of {store.samples}")
    return Resumption(checkpoint, store.since(first), passed_over)
