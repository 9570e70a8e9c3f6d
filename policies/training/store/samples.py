"""The samples of a running training: batches of transitions, acknowledged when they are durable, numbered for ever.

A schema (names, types, shapes) is fixed when the store is begun. A batch that does not follow it, or holds what is not
finite, is refused by the field's name. A checkpoint names how many samples the training had used (`samples`); after a
kill everything from there on is read back, so nothing that was acknowledged is collected twice or lost.
"""
from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from policies.training.store import segments
from policies.training.store.frames import BadStore
from policies.training.store.log import LogConfig, RecordLog, Recovery
from steadyhand.errors import ConfigError, SteadyhandError

KIND = "samples"
TYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")
_HEAD = struct.Struct("<QI")  # number of the first sample, samples

Batch = Mapping[str, np.ndarray]


class BadSample(SteadyhandError):
    """A batch disagrees with the store's schema or is not finite; the message begins with the field's name."""


@dataclass(frozen=True)
class SampleField:
    """One array of a batch: (n, *shape) of `dtype`."""

    name: str
    dtype: str
    shape: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.dtype not in TYPES:
            raise ConfigError(f"{self.name}: dtype = {self.dtype!r}, give one of {', '.join(TYPES)}")
        if any(not isinstance(d, int) or d < 1 for d in self.shape):
            raise ConfigError(f"{self.name}: shape = {self.shape}, give whole numbers from 1 on")

    @property
    def sample_bytes(self) -> int:
        """Size of one sample of this field."""
        return prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class SampleSchema:
    """Fields in the order of their bytes."""

    fields: tuple[SampleField, ...]

    def __post_init__(self) -> None:
        names = [f.name for f in self.fields]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"fields = {names}: give at least one, each name once")

    def to_json(self) -> list:
        """Plain content."""
        return [[f.name, f.dtype, list(f.shape)] for f in self.fields]

    @staticmethod
    def from_json(content: list) -> SampleSchema:
        """The reverse."""
        return SampleSchema(tuple(SampleField(name, dtype, tuple(shape)) for name, dtype, shape in content))

    def check(self, batch: Batch) -> int:
        """How many samples a batch has; raises BadSample."""
        names = [f.name for f in self.fields]
        for name in [*names, *batch]:
            if name not in batch or name not in names:
                raise BadSample(f"{name}: {'missing' if name in names else 'not in the schema'}")
        count = len(np.atleast_1d(batch[names[0]]))
        for field in self.fields:
            values = batch[field.name]
            if not isinstance(values, np.ndarray) or values.dtype != np.dtype(field.dtype):
                raise BadSample(f"{field.name}: {getattr(values, 'dtype', type(values).__name__)}, not {field.dtype}")
            if values.shape != (count, *field.shape) or count == 0:
                raise BadSample(f"{field.name}: shape {values.shape}, expected {(max(count, 1), *field.shape)}")
            if values.dtype.kind == "f" and not np.isfinite(values).all():
                where = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
                raise BadSample(f"{field.name}{list(where)} = {values[where]}: not finite")
        return count


def transition_schema(observation_dim: int, action_dim: int) -> SampleSchema:
    """What PPO needs to rebuild its rollout: one environment's step a sample, `env` says which environment's.

    `next_observation` is the state after the step, before any reset: the value of a step that was the last one before a
    kill is bootstrapped from it.
    """
    return SampleSchema((
        SampleField("observation", "float32", (observation_dim,)), SampleField("action", "float32", (action_dim,)),
        SampleField("reward", "float32"), SampleField("terminated", "bool"), SampleField("truncated", "bool"),
        SampleField("episode_start", "bool"), SampleField("value", "float32"), SampleField("log_prob", "float32"),
        SampleField("next_observation", "float32", (observation_dim,)), SampleField("env", "int32"),
    ))  # fmt: skip


