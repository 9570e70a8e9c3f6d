"""One trace: which estimate led to which policy reply, chunk and verdict. Pure records and their encoding.

The ids: `observation_id` names the estimate and state that a policy call saw, `trace_id` the chunk made of its reply;
the guard's verdict and state carry the trace id on. The shell writes lines from a bounded queue; losses are counted.
"""
from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Record:
    """One line: `kind` is request, reply, chunk, gripper, verdict, fault, phase, goal, result, stop or end."""

    kind: str
    stamp_s: float
    fields: Mapping[str, object] = field(default_factory=dict)


def encode(record: Record) -> bytes:
    """A JSON line. Arrays become lists; what is not finite becomes its name, since JSON has no NaN."""
    body = {"kind": record.kind, "stamp_s": record.stamp_s, **record.fields}
    return json.dumps(_plain(body), separators=(",", ":"), allow_nan=False).encode() + b"\n"


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, float):
        return round(value, 6) if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int)):
        return value
    return str(value)


class TraceBuffer:
    """A bounded queue of encoded lines between the loop and the writer: drops the oldest and counts, never waits."""

    def __init__(self, capacity: int = 4096):
        if capacity < 1:
            raise ValueError(f"capacity = {capacity}: give 1 or more")
        self._lines: deque[bytes] = deque(maxlen=capacity)
        self.dropped = 0
        self.written = 0

    def put(self, record: Record) -> None:
        """Queue one record."""
        if len(self._lines) == self._lines.maxlen:
            self.dropped += 1
        self._lines.append(encode(record))

    def take(self) -> bytes:
        """Everything queued, oldest first, as whole lines; empties the queue. Safe against a concurrent `put`."""
        lines = []
        while self._lines:
            lines.append(self._lines.popleft())
        self.written += len(lines)
        return b"".join(lines)
