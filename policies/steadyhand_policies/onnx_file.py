"""What an ONNX file says of itself, read without an inference engine: operator sets, producer, small float tensors.

An engine says of a model with an unknown operator set only that it cannot load it, and nothing of the numbers inside.
This reader of the wire format (Protocol Buffers encoding; field numbers of onnx.proto3) takes what the contract speaks
of and skips the rest. Whatever is malformed raises ContractError; sizes are bounded by the file.
"""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from steadyhand.errors import ConfigError, ContractError

# The operator sets that both engines in use know: ONNX Runtime in this process, and that of the stock Triton releases
# which this repository must load on (24.10: ONNX Runtime 1.19, operator set 21).
OPSET_MIN, OPSET_MAX = 11, 21
MAX_BYTES = 512_000_000
MAX_VECTOR = 65_536  # longer tensors are weights, which no contract speaks of

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FLOAT = 1  # TensorProto.DataType


@dataclass(frozen=True)
class OnnxFacts:
    """`opsets`: domain ("" is ONNX's own) -> version. `floats`: name -> values (n,) of float initialisers, flat."""

    path: Path
    ir_version: int
    producer: str
    opsets: dict[str, int]
    floats: dict[str, np.ndarray]
    metadata: dict[str, str]

    def check_operator_sets(self) -> None:
        """Raise ContractError unless every operator set is one that the engines in use know."""
        if "" not in self.opsets:
            raise ContractError(f"opset: {self.path.name} names none of ONNX's own; is it an ONNX file?")
        for domain, version in self.opsets.items():
            if domain not in ("", "ai.onnx"):
                raise ContractError(f"opset: domain {domain!r} in {self.path.name}: a stock server has not got it")
            if not OPSET_MIN <= version <= OPSET_MAX:
                raise ContractError(f"opset: found {version}, accepted {OPSET_MIN} to {OPSET_MAX}: export it again")

    def vectors(self, length: int) -> list[np.ndarray]:
        """Every float initialiser of so many values."""
        return [values for values in self.floats.values() if len(values) == length]


def read(path: Path) -> OnnxFacts:
    """Raises ConfigError when the file is not there, ContractError when it is not what it should be."""
    path = Path(path)
    try:
        size = path.stat().st_size
        data = path.read_bytes() if size <= MAX_BYTES else b""
    except OSError as error:
        raise ConfigError(f"model {path}: {error.strerror}; give a model repository made by training") from error
    if not 0 < size <= MAX_BYTES:
        raise ContractError(f"model {path}: {size} bytes is not a loadable ONNX file")
    try:
        return _model(path, memoryview(data))
    except (_Malformed, UnicodeDecodeError) as error:
        raise ContractError(f"model {path}: not a loadable ONNX file ({error})") from error


class _Malformed(Exception):
    pass


def _model(path: Path, data: memoryview) -> OnnxFacts:
    """ModelProto: ir_version = 1, producer_name = 2, graph = 7, opset_import = 8, metadata_props = 14."""
    ir_version, producer, opsets, floats, metadata, graphs = 0, "", {}, {}, {}, 0
    for number, kind, value in _fields(data):
        if (number, kind) == (1, _VARINT):
            ir_version = value
        elif (number, kind) == (2, _BYTES):
            producer = _text(value)
        elif (number, kind) == (7, _BYTES):
            graphs += 1
            floats |= _graph(value)
        elif (number, kind) == (8, _BYTES):
            domain, version = _pair(value, (_BYTES, _VARINT))
            opsets[_text(domain or b"")] = version or 0
        elif (number, kind) == (14, _BYTES):
            key, text = _pair(value, (_BYTES, _BYTES))
            metadata[_text(key or b"")] = _text(text or b"")
    if graphs != 1:
        raise _Malformed(f"{graphs} graphs")
    return OnnxFacts(path, ir_version, producer, opsets, floats, metadata)


def _graph(data: memoryview) -> dict[str, np.ndarray]:
    """GraphProto: initializer = 5."""
    found = {}
    for number, kind, value in _fields(data):
        if (number, kind) == (5, _BYTES):
            named = _tensor(value)
            if named is not None:
                found[named[0]] = named[1]
    return found


def _tensor(data: memoryview) -> tuple[str, np.ndarray] | None:
    """TensorProto: data_type = 2, float_data = 4, name = 8, raw_data = 9. None unless float and not long."""
    data_type, name, raw, packed = 0, "", None, []
    for number, kind, value in _fields(data):
        if (number, kind) == (2, _VARINT):
            data_type = value
        elif (number, kind) == (4, _BYTES):
            packed.append(bytes(value))
        elif (number, kind) == (4, _FIXED32):
            packed.append(bytes(value))
        elif (number, kind) == (8, _BYTES):
            name = _text(value)
        elif (number, kind) == (9, _BYTES):
            raw = value
    content = bytes(raw) if raw is not None and len(raw) <= 4 * MAX_VECTOR else b"".join(packed)
    if data_type != _FLOAT or not 0 < len(content) <= 4 * MAX_VECTOR:
        return None
    if len(content) % 4:
        raise _Malformed(f"tensor {name}: {len(content)} bytes of floats")
    return name, np.frombuffer(content, "<f4")


def _pair(data: memoryview, kinds: tuple[int, int]) -> tuple:
    """The first two fields of a small message, None for one that is not there."""
    found: list = [None, None]
    for number, kind, value in _fields(data):
        if number in (1, 2) and kind == kinds[number - 1]:
            found[number - 1] = value
    return tuple(found)


def _fields(data: memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """(field number, wire type, value) in order. Groups, which ONNX does not use, are malformed."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield number, kind, value
            continue
        if kind == _BYTES:
            length, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise _Malformed(f"wire type {kind}")
        if number == 0 or length > len(data) - at:
            raise _Malformed("cut off")
        yield number, kind, data[at:at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise _Malformed("cut off")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    raise _Malformed("a number of more than ten bytes")


def _text(value: memoryview | bytes) -> str:
    return bytes(value).decode()
