"""JSON as RFC 8259 and I-JSON have it, and no more: no NaN, no duplicate keys, no numbers that overflow, UTF-8 only."""
from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from steadyhand.errors import ProtocolError

MAX_INT = 2**63 - 1
MAX_EXACT = 2**53  # whole floats up to here are exact
SHOWN = 60  # characters of a foreign value that are repeated in an error


def shown(value: Any) -> str:
    """A foreign value, shortened and printable, for an error message."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 3] + "..."


def printable(text: str) -> str:
    """A foreign text for people: a terminal obeys control characters, and a line break forges a line."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def loads(payload: bytes, what: str, max_bytes: int) -> dict[str, Any]:
    """The object in a payload. Raises ProtocolError naming what is wrong; never anything else."""
    if len(payload) > max_bytes:
        raise ProtocolError(f"{what}: {len(payload)} bytes, limit {max_bytes}; send a shorter message")
    try:
        text = bytes(payload).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ProtocolError(f"{what}: not UTF-8 at byte {error.start}") from error

    def refuse_constant(name: str) -> None:
        raise ProtocolError(f"{what}: {name} is no JSON number")

    def number(text: str) -> float | int:
        value = float(text)
        if not math.isfinite(value):
            raise ProtocolError(f"{what}: number {shown(text)} is too great")
        whole = value.is_integer() and abs(value) <= MAX_EXACT
        return int(value) if whole else value  # 1.0 is an integer for JSON Schema: who reads one counts with it

    def whole(text: str) -> int:
        if len(text) > 20 or abs(int(text)) > MAX_INT:
            raise ProtocolError(f"{what}: number {shown(text)} is too great")
        return int(text)

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise ProtocolError(f"{what}: key {shown(twice)} twice in one object")
        return found

    try:
        document = json.loads(
            text, parse_constant=refuse_constant, parse_float=number, parse_int=whole, object_pairs_hook=unique
        )
    except json.JSONDecodeError as error:
        raise ProtocolError(f"{what}: not JSON at character {error.pos}: {error.msg}") from error
    except RecursionError as error:
        raise ProtocolError(f"{what}: nested too deeply") from error
    if not isinstance(document, dict):
        raise ProtocolError(f"{what}: {shown(document)} is no JSON object")
    if "\\u" in text:
        _refuse_lone_surrogates(document, what)
    return document


def dumps(document: dict[str, Any], what: str, max_bytes: int) -> bytes:
    """The payload of an object. Raises ProtocolError when it is not JSON or too long."""
    try:
        payload = json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError
        raise ProtocolError(f"{what}: cannot be written as JSON: {error}") from error
    if len(payload) > max_bytes:
        raise ProtocolError(f"{what}: {len(payload)} bytes, limit {max_bytes}; send fewer nodes or actions")
    return payload


def _refuse_lone_surrogates(document: dict[str, Any], what: str) -> None:
    try:
        json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ProtocolError(f"{what}: half a surrogate pair in a string, which is no character") from error
