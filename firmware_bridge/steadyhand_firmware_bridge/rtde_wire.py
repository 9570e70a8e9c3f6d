"""RTDE v2 on the wire: packages, types, recipes. Pure: bytes in, values out; no socket and no clock.

Source: Universal Robots, "Real-Time Data Exchange (RTDE) Guide": header = uint16 size (with header) and uint8 type,
network byte order; at most 2048 bytes of field names in one set-up package.
"""
from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from steadyhand.errors import ProtocolError

PROTOCOL_VERSION = 2
REQUEST_PROTOCOL_VERSION = ord("V")
GET_URCONTROL_VERSION = ord("v")
TEXT_MESSAGE = ord("M")
DATA_PACKAGE = ord("U")
SETUP_OUTPUTS = ord("O")
SETUP_INPUTS = ord("I")
START = ord("S")
PAUSE = ord("P")
KNOWN_TYPES = frozenset(b"VvMUOISP")

HEADER = struct.Struct(">HB")
MAX_NAMES = 2048
# type -> (struct code, number of values)
FIELD_TYPES = {
    "BOOL": ("?", 1),
    "UINT8": ("B", 1),
    "UINT32": ("I", 1),
    "UINT64": ("Q", 1),
    "INT32": ("i", 1),
    "DOUBLE": ("d", 1),
    "VECTOR3D": ("3d", 3),
    "VECTOR6D": ("6d", 6),
    "VECTOR6INT32": ("6i", 6),
    "VECTOR6UINT32": ("6I", 6),
}


def package(kind: int, payload: bytes = b"") -> bytes:
    """One package with its header; raises ProtocolError when it does not fit into the uint16 size."""
    size = HEADER.size + len(payload)
    if size > 0xFFFF:
        raise ProtocolError(f"RTDE package {chr(kind)!r} of {size} bytes, limit 65535")
    return HEADER.pack(size, kind) + payload


class Framer:
    """Cuts a byte stream into packages. Holds at most one incomplete package (< 64 KiB)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Complete packages as (type, payload). Raises ProtocolError when the stream cannot be followed any more."""
        self._buffer += data
        packages = []
        start = 0
        while len(self._buffer) - start >= HEADER.size:
            size, kind = HEADER.unpack_from(self._buffer, start)
            if size < HEADER.size or kind not in KNOWN_TYPES:
                raise ProtocolError(f"RTDE header: size {size}, type {kind}: not an RTDE stream")
            if len(self._buffer) - start < size:
                break
            packages.append((kind, bytes(self._buffer[start + HEADER.size : start + size])))
            start += size
        del self._buffer[:start]
        return packages


@dataclass(frozen=True)
class Recipe:
    """Names and types of the fields of a data package, as the controller answered them."""

    recipe_id: int
    names: tuple[str, ...]
    types: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.types):
            raise ProtocolError(f"RTDE recipe: {len(self.names)} names, {len(self.types)} types")
        for name, kind in zip(self.names, self.types):
            if kind not in FIELD_TYPES:
                raise ProtocolError(f"RTDE field {name}: {kind[:32]!r} is no type of this protocol")
        layout = struct.Struct(">B" + "".join(FIELD_TYPES[kind][0] for kind in self.types))
        object.__setattr__(self, "_struct", layout)

    @property
    def size(self) -> int:
        """Bytes of the payload, recipe id included."""
        return self._struct.size

    def unpack(self, payload: bytes) -> dict[str, Any]:
        """Field values; vectors are arrays. ProtocolError for another length, recipe id, or a number not finite."""
        if len(payload) != self._struct.size or payload[0] != self.recipe_id:
            raise ProtocolError(
                f"RTDE data: {len(payload)} bytes of recipe {payload[0] if payload else '-'}, "
                f"wanted {self._struct.size} of recipe {self.recipe_id}"
            )
        flat = self._struct.unpack(payload)
        values: dict[str, Any] = {}
        at = 1
        for name, kind in zip(self.names, self.types):
            count = FIELD_TYPES[kind][1]
            value = flat[at] if count == 1 else np.array(flat[at : at + count])
            if not (math.isfinite(value) if count == 1 else np.isfinite(value).all()):
                raise ProtocolError(f"RTDE field {name}: {value} is not finite")
            values[name] = value
            at += count
        return values

    def pack(self, values: Sequence[Any]) -> bytes:
        """A data package; vectors are given as sequences. Raises ProtocolError naming the field that does not fit."""
        if len(values) != len(self.names):
            raise ProtocolError(f"RTDE recipe {self.recipe_id}: {len(values)} values for {len(self.names)} fields")
        flat: list[Any] = [self.recipe_id]
        for name, kind, value in zip(self.names, self.types, values):
            code = FIELD_TYPES[kind][0][-1]
            try:
                parts = (value,) if FIELD_TYPES[kind][1] == 1 else tuple(value)
                parts = tuple(float(p) if code == "d" else bool(p) if code == "?" else _whole(p) for p in parts)
                struct.pack(f">{FIELD_TYPES[kind][0]}", *parts)
            except (struct.error, TypeError, ValueError, OverflowError) as error:
                raise ProtocolError(f"RTDE field {name}: {value!r} does not fit {kind}: {error}") from error
            if not all(math.isfinite(p) for p in parts):
                raise ProtocolError(f"RTDE field {name}: {value!r} is not finite")
            flat.extend(parts)
        return package(DATA_PACKAGE, self._struct.pack(*flat))


def _whole(value: Any) -> int:
    if int(value) != value:
        raise ValueError("not a whole number")
    return int(value)


def names_payload(names: Sequence[str]) -> bytes:
    """Comma-separated field names; raises ProtocolError above the guide's 2048 bytes."""
    payload = ",".join(names).encode("ascii")
    if len(payload) > MAX_NAMES:
        raise ProtocolError(f"RTDE recipe: {len(payload)} bytes of names, limit {MAX_NAMES}; ask for fewer fields")
    return payload


def parse_setup_reply(payload: bytes, names: Sequence[str]) -> Recipe:
    """The recipe in a v2 answer to a set-up of inputs or outputs: uint8 id, comma-separated types."""
    if not payload:
        raise ProtocolError("RTDE set-up reply is empty")
    types = tuple(t for t in payload[1:].decode("ascii", "replace").split(",") if t)
    for name, kind in zip(names, types):
        if kind in ("NOT_FOUND", "IN_USE"):
            hint = "unknown to this controller" if kind == "NOT_FOUND" else "owned by another client"
            raise ProtocolError(f"RTDE field {name}: {kind} ({hint})")
    if payload[0] == 0:
        raise ProtocolError(f"RTDE set-up of {','.join(names)[:80]} refused (recipe id 0)")
    return Recipe(payload[0], tuple(names), types)