class SampleStore:
    """The writer, one at a time. `append` returns when the batch is durable; `samples` are all that were."""

    def __init__(self, folder: Path, schema: SampleSchema, config: LogConfig | None = None):
        self.folder, self.schema = Path(folder), schema
        _same_schema(self.folder, schema)
        self._log = RecordLog(self.folder, KIND, {"schema": schema.to_json()}, config)
        last = self._log.last_payload
        self._samples = sum(_HEAD.unpack_from(last)) if last is not None else 0

    @property
    def samples(self) -> int:
        """Samples acknowledged so far: the number that the next one gets, and what a checkpoint refers to."""
        return self._samples

    @property
    def recovery(self) -> Recovery:
        """What the opening found; counts records, which are batches here."""
        return self._log.recovery

    def append(self, batch: Batch) -> int:
        """Add a batch, all of it or nothing. Returns `samples`. Raises BadSample, BadStore."""
        return self.extend([batch])

    def extend(self, batches: Sequence[Batch]) -> int:
        """Add batches with one sync."""
        payloads, samples = [], self._samples
        for batch in batches:
            count = self.schema.check(batch)
            payloads.append(encode(batch, samples, self.schema))
            samples += count
        self._log.extend(payloads)
        self._samples = samples
        return samples

    def read(self, first: int = 0) -> Iterator[Batch]:
        """Batches from sample `first` on, as they were appended; the first one is cut where `first` lies inside it."""
        return read(self.folder, self.schema, first)

    def since(self, first: int) -> dict[str, np.ndarray]:
        """All samples from `first` on in one batch, possibly of none."""
        return joined(self.read(first), self.schema)

    def close(self) -> None:
        """Let go of the store."""
        self._log.close()

    def __enter__(self) -> SampleStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def schema_of(folder: Path) -> SampleSchema:
    """Schema of a store on disk, without opening it for writing. Raises BadStore."""
    found = segments.chain(Path(folder))
    if not found or found[-1].header["kind"] != KIND:
        raise BadStore(f"{Path(folder).name}: no store of samples")
    return SampleSchema.from_json(found[-1].header["meta"]["schema"])


def read(folder: Path, schema: SampleSchema, first: int = 0) -> Iterator[Batch]:
    """Batches from sample `first` on; needs no lock. Raises BadStore at the first damage, after all before it."""
    start = 0
    for segment in reversed(segments.chain(folder)):
        payload = segments.first_payload(segment)
        if payload is not None and _HEAD.unpack_from(payload)[0] <= first:
            start = segment.first
            break
    for _, payload in segments.read(folder, start):
        number, count = _HEAD.unpack_from(payload)
        if number + count > first:
            yield decode(payload, schema, max(0, first - number))


def joined(batches: Iterator[Batch], schema: SampleSchema) -> dict[str, np.ndarray]:
    """Batches as one."""
    found = list(batches)
    empty = {f.name: np.empty((0, *f.shape), f.dtype) for f in schema.fields}
    return {name: np.concatenate([none, *(b[name] for b in found)]) for name, none in empty.items()}


def encode(batch: Batch, number: int, schema: SampleSchema) -> bytes:
    """Bytes of a checked batch whose first sample has this number: head, then field by field."""
    arrays = [np.ascontiguousarray(batch[f.name], _little(f.dtype)) for f in schema.fields]
    return b"".join([_HEAD.pack(number, len(arrays[0])), *(a.data if a.size else b"" for a in arrays)])


def decode(payload: bytes, schema: SampleSchema, skip: int = 0) -> Batch:
    """The batch without its first `skip` samples; read-only arrays. Raises BadStore for a wrong size."""
    _, count = _HEAD.unpack_from(payload)
    if len(payload) != _HEAD.size + count * sum(f.sample_bytes for f in schema.fields):
        raise BadStore(f"batch of {len(payload)} bytes does not hold {count} samples of this schema")
    batch, at = {}, _HEAD.size
    for field in schema.fields:
        values = np.frombuffer(payload, _little(field.dtype), count * prod(field.shape), at)
        batch[field.name] = values.reshape(count, *field.shape)[skip:]
        at += count * field.sample_bytes
    return batch


def _same_schema(folder: Path, schema: SampleSchema) -> None:
    """Refuse a store of another schema by the field that differs."""
    if not segments.paths(folder):
        return
    theirs, mine = {f.name: f for f in schema_of(folder).fields}, {f.name: f for f in schema.fields}
    for name in [*mine, *theirs]:
        if mine.get(name) != theirs.get(name):
            raise BadStore(f"{name}: the store has {theirs.get(name)}, asked for {mine.get(name)}")
    if list(theirs) != list(mine):
        raise BadStore(f"fields: the store has them in the order {', '.join(theirs)}")


@functools.cache
def _little(dtype: str) -> np.dtype:
    """The byte order on disk."""
    return np.dtype(dtype).newbyteorder("<")
