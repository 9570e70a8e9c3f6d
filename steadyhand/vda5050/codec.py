"""The one codec of VDA 5050: bytes <-> dict, valid by the official schema of the version, bounded, strict.

`decode` and `encode` raise ProtocolError naming message, field and value. The dict is what the schema describes; its
fields that the schema does not know are kept (the standard allows them) and read by nobody.
"""
from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

import jsonschema

from steadyhand.errors import ProtocolError
from steadyhand.vda5050 import strict_json
from steadyhand.vda5050.strict_json import shown

MAX_BYTES = 262_144  # about a thousand nodes
KINDS = ("order", "instantActions", "state", "visualization", "connection", "factsheet")
VERSIONS = ("2.1.0", "3.0.0")
MAX_HEADER_ID = 2**32 - 1
HEADER = ("headerId", "timestamp", "version", "manufacturer", "serialNumber")
_TIMESTAMP = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])T(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)"
                        r"(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)")  # fmt: skip

_formats = jsonschema.FormatChecker(formats=())


@_formats.checks("date-time")
def _is_timestamp(value: object) -> bool:
    return not isinstance(value, str) or _TIMESTAMP.fullmatch(value) is not None


def decode(kind: str, payload: bytes, version: str, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """The message in a payload of the topic `kind`, valid for `version` (one of VERSIONS)."""
    validator = _validator(kind, version)
    message = strict_json.loads(payload, kind, max_bytes)
    _check(kind, message, validator, version)
    return message


def encode(kind: str, message: Mapping[str, Any], version: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The payload of a message. What `decode` would refuse is not sent."""
    validator = _validator(kind, version)
    payload = strict_json.dumps(dict(message), kind, max_bytes)
    _check(kind, dict(message), validator, version)
    return payload


def same_version(said: str, version: str) -> bool:
    """Whether a header's version can be read by this version's schemas: major and minor agree."""
    return said.split(".")[:2] == version.split(".")[:2] and len(said) <= 20


def _check(kind: str, message: dict[str, Any], validator: Any, version: str) -> None:
    said = message.get("version")
    if isinstance(said, str) and not same_version(said, version):
        raise ProtocolError(
            f"{kind}.version: {shown(said)}, wanted {version}; configure the version that the vehicle speaks"
        )
    try:
        error = next(validator.iter_errors(message), None)
    except RecursionError as cause:
        raise ProtocolError(f"{kind}: nested too deeply") from cause
    if error is not None:
        raise ProtocolError(_named(kind, error))
    header_id = message.get("headerId", 0)
    if not 0 <= header_id <= MAX_HEADER_ID:
        raise ProtocolError(f"{kind}.headerId: {header_id}, wanted 0 to {MAX_HEADER_ID}")


def _named(kind: str, error: jsonschema.ValidationError) -> str:
    """Field, value and what was wanted; never the whole message, which may be long and foreign."""
    where = kind + "".join(f"[{p}]" if isinstance(p, int) else f".{str(p)[:40]}" for p in error.absolute_path)
    wanted = error.validator_value
    match error.validator:
        case "required":
            absent = [name for name in wanted if name not in error.instance]
            return f"{where}: field {absent[0]} is missing"
        case "enum":
            return f"{where}: {shown(error.instance)}, wanted one of {', '.join(map(str, wanted))}"
        case "type":
            kinds = wanted if isinstance(wanted, str) else " or ".join(wanted)
            return f"{where}: {shown(error.instance)} is not {kinds}"
        case "format":
            return f"{where}: {shown(error.instance)} is no {wanted} such as 2026-01-31T12:00:00.000Z"
    return f"{where}: {shown(error.instance)} breaks {error.validator} {shown(wanted)}"


@functools.cache
def _validator(kind: str, version: str) -> Any:
    """Compiled once. Raises ProtocolError for a kind or version that is not spoken here."""
    if kind not in KINDS:
        raise ProtocolError(f"topic {shown(kind)}: wanted one of {', '.join(KINDS)}")
    if version not in VERSIONS:
        raise ProtocolError(f"version {shown(version)}: wanted one of {', '.join(VERSIONS)}")
    schema = json.loads((resources.files(__package__) / "schemas" / version / f"{kind}.schema").read_text("utf-8"))
    return jsonschema.Draft202012Validator(schema, format_checker=_formats)
